"""A chat with people, groups, buttons and edits: the gateway on a Telegram of our own."""

import re
from pathlib import Path

import pytest

from hermes.admin.people.admin import PeopleAdmin
from hermes.admin.people.identity import PersonRole
from hermes.gateway.stream_renderer import CURSOR
from hermes.testing.recorded import RecordedRequest
from hermes.testing.script import Call, Ending, Reply, ReplyDelivery, Say, ScriptedModel
from hermes.testing.server import ScriptedServer
from tests.gateway.gateway_rig import home_for, running, said
from tests.vendors.telegram import Fake

pytestmark = pytest.mark.slow

RESET = Say(calls=(Call("terminal", {"command": "git push --force"}),))


async def test_an_answer_grows_by_edits_and_ends_whole() -> None:
    words = " ".join(f"word{number}" for number in range(120))
    async with ScriptedServer([Say(words, chunk=12, delivery=ReplyDelivery(pace=0.03))]) as server, Fake() as chat:
        with home_for(server, {"telegram": chat}, owners=[chat.person]) as home:
            async with running(home):
                await chat.say("go")
                await chat.until(lambda: chat.text().endswith("word119"), timeout=60)
                (shown,) = chat.shown()
    assert shown.text == words
    assert shown.edits >= 2
    assert chat.typings
    assert not chat.refused


async def test_strangers_get_nothing_and_a_code_makes_them_known() -> None:
    async with ScriptedServer([Say("Welcome.")]) as server, Fake() as chat:
        with home_for(server, {"telegram": chat}, owners=[chat.person]) as home:
            async with running(home) as it:
                for text in ("hello?", "/help", "ABCDEFGH"):
                    await chat.say(text, person=chat.stranger)
                people = PeopleAdmin(it.app.services.store, it.app.services.settings)
                code = await people.create_code(PersonRole.USER, platform="telegram")
                await chat.say(f"{code[:4]}-{code[4:].lower()}", person=chat.stranger)
                await chat.until(chat.shown)
                assert "known here now" in chat.text()
                await chat.say("and now?", person=chat.stranger)
                await chat.until(lambda: "Welcome." in chat.text())
    assert len(chat.shown()) == 2
    assert said(server, 0) == "and now?"


async def test_in_groups_it_must_be_addressed() -> None:
    async with ScriptedServer([Say("Yes?")]) as server, Fake() as chat:
        group = chat.chat_id("group1")
        with home_for(server, {"telegram": chat}, owners=[chat.person], groups=[group], observe=True) as home:
            async with running(home):
                await chat.say("just talking", chat="group1")
                await chat.say("and the stranger talks", chat="group1", person=chat.stranger, mention=True)
                await chat.say("what do you say?", chat="group1", mention=True)
                await chat.until(chat.shown)
    assert len(server.requests) == 1
    body = server.requests[0].last_user_text
    assert "what do you say?" in body
    assert re.search(r"<untrusted[^>]*>[^<]*just talking", body, re.DOTALL)
    assert "stranger talks" not in body


async def test_a_question_is_answered_by_its_button_also_after_a_restart() -> None:
    async with ScriptedServer([RESET, Say("It was not allowed.")]) as server, Fake() as chat:
        with home_for(server, {"telegram": chat}, owners=[chat.person]) as home:
            async with running(home):
                await chat.say("reset it")
                await chat.until(lambda: any(one.buttons for one in chat.shown()))
            question = next(one for one in chat.shown() if one.buttons)
            async with running(home):
                await chat.press(question.message_id, dict(question.buttons)["No"])
                await chat.until(lambda: "It was not allowed." in chat.text())
                await chat.until(lambda: "Not allowed" in chat.messages[question.message_id].text)
    assert sum("Allow" in one.text and "terminal" in one.text for one in chat.shown()) == 1
    assert not chat.messages[question.message_id].buttons


async def test_somebody_else_cannot_press_the_button() -> None:
    async with ScriptedServer([RESET, Say("done")]) as server, Fake() as chat:
        group, other = chat.chat_id("group1"), "1002"
        with home_for(server, {"telegram": chat}, owners=[chat.person], allow=[other], groups=[group]) as home:
            async with running(home):
                await chat.say("reset it", chat="group1", mention=True)
                await chat.until(lambda: any(one.buttons for one in chat.shown()))
                question = next(one for one in chat.shown() if one.buttons)
                await chat.press(question.message_id, dict(question.buttons)["Allow once"], person=other)
                await chat.until(lambda: "not yours to answer" in chat.text())
                await chat.press(question.message_id, dict(question.buttons)["No"])
                await chat.until(lambda: "done" in chat.text())
    assert "Not allowed" in chat.messages[question.message_id].text


async def test_what_is_allowed_for_always_is_asked_in_no_later_session() -> None:
    flush = Say(calls=(Call("terminal", {"command": "redis-cli FLUSHALL"}),))
    async with ScriptedServer([flush, Say("one"), flush, Say("two")]) as server, Fake() as chat:
        with home_for(server, {"telegram": chat}, owners=[chat.person]) as home:
            async with running(home):
                await chat.say("flush it")
                await chat.until(lambda: any(one.buttons for one in chat.shown()))
                question = next(one for one in chat.shown() if one.buttons)
                await chat.press(question.message_id, dict(question.buttons)["Allow always"])
                await chat.until(lambda: "one" in chat.text())
                await chat.say("/new")
                await chat.say("flush it again")
                await chat.until(lambda: "two" in chat.text() or any(one.buttons for one in chat.shown()))
                assert "two" in chat.text()


async def test_words_behind_a_fresh_session_go_there() -> None:
    async with ScriptedServer([Say("one"), Say("two")]) as server, Fake() as chat:
        with home_for(server, {"telegram": chat}, owners=[chat.person]) as home:
            async with running(home):
                await chat.say("first")
                await chat.until(lambda: "one" in chat.text())
                await chat.say("/new")
                await chat.say("second")
                await chat.until(lambda: "two" in chat.text())
    assert len(server.requests[1].messages) == len(server.requests[0].messages), [one.text for one in chat.shown()]


async def test_stop_stops_at_once() -> None:
    async with ScriptedServer([Say("never", delivery=ReplyDelivery(delay=600))]) as server, Fake() as chat:
        with home_for(server, {"telegram": chat}, owners=[chat.person]) as home:
            async with running(home):
                await chat.say("think")
                request = await server.wait_for(1)
                await chat.say("/stop")
                await server.wait_closed(request, timeout=60)
                await chat.until(lambda: "Stopped" in chat.text())


async def test_a_stop_keeps_what_was_written_and_says_so_below() -> None:
    words = "The lighthouse stands on a rock in the sea, and its lamp turns all night. " * 2
    hanging = Say(words + "Its keeper", delivery=ReplyDelivery(ending=Ending.HANG, at=12))
    async with ScriptedServer([hanging]) as server, Fake() as chat:
        with home_for(server, {"telegram": chat}, owners=[chat.person]) as home:
            async with running(home):
                await chat.say("tell me")
                await chat.until(lambda: "The lighthouse" in chat.text())
                shown = next(one for one in chat.shown() if "The lighthouse" in one.text)
                half = shown.text.removesuffix(CURSOR).strip()
                await chat.say("/stop")
                await chat.until(lambda: "(Stopped.)" in chat.text())
                ended = chat.messages[shown.message_id].text
    assert len(half) > 24 and ended.startswith(half) and ended.endswith("\n\n(Stopped.)")


async def test_many_chats_side_by_side_each_in_order() -> None:
    def answer(request: RecordedRequest) -> Reply:
        told = re.findall(r"m\d of \d+", request.last_user_text)
        return Say("; ".join(told), delivery=ReplyDelivery(delay=0.05))

    async with ScriptedServer(ScriptedModel(answer)) as server, Fake() as chat:
        people = [str(2000 + number) for number in range(20)]
        with home_for(server, {"telegram": chat}, allow=people, busy="queue", batch_seconds=0) as home:
            async with running(home):
                for number in range(4):
                    for person in people:
                        await chat.say(f"m{number} of {person}", person=person)
                await chat.until(lambda: len(re.findall(r"m\d of", chat.text())) >= 80, timeout=60)
        for person in people:
            assert re.findall(rf"(m\d) of {person}", chat.text()) == ["m0", "m1", "m2", "m3"]


async def test_a_file_that_was_sent_can_be_read(tmp_path: Path) -> None:
    notes = tmp_path / "notes.txt"
    notes.write_text("the balcony needs water")
    found: list[str] = []

    def answer(request: RecordedRequest) -> Reply:
        if request.messages[-1]["role"] == "tool":
            found.append(str(request.messages[-1]["content"]))
            return Say("read")
        path = re.search(r"saved as (\S+?)\.?\]", request.last_user_text)
        assert path is not None, request.last_user_text
        return Say(calls=(Call("read_file", {"path": path[1]}),))

    async with ScriptedServer(ScriptedModel(answer)) as server, Fake() as chat:
        with home_for(server, {"telegram": chat}, owners=[chat.person]) as home:
            async with running(home):
                await chat.say("what does it say?", files=[notes])
                await chat.until(lambda: "read" in chat.text())
    assert "the balcony needs water" in found[0]


async def test_what_cannot_be_seen_is_shown_in_a_question_and_a_step() -> None:
    ask = Call("clarify", {"question": "Delete\u200b it\u2062?", "choices": ["ye\u2060s", "no"]})
    async with ScriptedServer([Say(calls=(ask,)), Say("Kept.")]) as server, Fake() as chat:
        with home_for(server, {"telegram": chat}, owners=[chat.person]) as home:
            async with running(home):
                await chat.say("go")
                await chat.until(lambda: "2. no" in chat.text(), timeout=60)
                (shown,) = [one.text for one in chat.shown() if "2. no" in one.text]
                await chat.say("1")
                await chat.until(lambda: "Kept." in chat.text(), timeout=60)
    assert "Delete\\u{200b} it\\u{2062}?" in shown and "1. ye\\u{2060}s" in shown
    assert not set("\u200b\u2060\u2062") & set(shown)
    assert "ye\u2060s" in next(iter(server.requests[1].results.values()))
