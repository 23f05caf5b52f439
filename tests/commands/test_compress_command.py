"""`/compress` with what a person wants of it: up to where, about what, and only saying what would happen."""

import asyncio

import pytest

from hermes.core.errors import BusyError, UsageError
from hermes.core.events import EpochBegan, Notice, Queued, TurnStarted, WorkEnded, WorkStarted
from hermes.runtime.mailbox import InboundMessage
from hermes.testing.prefix import check_prefixes
from hermes.testing.recorded import RecordedRequest
from hermes.testing.script import Fail, Reply, ReplyDelivery, Say, ScriptedModel
from tests.commands.chat_surfaces import Chat, chat

LONG = "word " * 400


def answer(request: RecordedRequest) -> Reply:
    return Say("## Goal\nnotes about it") if is_summary(request) else Say(f"an answer {LONG}")


def is_summary(request: RecordedRequest) -> bool:
    return "condense" in request.system and not request.tool_names


async def talk(here: Chat, turns: int) -> None:
    for number in range(turns):
        await here.say(f"question {number} {LONG}")


def sent_last(here: Chat) -> str:
    return here.server.requests[-1].body.decode()


async def test_everything_before_the_last_turns_is_condensed() -> None:
    async with chat(ScriptedModel(answer)) as here:
        await talk(here, 5)
        await here.desk.type_line("/compress here 2")
        assert sum(map(is_summary, here.server.requests)) == 1
        (summary,) = filter(is_summary, here.server.requests)
        assert "question 0" in summary.last_user_text and "question 2" in summary.last_user_text
        await here.say("and now?")
        sent = sent_last(here)
        assert "notes about it" in sent and f"question 3 {LONG}"[:200] in sent and f"question 4 {LONG}"[:200] in sent
        assert sent.count("an answer word") == 2
        assert sum(isinstance(event, EpochBegan) for event in here.events) == 1
        check_prefixes([one for one in here.server.requests if not is_summary(one)][:-1])
        await here.desk.type_line("/compress --undo")
        await here.say("again")
        assert sent_last(here).count("an answer word") == 6


async def test_a_topic_reaches_the_model_that_writes_the_notes() -> None:
    async with chat(ScriptedModel(answer)) as here:
        await talk(here, 4)
        await here.desk.type_line("/compress here focus   the login\n page")
        (summary,) = filter(is_summary, here.server.requests)
        assert "<topic" in summary.last_user_text and "\nfocus the login page\n</topic" in summary.last_user_text
        await talk(here, 1)
        await here.desk.type_line("/compress here")
        assert "<topic" not in [one for one in here.server.requests if is_summary(one)][-1].last_user_text


async def test_a_preview_changes_nothing_and_asks_nobody() -> None:
    async with chat(ScriptedModel(answer)) as here:
        await talk(here, 4)
        before = len(here.server.requests)
        told = await here.desk.type_line("/compress here 1 --preview")
        assert "6 messages (#1 to #6) would become a record with notes: about " in told
        assert len(here.server.requests) == before and not any(isinstance(one, EpochBegan) for one in here.events)
        assert "nothing older" in await here.desk.type_line("/compress --preview here 9")
        await here.say("go on")
        check_prefixes(here.server.requests)


async def test_a_preview_says_where_compressing_would_do_nothing() -> None:
    async with chat(ScriptedModel(lambda _: Say("ok"))) as here:
        for word in ("one", "two", "three"):
            await here.say(word)
        assert "nothing would be done" in await here.desk.type_line("/compress here 1 --preview")
        assert not any(isinstance(one, EpochBegan) for one in here.events)


async def test_where_nothing_is_older_nothing_changes_and_a_line_says_so() -> None:
    async with chat(ScriptedModel(answer)) as here:
        await talk(here, 1)
        await here.desk.type_line("/compress here 3")
        assert any(isinstance(one, Notice) and "nothing older" in one.text for one in here.events)
        assert not any(map(is_summary, here.server.requests))


HELD = ReplyDelivery(hold_at=0)


@pytest.mark.parametrize(
    ("notes", "stopped"),
    [(Say("notes", delivery=HELD), False), (Say("", delivery=HELD), False), (Say("notes", delivery=HELD), True)],
    ids=["it works", "it fails", "it is stopped"],
)
async def test_what_is_said_meanwhile_is_answered_in_its_order_once_it_has_ended(notes: Reply, stopped: bool) -> None:
    replies = [notes]

    def answer_slowly(request: RecordedRequest) -> Reply:
        if is_summary(request):
            return replies.pop() if replies else Fail(400)
        return Say(f"an answer {LONG}")

    async with chat(ScriptedModel(answer_slowly)) as here:
        await talk(here, 4)
        actor, before = here.desk.actor, len(here.server.requests)
        working = asyncio.ensure_future(here.desk.type_line("/compress here 1"))
        await here.server.wait_held(await here.server.wait_for(before + 1))
        said = [actor.steer(InboundMessage(text=text), in_order=True) for text in ("one", "two", "three")]
        for line in ("/undo", "/new", "/compress"):
            with pytest.raises(BusyError, match=f"{line} waits for this to end: making the conversation shorter"):
                await here.desk.type_line(line)
        assert not any(isinstance(one, TurnStarted) and one.text == "one" for one in here.events)
        if stopped:
            assert actor.stop()
        else:
            here.server.release()
        told = await working
        assert ("Stopped: the conversation is as it was." in told) is stopped
        assert all(one.text.startswith("an answer") for one in await asyncio.gather(*said))
        assert [one.text for one in here.events if isinstance(one, TurnStarted)][4:] == ["one", "two", "three"]
        assert all(not one.joins for one in here.events if isinstance(one, Queued))
        kinds = [type(one) for one in here.events if isinstance(one, WorkStarted | WorkEnded)]
        assert kinds == [WorkStarted, WorkEnded] and not actor.busy and not len(actor.mailbox)
        assert any(isinstance(one, EpochBegan) for one in here.events) is (
            notes == Say("notes", delivery=HELD) and not stopped
        )


async def test_what_is_taken_back_meanwhile_gets_no_turn() -> None:
    def answer_slowly(request: RecordedRequest) -> Reply:
        return Say("notes", delivery=HELD) if is_summary(request) else Say(f"an answer {LONG}")

    async with chat(ScriptedModel(answer_slowly)) as here:
        await talk(here, 4)
        actor, before = here.desk.actor, len(here.server.requests)
        working = asyncio.ensure_future(here.desk.type_line("/compress here 1"))
        await here.server.wait_held(await here.server.wait_for(before + 1))
        actor.post(InboundMessage(text="never mind"))
        taken = actor.mailbox.take_newest()
        assert taken is not None and taken.inbound.text == "never mind"
        here.server.release()
        await working
        await actor.idle()
        assert (await here.say("go on")).text and "never mind" not in sent_last(here)


@pytest.mark.parametrize(
    "line", ["here 0", "here x", "here 2 3", "focus", "here 2 focus", "somewhere", "--undo now", "here 99999999999"]
)
async def test_a_wish_that_means_nothing_is_one_sentence(line: str) -> None:
    async with chat(ScriptedModel(answer)) as here:
        with pytest.raises(UsageError) as caught:
            await here.desk.type_line(f"/compress {line}")
        assert "/compress" in caught.value.message and "\n" not in str(caught.value)
