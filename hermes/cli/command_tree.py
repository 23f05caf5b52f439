"""What every verb takes, read from the parsers themselves: for completion and for the documents."""

import argparse
import importlib
from collections.abc import Iterator

from msgspec import Struct

from hermes.cli.arguments import Parser, inspected
from hermes.cli.verbs import VERBS

FILE = "file"
KINDS = {
    "session": "session", "resume": "session", "model": "model", "provider": "provider", "profile": "profile",
    "file": FILE, "output": FILE, "usage_file": FILE, "image": FILE, "folder": FILE, "cwd": FILE, "home": FILE,
    "worktree": "worktree", "source": FILE,
}  # fmt: skip
"""What kind of names the value of an argument is, by its name; others have none."""
_BY_VERB = {
    ("profile", "name"): "profile", ("profile", "source"): "profile", ("worktree", "name"): "worktree",
    ("skills", "name"): "skill", ("skills", "which"): "skill", ("restore", "file"): "backup",
    ("approvals", "session"): "", ("backup", "file"): FILE, ("auth", "model"): "", ("logs", "session"): "session",
}  # fmt: skip
"""The same where the verb decides."""


class Value(Struct, frozen=True):
    """What can stand somewhere: fixed words, or names of a kind; neither: anything."""

    words: tuple[str, ...] = ()
    kind: str = ""


class Place(Struct, frozen=True, kw_only=True):
    """A verb, or a verb below one: `path` are the words that lead there.

    `values` says of each option what comes behind it (options that are not in it take nothing), `positional` what its
    own words are.
    """

    path: tuple[str, ...]
    what: str
    example: str
    below: tuple[str, ...]
    options: tuple[str, ...]
    values: dict[str, Value]
    positional: tuple[Value, ...]


def places() -> list[Place]:
    """Every verb, with those below it, in the order in which help names them."""
    return [place for verb, (module, what) in VERBS.items() for place in _verb(verb, module, what)]


def parser_of(verb: str) -> Parser:
    """The parser of a verb."""
    return inspected(importlib.import_module(VERBS[verb][0]).run)


def _verb(verb: str, module: str, what: str) -> Iterator[Place]:
    parser = inspected(importlib.import_module(module).run)
    below = parser.below()
    yield _place((verb,), parser, what)
    told = {choice.dest: choice.help or "" for action in parser.arguments() for choice in _choices(action)}
    for name, one in below.items():
        yield _place((verb, name), one, told.get(name, ""))


def _place(path: tuple[str, ...], parser: Parser, what: str) -> Place:
    below = parser.below()
    options: list[str] = []
    values: dict[str, Value] = {}
    positional: list[Value] = []
    for action in parser.arguments():
        if below and isinstance(action.choices, dict):
            continue
        value = _value(path[0], action)
        options += action.option_strings
        if not action.option_strings:
            positional.append(value)
        elif action.nargs != 0:
            values |= dict.fromkeys(action.option_strings, value)
    return Place(
        path=path,
        what=what,
        example=_example(parser),
        below=tuple(below),
        options=(*options, "--help"),
        values=values,
        positional=tuple(positional),
    )


def _value(verb: str, action: argparse.Action) -> Value:
    if action.choices is not None and not isinstance(action.choices, dict):
        return Value(words=tuple(str(one) for one in action.choices))
    return Value(kind=_BY_VERB.get((verb, action.dest), KINDS.get(action.dest, "")))


def _choices(action: argparse.Action) -> list[argparse.Action]:
    """The verbs below, as argparse lists them in help."""
    listed = getattr(action, "_choices_actions", None)
    return list(listed) if listed else []


def _example(parser: Parser) -> str:
    return (parser.epilog or "").partition("example: ")[2]
