"""The words of the field, in what people and models read: messages, prompts, docstrings, comments and pages."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

import hermes

PACKAGE = Path(hermes.__file__).parent
ROOT = PACKAGE.parent

PHRASES: dict[str, tuple[str, tuple[str, ...]]] = {
    r"vouch": ("trust", (r"vouched", r"`vouched`[^\n]*", r"[^\n]*'\$\.provenance\.vouched'[^\n]*")),
    r"\bmend": ("fix", ()),
    r"stranger": ("untrusted content, or an unknown sender", (r"[^\n]*`person` and `stranger` are two[^\n]*",)),
    r"\bowed\b": (
        "retried until delivered, or not delivered yet",
        (r"owed", r"Owed", r"[^\n]*'owed'[^\n]*", r"[^\n]*\bnone, owed,.*"),
    ),
    r"stand-ins?\b|\bstands? in for (?:it|them)\b": (
        "fallback model",
        (r"[^\n]*a server that stands in for it[^\n]*",),
    ),
    r"nobody knows": ("unknown", ()),
    r"\banew\b": ("again", (r"hermes-anew", r"[^\n]*hermes-anew[^\n]*")),
    r"half-made|\blies? about\b": ("incomplete, or leftover", ()),
    r"looked back at": ("reviewed", ()),
    r"letters to look for|if it wants one": ("filter, or optional", ()),
    r"\bwants to (?:run|reach)\b": ("allow, or runs, or connects to", ()),
    r"\bis told to (?:start|run|delete)\b": ("starts, runs, deletes", ()),
    r"brought along|brings? along": ("included", ()),
    r"needs a yes": ("needs confirmation", ()),
    r"error of (?:Hermes'|its) own": ("internal error", ()),
}
"""What may not be written, what takes its place, and the lines where it is the name of something that is stored."""


def iter_code_lines(source: str) -> Iterator[tuple[int, str]]:
    """Yield the lines of string literals, docstrings and comments with the number where the text begins."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            for line in node.value.splitlines():
                yield node.lineno, line
    commented = "\n".join(line for line in source.splitlines() if "#" in line)
    if not any(re.search(one, commented, re.IGNORECASE) for one in PHRASES):
        return  # then no comment has one either, and looking for comments takes as long as all the rest
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def find_phrases(lines: Iterator[tuple[int, str]]) -> list[str]:
    """Return a message for each line that holds one of the phrases outside of the contexts where it is fine."""
    found = []
    numbered = list(lines)
    # No pattern reaches over the end of a line: what is nowhere in all lines is in none.
    text = "\n".join(line for _, line in numbered)
    phrases = {one: told for one, told in PHRASES.items() if re.search(one, text, re.IGNORECASE)}
    for number, line in numbered:
        for pattern, (better, contexts) in phrases.items():
            if not re.search(pattern, line, re.IGNORECASE):
                continue
            if not any(re.fullmatch(one, line.strip()) for one in contexts):
                found.append(f"{number}: {line.strip()} (write: {better})")
    return found


def list_pages() -> list[Path]:
    return [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]


def test_the_package_has_none_of_these_phrases() -> None:
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        if lines := find_phrases(iter_code_lines(path.read_text("utf-8"))):
            found[str(path.relative_to(ROOT))] = lines
    for path in (*sorted(PACKAGE.rglob("*.md")), *sorted(PACKAGE.rglob("*.json"))):
        if lines := find_phrases(iter(enumerate(path.read_text("utf-8").splitlines(), 1))):
            found[str(path.relative_to(ROOT))] = lines
    assert not found


def test_the_pages_have_none_of_these_phrases() -> None:
    bad = {
        str(path.relative_to(ROOT))
        for path in list_pages()
        if find_phrases(iter(enumerate(path.read_text("utf-8").splitlines(), 1)))
    }
    assert bad == set()


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ('x = "Mend it."', 1),
        ('x = f"{y}: nobody knows it"', 1),
        ("# a stranger's word", 1),
        ('"""Is made\nanew."""', 1),
        ('x = {"vouched": True}\ny = "pip install hermes-anew"\nz = "recommend, amend"', 0),
        ('x = "vouched for by nobody"', 1),
    ],
)
def test_a_phrase_is_found_in_strings_and_comments_and_a_stored_name_is_none(source: str, count: int) -> None:
    assert len(find_phrases(iter_code_lines(source))) == count
