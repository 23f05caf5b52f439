"""The client against servers that are newer, broken or hostile, and against addresses that it must not use."""

import asyncio
import json
from contextlib import aclosing

import pytest

from bench.paths import record_prompt
from hermes.client import HermesClient
from hermes.client.errors import ServerAnswerError, StateConflictError
from hermes.core.errors import TransportError, UsageError
from hermes.providers.decoding import SseReader
from tests.client.door_rig import Handler, listen
from tests.gateway.platforms.api_server_rig import fresh_key

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"


def answering(*pieces: bytes, stays: bool = False, repeats: bytes = b"") -> Handler:
    """A server that answers every request with these bytes, and then closes, stays silent, or goes on for ever."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        for piece in pieces:
            writer.write(piece)
        await writer.drain()
        while repeats:
            writer.write(repeats)
            await writer.drain()
        if stays:
            await asyncio.Event().wait()

    return answer


def event(kind: str, version: int, data: object) -> bytes:
    body = json.dumps({"type": kind, "run_id": "r", "data": data, "version": version, "more": [1]})
    return f"id: x-{kind}\nevent: {kind}\ndata: {body}\n\n".encode()


async def test_events_of_a_newer_schema_come_as_they_are() -> None:
    strange = {"anything": [{"deep": True}]}
    sent = HEAD + event("run.strange", 2, strange) + event("run.ended", 2, {"other": "form"})
    async with listen(answering(sent)) as url, HermesClient(url, fresh_key()) as client:
        found = [one async for one in client.follow_run("r")]
    assert [(one.type, one.version, one.id) for one in found] == [
        ("run.strange", 2, "x-run.strange"),
        ("run.ended", 2, "x-run.ended"),
    ]
    assert found[0].data == strange


async def test_an_endless_line_is_cut_off() -> None:
    endless = answering(HEAD + b"data: ", repeats=b"x" * 65_536)
    async with listen(endless) as url, HermesClient(url, fresh_key(), event_limit=1_000_000) as client:
        with pytest.raises(ServerAnswerError, match="1000000 bytes"):
            async with asyncio.timeout(20):
                await anext(client.follow_run("r"))


async def test_a_server_that_never_answers_is_given_up() -> None:
    async with listen(answering(stays=True)) as url, HermesClient(url, fresh_key(), seconds=0.3) as client:
        with pytest.raises(TransportError):
            await client.get_run("r")


async def test_an_answer_that_drips_is_given_up() -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
    async with listen(answering(head, stays=True)) as url, HermesClient(url, fresh_key(), seconds=0.3) as client:
        with pytest.raises(TransportError):
            await client.get_run("r")


@pytest.mark.parametrize("way", ["cancelled", "left"])
async def test_whoever_stops_following_closes_the_connection(way: str) -> None:
    closed = asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(HEAD + event("run.notice", 1, {"text": "a"}))
        assert await reader.read() == b""
        closed.set()

    async with listen(answer) as url, HermesClient(url, fresh_key()) as client:
        async with asyncio.timeout(20), aclosing(client.follow_run("r")) as events:
            await anext(events)
            if way == "cancelled":
                waiting = asyncio.create_task(anext(events))
                await asyncio.sleep(0)
                waiting.cancel()
                await asyncio.wait({waiting})
        async with asyncio.timeout(20):
            await closed.wait()


@pytest.mark.parametrize(
    "body", [b"<html>", b'{"error":5}', b"[" * 5_000, b"\xff"], ids=["html", "form", "deep", "bytes"]
)
@pytest.mark.parametrize("status", [200, 500, 302])
async def test_what_is_no_hermes_is_said(body: bytes, status: int) -> None:
    head = f"HTTP/1.1 {status} X\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    async with listen(answering(head + body)) as url, HermesClient(url, fresh_key()) as client:
        with pytest.raises(ServerAnswerError) as told:
            await client.get_run("r")
    assert told.value.status == (0 if status == 200 else status)


async def test_what_a_server_says_is_made_fit_for_a_terminal() -> None:
    said = {"error": {"message": "\x1b[2J\x07no\n" + "x" * 9_000, "type": "t", "code": "\x1b]0;a\x07"}}
    body = json.dumps(said).encode()
    head = b"HTTP/1.1 409 X\r\nContent-Length: %d\r\n\r\n" % len(body)
    async with listen(answering(head + body)) as url, HermesClient(url, fresh_key()) as client:
        with pytest.raises(StateConflictError) as told:
            await client.get_run("r")
    assert str(told.value).isprintable() and len(str(told.value)) <= 500 and told.value.code.isprintable()


@pytest.mark.parametrize(
    "url",
    [
        *("http://127.0.0.1:1?x=", "http://127.0.0.1:1/#f", "http://user@127.0.0.1:1", "http://127.0.0.1@192.0.2.7"),
        *("ftp://127.0.0.1", "http://", "127.0.0.1:8642", "http://127.0.0.1:99999", "https://a b", "http://a/\r\nX: 1"),
    ],
)
def test_what_is_no_address_of_a_server(url: str) -> None:
    with pytest.raises(UsageError, match="no address"):
        HermesClient(url, fresh_key(), allow_plain_http=True)


@pytest.mark.parametrize("url", ["http://192.0.2.7:8642", "http://localhost.example.org"])
def test_a_key_goes_to_other_hosts_over_https_only(url: str) -> None:
    with pytest.raises(UsageError, match="https"):
        HermesClient(url, fresh_key())
    HermesClient(url, fresh_key(), allow_plain_http=True)
    HermesClient(url.replace("http:", "https:"), fresh_key())


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "http://localhost:1", "http://[::1]:1", " http://[::1]:1/a/ "])
def test_loopback_needs_no_https(url: str) -> None:
    HermesClient(url, fresh_key())


async def test_nothing_slips_into_a_header_or_another_path() -> None:
    with pytest.raises(UsageError):
        HermesClient("http://127.0.0.1:1", "key\r\nX-Other: 1")
    async with HermesClient("http://127.0.0.1:1", fresh_key()) as client:
        for wrong in ("a\r\nX: 1", "x" * 2_000, "é"):
            with pytest.raises(UsageError):
                await client.begin_run("hello", idempotency_key=wrong)
        for name in ("", ".", ".."):
            with pytest.raises(UsageError):
                await client.get_session(name)


def test_ids_of_events_are_read() -> None:
    whole = b"id: 7\ndata: a\n\ndata: b\n\nid: 8\ndata: c\n\n"
    for size in (1, 5, len(whole)):
        reader = SseReader()
        found = [one for at in range(0, len(whole), size) for one in reader.feed(whole[at : at + size])]
        assert [(one.id, one.data) for one in found] == [("7", "a"), ("", "b"), ("8", "c")]


@pytest.mark.slow
def test_a_prompt_imports_nothing_of_it() -> None:
    assert not [name for name in record_prompt()["modules"] if name.startswith(("hermes.client", "hermes.gateway"))]
