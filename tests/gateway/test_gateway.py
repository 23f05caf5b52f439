"""The gateway as a whole, in one process, with fakes that speak a platform's own wire."""

from hermes.testing.chats.fake import Failing
from hermes.testing.chats.ntfy import Fake
from hermes.testing.script import Call, Say
from hermes.testing.server import ScriptedServer
from tests.gateway.running import home_for, running, said


async def test_a_message_is_answered() -> None:
    async with ScriptedServer([Say("Hello back.")]) as server, Fake() as chat:
        with home_for(server, {"ntfy": chat}) as home:
            async with running(home):
                await chat.say("hello")
                await chat.until(lambda: chat.text() == "Hello back.")
        assert said(server, 0) == "hello"
        assert not chat.refused


async def test_pieces_become_one_turn() -> None:
    async with ScriptedServer([Say("One answer.")]) as server, Fake() as chat:
        with home_for(server, {"ntfy": chat}, batch_seconds=0.3) as home:
            async with running(home):
                for piece in ("first", "second", "third"):
                    await chat.say(piece)
                await chat.until(chat.shown)
        assert len(server.requests) == 1
        assert said(server, 0) == "first\nsecond\nthird"


async def test_what_is_delivered_twice_is_answered_once() -> None:
    async with ScriptedServer([Say("one"), Say("two")]) as server, Fake() as chat:
        with home_for(server, {"ntfy": chat}) as home:
            async with running(home):
                message = await chat.say("hello")
                await chat.until(chat.shown)
                await chat.again(message)
                await chat.say("next")
                await chat.until(lambda: len(chat.shown()) == 2)
    assert [one.text for one in chat.shown()] == ["one", "two"]


async def test_what_was_said_while_it_was_away_is_answered() -> None:
    async with ScriptedServer([Say("one"), Say("two")]) as server, Fake() as chat:
        with home_for(server, {"ntfy": chat}) as home:
            async with running(home):
                await chat.say("hello")
                await chat.until(chat.shown)
            await chat.say("are you there?")
            async with running(home):
                await chat.until(lambda: len(chat.shown()) == 2)
    assert said(server, 1) == "are you there?"
    assert len(server.requests[1].messages) > len(server.requests[0].messages)  # the same session went on


async def test_a_lost_answer_is_not_sent_twice_where_the_platform_can_tell() -> None:
    async with ScriptedServer([Say("Hello back.")]) as server, Fake() as chat:
        chat.failing.append(Failing(drop=True, after=True))
        with home_for(server, {"ntfy": chat}) as home:
            async with running(home) as it:
                await chat.say("hello")
                await chat.until(chat.shown)
                await it.gateway.outbox.settled(10)
    assert len(chat.shown()) == 1


async def test_a_limit_of_the_platform_is_waited_for() -> None:
    async with ScriptedServer([Say("Hello back.")]) as server, Fake() as chat:
        chat.failing.append(Failing(status=429, retry_after=1))
        with home_for(server, {"ntfy": chat}) as home:
            async with running(home):
                await chat.say("hello")
                await chat.until(chat.shown)
    assert chat.text() == "Hello back."


async def test_commands_are_answered_without_the_model() -> None:
    async with ScriptedServer([Say("first")]) as server, Fake() as chat:
        with home_for(server, {"ntfy": chat}) as home:
            async with running(home):
                await chat.say("/help")
                await chat.until(chat.shown)
                assert "/new" in chat.text()
                await chat.say("/new")
                await chat.until(lambda: len(chat.shown()) == 2)
                assert "new session" in chat.text()
                await chat.say("hello")
                await chat.until(lambda: len(chat.shown()) == 3)
        assert len(server.requests) == 1


async def test_a_question_is_answered_by_text() -> None:
    script = [Say(calls=(Call("terminal", {"command": "git reset --hard"}),)), Say("done")]
    async with ScriptedServer(script) as server, Fake() as chat:
        with home_for(server, {"ntfy": chat}) as home:
            async with running(home):
                await chat.say("reset it")
                await chat.until(lambda: "/approve" in chat.text())
                await chat.say("/deny")
                await chat.until(lambda: "done" in chat.text())
        assert "refused" in server.requests[1].body.decode() or "not allowed" in server.requests[1].body.decode()
