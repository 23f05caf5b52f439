"""Signals that stop a run: none is lost, and none takes the event loop apart, however early it comes."""

import asyncio
import signal
from collections.abc import Iterator

import pytest

from hermes.cli.plain.terminal import STOP_SIGNALS, handle_signals, run_stoppable


@pytest.fixture(autouse=True)
def raising_handlers() -> Iterator[None]:
    """Have every stop signal raise, as it does before an event loop handles it."""

    def interrupt(*_signal: object) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in STOP_SIGNALS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", STOP_SIGNALS)
def test_a_signal_before_the_handlers_is_handled_by_them(number: signal.Signals) -> None:
    async def work() -> str:
        signal.raise_signal(number)
        await asyncio.sleep(0)
        stopped = asyncio.Event()
        with handle_signals({number: stopped.set}):
            await asyncio.wait_for(stopped.wait(), 10)
        return "stopped"

    assert run_stoppable(work()) == "stopped"


@pytest.mark.parametrize("number", STOP_SIGNALS)
def test_a_signal_that_nobody_handles_is_raised_after_the_loop(number: signal.Signals) -> None:
    done = []

    async def work() -> None:
        signal.raise_signal(number)
        await asyncio.sleep(0)
        done.append("whole")

    with pytest.raises(KeyboardInterrupt):
        run_stoppable(work())
    assert done == ["whole"]


def test_handlers_of_before_are_there_again() -> None:
    before = [signal.getsignal(number) for number in STOP_SIGNALS]

    async def work() -> None:
        with handle_signals(dict.fromkeys(STOP_SIGNALS, lambda: None)):
            pass
        assert [signal.getsignal(number) for number in STOP_SIGNALS[1:]] == before[1:]

    run_stoppable(work())
    assert [signal.getsignal(number) for number in STOP_SIGNALS] == before
    assert not signal.pthread_sigmask(signal.SIG_BLOCK, []) & set(STOP_SIGNALS)
