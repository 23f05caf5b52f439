"""`hermes doctor`: what holds on this machine, what is wrong with the home, and mending what is safe to mend."""

import asyncio
import os

from hermes.admin.doctor import OK, WARNING, DoctorCheck, check_home
from hermes.admin.health import PROBLEM_PREFIX, summarize_health
from hermes.cli.arguments import Parser
from hermes.cli.output import print_json
from hermes.config.environment import process_environment
from hermes.core.errors import HermesError
from hermes.i18n.messages import joined, say, translated
from hermes.util.text import visible

_MARKS = {OK: "ok", WARNING: "! "}


def run(arguments: list[str]) -> int:
    """Say what holds; 1 when something stops Hermes or needs the person."""
    parser = Parser(
        prog="hermes doctor",
        description=say(
            "Say what really holds commands back on this machine, when you are asked, what is trusted, and whether the "
            "home is in order. Exit code 1: there is a problem."
        ),
        epilog="example: hermes doctor --fix",
    )
    parser.add_argument(
        "--fix",
        action="store_true",
        help=say("mend permissions, the search index and what is left over; never settings"),
    )
    parser.add_argument("--json", action="store_true", dest="as_json", help=say("print JSON"))
    given = parser.read(arguments)
    lines, checks = asyncio.run(_examined(fix=given.fix))
    if given.as_json:
        print_json({"lines": lines, "checks": checks})
    else:
        _show(lines, checks)
    wrong = any(line.startswith(PROBLEM_PREFIX) for line in lines)
    return 1 if wrong or any(check.state not in _MARKS for check in checks) else 0


def _show(lines: list[str], checks: list[DoctorCheck]) -> None:
    """What holds, then each check; a problem that a check tells too is said once."""
    told = [check.said for check in checks if check.state not in _MARKS]
    if len(lines) > 1 or not any(lines[0].startswith(f"{PROBLEM_PREFIX} {said}") for said in told):
        for line in lines:
            print(translated(visible(line)))
        print()
    for check in checks:
        print(_line(check))


async def _examined(*, fix: bool) -> tuple[list[str], list[DoctorCheck]]:
    environ = process_environment()
    checks = await check_home(environ, fix=fix)
    try:
        lines = await summarize_health(environ, os.getcwd())
    except (HermesError, OSError) as error:
        lines = [f"{PROBLEM_PREFIX} {error}"]
    return lines, checks


def _line(check: DoctorCheck) -> str:
    parts = [translated(visible(part)) for part in (check.said, check.advice, check.fixed)]
    return f"{_MARKS.get(check.state, '!!')} {visible(check.name):<12} {joined(*parts)}"
