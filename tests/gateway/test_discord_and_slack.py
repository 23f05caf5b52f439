"""The gateway as a whole on Discord and Slack."""

import importlib

import pytest

from hermes.testing.fake_platform import Failing, FakeChat
from hermes.testing.script import Call, Say
from hermes.testing.server import ScriptedServer
from tests.gateway.gateway_rig import home_for, running, said
from tests.vendors.slack import Fake as Slack

pytestmark = pytest.mark.slow


@pytest.fixture(params=["discord", "slack"])
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def fake_of(name: str) -> FakeChat:
    made = importlib.import_module(f"tests.vendors.{name}").Fake()
    assert isinstance(made, FakeChat)
    return made


async def test_a_message_is_answered_in_its_thread(name: str) -> None:
    async with ScriptedServer([Say("Hello **back**."), Say("In the thread.")]) as server, fake_of(name) as chat:
        with home_for(server, {name: chat}, owners=[chat.person], groups=["*"]) as home:
            async with running(home):
                await chat.say("hello")
                await chat.until(lambda: "back" in chat.text())
                await chat.say("not for you", chat="group1", thread=chat.topic)
                await chat.say("and here?", chat="group1", thread=chat.topic, mention=True)
                await chat.until(lambda: chat.text("group1", chat.topic) == "In the thread.")
                await chat.say("let me in", person=chat.stranger)
        assert len(server.requests) == 2
        assert not chat.refused


async def test_what_was_said_while_it_was_away_is_answered_once(name: str) -> None:
    async with ScriptedServer([Say("one"), Say("two"), Say("three")]) as server, fake_of(name) as chat:
        with home_for(server, {name: chat}, owners=[chat.person]) as home:
            async with running(home):
                await chat.say("hello")
                await chat.until(lambda: chat.text() == "one")
            await chat.say("are you there?")
            if isinstance(chat, Slack):
                chat.forget()  # a new session on Discord is waited for, by its rules
            async with running(home):
                await chat.until(lambda: chat.text() == "one\ntwo")
                await chat.say("good")
                await chat.until(lambda: chat.text() == "one\ntwo\nthree")
        assert [said(server, number) for number in range(3)] == ["hello", "are you there?", "good"]
        assert not chat.refused


async def test_a_lost_answer_is_not_sent_twice(name: str) -> None:
    async with ScriptedServer([Say("Hello back.")]) as server, fake_of(name) as chat:
        chat.failing.append(Failing(drop=True, after=True))
        with home_for(server, {name: chat}, owners=[chat.person]) as home:
            async with running(home) as it:
                await chat.say("hello")
                await chat.until(chat.shown)
                await it.gateway.outbox.wait_until_idle(60)
        assert chat.text() == "Hello back."


async def test_a_long_answer_is_cut_as_the_platform_takes_it(name: str) -> None:
    text = "\n\n".join(f"Paragraph {number} with **bold** & <signs> and `code`. " * 8 for number in range(40))
    async with ScriptedServer([Say(text)]) as server, fake_of(name) as chat:
        with home_for(server, {name: chat}, owners=[chat.person]) as home:
            async with running(home):
                await chat.say("tell me")
                await chat.until(lambda: "Paragraph 39" in chat.text())
        assert len(chat.shown()) > 3
        assert not chat.refused


async def test_a_question_is_answered_by_a_button(name: str) -> None:
    script = [Say(calls=(Call("terminal", {"command": "git push --force"}),)), Say("done")]
    async with ScriptedServer(script) as server, fake_of(name) as chat:
        with home_for(server, {name: chat}, owners=[chat.person], groups=["*"]) as home:
            async with running(home):
                await chat.say("reset it", chat="group1", mention=True)
                await chat.until(lambda: any(one.buttons for one in chat.shown("group1")))
                asked = next(one for one in chat.shown("group1") if one.buttons)
                await chat.press(asked.message_id, asked.buttons[0][1], person=chat.stranger)
                await chat.press(asked.message_id, asked.buttons[-1][1])
                await chat.until(lambda: "done" in chat.text("group1"))
        told = server.requests[1].body.decode()
        assert "refused" in told or "not allowed" in told
        assert not chat.messages[asked.message_id].buttons
        assert not chat.refused
