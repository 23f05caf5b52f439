"""When garbage is looked for: hardly while a process starts, as usual once a chat runs. What the C library keeps."""

import asyncio
import ctypes
import subprocess
import sys
import textwrap

import pytest

from hermes.testing.home import TempHome
from hermes.testing.script import Say
from hermes.testing.server import ScriptedServer
from tests.gateway.gateway_rig import home_for
from tests.vendors.ntfy import Fake

_MEMORY = """
import ctypes


class Usage(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_size_t)
        for name in "arena ordblks smblks mapped hblkhd usmblks fsmblks uordblks free keepcost".split()
    ]


read_usage = ctypes.CDLL(None).mallinfo2
read_usage.restype = Usage
"""
"""Reads what glibc holds: blocks that are mappings of their own, and free bytes in its heaps."""
glibc = pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallinfo2"), reason="a C library without mallinfo2")


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


@glibc
def test_a_long_conversation_and_the_copies_of_it_leave_no_holes() -> None:
    program = _MEMORY + textwrap.dedent("""
        from hermes.util.garbage_collector import map_large_blocks

        map_large_blocks()
        before = read_usage().free
        conversation, stored = bytearray(), []
        for _ in range(2000):
            conversation += bytes(1000)
            request = b"".join((b"[", conversation, b"]"))
            stored.append(bytes(1000))
            del request
        print(read_usage().free - before)
    """)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert int(done.stdout) < 1_000_000  # it is twice the conversation's two million where nothing is said


@pytest.mark.slow
@glibc
async def test_a_gateway_takes_large_blocks_from_the_system_and_gives_them_back() -> None:
    program = _MEMORY + textwrap.dedent("""
        import atexit, sys


        def count_mapped() -> None:
            bytearray(1 << 20)
            before = read_usage().mapped
            block = bytearray(1 << 20)
            print(read_usage().mapped - before, "mapped")


        atexit.register(count_mapped)
        sys.argv = ["hermes", "gateway", "run"]
        from hermes.__main__ import main
        main()
    """)
    async with ScriptedServer([]) as server, Fake() as chat:
        with home_for(server, {"ntfy": chat}) as home:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-c", program), cwd=home.cwd, env=home.environ, stdout=asyncio.subprocess.PIPE
            )
            assert process.stdout is not None
            async with asyncio.timeout(60):
                said = await process.stdout.readuntil(b"The gateway runs")
                process.terminate()
                said += await process.stdout.read()
                assert await process.wait() == 0
    assert said.endswith(b"1 mapped\n"), said
