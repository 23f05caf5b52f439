"""A menu that arrow keys and Enter answer, on a terminal without a screen of its own: for setup and other questions."""

import os
import re
import select
import shutil
import sys
from collections.abc import Callable, Sequence

from hermes.cli.plain.terminal import preserve_terminal_modes, set_terminal_modes
from hermes.config.environment import copy_environment
from hermes.i18n.messages import tr
from hermes.markup.cells import fold_line, measure_width
from hermes.util.text import escape_unseen_characters

MAX_SHOWN = 10
_ESCAPE_SECONDS = 0.05
"""Seconds to wait for what may follow an Esc."""
_KEY = re.compile("\x1b[\\[O][0-9;]*[A-Za-z~]|.", re.DOTALL)
_UP, _DOWN = ("\x1b[A", "\x1bOA", "\x10"), ("\x1b[B", "\x1bOB", "\x0e")
_ERASE = ("\x7f", "\b")
FindMatches = Callable[[str], Sequence[str]]


def has_key_menus() -> bool:
    """Return whether this terminal can show menus."""
    return os.isatty(0) and os.isatty(1) and copy_environment().get("TERM", "") not in ("", "dumb", "unknown")


class KeyMenu:
    """One question. `find_matches` gives the choices for what was typed; without it letters do nothing, and a digit
    goes to a choice.
    """

    def __init__(
        self,
        title: str,
        choices: Sequence[str],
        *,
        chosen: int = 0,
        find_matches: FindMatches | None = None,
        back: bool = False,
    ) -> None:
        self._title = title
        self._shown = list(choices)
        self._find_matches = find_matches
        self._chosen = chosen
        self._drawn = 0
        self.typed = ""
        self._back = back
        self.went_back = False
        """Whether Esc was pressed where nothing was typed, with `back`: then nothing is chosen."""
        self._cursor_at = 0
        """The rows by which the cursor stands above the end of what is drawn."""

    def ask(self) -> str | None:
        """Show the menu until Enter, and return the choice; None where nothing fits what was typed, or at `went_back`.

        Raises EOFError on Ctrl-D, on Esc where that does not go back or clears what was typed, or when the terminal is
        gone; KeyboardInterrupt on Ctrl-C.
        """
        with preserve_terminal_modes(0):
            set_terminal_modes(0, lines=False, echo=False)
            try:
                while not self._handle_keys():
                    pass
            finally:
                self._erase()
        taken = self._shown[self._chosen] if self._shown and not self.went_back else None
        print(f"{self._title} {escape_unseen_characters(taken or self.typed)}", flush=True)
        return taken

    def _handle_keys(self) -> bool:
        """Draw, wait for keys, and return whether Enter was among them."""
        self._draw()
        data = os.read(0, 1024)
        if not data:
            raise EOFError
        if data.endswith(b"\x1b") and select.select([0], [], [], _ESCAPE_SECONDS)[0]:
            data += os.read(0, 1024)  # an arrow key's letters need not come at once
        return any(self._handle_key(key) for key in _KEY.findall(data.decode("utf-8", "replace")))

    def _handle_key(self, key: str) -> bool:
        if self._is_end(key):
            return True
        if key in _UP or key in _DOWN:
            step = -1 if key in _UP else 1
            self._chosen = max(0, min(self._chosen + step, len(self._shown) - 1))
        elif self._find_matches is not None and (key in _ERASE or key == "\x1b" or key.isprintable()):
            self._type(key)
        elif key.isdecimal() and 0 < int(key) <= len(self._shown):
            self._chosen = int(key) - 1
        return False

    def _is_end(self, key: str) -> bool:
        """Return whether a key ends the question: Enter, or Esc where that goes back. Raises EOFError for one that
        leaves it.
        """
        leaves = key == "\x1b" and not self.typed
        self.went_back = leaves and self._back
        if key == "\x04" or (leaves and not self._back):
            raise EOFError
        return self.went_back or key in ("\r", "\n")

    def _type(self, key: str) -> None:
        assert self._find_matches is not None
        self.typed = "" if key == "\x1b" else self.typed[:-1] if key in _ERASE else self.typed + key
        self._shown, self._chosen = list(self._find_matches(self.typed)), 0

    def _draw(self) -> None:
        columns = max(shutil.get_terminal_size((80, 24)).columns - 1, 20)
        first = max(0, min(self._chosen - MAX_SHOWN // 2, len(self._shown) - MAX_SHOWN))
        lines = [f"{self._title} {escape_unseen_characters(self.typed)}"]
        for number in range(first, min(first + MAX_SHOWN, len(self._shown))):
            mark = ">" if number == self._chosen else " "
            lines.append(f"{mark} {number + 1}. {escape_unseen_characters(self._shown[number])}")
        if len(self._shown) > MAX_SHOWN:
            lines.append("  " + tr("{n} in all; letters narrow them down", n=len(self._shown)))
        elif not self._shown:
            lines.append("  " + tr("nothing fits"))
        keys = (
            tr("↑ ↓ choose, Enter takes it, Esc goes back")
            if self._back
            else tr("↑ ↓ choose, Enter takes it, Esc leaves")
        )
        lines.append("  " + keys)
        self._erase()
        cut = [(fold_line(line, columns) or [""])[0] for line in lines]
        sys.stdout.write("\n".join(cut) + "\n")
        self._drawn = len(cut)
        if self._find_matches is not None:  # what is typed stands in the first row
            self._cursor_at = self._drawn
            sys.stdout.write(f"\x1b[{self._drawn}F\x1b[{measure_width(cut[0]) + 1}G")
        sys.stdout.flush()

    def _erase(self) -> None:
        if self._drawn:
            above = self._drawn - self._cursor_at
            sys.stdout.write((f"\x1b[{above}F" if above else "\r") + "\x1b[J")
            self._drawn = self._cursor_at = 0
