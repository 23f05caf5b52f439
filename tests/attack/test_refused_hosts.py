"""A connection that was refused: the model is told not to try again, the person what would allow it."""

import asyncio
import os
import re
import sys
from collections.abc import AsyncIterator

import pytest_asyncio

from hermes.core.events import Refused
from hermes.execution.sandbox.probe import SandboxMechanism, SandboxProbe
from hermes.testing.home import TempHome
from hermes.testing.script import Call, Reply, Say
from hermes.testing.server import ScriptedServer
from tests.attack.obedient_scene import NO, ONCE, Scene, says, scene
from tests.requirements import require_sandbox


@pytest_asyncio.fixture
async def fetch() -> AsyncIterator[str]:
    """A command that fetches a page of a server on this machine, through the proxy."""
    held = await SandboxProbe(os.environ, (SandboxMechanism.BUBBLEWRAP,)).find_support()
    require_sandbox("bubblewrap", held.hosts, held.reason)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\nConnection: close\r\n\r\na page")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield f"NO_PROXY= no_proxy= curl -sS -m 9 http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"


def taint(one: Scene) -> tuple[str, ...]:
    return one.app._live[one.actor.session_id][0].tools.context.state.taint.list_sources()


async def test_the_model_is_told_and_nothing_came_in(fetch: str) -> None:
    async with scene("sandbox", trusted=True) as one:
        told = await one.run(fetch, says(NO))
        assert "[sandbox: Connections to 127.0.0.1 are refused (the person said no); do not try again.]" in told
        assert "a page" not in told and taint(one) == ()
        port = fetch.rpartition(":")[2].rstrip("/")
        assert [(event.subject, event.pattern) for event in one.events if isinstance(event, Refused)] == [
            (f"connect 127.0.0.1:{port}", "")
        ]
        assert "refused" in await one.run(fetch, says(ONCE)) and len(one.asked) == 1


async def test_what_came_in_counts(fetch: str) -> None:
    async with scene("sandbox", trusted=True) as one:
        assert "a page" in await one.run(fetch, says(ONCE))
        assert taint(one) == ("web:127.0.0.1",)


async def test_of_two_hosts_the_one_that_answered_counts(fetch: str) -> None:
    async with scene("sandbox", trusted=True) as one:
        both = f"{fetch}; {fetch.replace('127.0.0.1', '127.0.0.2')}"
        told = await one.run(both, lambda asked: NO if "127.0.0.2" in asked.subject else ONCE)
        assert "a page" in told and "127.0.0.2 are refused" in told
        assert taint(one) == ("web:127.0.0.1",)


async def test_a_background_command_is_told_as_it_happens(fetch: str) -> None:
    async with scene("sandbox", trusted=True) as one:
        started = await one.call("terminal", says(NO), command=f"read line; {fetch}; sleep 600", background=True)
        (name,) = re.findall(r"proc_\w+", started)
        calls = [Call("process", {"action": "submit", "session_id": name, "data": ""})]
        waited = [Call("process", {"action": "wait", "session_id": name, "timeout": 1})]
        told = (await one.turn(calls, waited, person=says(NO)))[1]
        assert "(the person said no); do not try again" in told and "running" in told


async def test_without_a_person_the_line_names_what_allows_it(fetch: str) -> None:
    replies: list[Reply] = [Say(calls=(Call("terminal", {"command": fetch}),)), Say("done")]
    port = fetch.rpartition(":")[2].rstrip("/")
    async with ScriptedServer([*replies, *replies]) as server:
        with TempHome.for_server(server.url, more_config={"terminal": {"backend": "sandbox"}}) as home:
            refused = await home.run(sys.executable, "-m", "hermes", "-z", "fetch", "--no-input", timeout=60)
            assert refused.stderr == (
                f"hermes: refused: connect 127.0.0.1:{port} (the command connects to 127.0.0.1, port {port}, and "
                f"nobody could be asked; security.allowed_hosts: [127.0.0.1:{port}] would allow it; "
                f"--allow 'connect 127.0.0.1:{port}' would let it run)\n"
            )
            assert "nobody could be asked); do not try again" in server.requests[1].results.popitem()[1]
            allowed = await home.run(
                *(sys.executable, "-m", "hermes", "-z", "fetch", "--allow", f"connect 127.0.0.1:{port}"), timeout=60
            )
            assert (allowed.code, allowed.stderr) == (0, "")
            assert "a page" in server.requests[3].results.popitem()[1]
