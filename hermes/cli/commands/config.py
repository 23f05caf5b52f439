"""`hermes config`: show and change the settings, without touching anything else in the file."""

import importlib
import json
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

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
from hermes.cli.output import print_error
from hermes.cli.plain.menu import ask_yes_no
from hermes.commands.verb import JSON_OPTION, JsonLayout, Verb, VerbCall, VerbResult, argument, rows_result
from hermes.config.environment import merge_dotenv
from hermes.config.home import HermesHome, locate_home
from hermes.config.load import load_settings
from hermes.config.yaml_edit import read_text, write_text
from hermes.core.encoding import Plain, to_plain
from hermes.core.errors import ConfigError, UsageError
from hermes.i18n.messages import N_, join_sentences, localize, tr, tr_plural
from hermes.util.text import escape_unseen_characters, to_one_line

EXIT_BAD_CONFIG = 78


_KEY = argument("key", help="a dotted name, such as model.default")
CONFIG = Verb(
    "config",
    description="Look at the settings and change them. Comments and order of config.yaml stay as they are.",
    example="hermes config set agent.max_turns 40",
    json_layout=JsonLayout.LINE,
)


@CONFIG.action("get", "one setting, or a section of them", _KEY, JSON_OPTION)
def show_setting(call: VerbCall) -> VerbResult:
    """Show a setting, or a section of them."""
    found = get_setting(call.environ, call.args.key)
    return VerbResult(found, [_format_value(found["value"])])


@CONFIG.action(
    "set",
    "give a setting a value; lists as '[a, b]'",
    _KEY,
    argument("value", help="text, a number, true or false, or a list or section in YAML or JSON"),
    JSON_OPTION,
)
def change_setting(call: VerbCall) -> VerbResult:
    """Give a setting a value."""
    done = set_setting(call.environ, call.args.key, call.args.value)
    value, file = to_one_line(_format_value(done["value"]), 80), escape_unseen_characters(str(done["file"]))
    notices = [str(done["warning"])] if done["warning"] else []
    return VerbResult(done, [tr("{key} is {value} now, in {file}.", key=done["key"], value=value, file=file)], notices)


@CONFIG.action("unset", "remove a setting, so that its default applies", _KEY)
def remove_setting(call: VerbCall) -> VerbResult:
    """Take a setting out of the file."""
    key = call.args.key
    gone = unset_setting(call.environ, key)
    return VerbResult(lines=[tr("Took `{key}` out.", key=key) if gone else tr("`{key}` was not set.", key=key)])


_ALL = argument("--all", action="store_true", help="those at their default too")


@CONFIG.action("list", "every setting with its value", _ALL, JSON_OPTION)
@CONFIG.action("show", "the same as list", _ALL, JSON_OPTION)
def show_settings(call: VerbCall) -> VerbResult:
    """List the settings that are set, or all of them."""
    found = list_settings(call.environ)
    chosen = [row for row in found if call.args.all or row["source"] != "default"]
    none = tr("Nothing is set; everything has its default. `hermes config list --all` shows all.")
    return VerbResult(found, rows_result(chosen, _format_setting, none).lines)


@CONFIG.action("check", "everything that is wrong or odd, with its line", JSON_OPTION)
def check_settings(call: VerbCall) -> VerbResult:
    """List everything that is wrong or odd in the file."""
    found = find_problems(call.environ)
    errors = _count_errors(found)
    found += [] if errors else _find_account_problems(call.environ)
    file = escape_unseen_characters(str(locate_home(call.environ).config_file))
    lines = [_format_problem(file, problem) for problem in found]
    lines += [] if errors else [tr("{file} can be used.", file=file)]
    return VerbResult(to_plain(found), lines, exit_code=EXIT_BAD_CONFIG if errors else 0)


@CONFIG.action("edit", "open the file in $VISUAL or $EDITOR; an unusable one is not kept")
def edit_settings(call: VerbCall) -> VerbResult:
    """Open a copy of the file in the person's editor."""
    return VerbResult(exit_code=_edit_file(call.environ))


@CONFIG.action("path", "where config.yaml is", JSON_OPTION)
def show_path(call: VerbCall) -> VerbResult:
    """Show where the file is."""
    file = str(locate_home(call.environ).config_file)
    return VerbResult({"path": file}, [escape_unseen_characters(file)])


def _format_setting(row: Plain) -> str:
    mark = " " if row["source"] == "default" else "*"
    return f"{mark} {row['key']} = {to_one_line(_format_value(row['value']), 100)}"


def _find_account_problems(environ: Mapping[str, str]) -> list[ConfigProblem]:
    """Return the problems of accounts on chat platforms; the other accounts run all the same."""
    home = locate_home(environ)
    platforms = load_settings(home).settings.platforms
    if not platforms:
        return []
    # Front-ends know nothing of each other: the gateway's part is found by its name.
    accounts = importlib.import_module("hermes.gateway.accounts")
    plans, wrong = accounts.plan_accounts(platforms, merge_dotenv(environ, home.env_file))
    wrong = [*wrong, *(line for plan in plans if (line := accounts.find_missing_secret(plan)))]
    return [ConfigProblem(ProblemLevel.WARNING, 0, "platforms", line) for line in wrong]


def _format_problem(file: str, problem: ConfigProblem) -> str:
    where = f"{file}:{problem.line}: " if problem.line else ""
    words = {ProblemLevel.ERROR: tr("error"), ProblemLevel.WARNING: tr("warning"), ProblemLevel.NOTE: tr("note")}
    message = localize(problem.message).removeprefix(f"{file}: ").removeprefix(f"{file}：")
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
