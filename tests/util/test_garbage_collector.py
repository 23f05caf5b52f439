"""When garbage is looked for: hardly while a process starts, as usual once a chat runs."""

import asyncio
import subprocess
import sys
import textwrap

from hermes.testing.home import TempHome
from hermes.testing.script import Say
from hermes.testing.server import ScriptedServer


async def test_a_chat_collects_as_usual_once_its_session_is_open() -> None:
    program = textwrap.dedent("""
        import atexit, gc, sys
        atexit.register(lambda: print(gc.get_threshold(), gc.get_freeze_count() > 10_000))
        sys.argv = ["hermes", "--plain"]
        from hermes.__main__ import main
        main()
    """)
    async with ScriptedServer([Say("answered")]) as server:
        with TempHome.for_server(server.url) as home:
            done = await asyncio.to_thread(
                subprocess.run,
                [sys.executable, "-c", program],
                input="hello\n",
                env=home.environ,
                cwd=home.cwd,
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
    assert "answered" in done.stdout
    assert done.stdout.endswith("(700, 10, 10) True\n"), done.stderr
