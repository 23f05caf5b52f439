"""The syntax tree of a shell text, within a budget of time."""

import re
import time
from functools import cache

from tree_sitter import Language, Node, Parser, Tree
from tree_sitter_bash import language

_SHORT = 400
"""Bytes that are parsed without looking at the clock: the worst of that size takes less than 2 ms."""
_CHUNK = 8192
_SECONDS = 0.008
_SECONDS_A_BYTE = 0.35e-6
"""Ordinary scripts take 0.25 us a byte. A long pipe or a row of `<<<` takes the square of its length."""
_BRACES = re.compile(r"(^|[\s;&|(])\{([^\s{}'\"$`;]*,[^\s{}'\"$`;]*)\}(?=[\s;&|)]|$)")

_OUT_THEN_IN = re.compile(r"(>{1,2}\s*[\w./~-]{1,200})\s+(<<<\s*(?:'[^']*'|\"[^\"]*\"|[\w./~$-]{1,200}))")


@cache
def _parser() -> Parser:
    return Parser(Language(language()))


def parse(source: bytes) -> Tree | None:
    """The tree; None when it would take too long."""
    parser = _parser()
    if len(source) <= _SHORT:
        return parser.parse(source)
    ends = time.thread_time() + _SECONDS + len(source) * _SECONDS_A_BYTE
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


def text_of(node: Node) -> str:
    """The source text of a node."""
    return (node.text or b"").decode("utf-8", "replace")
