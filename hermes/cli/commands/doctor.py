"""`hermes doctor`: check this machine and the home, and fix what is safe to fix."""

import asyncio
import os

from hermes.admin.doctor import OK, WARNING, DoctorCheck, check_home
from hermes.admin.status import PROBLEM_PREFIX, summarize_health
from hermes.cli.output import print_json
from hermes.cli.parser import CommandParser
from hermes.config.environment import copy_environment
from hermes.core.errors import HermesError
from hermes.i18n.messages import join_sentences, localize, tr
from hermes.util.text import escape_confusable_characters

_STATE_MARKS = {OK: "ok", WARNING: "! "}


def run(arguments: list[str]) -> int:
    """Print the state of the machine and the home; return 1 when something stops Hermes or needs the person."""
    parser = CommandParser(
        prog="hermes doctor",
        description=tr(
            "Say what really holds commands back on this machine, when you are asked, what is trusted, and whether the "
            "home is in order. Exit code 1: there is a problem."
        ),
        epilog="example: hermes doctor --fix",
    )
    parser.add_argument(
        "--fix",
        action="store_true",
        help=tr("fix permissions, rebuild the search index, remove leftovers; never change settings"),
    )
    parser.add_argument("--json", action="store_true", dest="as_json", help=tr("print JSON"))
    args = parser.parse_arguments(arguments)
    lines, checks = asyncio.run(_run_checks(fix=args.fix))
    if args.as_json:
        print_json({"lines": lines, "checks": checks})
    else:
        _print_checks(lines, checks)
    wrong = any(line.startswith(PROBLEM_PREFIX) for line in lines)
    return 1 if wrong or any(check.state not in _STATE_MARKS for check in checks) else 0


def _print_checks(lines: list[str], checks: list[DoctorCheck]) -> None:
    """Print the summary, then each check. A problem that a check reports too is printed once."""
    problems = [check.said for check in checks if check.state not in _STATE_MARKS]
    if len(lines) > 1 or not any(lines[0].startswith(f"{PROBLEM_PREFIX} {said}") for said in problems):
        for line in lines:
            print(localize(escape_confusable_characters(line)))
        print()
    for check in checks:
        print(_format_check(check))


async def _run_checks(*, fix: bool) -> tuple[list[str], list[DoctorCheck]]:
    environ = copy_environment()
    checks = await check_home(environ, fix=fix)
    try:
        lines = await summarize_health(environ, os.getcwd())
    except (HermesError, OSError) as error:
        lines = [f"{PROBLEM_PREFIX} {error}"]
    return lines, checks


def _format_check(check: DoctorCheck) -> str:
    parts = [localize(escape_confusable_characters(part)) for part in (check.said, check.advice, check.fixed)]
    return (
        f"{_STATE_MARKS.get(check.state, '!!')} {escape_confusable_characters(check.name):<12} {join_sentences(*parts)}"
    )
