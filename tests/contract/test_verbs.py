"""Every verb of the command line, held to the same few promises."""

import argparse
import subprocess
import sys
from pathlib import Path

import pytest

from hermes.cli.command_tree import CommandSpec, list_commands, parser_for_verb
from hermes.cli.main import format_help_text
from hermes.cli.parser import CommandParser
from hermes.cli.verbs import VERBS
from hermes.testing.home import TempHome
from tests.case_tables import each_case
from tests.command_line import run_command_line
from tests.forked_hermes import run_hermes

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parent.parent.parent
LISTS = ("list", "pending", "log", "stats", "show", "search")
"""Verbs below others that show something which a program may want."""
PLACES = list_commands()


def named(place: CommandSpec) -> str:
    return " ".join(place.path)


@pytest.mark.parametrize("verb", VERBS)
def test_its_help_says_what_it_does_and_gives_an_example(verb: str) -> None:
    with TempHome() as home:
        done = run_command_line(home, verb, "--help")
        assert (done.code, done.stderr) == (0, "")
        assert "example: hermes" in done.stdout
        assert list(home.hermes.iterdir()) == []


def test_each_of_several_examples_has_a_line_of_its_own() -> None:
    with TempHome() as home:
        lines = run_command_line(home, "trust", "--help").stdout.splitlines()
    assert lines[-3:] == [
        "example: hermes trust .",
        "example: hermes trust --remove ~/old",
        "example: hermes trust --list",
    ]


@pytest.mark.parametrize("verb", VERBS)
def test_an_unknown_option_is_the_usage_and_one_clear_line(verb: str) -> None:
    with TempHome() as home:
        done = run_command_line(home, verb, "--no-such-option")
    usage, said = done.stderr.splitlines()
    assert done.code == 2 and usage.startswith(f"usage: hermes {verb}")
    assert said.startswith("hermes: ") and f"hermes {verb} --help" in said


@each_case("place", PLACES)
def test_every_verb_has_an_example_and_its_options_are_explained(place: CommandSpec) -> None:
    parser = parser_for_verb(place.path[0])
    parser = parser.list_subparsers()[place.path[1]] if len(place.path) > 1 else parser
    assert "example: hermes" in parser.format_help()
    assert all(one.help for one in parser.list_arguments() if one.option_strings), place.path
    assert place.what


def list_flags(parser: CommandParser) -> list[tuple[str, argparse.Action]]:
    """The options without a value, by the way they are written."""
    flags = [one for one in parser.list_arguments() if one.option_strings and one.nargs == 0]
    return [(option, one) for one in flags for option in one.option_strings if option.startswith("--")]


@each_case("place", PLACES)
def test_no_option_means_its_opposite(place: CommandSpec) -> None:
    parser = parser_for_verb(place.path[0])
    parser = parser.list_subparsers()[place.path[1]] if len(place.path) > 1 else parser
    for option, action in list_flags(parser):
        if isinstance(action, argparse._HelpAction | argparse._VersionAction | argparse._CountAction):
            continue
        values = argparse.Namespace()
        action(parser, values, [], option)
        value, name = getattr(values, action.dest), option.removeprefix("--").replace("-", "_")
        if action.dest in (name, f"no_{name}") or name == f"no_{action.dest}":
            assert value is (action.dest == name), option
        assert not option.startswith("--no-no-"), option


@pytest.mark.parametrize("place", [one for one in PLACES if one.below], ids=named)
def test_what_is_mistyped_below_a_verb_gets_the_nearest(place: CommandSpec) -> None:
    longest = max(place.below, key=len)
    with TempHome() as home:
        done = run_command_line(home, *place.path, longest[:-1] + "xx")
    assert done.code == 2 and f"Did you mean {longest!r}?" in done.stderr


@pytest.mark.parametrize("verb", [verb for verb in VERBS if len(verb) > 3])
def test_a_mistyped_verb_and_option_get_the_nearest(verb: str) -> None:
    place = next(one for one in PLACES if one.path == (verb,))
    with TempHome() as home:
        done = run_command_line(home, verb[:-1] + "q")
        assert done.code == 2 and f"Did you mean {verb!r}?" in done.stderr
        option = max((one for one in place.options if one.startswith("--")), key=len)
        words = () if place.below else [one.words[0] if one.words else "x" for one in place.positional]
        if option != "--help" and verb not in ("guard", "completion"):
            done = run_command_line(home, verb, *words, f"{option}q")
            assert done.code == 2 and f"Did you mean {option!r}?" in done.stderr, done


def test_what_lists_something_does_so_for_programs_too() -> None:
    """A verb with verbs below it and a `list` among them lists without one, and every listing has --json."""
    for place in PLACES:
        if place.path[-1] in LISTS and len(place.path) > 1:
            assert "--json" in place.options, place.path
    flat = ("status", "insights", "usage", "doctor", "logs", "backup", "approvals", "trust", "home", "version")
    assert all("--json" in place.options for place in PLACES if place.path[0] in flat and len(place.path) == 1)


@pytest.mark.parametrize("verb", [one.path[0] for one in PLACES if "list" in one.below and one.path[0] != "sessions"])
async def test_without_a_verb_below_it_lists(verb: str) -> None:
    with TempHome({}) as home:
        bare = await run_hermes(home, verb)
        listed = await run_hermes(home, verb, "list")
        assert (bare.code, bare.stdout) == (0, listed.stdout) and bare.stdout


def test_the_general_help_names_them_all() -> None:
    assert all(f"  {verb} " in format_help_text() for verb in VERBS)
    assert subprocess.run([sys.executable, "-m", "hermes", "--version"], capture_output=True, check=True).stdout


def test_the_document_is_what_the_parsers_say() -> None:
    made = subprocess.run(
        [sys.executable, str(ROOT / "scripts/commands.py")], capture_output=True, text=True, check=True
    )
    assert made.stdout == (ROOT / "docs/commands.md").read_text("utf-8"), "run scripts/commands.py --write"
