"""Writes text from blocks and lines. Standard library only, as all that the converter runs."""

import re

MAX_OUTPUT = 4_000_000
_WORD = re.compile(r"\w")


class MarkdownWriter:
    """Joins text with the fewest line breaks that keep blocks apart."""

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self.size = 0
        self.prefix = ""
        self.inline = 0
        self.raw = 0
        self._gap = 0
        self._needs_space = False
        self._settled_at = -1
        self._gap_prefix = ""
        self._outer_states: list[tuple[list[str], int, bool]] = []

    @property
    def is_full(self) -> bool:
        """Whether no more text is taken."""
        return self.size > MAX_OUTPUT

    def begin_block(self, lines: int = 2) -> None:
        """Begin the following text on a line of its own (1), or after an empty one (2)."""
        if self.inline:
            self._needs_space = True
        elif self._gap < lines and self._settled_at != len(self.pieces):
            self._gap_prefix = self._gap_prefix if self._gap else self.prefix
            self._gap = lines
        if self._gap and len(self.prefix) < len(self._gap_prefix):
            self._gap_prefix = self.prefix

    def write_raw(self, text: str) -> None:
        """Write text as it is, after the gap that is due."""
        if self._gap:
            if self.pieces:
                empty = "\n" + self._gap_prefix.rstrip()
                self.pieces.append(empty * (self._gap - 1) + "\n" + self.prefix)
            elif self.prefix:
                self.pieces.append(self.prefix)
            self._gap = 0
        elif self._needs_space and self.pieces:
            self.pieces.append(" ")
        self._needs_space = False
        self.pieces.append(text)
        self.size += len(text)

    def skip_next_gap(self) -> None:
        """Let the next block begin right here: what was just written needs no gap after it."""
        self._settled_at = len(self.pieces)

    def drop_empty_line(self) -> None:
        """Put no empty line before what follows."""
        self._gap = min(self._gap, 1)

    def add_space(self) -> None:
        """Set what follows apart, on the same line."""
        self._needs_space = True

    def write_text(self, text: str) -> None:
        """Write a text node: runs of white space are one space, unless within `pre`."""
        if self.raw:
            if text:
                self.write_raw(text.replace("\n", "\n" + self.prefix))
            return
        flat = " ".join(text.split())
        if not flat:
            self._needs_space = self._needs_space or bool(text)
            return
        if text[0].isspace():
            self._needs_space = True
        self.write_raw(flat)
        self._needs_space = text[-1].isspace()

    def save_position(self) -> tuple[int, int, bool]:
        """Return a position for `has_text_since` or `rewind`."""
        return len(self.pieces), self._gap, self._needs_space

    def has_text_since(self, since: tuple[int, int, bool]) -> bool:
        """Return whether any text was written since, besides one marker."""
        return any(_WORD.search(piece) or len(piece) > 8 for piece in self.pieces[since[0] :])

    def rewind(self, to: tuple[int, int, bool]) -> None:
        """Remove what was written since."""
        del self.pieces[to[0] :]
        self._gap, self._needs_space = to[1], to[2]

    def begin_aside(self) -> None:
        """Write aside, on one line, until `end_aside`."""
        self._outer_states.append((self.pieces, self._gap, self._needs_space))
        self.pieces, self._gap, self._needs_space = [], 0, False
        self.inline += 1

    def end_aside(self) -> str:
        """Return what was written aside."""
        text = "".join(self.pieces).strip()
        self.pieces, self._gap, self._needs_space = self._outer_states.pop()
        self.inline -= 1
        return text
