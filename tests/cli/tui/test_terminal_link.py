"""Whoever has just typed is not called; whoever has gone away is, once their last key is long enough ago."""

import asyncio

from hermes.cli.tui.terminal_link import TerminalLink
from hermes.cli.tui.terminal_signals import AWAY_SECONDS, TerminalSignals
from hermes.cli.tui.terminal_style import TerminalStyle
from hermes.config.display import DisplaySettings
from hermes.core.events import TurnEnded
from hermes.core.outcomes import ExitReason

ENDED = TurnEnded(turn_id="t", reason=ExitReason.TEXT_RESPONSE)
BELL = "\x07"


class Window:
    """A link to a terminal, what it was sent, and the focus that the terminal reports."""

    def __init__(self) -> None:
        self.rung = asyncio.Event()
        self.signals = TerminalSignals({"TERM": "xterm-256color"}, self._write, "/tmp/work")
        self.link = TerminalLink(self.signals, TerminalStyle(DisplaySettings(), lambda: 80))

    def _write(self, sequence: str) -> None:
        if BELL in sequence:
            self.rung.set()

    def type_earlier(self, seconds: float) -> None:
        """Note a key that was pressed that many seconds ago."""
        self.link.note_key()
        self.link.key_at -= seconds


async def test_who_has_just_typed_is_not_called_whatever_the_terminal_says_of_its_focus() -> None:
    for focused in (None, True, False):
        window = Window()
        window.signals.focused = focused
        window.type_earlier(AWAY_SECONDS - 1)
        window.link.notify_of_event(ENDED, is_last=True)
        assert not window.rung.is_set()
        window.link.close()


async def test_who_has_gone_to_another_window_is_called_when_their_last_key_is_long_ago() -> None:
    window = Window()
    window.signals.focused = False
    window.type_earlier(AWAY_SECONDS - 0.05)
    window.link.notify_of_event(ENDED, is_last=True)
    assert not window.rung.is_set()
    async with asyncio.timeout(30):
        await window.rung.wait()
    for focused in (None, False):
        window = Window()
        window.signals.focused = focused
        window.type_earlier(AWAY_SECONDS + 1)
        window.link.notify_of_event(ENDED, is_last=True)
        assert window.rung.is_set()


async def test_a_key_takes_back_the_call_that_waits() -> None:
    window, other = Window(), Window()
    for one in (window, other):
        one.signals.focused = False
        one.type_earlier(AWAY_SECONDS - 0.1)
        one.link.notify_of_event(ENDED, is_last=True)
    window.link.note_key()
    async with asyncio.timeout(30):
        await other.rung.wait()
    await asyncio.sleep(0)
    assert not window.rung.is_set()
