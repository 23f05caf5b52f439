"""The machine or the person pulls something away in the middle of a turn: a named end, a clear line, nothing lost."""

import asyncio
import shutil
import sys

import pytest

from hermes.core.events import Event, MessageAppended, RequestStarted, Retrying, ToolStarted, TurnStarted
from hermes.core.outcomes import ExitReason
from hermes.core.stream import TextDelta
from hermes.runtime.mailbox import InboundMessage
from hermes.sessions.app import App
from hermes.sessions.options import SessionOptions
from hermes.store.store import Store
from hermes.testing.clock import ManualClock
from hermes.testing.home import TempHome
from hermes.testing.prefix import check_prefixes
from hermes.testing.script import Call, Fail, Reply, ReplyDelivery, Say
from hermes.testing.server import ScriptedServer
from hermes.util.clock import SystemClock
from tests.forked_hermes import run_hermes
from tests.torture.marked_world import hermes

HOUR, YEAR = 3600.0, 365.25 * 86_400
MOMENTS = (TurnStarted, MessageAppended, RequestStarted, Retrying, TextDelta, ToolStarted)
ANY = {"command_allowlist": ["*"]}


async def texts_of(home: TempHome) -> list[str]:
    """The words of every session's transcript."""
    store = await Store.open(home.hermes, SystemClock())
    try:
        assert await store.check_integrity() == []
        rows = [row for one in await store.sessions.list_recent(100) for row in await store.messages.read(one.id)]
        return [row.message.text for row in rows]
    finally:
        await store.close()


@pytest.mark.parametrize("jump", [HOUR, -HOUR, 20 * YEAR, -20 * YEAR])
async def test_the_clock_jumps_at_every_moment_of_a_turn(jump: float) -> None:
    busy = Fail(429, headers={"retry-after": "1"})
    calls = (Call("terminal", {"command": "echo one >> ran"}), Call("read_file", {"path": "notes"}))
    replies: list[Reply] = [busy, Say("working", calls=calls), Say("one"), busy, Say("two"), Say("three")]
    clock = ManualClock(auto=True)
    jumped: set[type[Event]] = set()

    def jump_now(event: Event) -> None:
        if isinstance(event, MOMENTS) and type(event) not in jumped:
            jumped.add(type(event))
            clock.set_now(clock.now() + (jump if len(jumped) % 2 else -jump))

    async with ScriptedServer(replies) as server:
        with TempHome.for_server(server.url) as home:
            (home.cwd / "notes").write_text("notes\n")
            async with App(home.environ, SessionOptions(cwd=str(home.cwd)), clock=clock) as app:
                actor = await app.open_session()
                actor.subscribe(jump_now)
                async with asyncio.timeout(60):
                    for text in ("one", "two"):
                        ended = await actor.post(InboundMessage(text=text, cwd=str(home.cwd)))
                        assert (ended.reason, ended.text) == (ExitReason.TEXT_RESPONSE, text)
                        clock.set_now(clock.now() + jump)
                name = actor.session_id
            clock.set_now(clock.now() - 2 * jump)
            async with App(home.environ, SessionOptions(cwd=str(home.cwd)), clock=clock) as app:
                actor = await app.open_session(name)
                assert (await actor.post(InboundMessage(text="three", cwd=str(home.cwd)))).text == "three"
            assert (home.cwd / "ran").read_text() == "one\n"
            said = await texts_of(home)
        check_prefixes(server.requests)
    assert jumped == set(MOMENTS)
    assert [one.partition("\n")[0] for one in said if one.partition("\n")[0] in ("one", "two", "three")] == [
        *("one", "one", "two", "two", "three", "three")
    ]


async def test_no_room_for_the_search_index_is_said_and_loses_nothing() -> None:
    words = " ".join(f"word{number}" for number in range(20_000))
    async with ScriptedServer([Say(words)]) as server:
        with TempHome.for_server(server.url) as home:
            assert (await run_hermes(home, "-z", "wombat")).code == 0
            search = f"{sys.executable} -m hermes sessions search wombat"
            done = await home.run("bash", "-c", f"ulimit -f 48; exec {search}")
            assert done.code not in (0, None)
            assert "no room" in done.stderr and len(done.stderr.strip().splitlines()) == 1
            again = await home.run("bash", "-c", f"exec {search}")
            assert (again.code, "wombat" in again.stdout) == (0, True)
            assert words in await texts_of(home)


async def test_no_room_for_a_large_result_is_told_to_the_model() -> None:
    long = "head -c 49000 /dev/zero | tr '\\0' {}"
    calls = tuple(Call("terminal", {"command": long.format(letter)}) for letter in "abcdefgh")
    async with ScriptedServer([Say(calls=calls), Say("seen")]) as server:
        with TempHome.for_server(server.url, more_config=ANY) as home:
            (home.hermes / "spill").write_text("a file, where a folder is wanted")
            done = await run_hermes(home, "-z", "count")
            assert (done.code, done.stdout) == (0, "seen\n")
        results = server.requests[1].results.values()
        assert len(results) == 8
        assert any("is lost" in result for result in results)


async def test_a_home_deleted_while_a_tool_runs_is_said() -> None:
    command = "touch began; while [ ! -e go ]; do sleep 0.01; done"
    async with ScriptedServer([Say(calls=(Call("terminal", {"command": command}),)), Say("late")]) as server:
        with TempHome.for_server(server.url, more_config=ANY) as home:
            async with hermes(home, "-z", "work") as process:
                async with asyncio.timeout(60):
                    while not (home.cwd / "began").exists():  # noqa: ASYNC110 - of another process
                        await asyncio.sleep(0.01)
                shutil.rmtree(home.hermes)
                (home.cwd / "go").touch()
                _, err = await asyncio.wait_for(process.communicate(), 60)
            assert process.returncode not in (0, None)
            assert b"removed or replaced" in err and b"Traceback" not in err


@pytest.mark.parametrize("broken", [False, True])
async def test_a_config_changed_under_a_turn_counts_for_the_next_one(broken: bool) -> None:
    held = Say("first answer", delivery=ReplyDelivery(hold_at=0))
    async with ScriptedServer([held, Say("second answer")]) as server:
        with TempHome.for_server(server.url) as home:
            async with hermes(home, "-z", "first") as process:
                await server.wait_held(await server.wait_for(1))
                before = home.config
                assert before is not None
                if broken:
                    (home.hermes / "config.yaml").write_text("model: [")
                else:
                    home.write_config({**before, "model": {**before["model"], "default": "another"}})  # type: ignore[dict-item]
                server.release()
                out, _ = await asyncio.wait_for(process.communicate(), 60)
                assert (process.returncode, out) == (0, b"first answer\n")
            done = await run_hermes(home, "-z", "second", "--continue")
            if broken:
                assert (done.code != 0, "config.yaml" in done.stderr) == (True, True)
                home.write_config(before)
                done = await run_hermes(home, "-z", "second", "--continue")
            assert (done.code, done.stdout) == (0, "second answer\n")
            said = "\n".join(await texts_of(home))
            assert all(words in said for words in ("first", "first answer", "second", "second answer"))
            store = await Store.open(home.hermes, SystemClock())
            (session,) = await store.sessions.list_recent(10)
            export = await store.messages.export_session(session.id)
            await store.close()
        assert export is not None
        assert [epoch.begin_reason for epoch in export.epochs[1:]] == ([] if broken else ["another model"])
        assert server.requests[1].model == ("mock-model" if broken else "another")
