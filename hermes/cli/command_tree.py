"""Every command with its options, taken from the parsers that the commands build: for completion and the documents."""

import argparse
from collections.abc import Iterator

from msgspec import Struct

from hermes.cli.parser import CommandParser, capture_parser
from hermes.cli.verbs import VERBS, load_verb

FILE_KIND = "file"
VALUE_KINDS = {
    "session": "session", "resume": "session", "model": "model", "provider": "provider", "profile": "profile",
    "file": FILE_KIND, "output": FILE_KIND, "usage_file": FILE_KIND, "image": FILE_KIND, "folder": FILE_KIND,
    "cwd": FILE_KIND, "home": FILE_KIND,
    "worktree": "worktree", "source": FILE_KIND,
}  # fmt: skip
"""The kind of names that an argument takes, by the argument's name; other arguments take none."""
_VERB_VALUE_KINDS = {
    ("profile", "name"): "profile", ("profile", "source"): "profile", ("worktree", "name"): "worktree",
    ("skills", "name"): "skill", ("skills", "which"): "skill", ("restore", "file"): "backup",
    ("approvals", "session"): "", ("backup", "file"): FILE_KIND, ("auth", "model"): "", ("logs", "session"): "session",
}  # fmt: skip
"""The kinds that depend on the command, too."""


class ArgumentValue(Struct, frozen=True):
    """The words that can stand somewhere: fixed words, or names of a kind; with neither, any text."""

    words: tuple[str, ...] = ()
    kind: str = ""


class CommandSpec(Struct, frozen=True, kw_only=True):
    """A command or subcommand: `path` are the words that lead there.

    `values` gives for each option the value that follows it (options that are not in it take none),
    `positional` the values of its own words.
    """

    path: tuple[str, ...]
    what: str
    example: str
    below: tuple[str, ...]
    options: tuple[str, ...]
    values: dict[str, ArgumentValue]
    positional: tuple[ArgumentValue, ...]


def list_commands() -> list[CommandSpec]:
    """Return every command with its subcommands, in the order in which help names them."""
    return [command for verb, (_, what) in VERBS.items() for command in _describe_verb(verb, what)]


def parser_for_verb(verb: str) -> CommandParser:
    """Return the parser of a command."""
    return capture_parser(load_verb(verb))


def describe_ours(ours: str) -> str | None:
    """Return what a command (`hermes sessions share`) or an option of a conversation (`-o FILE`) does; None for an
    option that there is not.
    """
    first = ours.removeprefix("hermes ")
    if first.startswith("-"):
        option = parser_for_verb("chat").find_option(first.split(maxsplit=1)[0])
        return None if option is None else option.help
    verb, *below = first.split()
    found = {command.path: command.what for command in _describe_verb(verb, VERBS[verb][1])}
    return found.get((verb, *below), found[(verb,)])


def _describe_verb(verb: str, what: str) -> Iterator[CommandSpec]:
    parser = parser_for_verb(verb)
    below = parser.list_subparsers()
    yield _describe_command((verb,), parser, what)
    summaries = {
        choice.dest: choice.help or "" for action in parser.list_arguments() for choice in _list_subactions(action)
    }
    for name, one in below.items():
        yield _describe_command((verb, name), one, summaries.get(name, ""))


def _describe_command(path: tuple[str, ...], parser: CommandParser, what: str) -> CommandSpec:
    below = parser.list_subparsers()
    options: list[str] = []
    values: dict[str, ArgumentValue] = {}
    positional: list[ArgumentValue] = []
    for action in parser.list_arguments():
        if below and isinstance(action.choices, dict):
            continue
        value = _describe_value(path[0], action)
        options += action.option_strings
        if not action.option_strings:
            positional.append(value)
        elif action.nargs != 0:
            values |= dict.fromkeys(action.option_strings, value)
    return CommandSpec(
        path=path,
        what=what,
        example=_extract_example(parser),
        below=tuple(below),
        options=(*options, "--help"),
        values=values,
        positional=tuple(positional),
    )


def _describe_value(verb: str, action: argparse.Action) -> ArgumentValue:
    if action.choices is not None and not isinstance(action.choices, dict):
        return ArgumentValue(words=tuple(str(one) for one in action.choices))
    return ArgumentValue(kind=_VERB_VALUE_KINDS.get((verb, action.dest), VALUE_KINDS.get(action.dest, "")))


def _list_subactions(action: argparse.Action) -> list[argparse.Action]:
    """Return the subcommands as argparse lists them in help."""
    listed = getattr(action, "_choices_actions", None)
    return list(listed) if listed else []


def _extract_example(parser: CommandParser) -> str:
    return (parser.epilog or "").partition("example: ")[2]
