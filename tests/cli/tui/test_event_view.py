"""The chat shows which messages wait, and no longer those that a turn has begun with."""

import asyncio
from collections.abc import Sequence

import pytest

from hermes.cli.tui.event_view import EventView
from hermes.cli.tui.terminal_style import TerminalStyle
from hermes.config.display import DisplaySettings
from hermes.core.events import Queued, RequestStarted, Retrying, TurnStarted


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("one", ["two", "two\nlines", "three"]),
        ("one\ntwo", ["two\nlines", "three"]),
        ("two\nlines\nthree", ["one", "two"]),
        ("on", ["one", "two", "two\nlines", "three"]),
    ],
)
def test_a_turn_takes_each_message_that_it_begins_with(text: str, left: Sequence[str]) -> None:
    async def run() -> list[str]:
        view = EventView(TerminalStyle(DisplaySettings(), lambda: 80), lambda lines: None, lambda: None)
        for waiting in ("one", "two", "two\nlines", "three"):
            view(Queued(waiting, 1))
        view(TurnStarted("t", "s", text))
        view.flush()
        return view.queued

    assert asyncio.run(run()) == list(left)


def test_new_tries_for_the_same_reason_are_one_line() -> None:
    async def run() -> list[str]:
        shown: list[str] = []
        view = EventView(TerminalStyle(DisplaySettings(), lambda: 200), shown.extend, lambda: None)
        view(TurnStarted("t", "s", "hi"))
        for attempt in (1, 2, 3):
            view(Retrying(attempt, 5.0, "overloaded", "It is busy", 1.0))
        view(RequestStarted(2, 1))
        view(Retrying(1, 5.0, "overloaded", "It is busy", 1.0))
        view.flush()
        return [line for line in shown if "It is busy" in line]

    assert len(asyncio.run(run())) == 2
