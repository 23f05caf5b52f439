"""`hermes config`: show and change the settings, without touching anything else in the file."""

import argparse
import importlib
import json
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import msgspec

from hermes.admin.config import (
    ConfigProblem,
    ProblemLevel,
    find_problems,
    get_setting,
    list_settings,
    locate_writable_home,
    set_setting,
    unset_setting,
)
from hermes.cli.output import print_error, report_failure
from hermes.cli.parser import CommandParser
from hermes.cli.plain.menu import ask_yes_no
from hermes.config.environment import copy_environment, merge_dotenv
from hermes.config.home import HermesHome, locate_home
from hermes.config.load import load_settings
from hermes.config.yaml_edit import read_text, write_text
from hermes.core.errors import ConfigError, HermesError, UsageError
from hermes.i18n.messages import N_, join_sentences, localize, tr, tr_plural
from hermes.util.text import escape_unseen_characters, to_one_line

EXIT_BAD_CONFIG = 78


def run(arguments: list[str]) -> int:
    """Parse the arguments and run one of the verbs."""
    args = _build_parser().parse_arguments(arguments)
    try:
        return _run_verb(args, copy_environment())
    except HermesError as error:
        return report_failure(error)


def _build_parser() -> CommandParser:
    made = CommandParser(
        prog="hermes config",
        description="Look at the settings and change them. Comments and order of config.yaml stay as they are.",
        epilog="example: hermes config set agent.max_turns 40",
    )
    verbs = made.add_subparsers(dest="verb", metavar="VERB")
    parsers = {
        "get": verbs.add_parser("get", help="one setting, or a section of them"),
        "set": verbs.add_parser("set", help="give a setting a value; lists as '[a, b]'"),
        "unset": verbs.add_parser("unset", help="take a setting out, so that its default counts"),
        "list": verbs.add_parser("list", help="every setting with its value"),
        "check": verbs.add_parser("check", help="everything that is wrong or odd, with its line"),
        "edit": verbs.add_parser("edit", help="open the file in $VISUAL or $EDITOR; an unusable one is not kept"),
        "path": verbs.add_parser("path", help="where config.yaml is"),
    }
    for verb in ("get", "set", "unset"):
        parsers[verb].add_argument("key", help="a dotted name, such as model.default")
    parsers["set"].add_argument("value", help="text, a number, true or false, or a list or section in YAML or JSON")
    parsers["list"].add_argument("--all", action="store_true", help="those at their default too")
    for verb in ("get", "set", "list", "check", "path"):
        parsers[verb].add_argument("--json", action="store_true", dest="as_json", help="print JSON")
    return made


def _run_verb(args: argparse.Namespace, environ: Mapping[str, str]) -> int:
    match args.verb:
        case "get":
            return _print_setting(args, environ)
        case "set":
            return _change_setting(args, environ)
        case "unset":
            gone = unset_setting(environ, args.key)
            print(tr("Took `{key}` out.", key=args.key) if gone else tr("`{key}` was not set.", key=args.key))
            return 0
        case "list" | None:
            return _print_settings(args, environ)
        case "check":
            return _check_settings(args, environ)
        case "edit":
            return _edit_file(environ)
        case _:
            file = str(locate_home(environ).config_file)
            print(json.dumps({"path": file}, ensure_ascii=False) if args.as_json else escape_unseen_characters(file))
            return 0


def _print_setting(args: argparse.Namespace, environ: Mapping[str, str]) -> int:
    found = get_setting(environ, args.key)
    if args.as_json:
        print(json.dumps(found, ensure_ascii=False))
    else:
        print(_format_value(found["value"]))
    return 0


def _change_setting(args: argparse.Namespace, environ: Mapping[str, str]) -> int:
    done = set_setting(environ, args.key, args.value)
    if done["warning"]:
        print_error(str(done["warning"]))
    if args.as_json:
        print(json.dumps(done, ensure_ascii=False))
    else:
        value = to_one_line(_format_value(done["value"]), 80)
        print(
            tr(
                "{key} is {value} now, in {file}.",
                key=done["key"],
                value=value,
                file=escape_unseen_characters(str(done["file"])),
            )
        )
    return 0


def _print_settings(args: argparse.Namespace, environ: Mapping[str, str]) -> int:
    found = list_settings(environ)
    if getattr(args, "as_json", False):
        print(json.dumps(found, ensure_ascii=False))
        return 0
    chosen = [row for row in found if getattr(args, "all", False) or row["source"] != "default"]
    for row in chosen:
        mark = " " if row["source"] == "default" else "*"
        print(f"{mark} {row['key']} = {to_one_line(_format_value(row['value']), 100)}")
    if not chosen:
        print(tr("Nothing is set; everything has its default. `hermes config list --all` shows all."))
    return 0


def _check_settings(args: argparse.Namespace, environ: Mapping[str, str]) -> int:
    found = find_problems(environ)
    found += [] if _count_errors(found) else _find_account_problems(environ)
    if args.as_json:
        print(json.dumps(msgspec.to_builtins(found), ensure_ascii=False))
    else:
        file = escape_unseen_characters(str(locate_home(environ).config_file))
        for problem in found:
            print(_format_problem(file, problem))
        if not _count_errors(found):
            print(tr("{file} can be used.", file=file))
    return EXIT_BAD_CONFIG if _count_errors(found) else 0


def _find_account_problems(environ: Mapping[str, str]) -> list[ConfigProblem]:
    """Return the problems of accounts on chat platforms; the other accounts run all the same."""
    home = locate_home(environ)
    platforms = load_settings(home).settings.platforms
    if not platforms:
        return []
    # Front-ends know nothing of each other: the gateway's part is found by its name.
    plans_of = importlib.import_module("hermes.gateway.accounts").plan_accounts
    _, wrong = plans_of(platforms, merge_dotenv(environ, home.env_file))
    return [ConfigProblem(ProblemLevel.WARNING, 0, "platforms", line) for line in wrong]


def _format_problem(file: str, problem: ConfigProblem) -> str:
    where = f"{file}:{problem.line}: " if problem.line else ""
    words = {ProblemLevel.ERROR: tr("error"), ProblemLevel.WARNING: tr("warning"), ProblemLevel.NOTE: tr("note")}
    message = localize(problem.message.removeprefix(f"{file}: "))
    return (
        f"{where}{words[problem.level]}: "
        f"{escape_unseen_characters(to_one_line(join_sentences(message, localize(problem.hint)), 400))}"
    )


def _count_errors(found: list[ConfigProblem]) -> int:
    return sum(one.level is ProblemLevel.ERROR for one in found)


def _edit_file(environ: Mapping[str, str]) -> int:
    """Edit a copy; it replaces the file once it can be used."""
    editor = shlex.split(environ.get("VISUAL") or environ.get("EDITOR") or "")
    if not editor:
        raise UsageError(N_("No editor is named."), N_("Set EDITOR, for instance to nano."))
    home = locate_writable_home(environ)
    home.ensure_exists()
    before = read_text(home.config_file)
    handle, name = tempfile.mkstemp(prefix=".config-", suffix=".yaml", dir=home.root)
    copy = Path(name)
    try:
        with open(handle, "w", encoding="utf-8", newline="") as file:
            file.write(before)
        return _edit_until_valid(editor, copy, home, environ, before)
    finally:
        copy.unlink(missing_ok=True)


def _edit_until_valid(editor: list[str], copy: Path, home: HermesHome, environ: Mapping[str, str], before: str) -> int:
    while True:
        try:
            code = subprocess.run([*editor, str(copy)], check=False).returncode
        except OSError as error:
            raise UsageError(
                N_("The editor {name} cannot be started: {why}.", name=editor[0], why=error.strerror),
                N_("Set EDITOR."),
            ) from None
        text = read_text(copy)
        if code != 0 or text == before:
            print(tr("Nothing was changed."))
            return 0 if code == 0 else 1
        found = find_problems(environ, text)
        for problem in found:
            print(_format_problem(escape_unseen_characters(str(home.config_file)), problem), file=sys.stderr)
        if not _count_errors(found):
            break
        count = tr_plural(
            "{n} thing keeps it from being used.", "{n} things keep it from being used.", _count_errors(found)
        )
        print_error(count)
        if not os.isatty(0) or not ask_yes_no(tr("Go on editing?"), default=True):
            print_error(tr("Nothing was changed."))
            return EXIT_BAD_CONFIG
    if read_text(home.config_file) != before:
        raise ConfigError(
            N_("{file} was changed by somebody else meanwhile; nothing was written.", file=home.config_file)
        )
    write_text(home.config_file, text)
    print(tr("Wrote {file}.", file=escape_unseen_characters(str(home.config_file))))
    return 0


def _format_value(value: object) -> str:
    """Format a value for a person: text unchanged, all else as JSON."""
    return escape_unseen_characters(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
