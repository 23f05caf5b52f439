"""The exchange of messages, without a process."""

import asyncio
import json
from typing import Any

import pytest
from msgspec import Raw

from hermes.acp.rpc_errors import ACP_DIALECT
from hermes.core.errors import ConfigError
from hermes.core.json_rpc import METHOD_NOT_FOUND, RpcError
from hermes.ipc.rpc_peer import MAX_OPEN_REQUESTS, GoneError, RpcPeer, read_lines


class Sink:
    """Records what is written."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []
        self.waiting_bytes = 0
        self.is_closed = False

    def write(self, data: bytes) -> None:
        assert data.endswith(b"\n") and data.count(b"\n") == 1
        self.messages.append(json.loads(data))

    async def wait_until_taken(self, most: int) -> None:
        assert self.waiting_bytes <= most

    def close(self) -> None:
        self.is_closed = True


class Handler:
    """Answers with the parameters; `wait` waits for ever, `fail` fails."""

    def __init__(self) -> None:
        self.noted: list[str] = []

    async def answer_request(self, method: str, params: Raw) -> object:
        if method == "wait":
            await asyncio.get_running_loop().create_future()
        if method == "fail":
            raise ConfigError("No model.", "Choose one.")
        if method == "break":
            raise ZeroDivisionError
        return {"given": json.loads(bytes(params))}

    def take_notification(self, method: str, params: Raw) -> None:
        if method == "unknown":
            raise RpcError(METHOD_NOT_FOUND, "There is no such notification.")
        self.noted.append(method)


def make_peer() -> tuple[RpcPeer, Handler, Sink, list[str]]:
    handler, sink, gone = Handler(), Sink(), list[str]()
    return RpcPeer(handler, sink, lambda: gone.append("gone"), ACP_DIALECT), handler, sink, gone


def send(peer: RpcPeer, **message: object) -> None:
    peer.receive_message(json.dumps({"jsonrpc": "2.0", **message}).encode())


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_requests_are_answered_with_results_and_errors() -> None:
    peer, _, sink, _ = make_peer()
    send(peer, id="a", method="echo", params={"x": 1})
    send(peer, id=2, method="fail", params={})
    send(peer, id=3, method="break", params={})
    await settle()
    by_id = {one["id"]: one for one in sink.messages}
    assert by_id["a"]["result"] == {"given": {"x": 1}}
    assert by_id[2]["error"] == {"code": -32000, "message": "No model. Choose one."}
    assert by_id[3]["error"]["code"] == -32603 and "ZeroDivisionError" in by_id[3]["error"]["message"]


async def test_what_is_no_utf_8_is_refused_wherever_it_stands() -> None:
    peer, handler, sink, gone = make_peer()
    for line in (
        b'{"jsonrpc":"2.0","id":1,"method":"echo","params":{"x":"\xff"}}',
        b'{"jsonrpc":"2.0","method":"note","params":{"x":"\xff"}}',
        b'{"jsonrpc":"2.0","id":1,"result":{"x":"\xff"}}',
    ):
        peer.receive_message(line)
        await settle()
        assert sink.messages.pop()["error"]["code"] == -32700
    assert (handler.noted, gone) == ([], [])


async def test_an_answer_in_a_wrong_form_ends_its_question() -> None:
    peer, _, sink, _ = make_peer()
    faults = ("no", {"code": "x"}, {"code": 1, "message": 2})
    for number, fault in enumerate(faults, 1):
        question = asyncio.create_task(peer.request("ask", {}, None))
        await settle()
        send(peer, id=number, error=fault)
        with pytest.raises(RpcError, match="cannot be read"):
            await question
    assert [one["method"] for one in sink.messages] == ["ask"] * 3


async def test_unknown_notifications_do_not_fill_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """A program may start this one and not read its standard error, where the log of some goes: a full pipe blocks."""
    peer, _, sink, _ = make_peer()
    for _ in range(1_000):
        send(peer, method="unknown")
    await settle()
    assert 0 < len(caplog.records) <= 20
    send(peer, id=1, method="echo", params={})
    await settle()
    assert sink.messages[-1]["id"] == 1


async def test_a_notification_comes_behind_the_request_before_it() -> None:
    peer, handler, _, _ = make_peer()
    send(peer, id=1, method="wait", params={})
    send(peer, method="note", params={})
    assert handler.noted == []
    await settle()
    assert handler.noted == ["note"]
    await peer.close()


async def test_a_request_is_cancelled_by_its_id_and_an_id_is_used_once() -> None:
    peer, _, sink, _ = make_peer()
    send(peer, id=1, method="wait", params={})
    await settle()
    send(peer, id=1, method="echo", params={})
    send(peer, method="$/cancel_request", params={"requestId": 1})
    await settle()
    assert [one["error"]["code"] for one in sink.messages] == [-32600, -32800]


async def test_there_is_a_limit_of_open_requests() -> None:
    peer, _, sink, _ = make_peer()
    for number in range(MAX_OPEN_REQUESTS + 1):
        send(peer, id=number, method="wait", params={})
    await settle()
    assert [one["id"] for one in sink.messages] == [MAX_OPEN_REQUESTS]
    await peer.close()
    assert sink.is_closed


@pytest.mark.parametrize(("line", "code"), [(b"{", -32700), (b"\xff", -32700), (b"[]", -32600), (b'{"id":{}}', -32600)])
async def test_what_cannot_be_read_gets_its_error(line: bytes, code: int) -> None:
    peer, _, sink, _ = make_peer()
    peer.receive_message(line)
    assert sink.messages[0]["id"] is None and sink.messages[0]["error"]["code"] == code


async def test_what_is_asked_of_the_editor_is_answered_refused_or_given_up() -> None:
    peer, _, sink, _ = make_peer()
    asked = [asyncio.create_task(peer.request("ask", {}, None)) for _ in range(3)]
    await settle()
    send(peer, id=1, result={"x": 2})
    send(peer, id=2, error={"code": -5, "message": "never"})
    send(peer, id=99, result={})
    assert json.loads(bytes(await asked[0])) == {"x": 2}
    with pytest.raises(RpcError, match="never"):
        await asked[1]
    asked[2].cancel()
    await settle()
    assert sink.messages[-1] == {"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": 3}}
    last = asyncio.create_task(peer.request("ask", {}, None))
    await settle()
    await peer.close()
    with pytest.raises(GoneError):
        await last
    with pytest.raises(GoneError):
        await peer.request("ask", {}, None)


async def test_an_editor_that_takes_nothing_is_gone() -> None:
    peer, _, sink, gone = make_peer()
    sink.waiting_bytes = 1 << 40
    peer.notify("note", {"name": "not utf-8 \udcff"})
    assert gone == ["gone"]


async def test_lines_are_joined_from_pieces() -> None:
    pieces = [b"o\n\nt", b"wo", b"\nthree\n", b""]
    lines: list[bytes] = []

    async def read(_limit: int) -> bytes:
        return pieces.pop(0)

    await read_lines(read, lines.append, b"zer")
    assert lines == [b"zero", b"two", b"three"]
