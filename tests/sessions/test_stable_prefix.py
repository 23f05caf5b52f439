"""Promise P3: what was sent stands unchanged at the beginning of what is sent next, on every wire, whatever happens."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from hermes.core.events import TurnEnded
from hermes.core.outcomes import ExitReason
from hermes.runtime.actor import SessionActor
from hermes.runtime.mailbox import InboundMessage
from hermes.sessions.app import App
from hermes.sessions.options import SessionOptions
from hermes.testing.home import TempHome
from hermes.testing.prefix import check_prefixes
from hermes.testing.recorded import RecordedRequest
from hermes.testing.script import Call, Fail, Reply, ReplyDelivery, RoundsModel, Say, ScriptedModel
from hermes.testing.server import ScriptedServer

WIRES = ["chat_completions", "responses", "anthropic_messages"]
pytestmark = [pytest.mark.slow, pytest.mark.parametrize("api_mode", WIRES)]


@asynccontextmanager
async def session(
    home: TempHome, *, name: str | None = None, max_turns: int | None = None, latest: bool = False
) -> AsyncIterator[SessionActor]:
    options = SessionOptions(cwd=str(home.cwd), max_turns=max_turns)
    async with App(home.environ, options) as app:
        yield await app.open_session(name, latest=latest, create=name is not None)


async def say(actor: SessionActor, text: str, cwd: Path) -> TurnEnded:
    return await actor.post(InboundMessage(text=text, cwd=str(cwd)))


async def test_over_fifty_rounds(api_mode: str) -> None:
    model = RoundsModel(50, tool="read_file", arguments='{"path": "a.txt", "offset": {n}, "limit": 1}')
    async with ScriptedServer(model) as server:
        with TempHome.for_server(server.url, api_mode=api_mode) as home:
            (home.cwd / "a.txt").write_text("\n".join(map(str, range(60))))
            async with session(home) as actor:
                ended = await say(actor, "count", home.cwd)
        assert (ended.reason, ended.calls) == (ExitReason.TEXT_RESPONSE, 51)
        assert check_prefixes(server.requests) == 50


async def test_over_turns_and_a_restart(api_mode: str) -> None:
    replies: list[Reply] = []
    for turn in range(4):
        calls = (Call("read_file", {"path": "a.txt"}), Call("todo", {}))
        replies += [Say("Looking.", reasoning=f"thought {turn}", calls=calls), Say(f"answer {turn}", reasoning="so")]
    async with ScriptedServer(replies) as server:
        with TempHome.for_server(server.url, api_mode=api_mode) as home:
            (home.cwd / "a.txt").write_text("x" * 3000 + "\n语言\n")
            async with session(home) as actor:
                for turn in range(3):
                    assert (await say(actor, f"turn {turn}", home.cwd)).text == f"answer {turn}"
            async with session(home, latest=True) as actor:
                assert (await say(actor, "after the restart", home.cwd)).text == "answer 3"
        assert check_prefixes(server.requests) == 7


async def test_over_the_end_of_the_budget(api_mode: str) -> None:
    def reply(request: RecordedRequest) -> Reply:
        if request.number >= 3:
            return Say("What I have.")
        return Say(calls=(Call("todo", {"todos": [{"id": str(request.number), "content": "x", "status": "pending"}]}),))

    async with ScriptedServer(ScriptedModel(reply)) as server:
        with TempHome.for_server(server.url, api_mode=api_mode) as home:
            async with session(home, max_turns=3) as actor:
                ended = await say(actor, "work", home.cwd)
                assert (ended.reason, ended.text, ended.calls) == (ExitReason.BUDGET_EXHAUSTED, "What I have.", 4)
                after = await say(actor, "and now?", home.cwd)
        assert after.text == "What I have."
        assert server.requests[3].tool_names == server.requests[0].tool_names
        assert check_prefixes(server.requests) == 4


async def test_over_a_stopped_turn_and_its_successor(api_mode: str) -> None:
    hang = ReplyDelivery(hold_at=3)
    replies: list[Reply] = [
        Say(calls=(Call("todo", {}), Call("terminal", {"command": "sleep 60"}))),
        Say("next"),
        Say("half an answer that never", delivery=hang, chunk=4),
        Say("last"),
    ]
    async with ScriptedServer(replies) as server:
        with TempHome.for_server(server.url, api_mode=api_mode) as home:
            async with session(home) as actor:
                started = asyncio.Event()
                unsubscribe = actor.subscribe(
                    lambda event: started.set() if "sleep" in getattr(event, "arguments", "") else None
                )
                turn = actor.post(InboundMessage(text="wait", cwd=str(home.cwd)))
                await asyncio.wait_for(started.wait(), 60)
                unsubscribe()
                actor.stop()
                assert (await turn).reason is ExitReason.INTERRUPTED
                assert (await say(actor, "go on", home.cwd)).text == "next"
                turn = actor.post(InboundMessage(text="talk", cwd=str(home.cwd)))
                request = await server.wait_for(3)
                await server.wait_held(request)
                actor.stop()
                assert (await turn).reason is ExitReason.INTERRUPTED
                await server.wait_closed(request)
                assert (await say(actor, "again", home.cwd)).text == "last"
        assert check_prefixes(server.requests) == 3
        assert "Stopped by the user" in server.requests[3].body.decode()


async def test_over_a_failed_turn(api_mode: str) -> None:
    replies: list[Reply] = [Say("one"), Fail(400, message="bad"), Say("two")]
    async with ScriptedServer(replies) as server:
        with TempHome.for_server(server.url, api_mode=api_mode) as home:
            async with session(home) as actor:
                await say(actor, "a", home.cwd)
                assert (await say(actor, "b", home.cwd)).reason is ExitReason.PROVIDER_ERROR
            async with session(home, latest=True) as actor:
                assert (await say(actor, "c", home.cwd)).text == "two"
        assert check_prefixes(server.requests) == 2
