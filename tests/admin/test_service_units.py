"""The units that `gateway install --dry-run` prints: systemd takes them, and what they start answers a prompt."""

import asyncio
import json
import re
import secrets
import signal
import socket
from pathlib import Path

import aiohttp
import pytest

from hermes.testing.home import TempHome
from hermes.testing.script import Say
from hermes.testing.server import ScriptedServer
from tests.admin.unit_files import read_values, read_words, verify_unit
from tests.forked_hermes import run_hermes

pytestmark = pytest.mark.slow


def read_unit(printed: str) -> str:
    """The unit that was printed, as somebody would copy it."""
    lines = re.split(r"^/\S+\.service:\n", printed, maxsplit=1, flags=re.MULTILINE)[1].splitlines()
    return "\n".join(line[4:] for line in lines[: next(n for n, one in enumerate(lines) if one[:4].strip())]) + "\n"


async def ask_gateway(port: int, key: str) -> str:
    """Ask once the gateway listens; it is started by now, and says no before it does."""
    body = {"model": "hermes", "messages": [{"role": "user", "content": "hi"}]}
    async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {key}"}) as client:
        while True:
            try:
                async with client.post(f"http://127.0.0.1:{port}/v1/chat/completions", json=body) as answer:
                    return str((await answer.json())["choices"][0]["message"]["content"])
            except aiohttp.ClientConnectorError:
                await asyncio.sleep(0.05)


@pytest.mark.needs("systemd")
@pytest.mark.parametrize("kind", ["--system", "--user"])
async def test_the_printed_unit_starts_a_gateway_that_answers(kind: str, tmp_path: Path) -> None:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    key = secrets.token_hex(16)
    async with ScriptedServer([Say("I run.")]) as server:
        with TempHome.for_server(server.url, more_config={"platforms": {"api_server": {"port": port}}}) as home:
            (home.hermes / ".env").write_text(f"API_SERVER_KEY={key}\n")
            (home.hermes / ".env").chmod(0o600)
            unit = read_unit((await run_hermes(home, "gateway", "install", "--dry-run", kind)).stdout)
            assert verify_unit(unit, tmp_path, user=kind == "--user") == ""

            (command,), (folder,) = read_values(unit, "ExecStart"), read_values(unit, "WorkingDirectory")
            environ = dict(read_words(one)[0].split("=", 1) for one in read_values(unit, "Environment"))
            process = await asyncio.create_subprocess_exec(*read_words(command), cwd=folder, env=environ)
            try:
                async with asyncio.timeout(60):
                    assert await ask_gateway(port, key) == "I run."
                    status = json.loads((await run_hermes(home, "gateway", "status", "--json")).stdout)
                    assert status["pid"] == process.pid
                    process.send_signal(signal.SIGTERM)
                    assert await process.wait() == 0
            finally:
                if process.returncode is None:
                    process.kill()
                    await process.wait()
