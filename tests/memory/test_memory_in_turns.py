"""Memory through the real loop: kept at once, frozen in the prompt, held where strangers' words stand."""

import asyncio
import os
import signal
import sys

import pytest

from hermes.commands.memory import open_memory_admin
from hermes.core.events import Event, Notice
from hermes.memory.tool import build_memory_tool
from hermes.runtime.mailbox import InboundMessage
from hermes.sessions.app import App
from hermes.sessions.options import SessionOptions
from hermes.testing.home import TempHome
from hermes.testing.prefix import check_prefixes
from hermes.testing.script import Call, Reply, Say
from hermes.testing.server import ScriptedServer
from tests.forked_hermes import run_hermes


def remember(text: str, **more: object) -> Call:
    return Call("memory", {"action": "add", "target": "memory", "content": text, **more})


async def test_the_prompt_changes_in_the_next_session_and_not_before() -> None:
    replies: list[Reply] = [
        Say(calls=(remember("The tests run with make check."), remember("Is called Ada.", target="user"))),
        Say("Noted."),
        Say("Still here."),
        Say("A new one."),
    ]
    async with ScriptedServer(replies) as server:
        with TempHome.for_server(server.url) as home:
            async with App(home.environ, SessionOptions(cwd=str(home.cwd))) as app:
                for texts in (("keep this", "and now?"), ("hello",)):
                    actor = await app.open_session()
                    for text in texts:
                        await actor.post(InboundMessage(text=text, cwd=str(home.cwd)))
                    await app.close_session(actor)
            assert (home.hermes / "memories/MEMORY.md").read_text() == "The tests run with make check."
            assert (home.hermes / "memories/USER.md").read_text() == "Is called Ada."
        assert check_prefixes(server.requests[:3]) == 2
    before, after = server.requests[0].system, server.requests[3].system
    assert {request.system for request in server.requests[:3]} == {before}
    assert "make check" not in before and "memory tool" in before
    assert after.endswith(
        "MEMORY (your personal notes) [30/2,200 characters]\nThe tests run with make check.\n\n"
        "USER PROFILE (who the user is) [14/1,375 characters]\nIs called Ada."
    )
    said = list(server.requests[1].results.values())
    assert said[0] == "Saved (1 change); it counts from the next session on. MEMORY.md: 30/2,200 characters."


async def test_what_was_kept_is_there_after_a_kill() -> None:
    replies: list[Reply] = [Say(calls=(remember("The port is 8080."),)), Say("Noted.")]
    async with ScriptedServer(replies) as server:
        with TempHome.for_server(server.url) as home:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "hermes", cwd=home.cwd, env=home.environ,
                stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
            )  # fmt: skip
            try:
                assert process.stdin is not None and process.stdout is not None
                process.stdin.write(b"keep the port\n")
                async with asyncio.timeout(60):
                    while b"Noted." not in await process.stdout.readline():
                        pass
            finally:
                os.kill(process.pid, signal.SIGKILL)
                await process.wait()
                process.stdin.close()
            assert (home.hermes / "memories/MEMORY.md").read_text() == "The port is 8080."
            async with open_memory_admin(home.environ) as desk:
                assert [row["state"] for row in await desk.list_log()] == ["applied"]


async def test_with_write_approval_everything_waits() -> None:
    replies: list[Reply] = [Say(calls=(remember("One."),)), Say("Held.")]
    async with ScriptedServer(replies) as server:
        with TempHome.for_server(server.url, more_config={"memory": {"write_approval": True}}) as home:
            async with App(home.environ, SessionOptions(cwd=str(home.cwd))) as app:
                actor = await app.open_session()
                events: list[Event] = []
                actor.subscribe(events.append)
                await actor.post(InboundMessage(text="keep", cwd=str(home.cwd)))
            assert not (home.hermes / "memories").exists()
            (notice,) = [event for event in events if isinstance(event, Notice)]
            assert "waits for your approval (every change needs one)" in notice.text
            async with open_memory_admin(home.environ) as desk:
                (row,) = await desk.list_pending()
                assert (row["what"], row["before"], row["after"]) == ("add “One.”", None, "One.")
                await desk.approve_change(int(str(row["id"])))
                assert (await desk.list_files())[0]["entries"] == ["One."]
                await desk.undo_change(int(str(row["id"])))
                assert (await desk.list_files())[0]["entries"] == []
    assert "Change 1 waits for the person's approval" in next(iter(server.requests[1].results.values()))


@pytest.mark.parametrize("memory", [{"enabled": False}, {"user_profile_enabled": False}])
async def test_what_is_switched_off_is_not_there(memory: dict[str, object]) -> None:
    replies: list[Reply] = [Say(calls=(remember("Is Ada.", target="user"),)), Say("Well.")]
    async with ScriptedServer(replies) as server:
        with TempHome.for_server(server.url, more_config={"memory": memory}) as home:
            (home.hermes / "memories").mkdir()
            (home.hermes / "memories/USER.md").write_text("Is Grace.")
            async with App(home.environ, SessionOptions(cwd=str(home.cwd))) as app:
                await (await app.open_session()).post(InboundMessage(text="keep", cwd=str(home.cwd)))
            assert (home.hermes / "memories/USER.md").read_text() == "Is Grace."
    first = server.requests[0]
    assert "Grace" not in first.system
    assert ("memory" in first.tool_names) == ("enabled" not in memory)
    assert ("memory tool" in first.system) == ("enabled" not in memory)


async def test_a_file_that_is_no_memory_is_told_and_kept() -> None:
    replies: list[Reply] = [Say(calls=(remember("One."),)), Say("Not kept.")]
    async with ScriptedServer(replies) as server:
        with TempHome.for_server(server.url) as home:
            (home.hermes / "memories").mkdir()
            (home.hermes / "memories/MEMORY.md").write_bytes(b"\0\1")
            done = await run_hermes(home, "-z", "keep")
            assert (home.hermes / "memories/MEMORY.md").read_bytes() == b"\0\1"
    assert done.stdout == "Not kept.\n" and "MEMORY.md is not a text file" in done.stderr
    assert "is not a text file" in next(iter(server.requests[1].results.values()))


def test_the_schema_is_small_and_nobody_is_asked_by_the_gate() -> None:
    tool = build_memory_tool(None, approval=False, notify_user=print, on_written=None)  # type: ignore[arg-type]
    assert len(tool.schema.parameters) + len(tool.description) + len(tool.name) <= 1_000
    assert tool.keeps({"action": "add"}) == "" and tool.repeatable and tool.housekeeping
