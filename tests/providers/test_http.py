"""Both transports against real sockets: what comes back, what is closed, what goes wrong."""

import asyncio
import gzip
import itertools
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.core.errors import TransportError
from hermes.core.outcomes import FailureKind
from hermes.core.protocols import HttpTimeouts, HttpTransport
from hermes.providers.http import DefaultHttpTransport, DirectTransport, create_http_transport
from hermes.providers.http_common import ChunkedFraming, find_proxy, parse_target
from hermes.providers.proxied import Httpx2Transport
from tests.certificates import certificate
from tests.providers.loopback_server import Reply, loopback

Make = Callable[..., HttpTransport]
BOTH = pytest.mark.parametrize("make", [DirectTransport, Httpx2Transport], ids=["direct", "httpx2"])
FIELDS = {"content-type": "application/json", "authorization": "Bearer x"}
PATIENT = HttpTimeouts(connect=600.0, read=600.0)
"""Limits that no test reaches."""


async def post(
    transport: HttpTransport, url: str, body: bytes = b"{}", timeouts: HttpTimeouts = PATIENT
) -> tuple[int, dict[str, str], bytes]:
    async with transport.open("POST", url, headers=FIELDS, body=body, timeouts=timeouts) as stream:
        return stream.status, dict(stream.headers), b"".join([chunk async for chunk in stream.chunks()])


async def failure(transport: HttpTransport, url: str, timeouts: HttpTimeouts = PATIENT) -> TransportError:
    with pytest.raises(TransportError) as caught:
        await post(transport, url, timeouts=timeouts)
    await transport.close()
    return caught.value


@BOTH
async def test_a_streamed_answer_and_a_kept_connection(make: Make) -> None:
    parts = [b"data: a\n\n", b"x" * 70_000, b"data: b\n\n"]
    async with loopback(Reply(headers={"X-Name": "v"}, parts=parts)) as server:
        transport = make({})
        for _ in range(3):
            status, headers, body = await post(transport, f"{server.url}/v1/x?y=1", b"z" * 300_000)
            assert (status, headers["x-name"], body) == (200, "v", b"".join(parts))
        await transport.close()
        assert server.connections == 1
        first = server.requests[0]
        assert (first.method, first.path, len(first.body)) == ("POST", "/v1/x?y=1", 300_000)
        assert first.headers["host"] == server.url.removeprefix("http://")
        assert (first.headers["accept-encoding"], first.headers["authorization"]) == ("identity", "Bearer x")
        assert "cookie" not in first.headers


@BOTH
@pytest.mark.parametrize(
    ("head", "body", "expected"),
    [
        (b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\n", b"abc", b"abc"),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\n", b"abc", b"abc"),
        (b"HTTP/1.1 200\r\ncontent-length: 0\r\n\r\n", b"", b""),
        (b"HTTP/1.1 204 No Content\r\n\r\n", b"", b""),
        (b"HTTP/1.0 200 OK\r\n\r\n", b"till the end", b"till the end"),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", b"3;x=y\r\nabc\r\n0\r\nT: x\r\n\r\n", b"abc"),
    ],
)
async def test_every_way_a_body_ends(make: Make, head: bytes, body: bytes, expected: bytes) -> None:
    async with loopback(Reply(raw=[head, body], end="close")) as server:
        transport = make({})
        assert (await post(transport, server.url))[2] == expected
        await transport.close()


@BOTH
async def test_a_body_nobody_asked_to_be_packed(make: Make) -> None:
    packed = gzip.compress(b"hello" * 100)
    async with loopback(Reply(headers={"content-encoding": "gzip"}, parts=[packed[:9], packed[9:]])) as server:
        transport = make({})
        assert (await post(transport, server.url))[2] == b"hello" * 100
        await transport.close()


@given(st.lists(st.binary(min_size=1, max_size=40), max_size=5), st.integers(1, 9))
def test_chunks_cut_anywhere(chunks: list[bytes], step: int) -> None:
    encoded = b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks) + b"0\r\n\r\n"
    framing, where = ChunkedFraming(), parse_target("http://x")
    pieces = [encoded[i : i + step] for i in range(0, len(encoded), step)]
    assert b"".join(framing.feed(piece, where) for piece in pieces) == b"".join(chunks)
    assert framing.done and not framing.surplus


@BOTH
async def test_a_pooled_connection_that_died_is_no_failure(make: Make) -> None:
    async with loopback(Reply(parts=[b"a"]), Reply(raw=[], end="cut"), Reply(parts=[b"b"])) as server:
        transport = make({})
        assert (await post(transport, server.url))[2] == b"a"
        assert (await post(transport, server.url))[2] == b"b"
        await transport.close()
        assert (server.connections, len(server.requests)) == (2, 3)


@BOTH
async def test_a_fresh_connection_without_an_answer_is_one(make: Make) -> None:
    async with loopback(Reply(raw=[], end="cut")) as server:
        error = await failure(make({}), server.url)
        assert (error.kind, len(server.requests)) == (FailureKind.CUT, 1)
        assert "closed the connection without an answer" in error.message


async def test_a_pooled_connection_that_dies_in_the_middle_of_an_answer_is_one() -> None:
    half = b"HTTP/1.1 200 OK\r\ncontent-"
    async with loopback(Reply(parts=[b"a"]), Reply(raw=[half], end="cut")) as server:
        transport = DirectTransport({})
        await post(transport, server.url)
        assert (await failure(transport, server.url)).kind is FailureKind.CUT
        assert len(server.requests) == 2


@BOTH
async def test_a_cut_body(make: Make) -> None:
    async with loopback(Reply(parts=[b"abc"], end="cut")) as server:
        error = await failure(make({}), server.url)
        assert (error.kind, "before the answer was complete" in error.message) == (FailureKind.CUT, True)


@pytest.mark.parametrize("length", ["9" * 5_000, "-3", "\u00b2"])
async def test_a_length_that_is_none(length: str) -> None:
    head = f"HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n".encode("latin-1")
    async with loopback(Reply(raw=[head, b"abc"], end="close")) as server:
        transport = DirectTransport({})
        assert (await post(transport, server.url))[2] == b"abc"
        await transport.close()


@BOTH
async def test_a_server_that_hangs(make: Make) -> None:
    async with loopback(Reply(raw=[], end="hang")) as server:
        error = await failure(make({}), server.url, HttpTimeouts(connect=60.0, read=0.1))
        assert (error.kind, "sent nothing for 0.1 s" in error.message) == (FailureKind.TIMEOUT, True)


@BOTH
@pytest.mark.parametrize("piece", [b"x: y\r\n", b"HTTP/1.1 103 Early Hints\r\n\r\n"], ids=["fields", "interim"])
async def test_a_head_without_end(make: Make, piece: bytes) -> None:
    start = b"HTTP/1.1 200 OK\r\n" if piece.startswith(b"x") else b""
    endless = itertools.chain([start], itertools.repeat(piece))
    async with loopback(Reply(raw=endless, end="hang")) as server:
        error = await failure(make({}), server.url, HttpTimeouts(connect=0.1, read=0.3))
    assert error.kind in (FailureKind.TIMEOUT, FailureKind.BAD_RESPONSE, FailureKind.CUT)


async def test_a_head_that_dribbles() -> None:
    async with loopback(Reply(raw=[b"HTTP/1.1 200 OK\r\nx: y\r\n"], end="hang")) as server:
        error = await failure(DirectTransport({}), server.url, HttpTimeouts(connect=60.0, read=0.1))
    assert (error.kind, "did not begin its answer within 0.1 s" in error.message) == (FailureKind.TIMEOUT, True)


@BOTH
async def test_leaving_early_and_cancelling_close_the_socket_at_once(make: Make) -> None:
    async with loopback(Reply(parts=[b"abc"], end="hang")) as server:
        transport = make({})
        async with transport.open("POST", server.url, headers={}, body=b"", timeouts=PATIENT) as stream:
            async for _ in stream.chunks():
                break
        await asyncio.wait_for(server.gone.wait(), 60)

        server.gone.clear()
        server.asked.clear()
        waiting = asyncio.create_task(post(transport, server.url))
        await asyncio.wait_for(server.asked.wait(), 60)
        waiting.cancel()
        await asyncio.wait_for(server.gone.wait(), 60)
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await transport.close()


@BOTH
async def test_nobody_listens(make: Make) -> None:
    async with loopback(Reply()) as server:
        url = server.url
    error = await failure(make({}), url)
    assert error.kind is FailureKind.UNREACHABLE
    assert "Nothing answers at 127.0.0.1" in error.message and "running" in error.hint


@BOTH
async def test_a_host_that_does_not_exist(make: Make) -> None:
    error = await failure(make({}), "http://no-such-host.invalid/v1")
    assert (error.kind, error.message) == (FailureKind.UNREACHABLE, "The host no-such-host.invalid cannot be found.")


@pytest.mark.parametrize("url", ["", "ftp://x", "http://", "http://[x", "http://x:y", "example.com/v1"])
async def test_what_is_no_address(url: str) -> None:
    with pytest.raises(TransportError, match="is not an http or https address"):
        DefaultHttpTransport({}).open("POST", url, headers={}, body=b"", timeouts=PATIENT)


@pytest.mark.parametrize("wrong", ["a\r\nX-Other: 1", "a\nX-Other: 1", "a\rb", "a\0b"])
async def test_no_value_begins_another_field(wrong: str) -> None:
    transport = DirectTransport({})
    with pytest.raises(TransportError, match="line break"):
        transport.open(
            "GET", "http://127.0.0.1:1/", headers={"x": wrong}, body=b"", timeouts=HttpTimeouts(connect=1, read=1)
        )
    await transport.close()


async def test_what_does_not_speak_http() -> None:
    chunked = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
    for raw in (b"SSH-2.0-x\r\n\r\n", chunked + b"zz\r\n", chunked + b"-3\r\n", chunked + b"3\r\nabcd\r\n0\r\n\r\n"):
        async with loopback(Reply(raw=[raw], end="close")) as server:
            assert (await failure(DirectTransport({}), server.url)).kind is FailureKind.BAD_RESPONSE


async def test_an_answer_before_the_whole_request_was_read() -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 413 Too Large\r\ncontent-length: 3\r\n\r\nbig")
        await done.wait()
        writer.close()

    done = asyncio.Event()
    server = await asyncio.start_server(refuse, "127.0.0.1", 0)
    transport = DirectTransport({})
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    status, _, body = await post(transport, url, b"x" * 20_000_000)
    assert (status, body) == (413, b"big")
    assert transport.take_idle(parse_target(url)) is None  # half a request went out on that connection
    done.set()
    await transport.close()
    server.close()


@BOTH
async def test_tls_with_a_companys_certificate(make: Make, tmp_path: Path) -> None:
    context, file = certificate(tmp_path)
    async with loopback(Reply(parts=[b"ok"]), tls=context) as server:
        for transport in (make({"SSL_CERT_FILE": str(file)}), make({}, ca_file=str(file))):
            assert (await post(transport, server.url))[2] == b"ok"
            assert (await post(transport, server.url))[2] == b"ok"
            await transport.close()
        error = await failure(make({}), server.url)
        assert error.kind is FailureKind.TLS
        assert "is not trusted" in error.message and "SSL_CERT_FILE" in error.hint
        error = await failure(make({"SSL_CERT_FILE": str(tmp_path / "none")}), server.url)
        assert (error.kind, "cannot be read" in error.message) == (FailureKind.TLS, True)


@BOTH
async def test_tls_where_there_is_none(make: Make) -> None:
    async def plain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(plain, "127.0.0.1", 0)
    error = await failure(make({}), f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}")
    assert (error.kind, error.hint) == (FailureKind.TLS, "Is it really https?")
    server.close()


@BOTH
async def test_a_unix_socket(make: Make, tmp_path: Path) -> None:
    path = str(tmp_path / "s")
    async with loopback(Reply(parts=[b"ok"]), uds=path) as server:
        transport = make({"HTTP_PROXY": "http://127.0.0.1:1"}, uds=path)
        assert (await post(transport, server.url + "/v1"))[2] == b"ok"
        assert server.requests[0].headers["host"] == "model.example"
        await transport.close()
    error = await failure(make({}, uds=str(tmp_path / "none")), "http://model.example")
    assert error.kind is FailureKind.UNREACHABLE


async def test_a_plain_request_through_a_proxy() -> None:
    async with loopback(Reply(parts=[b"ok"])) as proxy:
        transport = create_http_transport({"http_proxy": proxy.url, "NO_PROXY": "other.example"})
        assert (await post(transport, "http://model.example/v1/x"))[2] == b"ok"
        assert proxy.requests[0].path == "http://model.example/v1/x"
        await transport.close()


async def test_a_secure_request_through_a_proxy_is_tunnelled() -> None:
    async with loopback(Reply()) as proxy:
        error = await failure(create_http_transport({"HTTPS_PROXY": proxy.url}), "https://model.example/v1")
        assert [(request.method, request.path) for request in proxy.requests] == [("CONNECT", "model.example:443")]
        assert error.kind is FailureKind.UNREACHABLE


async def test_a_socks_proxy() -> None:
    async with loopback(Reply(parts=[b"ok"])) as server:

        async def socks(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readexactly(2 + 1)
            writer.write(b"\x05\x00")
            head = await reader.readexactly(5)
            asked.append((await reader.readexactly(head[4] + 2))[:-2].decode())
            writer.write(b"\x05\x00\x00\x01\x00\x00\x00\x00\x00\x00")
            await server.handle(reader, writer)

        asked: list[str] = []
        proxy = await asyncio.start_server(socks, "127.0.0.1", 0)
        port = proxy.sockets[0].getsockname()[1]
        transport = create_http_transport({"ALL_PROXY": f"socks5://127.0.0.1:{port}"})
        assert (await post(transport, "http://model.example/v1"))[2] == b"ok"
        assert asked == ["model.example"]
        await transport.close()
        proxy.close()


async def test_a_proxy_that_is_none() -> None:
    error = await failure(create_http_transport({"HTTP_PROXY": "carrier-pigeon://x"}), "http://model.example")
    assert "HTTP_PROXY" in error.hint


@pytest.mark.parametrize(
    ("host", "rules", "direct"),
    [
        ("api.example.com", "", False),
        ("api.example.com", "example.com", True),
        ("api.example.com", ".example.com", True),
        ("api.example.com", "*.example.com", True),
        ("badexample.com", "example.com", False),
        ("api.example.com", "api.example.com:443", True),
        ("api.example.com", "api.example.com:80", False),
        ("api.example.com", "a, *", True),
        ("10.1.2.3", "10.0.0.0/8", True),
        ("10.1.2.3", "192.168.0.0/16", False),
        ("::2", "[::2]", True),
        ("localhost", "", True),
        ("127.0.0.9", "", True),
        ("::1", "", True),
    ],
)
def test_who_is_asked_through_a_proxy(host: str, rules: str, direct: bool) -> None:
    environ = {"HTTPS_PROXY": "proxy:3128", "no_proxy": rules}
    assert find_proxy("https", host, 443, environ) == ("" if direct else "http://proxy:3128")
    assert find_proxy("http", host, 443, environ) == ""


def test_importing_and_calling_without_a_proxy_needs_no_http_library() -> None:
    import subprocess
    import sys

    code = (
        "import sys, asyncio; from hermes.providers.http import create_http_transport; t = create_http_transport({});"
        "asyncio.run(t.close()); print(sorted({'httpx2', 'h11', 'anyio', 'httpcore2'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
