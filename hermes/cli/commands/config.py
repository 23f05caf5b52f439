"""`hermes config`: the settings, one by one or all, changed without touching anything else in the file."""

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
from hermes.cli.arguments import Parser
from hermes.cli.errors import complain, failed
from hermes.cli.plain.menu import yes_no
from hermes.config.edit import read_text, write_text
from hermes.config.environment import process_environment, with_dotenv
from hermes.config.home import Home, locate_home
from hermes.config.load import load_settings
from hermes.core.errors import ConfigError, HermesError, UsageError
from hermes.i18n.messages import joined, phrase, say, say_many, translated
from hermes.util.text import escaped, one_line

UNUSABLE = 78


def run(arguments: list[str]) -> int:
    """Parse and run one of the verbs."""
    given = _parser().read(arguments)
    try:
        return _run(given, process_environment())
    except HermesError as error:
        return failed(error)


def _parser() -> Parser:
    made = Parser(
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


def _run(given: argparse.Namespace, environ: Mapping[str, str]) -> int:
    match given.verb:
        case "get":
            return _get(given, environ)
        case "set":
            return _set(given, environ)
        case "unset":
            gone = unset_setting(environ, given.key)
            print(say("Took `{key}` out.", key=given.key) if gone else say("`{key}` was not set.", key=given.key))
            return 0
        case "list" | None:
            return _list(given, environ)
        case "check":
            return _check(given, environ)
        case "edit":
            return _edit(environ)
        case _:
            file = str(locate_home(environ).config_file)
            print(json.dumps({"path": file}, ensure_ascii=False) if given.as_json else escaped(file))
            return 0


def _get(given: argparse.Namespace, environ: Mapping[str, str]) -> int:
    found = get_setting(environ, given.key)
    if given.as_json:
        print(json.dumps(found, ensure_ascii=False))
    else:
        print(_shown(found["value"]))
    return 0


def _set(given: argparse.Namespace, environ: Mapping[str, str]) -> int:
    done = set_setting(environ, given.key, given.value)
    if done["warning"]:
        complain(str(done["warning"]))
    if given.as_json:
        print(json.dumps(done, ensure_ascii=False))
    else:
        value = one_line(_shown(done["value"]), 80)
        print(say("{key} is {value} now, in {file}.", key=done["key"], value=value, file=escaped(str(done["file"]))))
    return 0


def _list(given: argparse.Namespace, environ: Mapping[str, str]) -> int:
    found = list_settings(environ)
    if getattr(given, "as_json", False):
        print(json.dumps(found, ensure_ascii=False))
        return 0
    chosen = [row for row in found if getattr(given, "all", False) or row["source"] != "default"]
    for row in chosen:
        mark = " " if row["source"] == "default" else "*"
        print(f"{mark} {row['key']} = {one_line(_shown(row['value']), 100)}")
    if not chosen:
        print(say("Nothing is set; everything has its default. `hermes config list --all` shows all."))
    return 0


def _check(given: argparse.Namespace, environ: Mapping[str, str]) -> int:
    found = find_problems(environ)
    found += [] if _wrong(found) else _accounts(environ)
    if given.as_json:
        print(json.dumps(msgspec.to_builtins(found), ensure_ascii=False))
    else:
        file = escaped(str(locate_home(environ).config_file))
        for problem in found:
            print(_line(file, problem))
        if not _wrong(found):
            print(say("{file} can be used.", file=file))
    return UNUSABLE if _wrong(found) else 0


def _accounts(environ: Mapping[str, str]) -> list[ConfigProblem]:
    """What is wrong with accounts on chat platforms; the others run all the same."""
    home = locate_home(environ)
    given = load_settings(home).settings.platforms
    if not given:
        return []
    # Front-ends know nothing of each other: the gateway's part is found by its name.
    plans_of = importlib.import_module("hermes.gateway.accounts").plan_accounts
    _, wrong = plans_of(given, with_dotenv(environ, home.env_file))
    return [ConfigProblem(ProblemLevel.WARNING, 0, "platforms", line) for line in wrong]


def _line(file: str, problem: ConfigProblem) -> str:
    where = f"{file}:{problem.line}: " if problem.line else ""
    words = {ProblemLevel.ERROR: say("error"), ProblemLevel.WARNING: say("warning"), ProblemLevel.NOTE: say("note")}
    message = translated(problem.message.removeprefix(f"{file}: "))
    return f"{where}{words[problem.level]}: {escaped(one_line(joined(message, translated(problem.hint)), 400))}"


def _wrong(found: list[ConfigProblem]) -> int:
    return sum(one.level is ProblemLevel.ERROR for one in found)


def _edit(environ: Mapping[str, str]) -> int:
    """Edit a copy; it takes the file's place once it can be used."""
    editor = shlex.split(environ.get("VISUAL") or environ.get("EDITOR") or "")
    if not editor:
        raise UsageError(phrase("No editor is named."), phrase("Set EDITOR, for instance to nano."))
    home = locate_writable_home(environ)
    home.ensure()
    before = read_text(home.config_file)
    handle, name = tempfile.mkstemp(prefix=".config-", suffix=".yaml", dir=home.root)
    copy = Path(name)
    try:
        with open(handle, "w", encoding="utf-8", newline="") as file:
            file.write(before)
        return _edited(editor, copy, home, environ, before)
    finally:
        copy.unlink(missing_ok=True)


def _edited(editor: list[str], copy: Path, home: Home, environ: Mapping[str, str], before: str) -> int:
    while True:
        try:
            code = subprocess.run([*editor, str(copy)], check=False).returncode
        except OSError as error:
            raise UsageError(
                phrase("The editor {name} cannot be started: {why}.", name=editor[0], why=error.strerror),
                phrase("Set EDITOR."),
            ) from None
        text = read_text(copy)
        if code != 0 or text == before:
            print(say("Nothing was changed."))
            return 0 if code == 0 else 1
        found = find_problems(environ, text)
        for problem in found:
            print(_line(escaped(str(home.config_file)), problem), file=sys.stderr)
        if not _wrong(found):
            break
        count = say_many("{n} thing keeps it from being used.", "{n} things keep it from being used.", _wrong(found))
        complain(count)
        if not os.isatty(0) or not yes_no(say("Go on editing?"), default=True):
            complain(say("Nothing was changed."))
            return UNUSABLE
    if read_text(home.config_file) != before:
        raise ConfigError(
            phrase("{file} was changed by somebody else meanwhile; nothing was written.", file=home.config_file)
        )
    write_text(home.config_file, text)
    print(say("Wrote {file}.", file=escaped(str(home.config_file))))
    return 0


def _shown(value: object) -> str:
    """A value as a person reads it: text as it is, all else as JSON."""
    return escaped(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
