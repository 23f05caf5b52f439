"""The channel to a Python that runs code: it takes what can be read, in order, and not without end."""

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from hermes.execution.base import CommandExit
from hermes.execution.code.python_engine import PythonChannel
from hermes.execution.code.steps import CallsWanted, CodeEnded, CodeStep, PrintedText


@pytest_asyncio.fixture
async def ending() -> AsyncIterator["asyncio.Task[CommandExit]"]:
    """A program that does not end."""

    async def wait() -> CommandExit:
        await asyncio.Event().wait()
        raise AssertionError

    task = asyncio.ensure_future(wait())
    yield task
    task.cancel()


def make_channel() -> PythonChannel:
    return PythonChannel("", ["read_file"], PrintedText(100))


def send(channel: PythonChannel, body: bytes) -> None:
    channel.take_output(channel._prefix + body + b"\n")


async def next_step(channel: PythonChannel, ending: "asyncio.Task[CommandExit]") -> CodeStep:
    return await channel.next_step(None, ending)  # type: ignore[arg-type]


async def test_a_call_is_read(ending: "asyncio.Task[CommandExit]") -> None:
    channel = make_channel()
    send(channel, b'{"calls": [["read_file", {"path": "a"}]]}')
    step = await next_step(channel, ending)
    assert isinstance(step, CallsWanted)
    assert step.calls[0].arguments == '{"path":"a"}'


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b'{"calls": 1}',
        b'{"calls": [["\xff", {}]]}',
        b'{"calls": [["x", {"path": "\\ud800"}]]}',
        b'{"calls": [["x", {"path": "\xff"}]]}',
        b'{"calls": [["x", {"path": ' + b"[" * 99_999 + b"]" * 99_999 + b"}]]}",
        b"{}",
    ],
)
async def test_a_message_that_cannot_be_read_ends_the_code(body: bytes, ending: "asyncio.Task[CommandExit]") -> None:
    channel = make_channel()
    send(channel, body)
    assert isinstance(await next_step(channel, ending), CodeEnded)


async def test_calls_without_end_stop_the_code(ending: "asyncio.Task[CommandExit]") -> None:
    channel = make_channel()
    for _ in range(100):
        send(channel, b'{"calls": [["read_file", {"path": "a"}]]}')
    step = await next_step(channel, ending)
    assert isinstance(step, CodeEnded)
    assert "before it has the results" in step.error
