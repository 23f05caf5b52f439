"""Failures of requests to platforms: what is uncertain, and that no address with a token stands in their words."""

import asyncio
from pathlib import Path

import aiohttp
import pytest

from hermes.gateway.http.client import PlatformRequest, decode_response, save_file, send_request
from hermes.gateway.platform import PlatformError, SendError

TOKEN = "123456:not-to-be-read"


@pytest.mark.parametrize(
    "answer",
    [b"", b"garbage\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nabc"],
    ids=["hang-up", "no-http", "cut"],
)
async def test_a_broken_answer_is_uncertain_and_does_not_tell_the_address(answer: bytes, tmp_path: Path) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/bot{TOKEN}/getMe"
    async with server, aiohttp.ClientSession() as http:
        with pytest.raises(SendError, match="The connection to Here broke") as broken:
            await send_request(http, PlatformRequest(method="POST", url=url, creates=True), "Here")
        with pytest.raises(PlatformError, match="could not be fetched") as unfetched:
            await save_file(http, url, tmp_path / "file")
    assert broken.value.uncertain
    assert TOKEN not in f"{broken.value!r} {unfetched.value!r}"
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("base", ["http://127.0.0.1:1", "htp://elsewhere"])
async def test_what_cannot_be_reached_is_told_without_the_address(base: str) -> None:
    async with aiohttp.ClientSession() as http:
        with pytest.raises(SendError) as lost:
            await send_request(http, PlatformRequest(method="GET", url=f"{base}/bot{TOKEN}/getMe"), "Here")
    assert not lost.value.uncertain
    assert TOKEN not in repr(lost.value)


async def test_files_are_for_their_owner_alone(tmp_path: Path) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n\r\nabc")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/file"
    async with server, aiohttp.ClientSession() as http:
        await save_file(http, url, tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == b"abc"
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o600


def test_an_answer_that_cannot_be_read_leaves_it_open_whether_the_message_arrived() -> None:
    with pytest.raises(SendError, match="Discord's answer cannot be read") as raised:
        decode_response(b"<html>", dict, "Discord")
    assert raised.value.uncertain
