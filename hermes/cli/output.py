"""What verbs print: JSON where it is asked for, a question before something goes, sizes for people."""

import re
import shutil
import sys

import msgspec

from hermes.cli.errors import complain
from hermes.i18n.messages import say
from hermes.markup.charts import fold_line, text_width

YES = ("y", "yes", "是", "好")


def print_json(value: object) -> None:
    """The value as indented JSON on standard output."""
    sys.stdout.write(msgspec.json.format(msgspec.json.encode(value)).decode() + "\n")


def agreed(question: str, *, yes: bool, what: str) -> bool | None:
    """Whether the person agrees, at once with `yes`. None where nobody can be asked, which is said with what helps.

    `what` begins that sentence, such as "Deleting".
    """
    if yes:
        return True
    if not sys.stdin.isatty():
        complain(say("{what} needs a yes: add --yes.", what=what))
        return None
    print(f"{question} [y/N] ", end="", flush=True)
    return sys.stdin.readline().strip().lower() in YES


def on_lines(text: str) -> str:
    """The text with lines that a terminal would cut within words broken at spaces; as it is where no terminal is."""
    if not sys.stdout.isatty():
        return text
    columns = shutil.get_terminal_size((80, 24)).columns
    return "\n".join(part for line in text.split("\n") for part in fold_line(line, columns))


class Flow:
    """Text that comes in pieces, its lines broken at spaces where the terminal ends. The last word is held back until
    it is whole."""

    def __init__(self) -> None:
        self._at = 0
        self._word = ""

    def more(self, text: str) -> str:
        """What can be written now."""
        shown = ""
        pieces = _WORDS.findall(self._word + text)
        self._word = pieces.pop() if pieces and _HELD.fullmatch(pieces[-1]) else ""
        for piece in pieces:
            shown += self._placed(piece)
        return shown

    def end(self) -> str:
        """What was held back; a new line begins after it."""
        shown = self._placed(self._word) if self._word else ""
        self._at, self._word = 0, ""
        return shown

    def _placed(self, piece: str) -> str:
        columns = shutil.get_terminal_size((80, 24)).columns
        if piece == "\n":
            self._at = 0
            return piece
        size = text_width(piece)
        if not self._at or self._at + size <= columns:
            self._at += size
            return piece
        self._at = 0 if piece.isspace() else size
        return "\n" if piece.isspace() else f"\n{piece}"


_WORDS = re.compile(r"\n|[^\S\n]|[\u2e80-\u9fff\uff00-\uffef]|[^\s\u2e80-\u9fff\uff00-\uffef]+")
_HELD = re.compile(r"[^\s\u2e80-\u9fff\uff00-\uffef]+")


def size(count: int) -> str:
    """Bytes in few characters: 812 B, 1.4 MB."""
    value, units = float(count), ("B", "kB", "MB", "GB", "TB")
    for unit in units:
        if value < 1000 or unit == units[-1]:
            return f"{value:.0f} {unit}" if unit == "B" or value >= 100 else f"{value:.1f} {unit}"
        value /= 1000
    raise AssertionError
