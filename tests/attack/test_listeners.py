"""Findings about what listens, and about who vouches for a mail."""

import asyncio
import contextlib

import pytest

from hermes.gateway.platforms.email.mail import is_sender_verified
from hermes.gateway.platforms.telegram.api import TelegramWebhookServer

OURS = "mx.here.test"


async def told(port: int, header: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = b"POST /hook HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 2\r\n"
    writer.write(head + header + b"\r\nConnection: close\r\n\r\n{}")
    answer = await reader.read()
    writer.close()
    return answer


async def test_telegrams_webhook_takes_no_secret_that_is_no_text_for_an_error(caplog: pytest.LogCaptureFixture) -> None:
    async with TelegramWebhookServer("https://x.example/hook", "127.0.0.1:18443", "s" * 20):
        answer = await told(18443, b"X-Telegram-Bot-Api-Secret-Token: \xff\xfe")
    assert b" 401 " in answer.split(b"\r\n")[0]
    assert not caplog.records


async def test_telegrams_webhook_keeps_no_thousand_connections_open() -> None:
    async with (
        TelegramWebhookServer("https://x.example/hook", "127.0.0.1:18444", "s" * 20),
        contextlib.AsyncExitStack() as stack,
    ):
        silent = []
        for _ in range(1_000):
            reader, writer = await asyncio.open_connection("127.0.0.1", 18444)
            stack.callback(writer.close)
            silent.append(reader)
        async with asyncio.timeout(60):
            assert (await silent[-1].read()).startswith(b"HTTP/1.1 503 ")


def test_a_header_that_cannot_be_read_does_not_let_the_one_below_it_speak() -> None:
    """What a server writes into its comment may hold what the sender chose: `"a)b"@evil.test` for one."""
    own = f'{OURS}; spf=pass (here.test: domain of "a)b"@evil.test designates 192.0.2.1) smtp.mailfrom=evil.test'
    forged = f"{OURS}; dmarc=pass header.from=people.test"
    assert not is_sender_verified([own, forged], OURS, "ann@people.test")
