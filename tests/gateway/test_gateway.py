"""The gateway as a whole, in one process, with fakes that speak a platform's own wire."""

import re
import time

import pytest

from hermes.admin.cron import CronAdmin, open_cron_admin
from hermes.gateway.router import ROWS_AT_ONCE
from hermes.testing.clock import ManualClock
from hermes.testing.fake_platform import Failing
from hermes.testing.script import Call, Fail, ReplyDelivery, Say, ScriptedModel
from hermes.testing.server import ScriptedServer
from tests.forked_hermes import run_hermes
from tests.gateway.gateway_rig import home_for, running, said
from tests.vendors.ntfy import Fake
from tests.vendors.telegram import Fake as Telegram

pytestmark = pytest.mark.slow


async def test_a_message_is_answered() -> None:
    async with ScriptedServer([Say("Hello back.")]) as server, Fake() as chat:
        with home_for(server, {"ntfy": chat}) as home:
            async with running(home):
                await chat.say("hello")
                await chat.until(lambda: chat.text() == "Hello back.")
        assert said(server, 0) == "hello"
        assert not chat.refused


async def test_a_key_in_a_message_or_in_its_quote_is_written_nowhere() -> None:
    key = "Zq7Rv2Lm9Tx4Bn8Kd3Wf6Hs1"
    async with ScriptedServer([Say("One."), Say("Two.")]) as server, Telegram() as chat:
        with home_for(server, {"telegram": chat}, owners=[chat.person]) as home:
            (home.hermes / ".env").write_text(f"DEPLOY_API_KEY={key}\n")
            async with running(home) as on:
                first = await chat.say(f"Try {key}, please.")
                await chat.until(lambda: "One." in chat.text())
                await chat.say("Did that work?", reply_to=first)
                await chat.until(lambda: "Two." in chat.text())
                await on.gateway.outbox.wait_until_idle(30)
                written = [one for one in home.hermes.rglob("*") if one.is_file() and one.name != ".env"]
                assert [one.name for one in written if key.encode() in one.read_bytes()] == []
            assert not any(key.encode() in request.body for request in server.requests)
        assert said(server, 1).count("[secret:DEPLOY_API_KEY]") == 1


async def test_pieces_become_one_turn() -> None:
    async with ScriptedServer([Say("One answer.")]) as server, Fake() as chat:
        with home_for(server, {"ntfy": chat}, batch_seconds=2) as home:
            async with running(home):
                for piece in ("first", "second", "third"):
                    await chat.say(piece)
                await chat.until(chat.shown)
        assert len(server.requests) == 1
        assert said(server, 0) == "first\nsecond\nthird"


async def test_more_messages_than_are_read_at_once_are_all_answered_in_order() -> None:
    texts = [f"Message {number}." for number in range(ROWS_AT_ONCE + 6)]
    async with ScriptedServer(ScriptedModel([], then=Say("Seen."))) as server, Fake() as chat:
        with home_for(server, {"ntfy": chat}, batch_seconds=1) as home:
            async with running(home):
                for text in texts:
                    await chat.say(text)
                await chat.until(lambda: texts[-1] in str(server.requests and server.requests[-1].body))
                await chat.until(lambda: "Seen." in chat.text())
        heard = server.requests[-1].body.decode()
        places = [heard.find(text) for text in texts]
        assert -1 not in places and places == sorted(places)
        assert all(heard.count(text) == 1 for text in texts)


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
    assert len(server.requests[0].body) <= 12_000 and b"- cronjob: " in server.requests[0].body


async def test_a_lost_answer_is_not_sent_twice_where_the_platform_can_tell() -> None:
    async with ScriptedServer([Say("Hello back.")]) as server, Fake() as chat:
        chat.failing.append(Failing(drop=True, after=True))
        with home_for(server, {"ntfy": chat}) as home:
            async with running(home) as it:
                await chat.say("hello")
                await chat.until(chat.shown)
                await it.gateway.outbox.wait_until_idle(60)
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
                await chat.until(lambda: "/version" in chat.text())  # in pieces: ntfy takes 4,096 bytes
                assert "/new" in chat.text()
                told = len(chat.shown())
                await chat.say("/new")
                await chat.until(lambda: len(chat.shown()) == told + 1)
                assert "new session" in chat.text()
                await chat.say("hello")
                await chat.until(lambda: len(chat.shown()) == told + 2)
        assert len(server.requests) == 1


async def test_a_fresh_session_is_not_held_up_by_a_menu_of_the_one_before() -> None:
    async with ScriptedServer([Say("Hello.")]) as server, Fake() as chat:
        with home_for(server, {"ntfy": chat}) as home:
            async with running(home):
                await chat.say("/model")
                await chat.until(lambda: "Which model?" in chat.text())
                await chat.say("/new")
                await chat.until(lambda: "A new session" in chat.text())
                await chat.say("hello")
                await chat.until(lambda: chat.text().endswith("Hello."))


async def test_a_question_is_answered_by_text() -> None:
    script = [Say(calls=(Call("terminal", {"command": "git push --force"}),)), Say("done")]
    async with ScriptedServer(script) as server, Fake() as chat:
        with home_for(server, {"ntfy": chat}) as home:
            async with running(home):
                await chat.say("reset it")
                await chat.until(lambda: "/approve" in chat.text())
                await chat.say("/deny")
                await chat.until(lambda: "done" in chat.text())
        assert "refused" in server.requests[1].body.decode() or "not allowed" in server.requests[1].body.decode()


async def test_a_turn_without_a_sign_of_life_is_stopped() -> None:
    script = [Say("never", delivery=ReplyDelivery(delay=30)), Say("here again")]
    async with ScriptedServer(script) as server, Fake() as chat:
        with home_for(server, {"ntfy": chat}, {"gateway": {"turn_timeout": 0.3}}) as home:
            async with running(home):
                await chat.say("hello")
                await chat.until(lambda: "Nothing happened" in chat.text() and "Stopped" in chat.text())
                await chat.say("again")
                await chat.until(lambda: "here again" in chat.text())


async def test_a_model_that_fails_for_a_while_is_named_once() -> None:
    busy = Fail(503, message="It is busy", headers={"retry-after": "0"})
    async with ScriptedServer([busy, busy, busy, Say("here"), busy, Say("at once")]) as server, Fake() as chat:
        with home_for(server, {"ntfy": chat}, {"agent": {"api_retry_minutes": 0.02}}) as home:
            async with running(home):
                await chat.say("hi")
                await chat.until(lambda: "here" in chat.text())
                assert chat.text().count("It is busy") == chat.text().count("/stop ends it") == 1
                await chat.say("again")
                await chat.until(lambda: "at once" in chat.text())
                assert chat.text().count("It is busy") == 1


async def test_another_message_interrupts_where_that_is_wanted() -> None:
    script = [Say("never", delivery=ReplyDelivery(delay=30)), Say("the second")]
    async with ScriptedServer(script) as server, Fake() as chat:
        with home_for(server, {"ntfy": chat}, busy="interrupt") as home:
            async with running(home):
                await chat.say("one")
                await server.wait_for(1)
                await chat.say("two")
                await chat.until(lambda: "the second" in chat.text())
    texts = [one.text for one in chat.shown()]
    assert "Stopped" in texts[0]
    assert texts[1] == "the second"


async def test_a_chat_begins_anew_after_a_pause() -> None:
    async with ScriptedServer([Say("one"), Say("two")]) as server, Fake() as chat:
        clock = ManualClock(time.time())
        with home_for(server, {"ntfy": chat}, {"gateway": {"session_reset": {"mode": "idle"}}}) as home:
            async with running(home, clock):
                await chat.say("hello")
                await chat.until(chat.shown)
                clock.set_now(clock.now() + 1441 * 60)
                await chat.say("hello again")
                await chat.until(lambda: len(chat.shown()) == 2)
    assert len(server.requests[1].messages) == len(server.requests[0].messages)


async def test_a_long_answer_comes_in_pieces_in_order() -> None:
    text = "\n\n".join(f"Paragraph {number}: " + "word " * 60 for number in range(60))
    async with ScriptedServer([Say(text, chunk=2000)]) as server, Fake() as chat:
        with home_for(server, {"ntfy": chat}) as home:
            async with running(home):
                await chat.say("tell me all")
                await chat.until(lambda: "Paragraph 59" in chat.text())
    assert len(chat.shown()) > 4
    assert [f"Paragraph {n}:" for n in range(60)] == re.findall(r"Paragraph \d+:", chat.text())
    assert not chat.refused


async def test_a_command_in_the_middle_of_an_answer_does_not_repeat_its_beginning() -> None:
    text = "Alpha is what the answer begins with, and it is long.\n\nOmega is what it ends with."
    slow = Say(text, chunk=30, delivery=ReplyDelivery(hold_at=4))
    async with ScriptedServer([slow]) as server, Telegram() as chat:
        with home_for(server, {"telegram": chat}, owners=[chat.person]) as home:
            async with running(home):
                await chat.say("tell me")
                await chat.until(lambda: "Alpha" in chat.text())
                await chat.say("/status")
                await chat.until(lambda: "Tokens used" in chat.text())
                server.release()
                await chat.until(lambda: chat.text().endswith("with."))
    assert chat.text().count("Alpha") == 1
    assert chat.text().count("Omega") == 1


async def test_a_file_in_an_answer_is_sent_and_a_key_is_not() -> None:
    async with ScriptedServer([]) as server, Fake() as chat:
        with home_for(server, {"ntfy": chat}) as home:
            server.model = ScriptedModel([Say(f"Here. MEDIA:{home.hermes}/workspace/a.txt\nMEDIA:/etc/passwd")])
            async with running(home):
                (home.hermes / "workspace" / "a.txt").write_text("the file")
                await chat.say("send it")
                await chat.until(lambda: any(one.files for one in chat.shown()))
    files = [file for one in chat.shown() for file in one.files]
    assert [one.content for one in files] == [b"the file"]
    assert "passwd" in chat.text() and "root:" not in chat.text()


async def test_the_output_of_a_job_that_another_process_ran_is_delivered_at_once() -> None:
    """The gateway's clock stands still: it would never look by itself."""
    async with ScriptedServer([Say("It is time.")]) as server, Fake() as chat:
        with home_for(server, {"ntfy": chat}) as home:
            async with open_cron_admin(home.environ) as cron:
                wish = CronAdmin.build_wish(name="tea", schedule="@yearly", prompt="say it", deliver=("ntfy:a-topic",))
                await cron.add_job(wish)
            async with running(home, ManualClock(time.time())):
                done = await run_hermes(home, "cron", "run", "tea")
                assert done.code == 0 and "The gateway delivers it now." in done.stderr, done
                await chat.until(lambda: "It is time." in chat.text())


async def test_a_job_that_is_due_says_its_words_in_the_chat() -> None:
    async with ScriptedServer([Say("It is time.")]) as server, Fake() as chat:
        with home_for(server, {"ntfy": chat}) as home:
            async with open_cron_admin(home.environ) as cron:
                await cron.add_job(
                    CronAdmin.build_wish(name="tea", schedule="1s", prompt="say it", deliver=("ntfy:a-topic",))
                )
            async with running(home):
                await chat.until(lambda: "It is time." in chat.text())
