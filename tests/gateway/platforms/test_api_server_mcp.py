"""The server over streamable HTTP in the gateway: keys and scopes, sessions, both revisions, hostile requests."""

import asyncio
import io
import json
import os
import sys
from collections.abc import Mapping
from typing import Any

import httpx2
import pytest
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client

from hermes.testing.script import Call, Say
from tests.gateway.platforms.api_server_rig import Api, api, fresh_key
from tests.mcp_server.conftest import META, count_processes

pytestmark = pytest.mark.slow
PRICES = {"prices": {"mock-model": {"input": 1, "output": 1}}}


async def post(
    it: Api, body: object, *, key: str | None = None, raw: bytes | None = None, **headers: str
) -> tuple[int, Any, Mapping[str, str]]:
    """Post a message; return the status, the JSON of the answer, and its header fields."""
    sent = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
    sent |= {name.replace("_", "-"): value for name, value in headers.items()}
    given = it.key if key is None else key
    if given:
        sent["Authorization"] = f"Bearer {given}"
    data = io.BytesIO(json.dumps(body).encode() if raw is None else raw)
    async with it.http.post(f"{it.url}/mcp", data=data, headers=sent) as answer:
        text = await answer.text()
        if answer.content_type == "text/event-stream":
            text = text.strip().rpartition("data: ")[2]
        return answer.status, json.loads(text) if text else None, answer.headers


def request(method: str, params: Mapping[str, Any] | None = None, number: object = 1) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params or {}}


async def call_stateless(it: Api, method: str, params: Mapping[str, Any], *, key: str | None = None) -> tuple[int, Any]:
    """Post a request of the stateless revision, with the header fields that it needs."""
    more = {"Mcp_Name": str(params["name"])} if "name" in params else {}
    body = request(method, {**params, "_meta": META})
    status, value, _ = await post(it, body, key=key, MCP_Protocol_Version="2026-07-28", Mcp_Method=method, **more)
    return status, value


async def begin(it: Api, key: str | None = None) -> dict[str, str]:
    """Begin a session, and return the header fields of its requests."""
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    status, value, headers = await post(it, request("initialize", params), key=key)
    assert status == 200, value
    return {"Mcp_Session_Id": headers["Mcp-Session-Id"], "MCP_Protocol_Version": "2025-11-25"}


async def test_only_the_owners_keys_with_the_scope_get_anything() -> None:
    reads, chats, guest = fresh_key(), fresh_key(), fresh_key()
    keys = [
        {"key": reads, "name": "reads", "scopes": ["mcp"]},
        {"key": chats, "name": "chats"},
        {"key": guest, "name": "guest", "scopes": ["mcp", "chat"], "role": "user"},
    ]
    async with api([], keys=keys, mcp_ask=True, more=PRICES) as it:
        for key, status in (("", 401), ("x" * 20, 401), (chats, 403), (guest, 403), (reads, 200)):
            found, value = await call_stateless(it, "tools/list", {}, key=key)
            assert found == status, (status, value)
        _, value = await call_stateless(it, "tools/list", {}, key=reads)
        assert "ask" not in [one["name"] for one in value["result"]["tools"]]
        found, value = await call_stateless(
            it, "tools/call", {"name": "ask", "arguments": {"question": "x"}}, key=reads
        )
        assert (found, value["error"]["code"]) == (400, -32602)
        found, _, _ = await post(it, request("tools/list", {"_meta": META}), Origin="http://evil.example")
        assert found == 403
        found, _, _ = await post(it, request("tools/list", {"_meta": META}), Host="evil.example")
        assert found == 403


async def test_a_session_belongs_to_its_key_and_ends() -> None:
    other = fresh_key()
    async with api([], keys=[{"key": other, "name": "other", "scopes": ["mcp"]}]) as it:
        session = await begin(it)
        status, _, _ = await post(it, {"jsonrpc": "2.0", "method": "notifications/initialized"}, **session)
        assert status == 202
        status, value, _ = await post(it, request("tools/list"), **session)
        assert (status, len(value["result"]["tools"])) == (200, 6)
        status, _, _ = await post(it, request("tools/list"), key=other, **session)
        assert status == 404
        status, _, _ = await post(it, request("tools/list"))
        assert status == 400
        sent = {"Authorization": f"Bearer {it.key}", "Mcp-Session-Id": session["Mcp_Session_Id"]}
        async with it.http.get(f"{it.url}/mcp", headers=sent) as answer:
            assert answer.status == 405
        async with it.http.delete(f"{it.url}/mcp", headers={**sent, "Authorization": f"Bearer {other}"}) as answer:
            assert answer.status == 404
        async with it.http.delete(f"{it.url}/mcp", headers=sent) as answer:
            assert answer.status == 204
        status, _, _ = await post(it, request("tools/list"), **session)
        assert status == 404


async def test_sessions_of_a_key_are_limited() -> None:
    async with api([]) as it:
        first = await begin(it)
        for _ in range(64):
            last = await begin(it)
        assert (await post(it, request("tools/list"), **first))[0] == 404
        assert (await post(it, request("tools/list"), **last))[0] == 200


async def test_header_fields_must_say_what_the_body_says() -> None:
    body = request("tools/call", {"name": "jobs_list", "_meta": META})
    right = {"MCP_Protocol_Version": "2026-07-28", "Mcp_Method": "tools/call", "Mcp_Name": "jobs_list"}
    async with api([]) as it:
        assert (await post(it, body, **right))[0] == 200
        assert (await post(it, body, **{**right, "Mcp_Name": "=?base64?am9ic19saXN0?="}))[0] == 200
        for wrong in ({"Mcp_Name": "ask"}, {"Mcp_Method": "tools/list"}, {"Mcp_Name": "=?base64?!?="}):
            status, value, _ = await post(it, body, **{**right, **wrong})
            assert (status, value["error"]["code"]) == (400, -32020)
        status, value, _ = await post(it, body)
        assert (status, value["error"]["code"]) == (400, -32020)


async def test_hostile_bodies_are_named() -> None:
    cases: list[tuple[bytes, int, int]] = [
        (b"no json", 400, -32700),
        (b"[" * 100_000, 400, -32700),
        (b"[" + json.dumps(request("ping")).encode() + b"]", 400, -32600),
        (b"7", 400, -32600),
        (b'{"jsonrpc":"2.0","id":{},"method":"ping"}', 400, -32600),
        (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', 400, -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":7}}', 200, -32602),
        (b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":[]}', 400, -32602),
    ]
    async with api([], body_limit=1 << 20) as it:
        for raw, status, code in cases:
            found, value, _ = await post(it, None, raw=raw)
            assert (found, value["error"]["code"]) == (status, code), raw[:60]
        assert (await post(it, None, raw=b"{}", Content_Type="text/plain"))[0] == 415
        assert (await post(it, None, raw=b"x" * (2 << 20)))[0] == 413
        session = await begin(it)
        for raw in (b'{"jsonrpc":"2.0","id":5,"result":{}}', b'{"jsonrpc":"2.0","method":"x"}'):
            assert (await post(it, None, raw=raw, **session))[0] == 202
        status, value, _ = await post(it, request("nothing"), **session)
        assert (status, value["error"]["code"]) == (200, -32601)
        assert (await call_stateless(it, "nothing", {}))[0] == 404


async def test_a_question_streams_progress_and_is_bounded() -> None:
    replies = [Say(calls=(Call("terminal", {"command": "echo one"}),)), Say("Done.")]
    async with api(replies, mcp_ask=True, more=PRICES) as it:
        params = {"name": "ask", "arguments": {"question": "Do it."}, "_meta": {**META, "progressToken": "p"}}
        sent = {
            "Authorization": f"Bearer {it.key}",
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": "2026-07-28",
            "Mcp-Method": "tools/call",
            "Mcp-Name": "ask",
        }
        async with it.http.post(f"{it.url}/mcp", json=request("tools/call", params), headers=sent) as answer:
            assert answer.content_type == "text/event-stream"
            messages = [json.loads(one.partition("data: ")[2]) for one in (await answer.text()).strip().split("\n\n")]
        assert messages[0]["params"] == {"progressToken": "p", "progress": 1, "message": "terminal"}
        assert messages[-1]["result"]["structuredContent"]["answer"] == "Done."


async def test_the_cap_of_a_question_holds() -> None:
    asking = {"name": "ask", "arguments": {"question": "Costly?"}}
    async with api([Say("Never.")], mcp_ask=True, mcp_max_cost=0.0000001, more=PRICES) as it:
        status, value = await call_stateless(it, "tools/call", asking)
        assert (status, value["result"]["isError"]) == (200, True)
        assert it.model.requests == []
    async with api([Say("Never.")], mcp_ask=True) as it:  # a model without a known price
        status, value = await call_stateless(it, "tools/call", asking)
        assert (status, value["result"]["isError"]) == (200, True)


async def test_who_goes_away_takes_the_question_back() -> None:
    mark = f"mcp-serve-{os.urandom(6).hex()}"
    replies = [Say(calls=(Call("terminal", {"command": f"sleep 600; echo {mark}"}),)), Say("Late.")]
    async with api(replies, mcp_ask=True, more=PRICES) as it:
        params = {"name": "ask", "arguments": {"question": "Wait."}, "_meta": {**META, "progressToken": "p"}}
        fields = {"MCP_Protocol_Version": "2026-07-28", "Mcp_Method": "tools/call", "Mcp_Name": "ask"}
        headers = {"Accept": "text/event-stream, application/json", **fields}
        async with await it.stream("POST", "/mcp", request("tools/call", params), **headers) as reading:
            await reading.until("terminal")
            await it.until(lambda: count_processes(mark) > 0)
        await it.until(lambda: not any(one.get_name() == "mcp request" for one in asyncio.all_tasks()))
        await it.until(lambda: all(not one.actor.busy for one in list_live(it)))


def list_live(it: Api) -> list[Any]:
    """The sessions in memory."""
    app = it.gateway.app
    return [app.live_session(name) for name in [*app._live]]


@pytest.mark.parametrize("mode", ["auto", "legacy", "2026-07-28"])
async def test_the_official_client_gets_everything(mode: str) -> None:
    async with (
        api([Say("Blue.")], mcp_ask=True, more=PRICES) as it,
        httpx2.AsyncClient(headers={"Authorization": f"Bearer {it.key}"}, timeout=20) as http,
        Client(streamable_http_client(f"{it.url}/mcp", http_client=http), mode=mode) as client,
    ):
        assert len((await client.list_tools()).tools) == 7
        found = await client.call_tool("conversations_list", {})
        assert found.structured_content == {"conversations": [], "next_cursor": None}
        asked = await client.call_tool("ask", {"question": "Which colour?"})
        assert asked.structured_content is not None
        assert asked.structured_content["answer"] == "Blue."


async def test_hermes_own_client_uses_it_with_a_key() -> None:
    async with api([]) as it:
        it.home.write_config(
            {
                **(it.home.config or {}),
                "mcp_servers": {"far": {"url": f"{it.url}/mcp", "headers": {"Authorization": f"Bearer {it.key}"}}},
            }
        )
        done = await it.home.run(sys.executable, "-m", "hermes", "mcp", "test", "far")
        assert "6 tools" in done.stdout, done
        assert "protocol: 2026-07-28" in done.stdout
