"""Every fault does what it says, seen by a plain HTTP client, and every early close is noticed."""

import asyncio
import ssl
import time
from collections.abc import Callable
from pathlib import Path

import httpx2
import pytest

from hermes.testing.answer_plan import plan_answer
from hermes.testing.http_connection import ClientConnection, send_answer
from hermes.testing.recorded import RecordedRequest
from hermes.testing.script import Call, Ending, Fail, Reply, ReplyDelivery, Say, ScriptedModel
from hermes.testing.server import ScriptedServer
from tests.certificates import certificate

Body = Callable[..., dict[str, object]]
IMPATIENT = httpx2.Timeout(60, read=0.2)
"""Gives up reading soon, and nothing else: a busy machine is slow to connect."""


def say(**how: object) -> Say:
    return Say("one two three four", chunk=4, delivery=ReplyDelivery(**how))


async def test_a_plain_reply_is_whole(http: httpx2.AsyncClient, chat: Body) -> None:
    async with ScriptedServer([say()]) as server:
        answer = await http.post(server.url + "/chat/completions", json=chat())
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert answer.content.endswith(b"data: [DONE]\n\n")
        [request] = server.requests
        await server.wait_until(lambda: request.answered_at is not None)
        assert request.closed_early_at is None


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/chat/completions"])
async def test_paths_work_with_and_without_v1(http: httpx2.AsyncClient, chat: Body, path: str) -> None:
    async with ScriptedServer([say()]) as server:
        answer = await http.post(server.url.removesuffix("/v1") + path, json=chat())
        assert answer.status_code == 200


async def test_connections_are_kept(http: httpx2.AsyncClient, chat: Body) -> None:
    async with ScriptedServer([say(), Fail(500), say(pace=0.001)]) as server:
        for _ in range(3):
            await http.post(server.url + "/chat/completions", json=chat())
        assert [request.connection_id for request in server.requests] == [1, 1, 1]


@pytest.mark.parametrize(
    ("how", "least", "most"),
    [
        ({"delay": 0.15}, 0.15, 0.15),
        ({"head_pace": 0.04}, 0.15, 0.3),
        ({"body_delay": 0.15}, 0.15, 0.15),
        ({"pace": 0.02}, 0.15, 0.3),
    ],
)
async def test_waits(http: httpx2.AsyncClient, chat: Body, how: dict[str, float], least: float, most: float) -> None:
    async with ScriptedServer([say(**how)]) as server:
        start = time.monotonic()
        answer = await http.post(server.url + "/chat/completions", json=chat())
        assert least <= time.monotonic() - start
    assert answer.content.endswith(b"[DONE]\n\n")
    connection = PauseRecorder(asyncio.get_running_loop(), lambda _: None)
    await send_answer(plan_answer(say(**how), server.requests[0]), connection, hold=asyncio.Event().wait)
    assert least <= round(sum(connection.pauses), 3) <= most


class PauseRecorder(ClientConnection):
    """Notes the waits that it is asked for instead of waiting, and sends nothing."""

    def __init__(self, *given: object) -> None:
        super().__init__(*given)  # type: ignore[arg-type]
        self.pauses: list[float] = []

    async def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)

    async def write(self, data: bytes) -> None:
        assert data


@pytest.mark.parametrize("ending", [Ending.CUT, Ending.RESET])
@pytest.mark.parametrize("how", [{"at": 3}, {"at": -2}, {"at_bytes": 100}, {"at": 2, "pace": 0.001}])
async def test_a_cut_body(http: httpx2.AsyncClient, chat: Body, ending: Ending, how: dict[str, int]) -> None:
    got = b""
    async with ScriptedServer([say(ending=ending, **how)]) as server:
        with pytest.raises(httpx2.TransportError):
            async with http.stream("POST", server.url + "/chat/completions", json=chat()) as response:
                async for part in response.aiter_raw():
                    got += part
    assert b"[DONE]" not in got
    if ending is Ending.CUT:
        assert (
            len(got) == 100
            if "at_bytes" in how
            else len([e for e in got.split(b"\n\n") if e]) == {3: 3, -2: 6, 2: 2}[how["at"]]
        )


async def test_a_body_that_stops_early_is_no_transport_error(http: httpx2.AsyncClient, chat: Body) -> None:
    async with ScriptedServer([say(ending=Ending.STOP, at=3)]) as server:
        answer = await http.post(server.url + "/chat/completions", json=chat())
    assert len([event for event in answer.content.split(b"\n\n") if event]) == 3


@pytest.mark.parametrize("streamed", [True, False])
async def test_no_head_at_all(http: httpx2.AsyncClient, chat: Body, streamed: bool) -> None:
    async with ScriptedServer([say(ending=Ending.CUT, head=False)]) as server:
        with pytest.raises(httpx2.RemoteProtocolError):
            await http.post(server.url + "/chat/completions", json=chat(stream=streamed))


@pytest.mark.parametrize("how", [{}, {"at": 2}, {"at": 2, "pace": 0.001}, {"head": False}])
async def test_a_hang_ends_when_the_client_closes(http: httpx2.AsyncClient, chat: Body, how: dict[str, int]) -> None:
    async with ScriptedServer([say(ending=Ending.HANG, **how)]) as server:
        with pytest.raises(httpx2.ReadTimeout):
            await http.post(server.url + "/chat/completions", json=chat(), timeout=IMPATIENT)
        await server.wait_closed(await server.wait_for(1))  # which would hang for ever


@pytest.mark.parametrize("how", [{"pace": 600.0}, {"delay": 600.0}, {"body_delay": 600.0}, {"hold_at": 2}])
async def test_closing_early_is_noticed_at_once(http: httpx2.AsyncClient, chat: Body, how: dict[str, float]) -> None:
    async def ask() -> None:
        async with http.stream("POST", server.url + "/chat/completions", json=chat()) as response:
            async for _ in response.aiter_raw():
                pass

    async with ScriptedServer([say(**how)]) as server:
        task = asyncio.create_task(ask())
        request = await server.wait_for(1)
        task.cancel()
        await server.wait_closed(request)  # not at the end of the wait
        assert request.answered_at is None
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_closing_ends_the_models_thinking(http: httpx2.AsyncClient, chat: Body) -> None:
    thinking = asyncio.Event()

    async def think(_: RecordedRequest) -> Reply:
        thinking.set()
        await asyncio.Event().wait()
        return Say("never")

    async with ScriptedServer(ScriptedModel(think)) as server:
        with pytest.raises(httpx2.ReadTimeout):
            await http.post(server.url + "/chat/completions", json=chat(), timeout=IMPATIENT)
        assert thinking.is_set()
        await server.wait_closed(server.requests[0])


async def test_a_reply_is_held_until_released(http: httpx2.AsyncClient, chat: Body) -> None:
    async with ScriptedServer([say(hold_at=2)]) as server:
        async with http.stream("POST", server.url + "/chat/completions", json=chat()) as response:
            parts = response.aiter_raw()
            got = await anext(parts)
            request = await server.wait_for(1)
            await server.wait_held(request)
            assert b"[DONE]" not in got
            server.release()
            rest = b"".join([part async for part in parts])
        assert rest.endswith(b"[DONE]\n\n") and not request.held


async def test_pieces_of_any_size(http: httpx2.AsyncClient, chat: Body) -> None:
    async with ScriptedServer([Say("héllo 你好 🙂"), Say("héllo 你好 🙂", delivery=ReplyDelivery(split=1))]) as server:
        bodies = []
        for _ in range(2):
            async with http.stream("POST", server.url + "/chat/completions", json=chat()) as response:
                bodies.append(b"".join([part async for part in response.aiter_raw()]))
        assert bodies[0] == bodies[1]
        assert len(bodies[0].split(b"\n\n")) > 3


async def test_garbage_wrong_type_and_broken_arguments(http: httpx2.AsyncClient, chat: Body) -> None:
    replies = [
        say(garbage=b"\xff\x00\n\n", garbage_at=2),
        say(content_type="text/html"),
        Say(calls=(Call("t", '{"a": '),), finish="length"),
        Say("\ud83d\ude42", chunk=1),
    ]
    async with ScriptedServer(replies) as server:
        answers = [await http.post(server.url + "/chat/completions", json=chat()) for _ in replies]
    assert answers[0].content.split(b"\n\n")[2] == b"\xff\x00"
    assert answers[1].headers["content-type"] == "text/html"
    assert b'"arguments":"{\\"a\\": "' in answers[2].content
    assert rb'"\ud83d"' in answers[3].content and rb'"\ude42"' in answers[3].content


async def test_call_ids_follow_from_the_request(http: httpx2.AsyncClient, chat: Body) -> None:
    async def ask(text: str) -> bytes:
        async with ScriptedServer([Say(calls=(Call("t"), Call("t")))]) as server:
            return (await http.post(server.url + "/chat/completions", json=chat(text))).content

    assert await ask("a") == await ask("a")
    assert await ask("a") != await ask("b")


async def test_bad_requests_are_refused_as_vendors_do(http: httpx2.AsyncClient, chat: Body) -> None:
    orphan = [{"role": "tool", "tool_call_id": "x", "content": "?"}]
    call = {"id": "x", "type": "function", "function": {"name": "t", "arguments": "{}"}}
    opened = [{"role": "assistant", "content": None, "tool_calls": [call]}, {"role": "user", "content": "and?"}]
    async with ScriptedServer([say()]) as server:
        for bad in (chat(messages=orphan), chat(messages=opened), chat(messages=[])):
            answer = await http.post(server.url + "/chat/completions", json=bad)
            assert answer.status_code == 400, bad
        claude = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
        refused = await http.post(server.url + "/messages", json=claude)
        assert refused.json()["error"] == {"type": "invalid_request_error", "message": "max_tokens: Field required"}
        output = [{"type": "function_call_output", "call_id": "x", "output": "?"}]
        assert (await http.post(server.url + "/responses", json={"input": output})).status_code == 400
        assert (await http.post(server.url + "/chat/completions", content=b"{")).status_code == 400
        assert (await http.post(server.url + "/chat/completions", json=chat())).status_code == 200


async def test_the_key_is_checked(http: httpx2.AsyncClient, chat: Body) -> None:
    async with ScriptedServer([say()], api_key="k") as server:
        url = server.url + "/chat/completions"
        assert (await http.post(url, json=chat())).status_code == 401
        assert (await http.post(url, json=chat(), headers={"authorization": "Bearer k"})).status_code == 200


async def test_too_many_connections(http: httpx2.AsyncClient, chat: Body) -> None:
    async with ScriptedServer([say(ending=Ending.HANG)]) as server:
        server.max_connections = 1
        first = asyncio.create_task(http.post(server.url + "/chat/completions", json=chat(), timeout=60))
        await server.wait_for(1)
        assert (await http.post(server.url + "/chat/completions", json=chat())).status_code == 503
        first.cancel()
        await server.wait_closed(server.requests[0])


async def test_an_error_in_the_script_is_raised_at_the_end(http: httpx2.AsyncClient, chat: Body) -> None:
    def broken(_: RecordedRequest) -> Reply:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        async with ScriptedServer(ScriptedModel(broken)) as server:
            with pytest.raises(httpx2.RemoteProtocolError):
                await http.post(server.url + "/chat/completions", json=chat())


async def test_waiting_in_vain_says_what_came(http: httpx2.AsyncClient) -> None:
    async with ScriptedServer([say()]) as server:
        with pytest.raises(TimeoutError, match="2 requests not met"):
            await server.wait_for(2, timeout=0.05)


async def test_tls(chat: Body, tmp_path: Path) -> None:
    context, file = certificate(tmp_path)
    async with ScriptedServer([say(), say(ending=Ending.HANG, at=1)], tls=context) as server:
        async with httpx2.AsyncClient(trust_env=False) as client:
            with pytest.raises(httpx2.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
                await client.post(server.url + "/chat/completions", json=chat())
        trusted = ssl.create_default_context(cafile=file)
        async with httpx2.AsyncClient(trust_env=False, verify=trusted, timeout=60) as client:
            assert (await client.post(server.url + "/chat/completions", json=chat())).status_code == 200
            with pytest.raises(httpx2.ReadTimeout):
                await client.post(server.url + "/chat/completions", json=chat(), timeout=IMPATIENT)
        await server.wait_closed(server.requests[1])


async def test_leaving_closes_everything(http: httpx2.AsyncClient, chat: Body) -> None:
    async with ScriptedServer([say(ending=Ending.HANG)]) as server:
        task = asyncio.create_task(http.post(server.url + "/chat/completions", json=chat()))
        await server.wait_for(1)
    with pytest.raises(httpx2.TransportError):
        await task
    assert server.open_connections == 0
    with pytest.raises(httpx2.ConnectError):
        await http.get(server.url + "/models")
