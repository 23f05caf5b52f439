"""What a program with a key can make the API server hold, and that no request of one is a fault of the server's."""

import asyncio
import itertools
import json
import random
from collections.abc import Iterator

import pytest
from aiohttp import web

from hermes.gateway.http.server import HttpServer, HttpServerLimits
from hermes.gateway.platforms.api_server import requests, runs
from hermes.gateway.platforms.api_server.openapi import build_openapi
from hermes.gateway.platforms.api_server.requests import EventStreamResponse
from hermes.testing.script import Ending, ReplyDelivery, Say, ScriptedModel
from tests.gateway.platforms.api_server_rig import Api, api
from tests.gateway.platforms.test_api_server_runs import ended

pytestmark = pytest.mark.slow


async def test_who_reads_slowly_costs_little_memory() -> None:
    sending: asyncio.Future[web.Request] = asyncio.get_running_loop().create_future()

    async def send_much(request: web.Request) -> web.StreamResponse:
        async with EventStreamResponse(request) as stream:
            sending.set_result(request)
            await stream.send(b"x" * 32_000_000)
            return stream.response

    application = web.Application()
    application.add_routes([web.get("/", send_much)])
    server = HttpServer(application, HttpServerLimits(host="127.0.0.1", port=0, connections=1))
    await server.open()
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port, limit=1)
        writer.write(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        transport = (await sending).transport
        assert transport is not None
        async with asyncio.timeout(20):
            while not (held := transport.get_write_buffer_size()):  # noqa: ASYNC110 - until the socket takes no more
                await asyncio.sleep(0.01)
        assert held < 1_000_000
        writer.transport.abort()
        del reader
    finally:
        await server.close()


async def test_events_come_in_bounded_pieces_and_whole() -> None:
    log = runs.RunEventLog("r")
    for number in range(200):
        log.add_event("run.text_delta", {"text": f"{number:<10000}"})
    log.close()
    pieces = [piece async for piece in log.follow_events("", 1.0) if piece]
    assert max(map(len, pieces)) < 100_000 and b"".join(pieces).count(b"\nevent: ") == 200
    last = pieces[0].split(b"id: ")[-1].partition(b"\n")[0].decode()
    rest = [piece async for piece in log.follow_events(last, 1.0) if piece]
    assert b"".join(pieces) == pieces[0] + b"".join(rest)
    boot = last.partition("-")[0]
    assert [piece async for piece in log.follow_events(f"{boot}-99999", 1.0) if piece] == pieces


async def test_ended_runs_keep_no_session_and_no_more_events_than_agreed(monkeypatch: pytest.MonkeyPatch) -> None:
    async with api(ScriptedModel(lambda request: Say("word " * 1_000))) as it:
        first, second = [(await it.ask("POST", "/v1/runs", {"input": "x"}))[1]["id"] for _ in range(2)]
        await ended(it, first)
        await ended(it, second)
        worker = it.gateway.accounts["api_server"].platform._server.runs.worker  # type: ignore[union-attr]
        await it.until(lambda: worker.find_live(first).turn is None and worker.find_live(second).turn is None)
        monkeypatch.setattr(runs, "MAX_ENDED_BYTES", 30_000)
        third = (await it.ask("POST", "/v1/runs", {"input": "x"}))[1]["id"]
        await it.until(lambda: worker.find_live(first) is None)
        await ended(it, third)
        for one in (first, second, third):
            async with await it.stream("GET", f"/v1/runs/{one}/events") as events:
                assert "run.ended" in await events.rest()


async def test_runs_begun_at_once_are_as_many_as_a_key_may_have() -> None:
    async with api([Say("x", delivery=ReplyDelivery(ending=Ending.HANG)) for _ in range(9)], turns=3) as it:
        told = await asyncio.gather(*(it.ask("POST", "/v1/runs", {"input": "x"}) for _ in range(9)))
        assert sorted(status for status, _ in told) == [202] * 3 + [429] * 6


async def test_a_body_of_nothing_but_lists_is_not_parsed() -> None:
    async with api([]) as it:
        body = b'{"input":[' + b",".join([b"[]"] * (requests.MAX_CONTAINERS + 1)) + b"]}"
        assert b" 400 " in await send_raw(it, "POST", "/v1/runs", body, b"")
        assert b"lists and objects" in await send_raw(it, "POST", "/v1/runs", body, b"")


async def test_an_answer_in_several_pieces_is_whole() -> None:
    words = " ".join(f"w{number}" for number in range(20))
    cut = ReplyDelivery(ending=Ending.CUT, at=6)
    async with api([Say(words, chunk=4, delivery=cut), Say(words, chunk=4)]) as it:
        _, run = await it.ask("POST", "/v1/runs", {"input": "x"})
        assert (await ended(it, run["id"]))["output"] == words


VALUES = (
    *("null", "true", "-1", "0", "18446744073709551616", "1" + "0" * 400, "1.5", '""', '"\\u0000"', '"a\\r\\nX: 1"'),
    *(f'"{"x" * 5_000}"', '"\\u001b[2J\\u202e"', "[]", "[[]]", "[null]", "{}", '{"a":[1,{"b":null}]}', '[{"type":5}]'),
    *("[" * 100 + "]" * 100, '[{"role":"assistant","tool_calls":[5]}]', '{"type":"json_schema","schema":{"$ref":"#"}}'),
)
IDS = ("x", "%00", "%2e%2e", "..%2f..%2fetc", "%ff", "%ed%a0%80", "a%0d%0ab", "x" * 3_000, "%F0%9F%98%80", "%25")
BODIES: dict[str, dict[str, object]] = {
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "x"}], "tools": None, "response_format": None},
    "/v1/responses": {"input": "x", "text": None, "conversation": None, "tools": None, "tool_choice": None},
    "/mcp": {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}},
    "/api/jobs": {"schedule": "every 5h", "prompt": "x"},
}
HEADERS = (b"Idempotency-Key: \xff", b"X-Hermes-Session-Id: \xff", b"Last-Event-ID: \xff", b"Mcp-Session-Id: \xff")


def hostile_requests() -> Iterator[tuple[str, str, bytes, bytes]]:
    """Yield method, path, body and a header field: each operation of the document with what it does not expect."""
    document = json.loads(json.dumps(build_openapi("0")))
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            schema = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
            name = schema.get("$ref", "").rpartition("/")[2]
            body = BODIES.get(path, {"input": "x"})
            fields = {*document["components"]["schemas"].get(name, schema).get("properties", {}), *body, "unknown"}
            data = json.dumps(body).encode()
            for one in IDS if "{" in path else ("",):
                yield method, path.replace("{id}", one).replace("{verb}", "pause"), data, b""
            there = "nobody" if method == "delete" else "s"  # whose turns run meanwhile
            place = path.replace("{id}", there).replace("{verb}", "pause")
            for value in ("-1", "9" * 30, "%00", "%ff", "NaN"):
                yield method, f"{place}?limit={value}&offset={value}", data, b""
            yield from ((method, place, data, header) for header in HEADERS)
            if not schema:
                continue
            for field, value in itertools.product(sorted(fields), VALUES):
                rest = "".join(f",{json.dumps(key)}:{json.dumps(one)}" for key, one in body.items() if key != field)
                yield method, place, f"{{{json.dumps(field)}:{value}{rest}}}".encode(), b""
            yield from ((method, place, value.encode(), b"") for value in (*VALUES, "", "{", '{"a":1,"a":2}'))


async def send_raw(it: Api, method: str, path: str, body: bytes, header: bytes) -> bytes:
    lines = [
        f"{method.upper()} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {it.key}".encode(),
        b"Connection: close\r\nContent-Type: application/json\r\nContent-Length: %d" % len(body),
        *([header] if header else []),
    ]
    reader, writer = await asyncio.open_connection("127.0.0.1", it.port)
    try:
        writer.write(b"\r\n".join(lines) + b"\r\n\r\n" + body)
        async with asyncio.timeout(30):
            return await reader.read()
    finally:
        writer.close()


async def test_no_request_is_a_fault_of_the_servers() -> None:
    asked = list(hostile_requests())
    random.Random(7).shuffle(asked)
    found: list[object] = []
    async with api(ScriptedModel(lambda request: Say("x"))) as it:
        assert (await it.ask("POST", "/v1/sessions/s/chat", {"input": "x"}))[0] == 200

        async def work() -> None:
            while asked:
                one = asked.pop()
                said = await send_raw(it, *one)
                status = said[9:12]
                if not (b"200" <= status < b"500") or b"\nX: 1" in said.partition(b"\r\n\r\n")[0]:
                    found.append((*one, said[-300:]))

        await asyncio.gather(*(work() for _ in range(8)))
        assert not found, found[:5]
        assert (await it.ask("GET", "/health"))[0] == 200
