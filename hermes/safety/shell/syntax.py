"""The syntax tree of a shell text, parsed within a budget of time.

The budget of work for one shell text.
"""

import re
import time
from collections.abc import Iterator
from functools import cache, lru_cache

from tree_sitter import Language, Node, Parser, Tree
from tree_sitter_bash import language

_SHORT_BYTES = 400
"""Bytes that are parsed without looking at the clock: the worst of that size takes less than 2 ms."""
_CHUNK = 8192
_PARSE_SECONDS = 0.010
_SECONDS_A_BYTE = 0.56e-6
"""Ordinary scripts take 0.1 to 0.25 us a byte. A long pipe or a row of `<<<` takes the square of its length."""
_BRACES = re.compile(r"(^|[\s;&|(])\{([^\s{}'\"$`;]*,[^\s{}'\"$`;]*)\}(?=[\s;&|)]|$)")

_OUT_THEN_IN = re.compile(r"(>{1,2}\s*[\w./~-]{1,200})\s+(<<<\s*(?:'[^']*'|\"[^\"]*\"|[\w./~$-]{1,200}))")

_CONTINUED = re.compile(r"(?<=[^\s\\])\\\n(?=[^\s#])")

_MAX_PIPES = 500
"""Pipes of one statement: giving up on thousands of them takes the parser longer than its clock allows."""
_ESCAPE_MARK = "\x1f"
_UNSAFE_TEXT = re.compile(r"[\x1f\x80-\U0010ffff]+")
_ESCAPED_TEXT = re.compile("\x1f((?:[0-9a-f]{2})+)\x1f")


_LONG_BYTES = 4096
_MAX_ABANDONED_BYTES = 4_000_000
"""Bytes of texts whose parse was given up in one process, from which on no long text is begun: each byte leaves up
to 70 behind that tree-sitter 0.26 does not free."""


class _AbandonedBytes:
    """Bytes of texts whose parse was given up in this process."""

    size = 0


_ABANDONED = _AbandonedBytes()


@cache
def _bash_parser() -> Parser:
    return Parser(Language(language()))


def parse_shell(text: str, ends: float) -> Tree | None:
    """Parse the text to a tree; None when it would take too long: longer than such a text should, or until
    `thread_time` is `ends`.

    Its text is to be read with `node_text` and `decode_source`.
    """
    if text.count("|") > _MAX_PIPES and any(part.count("|") > _MAX_PIPES for part in re.split(r"[;\n]", text)):
        return None
    parser = _bash_parser()
    source = _encode_source(text)
    if len(source) <= _SHORT_BYTES:
        return parser.parse(source)
    if _ABANDONED.size >= _MAX_ABANDONED_BYTES and len(source) > _LONG_BYTES:
        return None
    ends = min(ends, time.thread_time() + _PARSE_SECONDS + len(source) * _SECONDS_A_BYTE)
    spent = False

    def read_chunk(offset: int, _: object) -> bytes:
        return source[offset : offset + _CHUNK]

    def check_clock(_: int, __: bool) -> bool:
        nonlocal spent
        spent = time.thread_time() > ends
        return spent

    try:
        tree = parser.parse(read_chunk, progress_callback=check_clock)
    except ValueError:
        tree = None
    if tree is None or spent:
        _ABANDONED.size += len(source)
        parser.reset()
        return None
    return tree


def _encode_source(text: str) -> bytes:
    """Encode the text in ASCII, other characters as their numbers between marks.

    The grammar's scanner looks other characters up beyond the end of a table of the C library: it reads foreign memory
    and may bring the process down (tree-sitter-bash issue 337). A shell takes them for letters of a word, as these are.
    """
    # A shell drops NUL; the parser takes the square of their number.
    text = text.replace("\0", "")
    if text.isascii() and _ESCAPE_MARK not in text:
        return text.encode()
    spelled = _UNSAFE_TEXT.sub(
        lambda found: f"{_ESCAPE_MARK}{found[0].encode('utf-8', 'replace').hex()}{_ESCAPE_MARK}", text
    )
    return spelled.encode()


def decode_source(source: bytes) -> str:
    """Return a piece of the source of a tree, as it was written."""
    text = source.decode("utf-8", "replace")
    if _ESCAPE_MARK not in text:
        return text
    parts = text.split(_ESCAPE_MARK)
    if len(parts) % 2 == 0:  # the node begins or ends inside of something spelled
        return _ESCAPED_TEXT.sub(lambda found: _decode_escape(found[1]), text)
    parts[1::2] = map(_decode_escape, parts[1::2])
    return "".join(parts)


@lru_cache(maxsize=2048)
def _decode_escape(numbers: str) -> str:
    """Decode an escape; return it between its marks when it is none."""
    try:
        return bytes.fromhex(numbers).decode("utf-8", "replace")
    except ValueError:
        return f"{_ESCAPE_MARK}{numbers}{_ESCAPE_MARK}"


def rewrite_unreadable(text: str) -> str:
    """Rewrite what the grammar cannot read: `{a,b}` as a command, `> file <<< text`, `<>`."""
    text = _BRACES.sub(lambda found: found[1] + found[2].replace(",", " "), text)
    return _OUT_THEN_IN.sub(r"\2 \1", text).replace("<>", ">")


def join_continued_lines(text: str) -> Iterator[str]:
    """Yield the text with lines joined that continue in the middle of a word, if there are any."""
    if _CONTINUED.search(text):
        yield _CONTINUED.sub("", text)


def node_text(node: Node) -> str:
    """Return the source text of a node."""
    return decode_source(node.text or b"")


_STEPS, _STEPS_A_CHARACTER = 800, 0.04
"""Statements and programs that are judged in one text; what comes after them asks."""


_ANALYSIS_SECONDS, _SECONDS_A_CHARACTER = 0.024, 1.1e-6
"""CPU time that one text may take in all, parsing included. An ordinary script takes a sixth of it on a quiet machine:
a verdict must not depend on what else the machine does."""


_STEPS_BETWEEN_CLOCKS = 32
"""Steps between two looks at the clock."""


_WORDS_A_STEP = 16


_MAX_UNROLLED_ROUNDS = 96
"""Rounds of loops that are followed one by one in a whole text."""


_MAX_LISTED_WORDS = 20_000
"""Words of all commands that are listed."""


class AnalysisBudget:
    """The work that a text may cost. What is left out when it is used up has to be approved."""

    __slots__ = ("_checked", "_listed", "_rounds", "_steps", "ends", "spent")

    def __init__(self, length: int) -> None:
        self._steps = self._checked = _STEPS + int(length * _STEPS_A_CHARACTER)
        self._rounds = _MAX_UNROLLED_ROUNDS
        self._listed = _MAX_LISTED_WORDS
        self.ends = time.thread_time() + _ANALYSIS_SECONDS + length * _SECONDS_A_CHARACTER
        self.spent = False

    def spend_step(self, words: int = 0) -> bool:
        """Spend one statement, or one program with so many words. Return whether there is enough left for it."""
        self._steps -= 1 + words // _WORDS_A_STEP
        if self._checked - self._steps > _STEPS_BETWEEN_CLOCKS:
            self._checked = self._steps
            self.spent = self.spent or time.thread_time() > self.ends
        self.spent = self.spent or self._steps < 0
        return not self.spent

    def spend_rounds(self, rounds: int) -> bool:
        """Spend rounds of a loop that are followed one by one. Return whether there are enough left."""
        if rounds > self._rounds:
            return False
        self._rounds -= rounds
        return True

    def spend_words(self, words: int) -> bool:
        """Spend words of a command that is listed. Return whether there are enough left."""
        self._listed -= words
        return self._listed >= 0
