"""Pipes are read and written as their bytes come and go, and closed once."""

import asyncio
import os
from collections.abc import Callable

import pytest
import uvloop

from hermes.util.pipes import PipeReader, PipeWriter

LOOPS: list[Callable[[], asyncio.AbstractEventLoop]] = [asyncio.new_event_loop, uvloop.new_event_loop]


@pytest.mark.parametrize("make_loop", LOOPS)
def test_it_reads_what_comes_up_to_the_end(make_loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    async def read_all() -> None:
        near, far = os.pipe()
        reader = PipeReader(near)
        waiting = asyncio.ensure_future(reader.read(100))
        await asyncio.sleep(0)
        assert not waiting.done()
        os.write(far, b"one")
        assert await waiting == b"one"
        os.write(far, b"two")
        os.close(far)
        assert [await reader.read(2), await reader.read(2), await reader.read(2)] == [b"tw", b"o", b""]
        os.close(near)

    with asyncio.Runner(loop_factory=make_loop) as runner:
        runner.run(read_all())


@pytest.mark.parametrize("make_loop", LOOPS)
def test_a_descriptor_may_be_closed_and_given_to_another_pipe_at_once(
    make_loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    async def read_one_after_the_other() -> None:
        for number in range(200):
            near, far = os.pipe()
            waiting = asyncio.ensure_future(PipeReader(near).read(100))
            await asyncio.sleep(0)
            if number % 2:
                waiting.cancel()
                await asyncio.wait({waiting})
            else:
                os.write(far, b"x")
                assert await waiting == b"x"
            os.close(near)
            os.close(far)

    with asyncio.Runner(loop_factory=make_loop) as runner:
        runner.run(read_one_after_the_other())


@pytest.mark.parametrize("make_loop", LOOPS)
def test_what_waits_can_be_waited_for(make_loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    async def write_and_wait() -> None:
        near, far = os.pipe()
        writer, reader = PipeWriter(far), PipeReader(near)
        await writer.wait_until_taken(0)
        for ends_by_reading in (True, False):
            writer.write(b"x" * 1_000_000)
            waiting = asyncio.ensure_future(writer.wait_until_taken(1_000))
            await asyncio.sleep(0)
            assert not waiting.done()
            while ends_by_reading and not waiting.done():
                await reader.read(1 << 16)
                await asyncio.sleep(0)
            if not ends_by_reading:
                writer.close()
            await asyncio.wait_for(waiting, 10)
            assert writer.waiting_bytes <= 1_000
        os.close(near)

    with asyncio.Runner(loop_factory=make_loop) as runner:
        runner.run(write_and_wait())


@pytest.mark.parametrize("make_loop", LOOPS)
def test_what_a_full_pipe_does_not_take_is_written_in_order_once_it_is_read(
    make_loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    async def write_and_read() -> None:
        near, far = os.pipe()
        writer, reader = PipeWriter(far), PipeReader(near)
        pieces = [bytes([number]) * 100_000 for number in range(10)]
        for piece in pieces:
            writer.write(piece)
        assert writer.waiting_bytes > 0
        received = bytearray()
        while len(received) < 1_000_000:
            received += await reader.read(65_536)
        assert received == b"".join(pieces)
        assert writer.waiting_bytes == 0
        writer.close()
        writer.close()
        assert await reader.read(1) == b""
        os.close(near)

    with asyncio.Runner(loop_factory=make_loop) as runner:
        runner.run(write_and_read())


@pytest.mark.parametrize("make_loop", LOOPS)
def test_a_pipe_whose_reader_is_gone_is_closed_at_the_next_write(
    make_loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    async def write_to_nobody() -> None:
        near, far = os.pipe()
        writer = PipeWriter(far)
        os.close(near)
        assert not writer.is_closed
        writer.write(b"x")
        assert writer.is_closed
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(far)

    with asyncio.Runner(loop_factory=make_loop) as runner:
        runner.run(write_to_nobody())
