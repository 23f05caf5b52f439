"""A program that uses `hermes serve` through `hermes.client`, each against a real process."""

import asyncio
import json
from contextlib import aclosing
from pathlib import Path

import aiohttp
import pytest

from hermes.client import HermesClient
from hermes.client.errors import KeyRejectedError, ObjectNotFoundError, ServerAnswerError, StateConflictError
from hermes.client.objects import EVENT_SCHEMA_VERSION, RunEvent
from hermes.core.errors import TransportError
from hermes.testing.home import TempHome
from hermes.testing.script import Call, Fail, ReplyDelivery, Say
from hermes.testing.server import ScriptedServer
from tests.client.door_rig import CuttingProxy, listen, open_door, serve_home
from tests.forked_hermes import run_hermes
from tests.gateway.gateway_rig import home_for, running
from tests.gateway.platforms.api_server_rig import free_port, fresh_key
from tests.gateway.served_gateway import served
from tests.vendors.telegram import Fake

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


def text_of(events: list[RunEvent]) -> str:
    return "".join(str(one.data["text"]) for one in events if one.type == "run.text_delta")


async def test_a_run_to_its_end() -> None:
    async with open_door([Say("The result.", chunk=4, delivery=ReplyDelivery(pace=0.02))]) as it:
        assert it.address["event_schema"] == EVENT_SCHEMA_VERSION
        run = await it.client.begin_run("work", session_id="s", idempotency_key="once")
        assert (await it.client.begin_run("work", session_id="s", idempotency_key="once")).id == run.id
        with pytest.raises(StateConflictError) as conflict:
            await it.client.begin_run("else", session_id="s", idempotency_key="once")
        assert conflict.value.status == 409
        events = [event async for event in it.client.follow_run(run.id)]
        assert text_of(events) == "The result."
        assert {event.version for event in events} == {1} and {event.run_id for event in events} == {run.id}
        assert events[-1].type == "run.ended" and events[-1].data["output"] == "The result."
        ended = await it.client.wait_run(run.id)
        assert (ended.status, ended.output, ended.session_id) == ("completed", "The result.", "s")
        assert ended.usage is not None and ended.usage.total_tokens > 0


async def test_a_cut_connection_is_opened_again_behind_the_last_event() -> None:
    async with open_door([Say("one two three four five six", chunk=3, delivery=ReplyDelivery(pace=0.1))]) as it:
        proxy = CuttingProxy(int(it.url.rpartition(":")[2]))
        async with listen(proxy.serve) as url, HermesClient(url, it.key) as client:
            run = await client.begin_run("work")
            events: list[RunEvent] = []
            async for event in client.follow_run(run.id):
                events.append(event)
                if len(events) in (1, 3):
                    proxy.cut()
        assert text_of(events) == "one two three four five six"
        assert len({event.id for event in events}) == len(events)
        asked = [head.decode() for head in proxy.heads if b"/events" in head]
        assert len(asked) == 3 and f"last-event-id: {events[0].id}".lower() in asked[1].lower()


async def test_a_question_is_answered() -> None:
    call = Call("terminal", {"command": "rm -rf ../../work/build"})
    async with open_door([Say(calls=(call,)), Say("done")]) as it:
        build = it.home.cwd / "build"
        build.mkdir()
        run = await it.client.begin_run("clean")
        kinds = []
        async for event in it.client.follow_run(run.id):
            kinds.append(event.type)
            if event.type == "run.approval_asked":
                waiting = await it.client.get_run(run.id)
                assert waiting.status == "waiting_for_approval" and waiting.approvals[0].tool == "terminal"
                approval = str(event.data["approval_id"])
                await it.client.answer_approval(run.id, approval, "once")
                with pytest.raises(StateConflictError) as told:
                    await it.client.answer_approval(run.id, approval, "once")
                assert told.value.code == "not_pending"
        assert {"run.approval_answered", "run.tool_started", "run.tool_ended"} < set(kinds)
        assert not build.exists()


async def test_a_run_is_stopped() -> None:
    async with open_door([Say("word " * 200, chunk=5, delivery=ReplyDelivery(pace=0.1))]) as it:
        run = await it.client.begin_run("work")
        async for event in it.client.follow_run(run.id):
            if event.type == "run.text_delta":
                await it.client.stop_run(run.id)
        assert (await it.client.wait_run(run.id)).status == "stopped"


async def test_sessions_are_looked_after() -> None:
    async with open_door([Say("one"), Say("two")]) as it:
        client = it.client
        assert (await client.send_message("a/b", "first")).text == "one"
        assert (await client.send_message("c", "second")).text == "two"
        assert {one.id async for one in client.list_sessions(page_size=1)} == {"a/b", "c"}
        assert (await client.rename_session("a/b", "A title")).title == "A title"
        page = await client.list_messages("a/b", limit=1)
        assert page.has_more and page.data[0]["content"] == "first"
        assert (await client.fork_session("a/b", turns=1, new_id="f")).id == "f"
        await client.delete_session("a/b")
        with pytest.raises(ObjectNotFoundError):
            await client.get_session("a/b")
        assert (await client.get_session("f")).message_count == 2


async def test_an_answer_in_a_session_is_streamed() -> None:
    call = Call("read_file", {"path": "a.txt"})
    replies = [Say(calls=(call,)), Say("one two three", chunk=4, delivery=ReplyDelivery(pace=0.02)), Say("word " * 200)]
    async with open_door(replies) as it:
        (it.home.cwd / "a.txt").write_text("text\n")
        made = await it.client.create_session("s")
        assert (made.id, made.message_count) == ("s", 0)
        assert (await it.client.create_session()).id not in ("", "s")
        events = [event async for event in it.client.stream_message("s", "read it")]
        kinds = [event.type for event in events]
        assert set(kinds) == {"tool_started", "tool_ended", "text_delta", "turn_ended"} and kinds[-1] == "turn_ended"
        assert "".join(str(one.data["text"]) for one in events if one.type == "text_delta") == "one two three"
        assert events[-1].data["text"] == "one two three"
        assert (await it.client.get_session("s")).message_count == 4
        with pytest.raises(ServerAnswerError):
            await anext(it.client.stream_message("s", "x", model="nobody's"))


async def test_whoever_leaves_a_streamed_answer_stops_the_turn() -> None:
    async with open_door([Say("word " * 400, chunk=5, delivery=ReplyDelivery(pace=0.05)), Say("after")]) as it:
        async with aclosing(it.client.stream_message("s", "go")) as events:
            async for event in events:
                if event.type == "text_delta":
                    break
        async with asyncio.timeout(20):
            assert (await it.client.send_message("s", "and now?")).text == "after"


async def test_a_turn_that_fails_and_a_stream_that_breaks_off_are_errors() -> None:
    async with open_door([Fail(400, message="no such thing")]) as it:
        with pytest.raises(ServerAnswerError, match="no such thing"):
            async for _ in it.client.stream_message("s", "go"):
                pass
    async with open_door([Say("word " * 400, chunk=5, delivery=ReplyDelivery(pace=0.05))]) as it:
        proxy = CuttingProxy(int(it.url.rpartition(":")[2]))
        async with listen(proxy.serve) as url, HermesClient(url, it.key) as client:
            with pytest.raises(TransportError):
                async for event in client.stream_message("s", "go"):
                    if event.type == "text_delta":
                        proxy.cut()


async def test_what_is_refused_has_a_name() -> None:
    async with open_door([]) as it:
        async with HermesClient(it.url, fresh_key()) as stranger:
            with pytest.raises(KeyRejectedError) as rejected:
                await stranger.get_run("run_1")
            assert (rejected.value.status, rejected.value.code) == (401, "invalid_api_key")
        with pytest.raises(ObjectNotFoundError) as missing:
            await it.client.get_run("run_nobody")
        assert (missing.value.status, missing.value.code) == (404, "run_not_found")
        with pytest.raises(ObjectNotFoundError):
            await anext(it.client.follow_run("run_nobody"))
        with pytest.raises(ServerAnswerError) as wrong:
            await it.client.begin_run([5])
        assert wrong.value.status == 400


async def test_the_document_is_served_to_any_key_and_printed() -> None:
    recorded = json.loads((ROOT / "docs" / "openapi.json").read_bytes())
    async with open_door([]) as it, aiohttp.ClientSession() as http:
        async with http.get(str(it.address["openapi"])) as answer:
            assert answer.status == 401
        async with http.get(str(it.address["openapi"]), headers={"Authorization": f"Bearer {it.key}"}) as answer:
            assert await answer.json() == recorded
        printed = await run_hermes(it.home, "serve", "--openapi")
        assert json.loads(printed.stdout) == recorded


async def test_chats_stay_closed_and_configured_keys_hold() -> None:
    key = fresh_key()
    accounts = {"api_server": {"keys": [{"name": "ci", "key": key}]}, "telegram": {"token": f"1:{fresh_key()}"}}
    async with ScriptedServer([]) as model:
        with TempHome.for_server(model.url, more_config={"platforms": accounts}) as home:
            async with serve_home(home) as address:
                assert address["key"] is None
                async with HermesClient(str(address["url"]), key) as client:
                    assert [one async for one in client.list_sessions()] == []
                status = await run_hermes(home, "gateway", "status", "--json")
                assert list(json.loads(status.stdout)["accounts"]) == ["api_server"]


async def test_it_does_not_begin_beside_a_gateway_or_without_a_key_for_others() -> None:
    with TempHome.for_server("http://127.0.0.1:9") as home:
        open_to_all = await run_hermes(home, "serve", "--host", "0.0.0.0", "--port", "0")
        assert open_to_all.code == 78 and "needs a key" in open_to_all.stderr and open_to_all.stdout == ""
        assert (await run_hermes(home, "serve", "--port", "65536")).code == 2
        home.write_config({**(home.config or {}), "platforms": {"api_server": {"key": fresh_key(), "port": 0}}})
        async with served(home) as gateway:
            beside = await run_hermes(home, "serve", "--port", "0")
            assert beside.code == 75 and f"pid {gateway.pid}" in beside.stderr and beside.stdout == ""
            assert len(beside.stderr.splitlines()) == 1


async def test_cancelling_closes_the_connection_and_the_run_goes_on() -> None:
    async with open_door([Say("word " * 10, chunk=5, delivery=ReplyDelivery(pace=0.05))]) as it:
        proxy = CuttingProxy(int(it.url.rpartition(":")[2]))
        async with listen(proxy.serve) as url, HermesClient(url, it.key) as client:
            run = await client.begin_run("work")
            waiting = asyncio.create_task(client.wait_run(run.id))
            async for event in it.client.follow_run(run.id):
                if event.type == "run.text_delta":
                    waiting.cancel()
            assert (await asyncio.wait({waiting}, timeout=10))[0] and waiting.cancelled()
        assert (await it.client.wait_run(run.id)).status == "completed"


async def test_what_a_job_says_to_a_chat_waits_for_the_gateway() -> None:
    async with ScriptedServer([Say("Hello."), Say("The report.")]) as model, Fake() as fake:
        with home_for(model, {"telegram": fake}, allow=[fake.person]) as home:
            async with running(home):
                await fake.say("hi")
                await fake.until(lambda: "Hello." in fake.text())
            words = ("cron", "add", "@yearly", "report", "--name", "hi", "--deliver", f"telegram:{fake.person}")
            made = await run_hermes(home, *words)
            assert made.code == 0, made.stderr
            async with serve_home(home) as address, aiohttp.ClientSession() as http:
                headers = {"Authorization": f"Bearer {address['key']}"}
                async with http.post(f"{address['url']}/api/jobs/hi/run", headers=headers) as answer:
                    assert answer.status == 202
                history = f"{address['url']}/api/jobs/hi/history"
                async with asyncio.timeout(60):
                    while (rows := await list_history(http, history, headers)) == []:  # noqa: ASYNC110 - another process
                        await asyncio.sleep(0.05)
                assert "The report." not in fake.text(), rows
            async with running(home):
                await fake.until(lambda: "The report." in fake.text())


async def list_history(http: aiohttp.ClientSession, url: str, headers: dict[str, str]) -> list[object]:
    """The outcomes of a job whose output has been passed on."""
    async with http.get(url, headers=headers) as answer:
        rows = (await answer.json())["data"]
    return [one for one in rows if one["ended_at"] is not None and one["delivery"] == "delivered"]


async def test_a_run_that_is_killed_with_its_server_is_told_once() -> None:
    """The text of a call that died with the process is told again by the next one, which says what stands before it."""
    words = "".join(f"w{number} " for number in range(60)).strip()
    first = Say("First.", calls=(Call("terminal", {"command": "true"}),))
    pace = ReplyDelivery(pace=0.05)
    replies = [first, Say(words, chunk=4, delivery=pace), Say(words, chunk=40)]
    port, key = free_port(), fresh_key()
    async with ScriptedServer(replies) as model:
        more = {"platforms": {"api_server": {"key": key}}}
        with TempHome.for_server(model.url, more_config=more) as home:
            async with HermesClient(f"http://127.0.0.1:{port}", key, seconds=20) as client:
                async with serve_home(home, "--port", str(port)):
                    run = await client.begin_run("work")
                    following = client.follow_run(run.id)
                    told = ""
                    async for event in following:
                        told += str(event.data["text"]) if event.type == "run.text_delta" else ""
                        if "w9" in told:
                            break
                async with serve_home(home, "--port", str(port)):
                    async for event in following:
                        if event.type == "run.resumed":
                            assert event.data["text"] == "First.\n\n"
                            told = ""
                        told += str(event.data["text"]) if event.type in ("run.text_delta", "run.resumed") else ""
        assert told == f"First.\n\n{words}" and event.type == "run.ended" and event.data["output"] == words
