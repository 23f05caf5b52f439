"""Speak with the terminal beyond what is drawn: its title, notifications, whether its window is looked at, its colors.

All of it is a courtesy: a terminal that knows none of these sequences ignores them, and nothing waits for an answer.
"""

import os
import re
from collections.abc import Callable, Mapping
from typing import TextIO

from prompt_toolkit.input.vt100 import Vt100Input
from prompt_toolkit.key_binding.key_processor import KeyPress

from hermes.cli.render.theme import Background
from hermes.config.display import DisplaySettings, NotifyMode
from hermes.util.text import strip_control_characters, to_one_line

AWAY_SECONDS = 10.0
"""Seconds without a key after which a person counts as away where the terminal does not tell."""
_ASK_BACKGROUND = "\x1b]11;?\x1b\\"
_FOCUS_ON, _FOCUS_OFF = "\x1b[?1004h", "\x1b[?1004l"
_KEEP_TITLE, _RESTORE_TITLE = "\x1b[22;2t", "\x1b[23;2t"
_REPORT = re.compile(r"\x1b\[([IO])|\x1b\]11;([^\x07\x1b]{0,64})(?:\x07|\x1b\\)")
_BEGUN = re.compile(r"\x1b(?:\[|\](?:1(?:1(?:;[^\x07\x1b]{0,64}\x1b?)?)?)?)?\Z")
"""The beginning of a report at the end of what was read."""
_COLOR = re.compile(r"rgba?:([0-9a-f]{1,4})/([0-9a-f]{1,4})/([0-9a-f]{1,4})", re.IGNORECASE)
_BELL_TERMINALS = ("linux", "screen", "tmux", "dumb")
_OSC9_PROGRAMS = frozenset({"iTerm.app", "WezTerm", "ghostty", "kitty", "rio", "WarpTerminal"})


class TerminalInput(Vt100Input):
    """The keys of a terminal without the reports that it sends among them: focus, and the color that was asked for."""

    def __init__(self, stdin: TextIO, on_focus: Callable[[bool], None], on_color: Callable[[Background], None]) -> None:
        super().__init__(stdin)
        self._on_focus = on_focus
        self._on_color = on_color
        self._held = ""
        """The beginning of what may become a report."""
        self.expects_color = False
        """Whether the answer to a question about the color is on its way."""

    def read_keys(self) -> list[KeyPress]:
        """Return the keys that were pressed."""
        self._take_text(self.stdin_reader.read())
        return self._take_keys()

    def flush_keys(self) -> list[KeyPress]:
        """Return keys that may be the beginning of others, such as Esc."""
        if not (self.expects_color and self._held.startswith("\x1b]")):  # the rest of an answer that comes slowly
            held, self._held = self._held, ""
            self.vt100_parser.feed(held)
        self.vt100_parser.flush()
        return self._take_keys()

    def _take_keys(self) -> list[KeyPress]:
        found, self._buffer = self._buffer, []
        return found

    def _take_text(self, data: str) -> None:
        data, self._held = self._held + data, ""
        if "\x1b" in data:
            data = _REPORT.sub(self._note_report, data)
            if begun := _BEGUN.search(data):
                data, self._held = data[: begun.start()], begun[0]
        self.vt100_parser.feed(data)

    def _note_report(self, report: re.Match[str]) -> str:
        if report[1]:
            self._on_focus(report[1] == "I")
        else:
            self.expects_color = False
            self._on_color(judge_color(report[2]))
        return ""


def judge_color(color: str) -> Background:
    """Return whether a color as terminals name it (`rgb:ffff/ffff/ffff`) is a dark or a light one."""
    match = _COLOR.fullmatch(color)
    if match is None:
        return Background.UNKNOWN
    red, green, blue = (int(part, 16) / (16 ** len(part) - 1) for part in match.groups())
    return Background.LIGHT if 0.299 * red + 0.587 * green + 0.114 * blue > 0.5 else Background.DARK


class TerminalSignals:
    """Sets the title and notifies. `write` sends a sequence to the terminal at once."""

    def __init__(self, environ: Mapping[str, str], write: Callable[[str], None], folder: str) -> None:
        self._environ = environ
        self._write = write
        self._folder = to_one_line(strip_control_characters(os.path.basename(folder) or folder), 40)
        self._term = environ.get("TERM", "")
        self._title = ""
        self._watching = False
        self.focused: bool | None = None
        """Whether the window is looked at; None while the terminal has not told."""

    @property
    def _is_mute(self) -> bool:
        return self._term in ("", "dumb", "linux")

    def open_terminal(self, display: DisplaySettings) -> None:
        """Ask the terminal to tell of its focus, and keep its title, as far as the settings want that."""
        if self._is_mute:
            return
        self._watching = display.notify is not NotifyMode.OFF
        self._write((_FOCUS_ON if self._watching else "") + (_KEEP_TITLE if display.title else ""))

    def close_terminal(self) -> None:
        """Leave the terminal as it was."""
        restore = (_FOCUS_OFF if self._watching else "") + (f"\x1b]2;\x07{_RESTORE_TITLE}" if self._title else "")
        self._watching, self._title = False, ""
        self.focused = None
        if restore:
            self._write(restore)

    def ask_background(self) -> bool:
        """Ask for the background's color; return whether the terminal was asked."""
        if self._is_mute:
            return False
        self._write(_ASK_BACKGROUND)
        return True

    def set_title(self, mark: str, display: DisplaySettings) -> None:
        """Show in the title what the chat does: `*` works, `?` asks."""
        if self._is_mute or not display.title:
            return
        title = f"{mark} Hermes · {self._folder}".strip()
        if title != self._title:
            self._title = title
            self._write(f"\x1b]2;{title}\x07")

    def notify(self, text: str, mode: NotifyMode) -> None:
        """Tell a person who is away."""
        if mode is NotifyMode.OFF or self._term in ("", "dumb"):
            return
        words = to_one_line(strip_control_characters(text), 120).replace(";", ",")
        first, second = f"\x1b]9;{words}\x07", f"\x1b]777;notify;Hermes;{words}\x07"
        known = self._choose_sequence(first, second)
        if mode is NotifyMode.BELL:
            self._write("\x07")
        elif mode is NotifyMode.OSC:
            self._write(self._wrap_sequence(first) + self._wrap_sequence(second))
        else:
            self._write(self._wrap_sequence(known) if known else "\x07")

    def _choose_sequence(self, first: str, second: str) -> str:
        """Return the sequence that this terminal is known to show; empty where none is."""
        if "TMUX" in self._environ or self._term.startswith(_BELL_TERMINALS):
            return ""
        program = self._environ.get("TERM_PROGRAM", "") or self._environ.get("LC_TERMINAL", "")
        if program in _OSC9_PROGRAMS or "KITTY_WINDOW_ID" in self._environ or self._term == "xterm-ghostty":
            return first
        return second if "VTE_VERSION" in self._environ or self._term.startswith(("foot", "rxvt")) else ""

    def _wrap_sequence(self, sequence: str) -> str:
        """Hand a sequence through tmux to the terminal around it, which it does where `allow-passthrough` is on."""
        if "TMUX" not in self._environ:
            return sequence
        return "\x1bPtmux;" + sequence.replace("\x1b", "\x1b\x1b") + "\x1b\\"
