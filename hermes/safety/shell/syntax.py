"""The syntax tree of a shell text, within a budget of time."""

import re
import time
from collections.abc import Iterator
from functools import cache, lru_cache

from tree_sitter import Language, Node, Parser, Tree
from tree_sitter_bash import language

_SHORT = 400
"""Bytes that are parsed without looking at the clock: the worst of that size takes less than 2 ms."""
_CHUNK = 8192
_SECONDS = 0.005
_SECONDS_A_BYTE = 0.28e-6
"""Ordinary scripts take 0.1 to 0.25 us a byte. A long pipe or a row of `<<<` takes the square of its length."""
_BRACES = re.compile(r"(^|[\s;&|(])\{([^\s{}'\"$`;]*,[^\s{}'\"$`;]*)\}(?=[\s;&|)]|$)")

_OUT_THEN_IN = re.compile(r"(>{1,2}\s*[\w./~-]{1,200})\s+(<<<\s*(?:'[^']*'|\"[^\"]*\"|[\w./~$-]{1,200}))")

_CONTINUED = re.compile(r"(?<=[^\s\\])\\\n(?=[^\s#])")

_PIPES = 500
"""Pipes of one statement: giving up on thousands of them takes the parser longer than its clock allows."""
_MARK = "\x1f"
_UNSAFE = re.compile(r"[\x1f\x80-\U0010ffff]+")
_SPELLED = re.compile("\x1f((?:[0-9a-f]{2})+)\x1f")


_LONG = 4096
_MOST_GIVEN_UP = 4_000_000
"""Bytes of texts whose parse was given up in one process, from which on no long text is begun: each byte leaves up
to 70 behind that tree-sitter 0.26 does not free."""


class _Losses:
    """Bytes of texts whose parse was given up in this process."""

    size = 0


_LOSSES = _Losses()


@cache
def _parser() -> Parser:
    return Parser(Language(language()))


def parse(text: str, ends: float) -> Tree | None:
    """The tree; None when it would take too long: longer than such a text should, or until `thread_time` is `ends`.

    Its text is to be read with `text_of` and `decoded`.
    """
    if text.count("|") > _PIPES and any(part.count("|") > _PIPES for part in re.split(r"[;\n]", text)):
        return None
    parser = _parser()
    source = _spelled(text)
    if len(source) <= _SHORT:
        return parser.parse(source)
    if _LOSSES.size >= _MOST_GIVEN_UP and len(source) > _LONG:
        return None
    ends = min(ends, time.thread_time() + _SECONDS + len(source) * _SECONDS_A_BYTE)
    spent = False

    def read(offset: int, _: object) -> bytes:
        return source[offset : offset + _CHUNK]

    def progress(_: int, __: bool) -> bool:
        nonlocal spent
        spent = time.thread_time() > ends
        return spent

    try:
        tree = parser.parse(read, progress_callback=progress)
    except ValueError:
        tree = None
    if tree is None or spent:
        _LOSSES.size += len(source)
        parser.reset()
        return None
    return tree


def _spelled(text: str) -> bytes:
    """The text in ASCII, other characters spelled as their numbers between marks.

    The grammar's scanner looks other characters up beyond the end of a table of the C library: it reads foreign memory
    and may bring the process down (tree-sitter-bash issue 337). A shell takes them for letters of a word, as these are.
    """
    # A shell drops NUL; the parser takes the square of their number.
    text = text.replace("\0", "")
    if text.isascii() and _MARK not in text:
        return text.encode()
    spelled = _UNSAFE.sub(lambda found: f"{_MARK}{found[0].encode('utf-8', 'replace').hex()}{_MARK}", text)
    return spelled.encode()


def decoded(source: bytes) -> str:
    """A piece of the source of a tree, as it was written."""
    text = source.decode("utf-8", "replace")
    if _MARK not in text:
        return text
    parts = text.split(_MARK)
    if len(parts) % 2 == 0:  # the node begins or ends inside of something spelled
        return _SPELLED.sub(lambda found: _written(found[1]), text)
    parts[1::2] = map(_written, parts[1::2])
    return "".join(parts)


@lru_cache(maxsize=2048)
def _written(numbers: str) -> str:
    """What was spelled so; itself between its marks when it is nothing spelled."""
    try:
        return bytes.fromhex(numbers).decode("utf-8", "replace")
    except ValueError:
        return f"{_MARK}{numbers}{_MARK}"


def unbraced(text: str) -> str:
    """The text with what the grammar cannot read put another way: `{a,b}` as a command, `> file <<< text`, `<>`."""
    text = _BRACES.sub(lambda found: found[1] + found[2].replace(",", " "), text)
    return _OUT_THEN_IN.sub(r"\2 \1", text).replace("<>", ">")


def continued(text: str) -> Iterator[str]:
    """The text as it is when lines that go on in the middle of a word are put together, if there are any."""
    if _CONTINUED.search(text):
        yield _CONTINUED.sub("", text)


def text_of(node: Node) -> str:
    """The source text of a node."""
    return decoded(node.text or b"")
