"""The chat shows which messages wait, and no longer those that a turn has begun with."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from hermes.cli.tui.event_view import EventView
from hermes.cli.tui.terminal_style import TerminalStyle, strip_styles
from hermes.config.display import DisplaySettings
from hermes.core.events import Queued, RequestStarted, Retrying, ToolEnded, ToolStarted, TurnStarted
from hermes.core.messages import ToolStatus
from hermes.core.stream import TextDelta
from tests.tools.sample_pictures import make_png


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


def test_an_empty_line_stands_between_an_answer_and_the_call_after_it() -> None:
    async def run() -> list[str]:
        shown: list[str] = []
        view = EventView(TerminalStyle(DisplaySettings(), lambda: 80), shown.extend, lambda: None)
        view(TurnStarted("t", "s", "hi"))
        view(TextDelta("I look first."))
        for number in ("1", "2"):
            view(ToolStarted(number, "read_file", "{}", f"read {number}.txt"))
            view(ToolEnded(number, "read_file", ToolStatus.OK, 0.0, "text", lines=1))
        view(TextDelta("Seen."))
        view.flush()
        view.tell_lines(["", "one"], apart=True)
        view.tell_lines([""])
        view.tell_lines(["", "two"], apart=True)
        return [strip_styles(line).split("  ")[0] for line in shown]

    expected = ["", "› hi", "", "I look first.", "", "✓ read 1.txt", "✓ read 2.txt", "", "Seen.", "", "one", "", "two"]
    assert asyncio.run(run()) == expected


def test_a_picture_that_was_made_is_drawn_where_the_terminal_can(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(make_png())
    ended = ToolEnded("1", "image_generate", ToolStatus.OK, 0.0, f"MEDIA:{tmp_path}/a.png\nMade", lines=2)

    async def show_call(environ: dict[str, str]) -> bool:
        shown: list[str] = []
        view = EventView(TerminalStyle(DisplaySettings(), lambda: 80), shown.extend, lambda: None, environ)
        view(TurnStarted("t", "s", "hi"))
        view(ToolStarted("1", "image_generate", "{}", "make a picture: x"))
        view(ended)
        view.flush()
        return any("\x1b_Ga=T" in line for line in shown)

    assert asyncio.run(show_call({"TERM": "xterm-kitty"}))
    assert not asyncio.run(show_call({"TERM": "xterm-256color"}))
