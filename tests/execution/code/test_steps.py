"""The text of code: its last value is shown, and what it needs is found."""

import pytest
from msgspec import Raw

from hermes.execution.code.python_engine import build_command
from hermes.execution.code.steps import (
    MAX_ARGUMENTS,
    MAX_AT_ONCE,
    MAX_NAME,
    InvalidCallsError,
    PrintedText,
    build_calls,
    find_needs,
    show_last_value,
)


@pytest.mark.parametrize(
    ("code", "shown"),
    [
        ("1 + 1", "show((1 + 1))"),
        ("x = 1", "x = 1"),
        ("print(1)", "print(1)"),
        ("a\nb, c", "a\nshow((b, c))"),
        ("f(1,\n  2)  # why", "show((f(1,\n  2)))  # why"),
        ('"é"; "ü"', '"é"; show(("ü"))'),
        ("", ""),
        ("if x:\n    y", "if x:\n    y"),
    ],
)
def test_the_last_expression_is_shown_and_no_line_moves(code: str, shown: str) -> None:
    assert show_last_value(code, "show") == shown


@pytest.mark.parametrize("code", ["x = (", "\0", "(" * 300 + ")" * 300])
def test_what_is_no_python_is_refused(code: str) -> None:
    with pytest.raises((SyntaxError, ValueError, RecursionError, MemoryError)):
        show_last_value(code, "show")


@pytest.mark.parametrize(
    ("code", "modules", "files"),
    [
        ("import json, re as r\nfrom collections import Counter", ("json", "re", "collections"), ""),
        ("import os\nos.path.join('a')", ("os",), ""),
        ("import os\nos.listdir('a')", ("os",), "os.listdir"),
        ("open('x')", (), "open()"),
        ("opened = 1", (), ""),
        ("from pathlib import Path", ("pathlib",), "pathlib"),
    ],
)
def test_what_code_needs_is_found(code: str, modules: tuple[str, ...], files: str) -> None:
    found = find_needs(code)
    assert (found.modules, found.files) == (modules, files)


def test_prints_are_kept_up_to_a_limit() -> None:
    printed = PrintedText(10)
    printed.add("12345678")
    printed.add("90abc")
    assert printed.to_text() == "1234567890"
    assert printed.left_out == 3
    assert not printed.is_flooded
    printed.add("x" * 300)
    assert printed.is_flooded


def test_the_program_is_one_word_of_the_command() -> None:
    import shlex

    words = shlex.split(build_command())
    assert words[:3] == ["exec", "python3", "-c"]
    assert len(words) == 4


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ([], "Between 1 and"),
        ([("read_file", {})] * (MAX_AT_ONCE + 1), "Between 1 and"),
        ([("n" * (MAX_NAME + 1), {})], "name of a tool"),
        ([("read_file", {"path": Raw(b'"\xff"')})], "no text"),
        ([("read_file", {"path": Raw(b'"' + b"x" * MAX_ARGUMENTS + b'"')})], "characters"),
    ],
)
def test_calls_that_cannot_be_made_are_refused(asked: list[tuple[str, dict[str, Raw]]], why: str) -> None:
    with pytest.raises(InvalidCallsError, match=why):
        build_calls(asked)


def test_calls_keep_their_arguments() -> None:
    (call,) = build_calls([("read_file", {"path": Raw(b'"a"')})])
    assert (call.name, call.arguments) == ("read_file", '{"path":"a"}')
