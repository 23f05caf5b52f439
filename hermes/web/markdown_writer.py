"""Text put together from blocks and lines. Standard library only, as all that the converter runs."""

import re

MAX_OUT = 4_000_000
_WORD = re.compile(r"\w")


class Writer:
    """Puts text together with the fewest line breaks that keep blocks apart."""

    def __init__(self) -> None:
        self.out: list[str] = []
        self.size = 0
        self.prefix = ""
        self.inline = 0
        self.raw = 0
        self._gap = 0
        self._space = False
        self._settled = -1
        self._above = ""
        self._saved: list[tuple[list[str], int, bool]] = []

    @property
    def full(self) -> bool:
        """Whether no more is taken."""
        return self.size > MAX_OUT

    def block(self, lines: int = 2) -> None:
        """What follows begins on a line of its own (1), or after an empty one (2)."""
        if self.inline:
            self._space = True
        elif self._gap < lines and self._settled != len(self.out):
            self._above = self._above if self._gap else self.prefix
            self._gap = lines
        if self._gap and len(self.prefix) < len(self._above):
            self._above = self.prefix

    def put(self, text: str) -> None:
        """Write text as it is, after the gap that is due."""
        if self._gap:
            if self.out:
                empty = "\n" + self._above.rstrip()
                self.out.append(empty * (self._gap - 1) + "\n" + self.prefix)
            elif self.prefix:
                self.out.append(self.prefix)
            self._gap = 0
        elif self._space and self.out:
            self.out.append(" ")
        self._space = False
        self.out.append(text)
        self.size += len(text)

    def settle(self) -> None:
        """What was just written needs no gap after it: the next block begins right there."""
        self._settled = len(self.out)

    def tighten(self) -> None:
        """No empty line before what follows."""
        self._gap = min(self._gap, 1)

    def space(self) -> None:
        """What follows stands apart, on the same line."""
        self._space = True

    def text(self, text: str) -> None:
        """Write a text node: runs of white space are one space, unless within `pre`."""
        if self.raw:
            if text:
                self.put(text.replace("\n", "\n" + self.prefix))
            return
        flat = " ".join(text.split())
        if not flat:
            self._space = self._space or bool(text)
            return
        if text[0].isspace():
            self._space = True
        self.put(flat)
        self._space = text[-1].isspace()

    def mark(self) -> tuple[int, int, bool]:
        """A place to come back to with `written` or `back`."""
        return len(self.out), self._gap, self._space

    def written(self, since: tuple[int, int, bool]) -> bool:
        """Whether anything was written since, besides one mark."""
        return any(_WORD.search(piece) or len(piece) > 8 for piece in self.out[since[0] :])

    def back(self, to: tuple[int, int, bool]) -> None:
        """Take back what was written since."""
        del self.out[to[0] :]
        self._gap, self._space = to[1], to[2]

    def push(self) -> None:
        """Write aside, on one line, until `pop`."""
        self._saved.append((self.out, self._gap, self._space))
        self.out, self._gap, self._space = [], 0, False
        self.inline += 1

    def pop(self) -> str:
        """What was written aside."""
        text = "".join(self.out).strip()
        self.out, self._gap, self._space = self._saved.pop()
        self.inline -= 1
        return text
