"""A pipe is read as its bytes come, and nothing of it stays in the event loop."""

import asyncio
import os
from collections.abc import Callable

import pytest
import uvloop

from hermes.util.pipe_reader import PipeReader

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
