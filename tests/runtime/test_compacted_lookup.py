"""What was condensed can be looked up, in this session and in no other; `/compress` works in the plain chat."""

import asyncio
import re
from pathlib import Path

import pytest

from hermes.config.home import locate_home
from hermes.config.load import load_settings
from hermes.core.errors import BusyError
from hermes.core.events import EpochBegan, Event
from hermes.runtime.mailbox import InboundMessage
from hermes.sessions.app import App
from hermes.sessions.options import SessionOptions
from hermes.testing.home import TempHome
from hermes.testing.plugins import enable_plugin
from hermes.testing.recorded import RecordedRequest
from hermes.testing.script import Call, Reply, ReplyDelivery, Say, ScriptedModel
from hermes.testing.server import ScriptedServer
from tests.forked_hermes import run_hermes
from tests.runtime.planted_conversation import converse, extract, is_summary, plant_files, user_text

SUMMARY = Say("## Goal\nnotes")


def looking_up(session_id: str, query: str = "", number: int = 0) -> Say:
    arguments = {"session_id": session_id, "query": query, "around_message_id": number, "limit": 1}
    return Say(calls=(Call("session_search", arguments),))


@pytest.mark.parametrize("in_place", [True, False])
async def test_the_model_finds_what_was_condensed_by_number_and_by_words(in_place: bool) -> None:
    replies: list[Reply] = [Say(f"answer {number} " + "hello " * 200) for number in range(7)]
    replies[2:2] = [Say("the secret place is the old mill")]
    replies[7:] = [SUMMARY]
    async with ScriptedServer(replies) as server:
        with TempHome.for_server(server.url, more_config={"compression": {"in_place": in_place}}) as home:
            async with App(home.environ, SessionOptions(cwd=str(home.cwd))) as app:
                other = await app.open_session()
                await other.post(InboundMessage(text="in another session: mill secret"))
                actor = await app.open_session()
                for number in range(6):
                    await actor.post(InboundMessage(text=f"question {number}"))
                assert await actor.compress()
                name = actor.session_id
                server.model = ScriptedModel(
                    [
                        looking_up(name, number=5),
                        looking_up(name, "MILL secret"),
                        Say("found"),
                    ]
                )
                assert (await actor.post(InboundMessage(text="look it up"))).text == "found"
        by_number, by_words = (request.conversation[-1].text for request in server.requests[-2:])
        asked = server.requests[-3].body.decode()
        assert "old mill" not in asked
        assert f"`session_search` with session_id {name} finds any message" in asked
        assert "session_search" in server.requests[-3].tool_names
        assert "#5 user" in by_number and "question 1" in by_number
        assert "old mill" in by_words and "another session" not in by_words


async def test_cleared_results_name_their_message_and_the_look_up_shows_it() -> None:
    def reply(request: RecordedRequest) -> Reply:
        if is_summary(request):
            return extract(request)
        cleared = re.search(
            r"session_search with session_id (\S+) and around_message_id (\d+) shows it", request.body.decode()
        )
        if cleared and "'session_search'" not in str(request.messages[-2]):
            return looking_up(cleared[1], number=int(cleared[2]))
        if cleared:
            return Say("seen")
        return converse(request)

    events: list[Event] = []
    async with ScriptedServer(ScriptedModel(reply)) as server:
        home = TempHome.for_server(server.url)
        model = {**dict(home.config or {})["model"], "context_length": 24_000}  # type: ignore[dict-item]
        home.config = {**(home.config or {}), "model": model, "compression": {"protect_last_n": 2}}
        with home:
            plant_files(home.cwd)
            async with App(home.environ, SessionOptions(cwd=str(home.cwd))) as app:
                actor = await app.open_session()
                actor.subscribe(events.append)
                number = 0
                while not any(isinstance(event, EpochBegan) for event in events):
                    ended = await actor.post(InboundMessage(text=user_text(number), cwd=str(home.cwd)))
                    number += 1
                    assert number < 40
        assert ended.text == "seen"
        assert not any(is_summary(request) for request in server.requests)
        last = server.requests[-1]
        assert "port_of_service_" in last.conversation[-1].text
        assert "[Old tool output cleared to save context space]" in last.body.decode()


async def test_condensing_waits_for_nobody_and_turns_wait_for_it() -> None:
    held = Say("## Goal\nnotes", delivery=ReplyDelivery(hold_at=0))
    replies: list[Reply] = [Say("hello " * 300)] * 4
    async with ScriptedServer([*replies, held, Say("after")]) as server:
        with TempHome.for_server(server.url) as home:
            async with App(home.environ, SessionOptions(cwd=str(home.cwd))) as app:
                actor = await app.open_session()
                assert not await actor.compress(undo=True)
                for number in range(4):
                    await actor.post(InboundMessage(text=f"question {number}"))
                condensing = asyncio.create_task(actor.compress())
                await server.wait_held(await server.wait_for(5))
                with pytest.raises(BusyError):
                    await actor.compress()
                answer = actor.post(InboundMessage(text="meanwhile"))
                await asyncio.sleep(0)
                assert len(server.requests) == 5
                server.release()
                assert await condensing
                assert (await answer).text == "after"
        assert "REFERENCE ONLY" in server.requests[-1].body.decode()


async def test_the_chat_condenses_and_puts_back() -> None:
    replies: list[Reply] = [Say("hello " * 300)] * 4
    lines = b"a\nb\nc\nd\n/compress now\n/compress\n/compress --undo\n/compress --undo\n"
    async with ScriptedServer([*replies, SUMMARY]) as server:
        with TempHome.for_server(server.url) as home:
            done = await run_hermes(home, stdin=lines)
        assert done.code == 0
        assert "/compress takes `here N`, `focus TOPIC`" in done.stdout
        assert "It is restored as it was." in done.stdout
        assert "There is nothing to restore." in done.stdout
        assert len(server.requests) == 5


def test_settings_out_of_range_are_clamped_and_said() -> None:
    wrong = {"threshold": 3, "target_ratio": 0.01, "protect_last_n": 0, "summary_max_tokens": 5}
    with TempHome({"compression": wrong}) as home:
        loaded = load_settings(locate_home(home.environ))
    found = loaded.settings.compression
    assert (found.threshold, found.target_ratio, found.protect_last_n, found.summary_max_tokens) == (
        0.95,
        0.1,
        1,
        2_000,
    )
    assert len(loaded.warnings) == 4
    assert "config.yaml: compression.threshold is 3.0; 0.95 is used (0.1 to 0.95)." in loaded.warnings


async def test_the_epoch_of_a_compression_has_a_fresh_prompt() -> None:
    async with ScriptedServer([*[Say("hello " * 300)] * 4, SUMMARY, Say("after"), Say("back")]) as server:
        with TempHome.for_server(server.url) as home:
            async with App(home.environ, SessionOptions(cwd=str(home.cwd))) as app:
                actor = await app.open_session()
                (home.hermes / "SOUL.md").write_text("You are Quokka.")
                for number in range(4):
                    await actor.post(InboundMessage(text=f"question {number}"))
                assert await actor.compress()
                await actor.post(InboundMessage(text="on"))
                (home.hermes / "SOUL.md").write_text("You are Numbat.")
                assert await actor.compress(undo=True)
                await actor.post(InboundMessage(text="on"))
        own = [request for request in server.requests if not is_summary(request)]
        assert [("Quokka" in one.system, "Numbat" in one.system) for one in own[3:]] == [
            (False, False),
            (True, False),
            (False, True),
        ]


ENGINE = """
from typing import Annotated
from hermes.context.engines.compressor import Compressor
from hermes.tools.session import ToolContext
from hermes.tools.tool import Parallel, ToolOutput, tool

class Looker(Compressor):
    name = 'looker'

    def tools(self):
        @tool('looker', deferred=True, parallel=Parallel.SAFE, repeatable=True, summary=lambda args: 'recall')
        async def looker_recall(ctx: ToolContext, number: Annotated[int, 'Which message.']) -> ToolOutput:
            '''Show a message that was condensed.'''
            return ToolOutput(text=f'this was message {number}')
        return (looker_recall,)

def make(setup):
    return Looker(setup)
"""


async def test_an_engines_own_tool_is_found_and_called(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "looker-1.0.dist-info").mkdir()
    (tmp_path / "looker-1.0.dist-info/METADATA").write_text("Metadata-Version: 2.1\nName: looker\nVersion: 1.0\n")
    points = "[hermes.context_engines]\nlooker = looker_engine:make\n"
    (tmp_path / "looker-1.0.dist-info/entry_points.txt").write_text(points)
    (tmp_path / "looker_engine.py").write_text(ENGINE)
    monkeypatch.syspath_prepend(str(tmp_path))
    called = Say(calls=(Call("tool_call", {"name": "looker_recall", "arguments": {"number": 7}}),))
    async with ScriptedServer([called, Say("seen")]) as server:
        with TempHome.for_server(server.url, more_config={"context": {"engine": "looker"}}) as home:
            enable_plugin(home.environ, "looker")
            async with App(home.environ, SessionOptions(cwd=str(home.cwd))) as app:
                actor = await app.open_session()
                assert (await actor.post(InboundMessage(text="look"))).text == "seen"
        assert "tool_call" in server.requests[0].tool_names
        assert "this was message 7" in server.requests[1].conversation[-1].text
