"""The syntax tree of a shell text, within a budget of time."""

import re
import time
from collections.abc import Iterator
from functools import cache

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


@cache
def _parser() -> Parser:
    return Parser(Language(language()))


def parse(source: bytes, ends: float) -> Tree | None:
    """The tree; None when it would take too long: longer than such a text should, or until `thread_time` is `ends`."""
    parser = _parser()
    source = source.replace(b"\0", b"")  # a shell drops them; the parser takes the square of their number
    if len(source) <= _SHORT:
        return parser.parse(source)
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
        parser.reset()
        return None
    return tree


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
    return (node.text or b"").decode("utf-8", "replace")
