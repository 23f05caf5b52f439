"""What every back end of the store must do. A back end's test class inherits this and provides the fixture `opener`."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import msgspec
import pytest

from hermes.core.errors import NotFoundError, UsageError
from hermes.core.frame import EpochFrame, Sampling, ToolSchema
from hermes.core.messages import (
    FinishReason,
    ImagePart,
    Message,
    Origin,
    ReasoningPart,
    Role,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    ToolStatus,
    program_message,
    user_message,
)
from hermes.core.outcomes import ExitReason
from hermes.core.protocols import Intent
from hermes.core.usage import NANO_PER_USD, Cost, Usage
from hermes.store.compactions import CompactionCover
from hermes.store.messages import TranscriptEntry
from hermes.store.records import CallSpend, EffectState, MessageState, NewSession, SpendOrigin, TurnRowState
from hermes.store.revisions import NewRevision, RevisionAuthor, RevisionState
from hermes.store.store import Store

Opener = Callable[[], Awaitable[Store]]

FRAME = EpochFrame(
    provider="openrouter",
    model="some/model",
    wire="chat_completions",
    encoder_version=3,
    system="Du bist höflich. 你好\n\u2028 end",
    tools=(ToolSchema("read_file", "Reads.", b'{"type": "object",  "properties": {}}'), ToolSchema("x", "", b"{}")),
    sampling=Sampling(temperature=0.25, max_tokens=77),
)
CALLS = Message(
    role=Role.ASSISTANT,
    parts=(
        ReasoningPart(text="hm", kind="thinking", signature="sig"),
        TextPart(text="I look."),
        ToolCallPart(call_id="c1", name="read_file", arguments='{"path": "a\\nb 文件.txt"}'),
        ToolCallPart(call_id="c2", name="terminal", arguments="{broken", extra='{"k":1}', item_id="i"),
    ),
    finish=FinishReason.TOOL_CALLS,
    origin=Origin(provider="p", model="m", wire="w"),
)
RESULTS = Message(
    role=Role.TOOL,
    parts=(
        ToolResultPart(call_id="c1", name="read_file", text="zanzibar", images=(ImagePart(data="aGk="),)),
        ToolResultPart(call_id="c2", name="terminal", text="no", status=ToolStatus.INVALID),
    ),
)


class StepClock:
    """A clock that moves one second each time it is read, so that everything has its own time."""

    def __init__(self) -> None:
        self.time = 1_000_000.0

    def now(self) -> float:
        self.time += 1
        return self.time

    def monotonic(self) -> float:
        return self.now()

    async def sleep(self, seconds: float) -> None:
        self.time += seconds
        await asyncio.sleep(0)


async def begun(store: Store, session_id: str = "s1", *, source: str = "cli", title: str = "") -> int:
    """A session with an open epoch."""
    await store.sessions.create(NewSession(id=session_id, source=source, title=title))
    return await store.epochs.begin(session_id, FRAME, "new session")


async def said(store: Store, texts: Sequence[str], session_id: str = "s1") -> list[int]:
    return await store.messages.append(session_id, 1, None, [user_message(text) for text in texts])


async def found(store: Store, query: str, **limits: object) -> list[int]:
    return [hit.message_id for hit in await store.search.find(query, **limits)]  # type: ignore[arg-type]


class StoreContract:
    async def test_a_session_is_what_was_created(self, opener: Opener) -> None:
        store = await opener()
        await store.sessions.create(NewSession(id="a", source="cli", user_id="u", title="T", cwd="/x", model="m"))
        await store.sessions.create(NewSession(id="b", parent_id="a"))
        row = await store.sessions.get("a")
        assert row is not None
        assert (row.id, row.source, row.user_id, row.title, row.cwd, row.model) == ("a", "cli", "u", "T", "/x", "m")
        assert row.ended_at is None and row.cost_usd is None and row.message_count == 0
        child = await store.sessions.get("b")
        assert child is not None and child.parent_id == "a"
        assert await store.sessions.get("nobody") is None
        with pytest.raises(UsageError):
            await store.sessions.create(NewSession(id="a"))
        with pytest.raises(NotFoundError):
            await store.sessions.create(NewSession(id="c", parent_id="nobody"))

    async def test_sessions_are_listed_by_last_use_in_pages(self, opener: Opener) -> None:
        store = await opener()
        for number in range(5):
            await begun(store, f"s{number}", source="cli" if number % 2 else "telegram")
            await said(store, ["first words"], f"s{number}")
        await said(store, ["now this is the newest"], "s1")
        await begun(store, "s9", source="telegram")
        assert [row.id for row in await store.sessions.list_recent(3)] == ["s1", "s4", "s3"]
        assert [row.id for row in await store.sessions.list_recent(3, before="s3")] == ["s2", "s0"]
        assert [row.id for row in await store.sessions.list_recent(9, source="telegram")] == ["s4", "s2", "s0"]
        latest, of_source = await store.sessions.get_latest(), await store.sessions.get_latest("telegram")
        assert latest is not None and latest.id == "s1"
        assert of_source is not None and of_source.id == "s4"
        assert await store.sessions.get_latest("matrix") is None

    async def test_only_a_session_in_which_nothing_was_said_is_dropped(self, opener: Opener) -> None:
        store = await opener()
        for name in ("said", "tried", "empty"):
            await begun(store, name)
        await said(store, ["words"], "said")
        await store.turns.begin("tried", "t1", text="words of a turn that was lost")
        assert [await store.sessions.drop_empty(name) for name in ("said", "tried", "empty", "nobody")] == [
            False,
            False,
            True,
            False,
        ]
        assert await store.sessions.get("empty") is None
        assert await store.sessions.get("said") is not None

    async def test_sessions_are_found_by_prefix_and_by_title(self, opener: Opener) -> None:
        store = await opener()
        await begun(store, "20260101_aa")
        await begun(store, "20260102_bb", title="Fix 100% of the Build")
        await begun(store, "20260102_cc")
        await store.sessions.rename("20260102_cc", "天气 \ud83d lone")
        assert [row.id for row in await store.sessions.find("20260102")] == ["20260102_cc", "20260102_bb"]
        assert [row.id for row in await store.sessions.find("Fix 100% of the Build")] == ["20260102_bb"]
        assert [row.id for row in await store.sessions.find("天气 \ufffd lone")] == ["20260102_cc"]
        for part in ("Fix", "100% of the Build", "%", "fix 100% of the build", "天气", ""):
            assert await store.sessions.find(part) == []
        with pytest.raises(NotFoundError):
            await store.sessions.rename("nobody", "x")

    async def test_a_session_ends_and_is_opened_again_by_a_message(self, opener: Opener) -> None:
        store = await opener()
        await begun(store)
        await store.sessions.end("s1", "quit")
        row = await store.sessions.get("s1")
        assert row is not None and row.end_reason == "quit" and row.ended_at is not None
        await said(store, ["hello"])
        row = await store.sessions.get("s1")
        assert row is not None and row.end_reason == "" and row.ended_at is None

    async def test_an_epoch_is_restored_byte_for_byte(self, opener: Opener) -> None:
        store = await opener()
        assert await begun(store) == 1
        epoch = await store.epochs.get_open("s1")
        assert epoch is not None
        assert epoch.frame == FRAME and epoch.begin_reason == "new session"
        assert msgspec.msgpack.encode(epoch.frame) == msgspec.msgpack.encode(FRAME)
        other = msgspec.structs.replace(FRAME, model="another")
        assert await store.epochs.begin("s1", other, "model changed") == 2
        epoch = await store.epochs.get_open("s1")
        assert epoch is not None and (epoch.number, epoch.frame) == (2, other)
        await store.epochs.end("s1", 2, "undo")
        assert await store.epochs.get_open("s1") is None
        whole = await store.messages.export_session("s1")
        assert whole is not None
        assert [(one.number, one.end_reason) for one in whole.epochs] == [(1, "model changed"), (2, "undo")]
        assert whole.session.model == "another"
        with pytest.raises(NotFoundError):
            await store.epochs.begin("nobody", FRAME, "x")

    async def test_a_transcript_comes_back_equal_and_in_order(self, opener: Opener) -> None:
        store = await opener()
        await begun(store)
        await begun(store, "s2")
        messages = [
            user_message("hi", ImagePart(url="http://x/y.png")),
            CALLS,
            RESULTS,
            program_message(Role.USER, "go on"),
        ]
        first = store.messages.append("s1", 1, "t1", messages[:1])
        second = store.messages.append(
            "s1", 1, "t1", messages[1:3], Usage(input=100, output=20, cache_read=60, reasoning=5)
        )
        other = store.messages.append("s2", 1, None, [user_message("elsewhere")])
        third = store.messages.append("s1", 1, "t1", messages[3:])
        ids = [*await first, *await second, *await third]
        assert ids == sorted(ids) and (await other)[0] not in ids
        stored = await store.messages.read("s1")
        assert [one.message for one in stored] == messages
        assert [one.id for one in stored] == ids
        assert [one.prompt_tokens for one in stored] == [None, 100, None, None]
        assert [one.output_tokens for one in stored] == [None, 20, None, None]
        assert {one.turn_id for one in stored} == {"t1"} and {one.epoch for one in stored} == {1}
        assert await store.messages.read("nobody") == []

    async def test_lone_surrogates_do_not_lose_a_message(self, opener: Opener) -> None:
        store = await opener()
        await begun(store)
        await store.messages.append("s1", 1, None, [user_message("half \ud83d of \ud83d\ude00 it")])
        assert (await store.messages.read("s1"))[0].message.text == "half \ufffd of 😀 it"

    async def test_totals_grow_with_the_messages(self, opener: Opener) -> None:
        store = await opener()
        await begun(store)
        usage = Usage(input=10, output=3, cache_read=4, cache_write=2, reasoning=1)
        await store.messages.append("s1", 1, None, [CALLS], usage)
        row = await store.sessions.get("s1")
        assert row is not None and row.cost_usd is None
        await store.messages.append("s1", 1, None, [RESULTS, CALLS], msgspec.structs.replace(usage, cost_usd=0.5))
        row = await store.sessions.get("s1")
        assert row is not None
        assert (row.message_count, row.tool_call_count) == (3, 4)
        assert (row.input_tokens, row.output_tokens, row.cache_read_tokens) == (20, 6, 8)
        assert (row.cache_write_tokens, row.reasoning_tokens, row.cost_usd) == (4, 2, 0.5)

    async def test_appending_to_an_unknown_session_fails_alone(self, opener: Opener) -> None:
        store = await opener()
        await begun(store)
        before = store.messages.append("s1", 1, None, [user_message("before")])
        wrong = store.messages.append("nobody", 1, None, [user_message("x")])
        after = store.messages.append("s1", 1, None, [user_message("after")])
        with pytest.raises(NotFoundError):
            await wrong
        await before
        await after
        assert [one.message.text for one in await store.messages.read("s1")] == ["before", "after"]

    async def test_compaction_keeps_the_originals_and_can_be_undone(self, opener: Opener) -> None:
        store = await opener()
        await begun(store)
        ids = await said(store, ["one", "two wolverine", "three", "four"])
        original = await store.messages.read("s1")
        summary = TranscriptEntry(
            session_id="s1", epoch=1, turn_id=None, messages=(program_message(Role.USER, "summary"),)
        )
        with pytest.raises(NotFoundError):
            await store.compactions.apply([CompactionCover(summary, (*ids[:2], 999))], FRAME, "compressed")
        number = await store.compactions.apply([CompactionCover(summary, tuple(ids[:2]))], FRAME, "compressed")
        (row,) = await store.compactions.list_all("s1")
        assert (number, row.epoch, row.covered) == (2, 2, tuple(ids[:2]))
        texts = [one.message.text for one in await store.messages.read("s1")]
        assert texts == ["summary", "three", "four"]
        assert await found(store, "wolverine") == [ids[1]]
        assert await found(store, "summary") == []
        whole = await store.messages.export_session("s1")
        assert whole is not None and len(whole.messages) == 5
        await store.messages.set_state("s1", row.made, MessageState.UNDONE)
        await store.messages.set_state("s1", ids[:2], MessageState.ACTIVE)
        assert await store.messages.read("s1") == original

    async def test_undone_messages_leave_the_conversation_and_the_search(self, opener: Opener) -> None:
        store = await opener()
        await begun(store)
        ids = await said(store, ["keep wombat", "undo wombat"])
        assert await found(store, "wombat") == [ids[1], ids[0]]
        await store.messages.set_state("s1", ids[1:], MessageState.UNDONE)
        assert [one.id for one in await store.messages.read("s1")] == ids[:1]
        assert await found(store, "wombat") == ids[:1]
        await store.messages.set_state("s1", ids[1:], MessageState.ACTIVE)
        assert await found(store, "wombat") == [ids[1], ids[0]]
        with pytest.raises(NotFoundError):
            await store.messages.set_state("s1", [ids[0], 999], MessageState.UNDONE)

    async def test_a_turn_is_running_until_it_ends_once(self, opener: Opener) -> None:
        store = await opener()
        await begun(store)
        await store.turns.begin("s1", "t1", text="do it")
        turn = await store.turns.get("t1")
        assert turn is not None and (turn.state, turn.text) == (TurnRowState.RUNNING, "do it")
        assert await store.turns.list_open("s1") == [turn]
        await store.messages.append("s1", 1, "t1", [user_message("do it")])
        turn = await store.turns.get("t1")
        assert turn is not None and turn.text == ""
        await store.turns.end("t1", ExitReason.TEXT_RESPONSE, usage=Usage(input=5, cost_usd=0.1), calls=2)
        turn = await store.turns.get("t1")
        assert turn is not None and turn.state is TurnRowState.ENDED
        assert (turn.reason, turn.calls, turn.usage) == ("text_response", 2, Usage(input=5, cost_usd=0.1))
        assert await store.turns.list_open("s1") == []
        with pytest.raises(NotFoundError):
            await store.turns.end("t1", ExitReason.INTERRUPTED)
        with pytest.raises(UsageError):
            await store.turns.begin("s1", "t1")
        with pytest.raises(NotFoundError):
            await store.turns.begin("nobody", "t2")

    async def test_effects_are_intended_then_done_or_doubted(self, opener: Opener) -> None:
        store = await opener()
        await begun(store)
        await store.turns.begin("s1", "t1")
        await store.turns.record_intents(
            "t1",
            [
                Intent("c1", "write_file", '{"a":1}', False),
                Intent("c2", "read_file", "{}", True),
                Intent("c3", "t", "", False),
            ],
        )
        result = ToolResultPart(call_id="c1", name="write_file", text="written 写")
        await store.turns.record_result("t1", result)
        assert await store.turns.mark_uncertain("t1") == 1
        one, two, three = await store.turns.list_effects("t1")
        assert (one.state, one.result, one.repeatable, one.arguments) == (EffectState.DONE, result, False, '{"a":1}')
        assert (two.state, two.result, two.repeatable) == (EffectState.INTENDED, None, True)
        assert three.state is EffectState.UNCERTAIN
        with pytest.raises(NotFoundError):
            await store.turns.record_result("t1", result)
        with pytest.raises(NotFoundError):
            await store.turns.record_intents("t9", [])
        await store.turns.end("t1", ExitReason.INTERRUPTED)
        assert [effect.result for effect in await store.turns.list_effects("t1")] == [None, None, None]
        with pytest.raises(NotFoundError):
            await store.turns.record_intents("t1", [Intent("c4", "t", "", False)])

    async def test_a_call_id_used_twice_in_a_turn_is_two_effects(self, opener: Opener) -> None:
        store = await opener()
        await begun(store)
        await store.turns.begin("s1", "t1")
        for text in ("first", "second"):
            await store.turns.record_intents("t1", [Intent("call_0", "t", text, False)])
            await store.turns.record_result("t1", ToolResultPart(call_id="call_0", name="t", text=text))
        assert [(e.arguments, e.result and e.result.text) for e in await store.turns.list_effects("t1")] == [
            ("first", "first"),
            ("second", "second"),
        ]

    async def test_spend_outlives_its_session(self, opener: Opener) -> None:
        store = await opener()
        await begun(store)
        usage = Usage(input=10, output=2, cost_usd=0.25)
        spent = CallSpend(usage=usage, cost=Cost(nano=NANO_PER_USD // 4))
        await store.spending.record(SpendOrigin(provider="p", model="m", session_id="s1", turn_id="t1"), spent)
        await store.spending.record(SpendOrigin(provider="p", model="m", purpose="title"), spent)
        assert await store.spending.sum_usage(0, session_id="s1") == usage
        await store.erasure.delete_session("s1")
        assert await store.spending.sum_usage(0) == usage + usage
        assert await store.spending.sum_usage(9e9) == Usage()

    async def test_a_deleted_session_is_gone_with_all_that_was_its(self, opener: Opener) -> None:
        store = await opener()
        await begun(store)
        await begun(store, "s2")
        await said(store, ["mongoose here", "and mongoose there"])
        kept = await said(store, ["mongoose elsewhere"], "s2")
        await store.turns.begin("s1", "t1", text="mongoose")
        await store.turns.record_intents("t1", [Intent("c1", "t", "mongoose", False)])
        assert len(await found(store, "mongoose")) == 3
        assert await store.erasure.delete_session("s1") == 2
        assert await store.sessions.get("s1") is None and await store.turns.get("t1") is None
        assert await store.turns.list_effects("t1") == [] and await store.messages.read("s1") == []
        assert await found(store, "mongoose") == kept
        assert await store.check_integrity() == []
        with pytest.raises(NotFoundError):
            await store.erasure.delete_session("s1")

    async def test_messages_are_deleted_and_redacted(self, opener: Opener) -> None:
        store = await opener()
        await begun(store)
        ids = await said(store, ["ocelot one", "ocelot two", "three"])
        assert await store.erasure.delete_messages("s1", [ids[0], 12345]) == 1
        await store.erasure.redact_message("s1", ids[1], user_message("[removed] two"))
        assert [one.message.text for one in await store.messages.read("s1")] == ["[removed] two", "three"]
        assert await found(store, "ocelot") == [] and await found(store, "removed") == [ids[1]]
        row = await store.sessions.get("s1")
        assert row is not None and row.message_count == 2
        with pytest.raises(NotFoundError):
            await store.erasure.redact_message("s2", ids[1], user_message("x"))

    async def test_everything_is_there_after_reopening(self, opener: Opener) -> None:
        store = await opener()
        await begun(store)
        await said(store, ["persistent pangolin"])
        await store.turns.begin("s1", "t1", text="unfinished")
        await store.close()
        again = await opener()
        assert [one.message.text for one in await again.messages.read("s1")] == ["persistent pangolin"]
        assert [turn.text for turn in await again.turns.list_open("s1")] == ["unfinished"]
        epoch = await again.epochs.get_open("s1")
        assert epoch is not None and epoch.frame == FRAME
        assert len(await found(again, "pangolin")) == 1

    async def test_search_can_be_limited_and_paged(self, opener: Opener) -> None:
        store = await opener()
        await begun(store, title="Zoo")
        await begun(store, "s2", source="telegram")
        ids = await said(store, [f"badger {number}" for number in range(10)])
        answer = await store.messages.append(
            "s2", 1, None, [Message(role=Role.ASSISTANT, parts=(TextPart(text="badger!"),))]
        )
        assert await found(store, "badger", limit=3) == [answer[0], ids[9], ids[8]]
        assert await found(store, "badger", limit=3, offset=3) == [ids[7], ids[6], ids[5]]
        assert await found(store, "badger", session="s2") == answer
        assert await found(store, "badger", roles=[Role.ASSISTANT]) == answer
        assert await found(store, "badger", roles=[Role.USER], session="s2") == []
        assert await found(store, "badger", session="nobody") == []
        assert sorted(await found(store, "badger", newest=False)) == sorted([*ids, *answer])
        assert await found(store, "badger 7", newest=False, limit=1) == [ids[7]]
        hit = (await store.search.find("badger", session="s1", limit=1))[0]
        assert (hit.title, hit.session_id, hit.role, hit.snippet) == ("Zoo", "s1", Role.USER, "badger 9")

    async def test_calls_and_results_are_found_injected_and_program_text_is_not(self, opener: Opener) -> None:
        store = await opener()
        await begun(store)
        injected = user_message("visible", *program_message(Role.USER, "recalled capybara").parts)
        ids = await store.messages.append(
            "s1", 1, None, [CALLS, RESULTS, injected, program_message(Role.USER, "note capybara")]
        )
        assert await found(store, "zanzibar") == [ids[1]]
        assert await found(store, "文件.txt") == [ids[0]]
        assert await found(store, "read_file", roles=[Role.ASSISTANT]) == [ids[0]]
        assert await found(store, "visible") == [ids[2]]
        assert await found(store, "capybara") == []

    async def test_a_change_of_what_is_kept_is_decided_once(self, opener: Opener) -> None:
        store = await opener()
        change = NewRevision(
            kind="skill",
            name="brew",
            author=RevisionAuthor.REVIEW,
            before=None,
            after=b"# brew",
            reason="made twice",
            sources=("web:a.example",),
            session_id="gone",
        )
        first = await store.revisions.add(change, RevisionState.PENDING)
        second = await store.revisions.add(
            msgspec.structs.replace(change, before=b"# brew", after=None), RevisionState.APPLIED
        )
        moves = [
            store.revisions.transition(first, RevisionState.APPLYING, expecting=(RevisionState.PENDING,), by="me")
            for _ in range(5)
        ]
        assert sorted(await asyncio.gather(*moves)) == [False] * 4 + [True]
        assert await store.revisions.transition(first, RevisionState.APPLIED, expecting=(RevisionState.APPLYING,))
        rows = await store.revisions.list_newest("skill", name="brew")
        assert [(row.id, row.state) for row in rows] == [(second, "applied"), (first, "applied")]
        assert (rows[1].before, rows[1].after, rows[1].sources) == (None, b"# brew", ("web:a.example",))
        assert rows[1].decided_by == "me" and rows[1].author is RevisionAuthor.REVIEW
        assert await store.revisions.list_newest("skill", states=(RevisionState.PENDING,)) == []
        assert await store.revisions.list_newest("memory") == []
        assert (await store.revisions.get(first)) == rows[1] and await store.revisions.get(999) is None

    async def test_what_something_was_good_for_adds_up(self, opener: Opener) -> None:
        store = await opener()
        await store.revisions.count_use("skill", "brew", used=1)
        await store.revisions.count_use("skill", "brew", used=1, helped=1)
        await store.revisions.count_use("skill", "tidy", failed=1)
        await store.revisions.count_use("memory", "brew", used=7)
        found = {one.name: (one.used, one.helped, one.failed) for one in await store.revisions.list_usefulness("skill")}
        assert found == {"brew": (2, 1, 0), "tidy": (0, 0, 1)}
