"""A gateway as a process of its own on a home, for tests."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from hermes.testing.home import TempHome
from tests.forked_hermes import run_hermes


@asynccontextmanager
async def served(home: TempHome) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run `hermes gateway run`, from the moment that it says that it runs."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "hermes",
        "gateway",
        "run",
        cwd=home.cwd,
        env=home.environ,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    assert process.stdout is not None
    said = b""
    try:
        async with asyncio.timeout(60):
            while b"The gateway runs" not in said:
                line = await process.stdout.readline()
                assert line, said.decode()
                said += line
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def hermes(home: TempHome, *arguments: str, stdin: bytes = b"") -> tuple[int, str, str]:
    done = await run_hermes(home, *arguments, stdin=stdin)
    return done.code, done.stdout, done.stderr
