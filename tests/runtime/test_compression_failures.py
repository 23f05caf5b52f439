"""Every way in which a summary can fail: the conversation goes on, nothing is lost, and the person is told."""

import asyncio

import pytest

from hermes.core.events import EpochBegan, Event, MessageAppended, Notice
from hermes.core.messages import Message, Provenance, Role, Source, TextPart, ToolCallPart, ToolResultPart, user_message
from hermes.core.outcomes import ExitReason
from hermes.runtime.mailbox import InboundMessage
from hermes.sessions.app import App
from hermes.sessions.options import SessionOptions
from hermes.store.messages import encode_message
from hermes.testing.home import TempHome
from hermes.testing.recorded import RecordedRequest
from hermes.testing.request_checks import find_problems
from hermes.testing.script import Fail, Reply, ReplyDelivery, Say, ScriptedModel
from hermes.testing.server import ScriptedServer
from hermes.tools.taint import inherit_provenance
from tests.runtime.planted_conversation import is_summary

RULE = "Never touch the file prod.env."
WISH = "Please count the beans later."
TOO_LONG = Fail(400, message="This model's maximum context length is 8192 tokens. However, you requested 9000 tokens.")


class Side:
    """A model that talks at length, finds request `refused` too long, and gives summaries from a list."""

    def __init__(self, summaries: list[Reply], *, refused: int, largest: int = 1 << 30) -> None:
        self.summaries = summaries
        self.refused = refused
        self.largest = largest
        self.said = 0
        self.asked: list[RecordedRequest] = []

    def reply(self, request: RecordedRequest) -> Reply:
        if is_summary(request):
            self.asked.append(request)
            if request.size > self.largest:
                return TOO_LONG
            return self.summaries.pop(0) if len(self.summaries) > 1 else self.summaries[0]
        self.said += 1
        if self.said == self.refused:
            return TOO_LONG
        return Say(f"answer {self.said} " + "hello " * 300)


CASES: list[tuple[str, list[Reply], str, str]] = [
    ("error", [Fail(403)], "Made without a model", "digest made without a model"),
    ("empty", [Say("")], "Made without a model", "digest made without a model"),
    ("refusal", [Say("I'm sorry, I can't help with that.")], "Made without a model", "The model refused"),
    ("too long", [Say("much too long a line\n" * 5_000)], "much too long a line", "too long and was cut"),
    ("cut", [Say("## Goal\nhalf a", finish="length")], "half a\n[cut here", "cut off at its length limit"),
    ("cut once", [Say("## Goal\nhalf a", finish="length"), Say("## Goal\nwhole")], "## Goal\nwhole", ""),
    ("whole", [Say("## Goal\nbeans")], "## Goal\nbeans", ""),
]


@pytest.mark.parametrize(("name", "summaries", "sent", "told"), CASES, ids=[case[0] for case in CASES])
async def test_a_failed_summary_loses_nothing(name: str, summaries: list[Reply], sent: str, told: str) -> None:
    side = Side(list(summaries), refused=6)
    events: list[Event] = []
    async with ScriptedServer(side) as server:
        with TempHome.for_server(server.url) as home:
            async with App(home.environ, SessionOptions(cwd=str(home.cwd))) as app:
                actor = await app.open_session()
                actor.subscribe(events.append)
                await actor.post(InboundMessage(text=f"Hello there. {RULE}"))
                for number in range(4):
                    await actor.post(InboundMessage(text=f"{WISH} Round {number}."))
                ended = await actor.post(InboundMessage(text="And now?"))
                assert ended.reason is ExitReason.TEXT_RESPONSE
                before = [encode_message(event.message) for event in events if isinstance(event, MessageAppended)]
                assert [one.reason for one in events if isinstance(one, EpochBegan)] == ["compressed"]
                notices = [one.text for one in events if isinstance(one, Notice)]
                assert any(told in one for one in notices) if told else not any("digest" in one for one in notices)
                assert await actor.compress(undo=True)
                assert [encode_message(one) for one in actor.conversation.messages] == before
        last = server.requests[-1]
        text = "\n".join(step.text for step in last.conversation)
        assert sent in text and RULE in text and WISH in text and "And now?" in text
        assert find_problems(last) == [] and last.size < server.requests[5].size


async def test_a_summary_models_smaller_window_is_fed_in_parts() -> None:
    notes: list[Reply] = [Say(f"## Goal\nnotes of part {number}") for number in range(30)]
    side = Side(notes, refused=25, largest=14_000)
    async with ScriptedServer(side) as server:
        with TempHome.for_server(server.url) as home:
            async with App(home.environ, SessionOptions(cwd=str(home.cwd))) as app:
                actor = await app.open_session()
                for number in range(25):
                    ended = await actor.post(InboundMessage(text=f"{WISH} Round {number}."))
                    assert ended.reason is ExitReason.TEXT_RESPONSE
        done = [request for request in side.asked if request.size <= side.largest]
        assert len(done) >= 2
        assert "notes of part 0" in done[1].body.decode()  # handed on, to be brought up to date
        told = "".join(request.last_user_text for request in done)
        rounds = [number for number in range(25) if f"answer {number} hello" in told]
        assert len(rounds) >= 15, rounds
        assert f"notes of part {len(done) - 1}" in server.requests[-1].body.decode()


async def test_before_the_window_is_full_a_failed_summary_changes_nothing_and_is_not_asked_for_again_soon() -> None:
    side = Side([Fail(403)], refused=0)
    events: list[Event] = []
    async with ScriptedServer(side) as server:
        home = TempHome.for_server(server.url)
        model = {**dict(home.config or {})["model"], "context_length": 20_000}  # type: ignore[dict-item]
        home.config = {**(home.config or {}), "model": model, "compression": {"protect_last_n": 2}}
        with home:
            async with App(home.environ, SessionOptions(cwd=str(home.cwd))) as app:
                actor = await app.open_session()
                actor.subscribe(events.append)
                texts = [f"{WISH} Round {number}. {RULE}" for number in range(40)]
                for text in texts:
                    began = [one.reason for one in events if isinstance(one, EpochBegan)]
                    if began:
                        break
                    ended = await actor.post(InboundMessage(text=text))
                    assert ended.reason is ExitReason.TEXT_RESPONSE
        assert began == ["compressed"]  # by a digest, when the window was really full
        assert len(side.asked) == 1
        notices = [one.text for one in events if isinstance(one, Notice)]
        assert sum("Everything is kept" in one for one in notices) >= 1
        assert "digest made without a model" in notices[-1]
        assert max(request.size for request in server.requests) < 20_000 * 4 * 1.1
        assert RULE in server.requests[-1].body.decode()


async def test_without_compression_an_overflow_ends_by_its_name() -> None:
    side = Side([Say("notes")], refused=3)
    async with ScriptedServer(side) as server:
        with TempHome.for_server(server.url, more_config={"compression": {"enabled": False}}) as home:
            async with App(home.environ, SessionOptions(cwd=str(home.cwd))) as app:
                actor = await app.open_session()
                for _ in range(2):
                    await actor.post(InboundMessage(text="on"))
                ended = await actor.post(InboundMessage(text="and on"))
        assert ended.reason is ExitReason.COMPRESSION_EXHAUSTED
        assert side.asked == []


async def test_what_is_always_too_long_ends_by_its_name() -> None:
    def reply(request: RecordedRequest) -> Reply:
        return Say("## Goal\nnotes") if is_summary(request) else TOO_LONG

    async with ScriptedServer(ScriptedModel(reply)) as server:
        with TempHome.for_server(server.url) as home:
            async with App(home.environ, SessionOptions(cwd=str(home.cwd))) as app:
                actor = await app.open_session()
                ended = await actor.post(InboundMessage(text="on " * 2_000))
        assert ended.reason is ExitReason.COMPRESSION_EXHAUSTED
        assert len(server.requests) < 12


async def test_memory_is_told_first_and_its_wishes_reach_the_summary() -> None:
    heard: list[int] = []

    async def remember(messages: object) -> str:
        heard.append(len(list(messages)))  # type: ignore[call-overload]
        return "the cat is called Minka"

    async def broken(_: object) -> str:
        raise RuntimeError("memory is away")

    side = Side([Say("## Goal\nnotes")], refused=6)
    events: list[Event] = []
    async with ScriptedServer(side) as server:
        with TempHome.for_server(server.url) as home:
            async with App(home.environ, SessionOptions(cwd=str(home.cwd))) as app:
                actor = await app.open_session()
                actor.subscribe(events.append)
                actor.before_compress.extend([broken, remember])
                for number in range(6):
                    ended = await actor.post(InboundMessage(text=f"Round {number}."))
                assert ended.reason is ExitReason.TEXT_RESPONSE
        assert len(heard) == 1 and heard[0] > 2
        assert "the cat is called Minka" in side.asked[0].last_user_text
        assert any("The memory provider could not" in one.text for one in events if isinstance(one, Notice))


async def test_condensing_on_wish_can_be_stopped_and_changes_nothing_then() -> None:
    side = Side([Say("## Goal\nnotes", delivery=ReplyDelivery(hold_at=0))], refused=0)
    async with ScriptedServer(side) as server:
        with TempHome.for_server(server.url) as home:
            async with App(home.environ, SessionOptions(cwd=str(home.cwd))) as app:
                actor = await app.open_session()
                for number in range(6):
                    await actor.post(InboundMessage(text=f"Round {number}."))
                before: list[Message] = list(actor.conversation.messages)
                condensing = asyncio.create_task(actor.compress())
                await server.wait_held(await server.wait_for(7))
                assert actor.stop()
                async with asyncio.timeout(60):
                    assert not await condensing
                assert actor.conversation.messages == before and actor.conversation.epoch == 1
                server.release()
                side.summaries[:] = [Say("## Goal\nnotes")]
                assert await actor.compress()
                assert "## Goal\nnotes" in actor.conversation.messages[1].parts[1].text  # type: ignore[union-attr]
                assert (await actor.post(InboundMessage(text="on"))).reason is ExitReason.TEXT_RESPONSE


async def test_after_a_digest_the_next_summary_is_made_from_the_originals() -> None:
    replies: list[Reply] = [Say("## Goal\nfirst notes"), Fail(403), Say("## Goal\nsecond notes")]
    side = Side(replies, refused=12)
    async with ScriptedServer(side) as server:
        with TempHome.for_server(server.url) as home:
            async with App(home.environ, SessionOptions(cwd=str(home.cwd))) as app:
                actor = await app.open_session()
                for number in range(6):
                    await actor.post(InboundMessage(text=f"Round {number}."))
                assert await actor.compress()
                for number in range(6, 12):
                    await actor.post(InboundMessage(text=f"Round {number}."))  # the last of them is refused: a digest
                record = "\n".join(message.text for message in actor.conversation.messages)
                assert "Made without a model" in record and "first notes" in record and "answer 8 hello" in record
                assert await actor.compress()
                record = "\n".join(message.text for message in actor.conversation.messages)
                assert "second notes" in record and "Made without a model" not in record
        first, failed, second = side.asked
        assert "first notes" in failed.last_user_text and "answer 8 hello" in failed.last_user_text
        assert "first notes" in second.last_user_text and "answer 8 hello" in second.last_user_text
        assert "answer 2 hello" in first.last_user_text and "answer 2 hello" not in second.last_user_text
        assert "Made without a model" not in second.last_user_text


async def test_what_was_condensed_stays_a_strangers_text() -> None:
    side = Side([Say("## Goal\nnotes")], refused=0)
    async with ScriptedServer(side) as server:
        with TempHome.for_server(server.url) as home:
            async with App(home.environ, SessionOptions(cwd=str(home.cwd))) as app:
                stranger = Provenance(Source.WEB, "https://strange.example/page")
                call = ToolCallPart(call_id="c", name="web_extract", arguments="{}")
                odd = ToolResultPart("c", "web_extract", "odd " * 900, provenance=stranger)
                history = [
                    user_message("look there"),
                    user_message("and think"),
                    user_message("then tell"),
                    Message(role=Role.ASSISTANT, parts=(call,)),
                    Message(role=Role.TOOL, parts=(odd,)),
                    Message(role=Role.ASSISTANT, parts=(TextPart("odd"),)),
                ]
                actor = await app.open_session(history=history)
                for number in range(4):
                    await actor.post(InboundMessage(text=f"Round {number}."))
                assert await actor.compress()
                record = next(one for one in actor.conversation.messages if "REFERENCE ONLY" in one.text)
                assert inherit_provenance([record]) == Provenance(Source.WEB, "strange.example")
                assert all("odd odd" not in one.text for one in actor.conversation.messages)
