"""`hermes logs`: what went wrong inside."""

import argparse
import asyncio
import sys
import time

import msgspec

from hermes.admin.logs import LEVELS, LogEntry, LogFilter, follow_log, parse_since, read_log
from hermes.cli.arguments import Parser
from hermes.cli.errors import complain, failed
from hermes.config.environment import process_environment
from hermes.config.home import Home, locate_home
from hermes.core.errors import HermesError
from hermes.i18n.formats import moment
from hermes.i18n.messages import say
from hermes.util.text import escaped

_MOST = 1_000_000


def run(arguments: list[str]) -> int:
    """Show the newest entries, and with `-f` those that come."""
    parser = Parser(
        prog="hermes logs",
        description=say(
            "The newest entries of the logs, the newest last. Secrets were taken out as they were written."
        ),
        epilog="example: hermes logs --since 2h --level error",
    )
    parser.add_argument("-f", "--follow", action="store_true", help=say("go on with what is written from now on"))
    parser.add_argument("-n", "--lines", type=int, default=50, metavar="N", help=say("how many entries (default: 50)"))
    parser.add_argument("--level", choices=LEVELS, default="", help=say("of this level and graver ones"))
    parser.add_argument("--session", default="", metavar="ID", help=say("those that name a session"))
    parser.add_argument("--since", default="", metavar="TIME", help=say("since then: 30m, 2h, 7d, 2026-11-01"))
    parser.add_argument("--json", action="store_true", dest="as_json", help=say("one JSON object a line"))
    given = parser.read(arguments)
    if not 0 <= given.lines < _MOST:
        parser.error(say("--lines must be from 0 on and below {most}", most=_MOST))
    try:
        home = locate_home(process_environment())
        begin = parse_since(given.since, time.time()) if given.since else 0.0
        return _show(home, LogFilter(level=given.level, session=given.session, since=begin), given)
    except HermesError as error:
        return failed(error)


def _show(home: Home, wanted: LogFilter, given: argparse.Namespace) -> int:
    found = read_log(home, wanted, given.lines)
    for entry in found:
        _print(entry, as_json=given.as_json)
    if given.follow:
        sys.stdout.flush()
        asyncio.run(_follow(home, wanted, as_json=given.as_json))
    elif not found and not given.as_json and not any(home.logs.glob("*.log")):
        print(say("Nothing went wrong yet: there is no log."))
    elif not found and not given.as_json:
        complain(say("There is no such entry in {folder}.", folder=home.logs))
    return 0


async def _follow(home: Home, wanted: LogFilter, *, as_json: bool) -> None:
    async for entry in follow_log(home, wanted):
        _print(entry, as_json=as_json)
        sys.stdout.flush()


def _print(entry: LogEntry, *, as_json: bool) -> None:
    if as_json:
        print(msgspec.json.encode(entry).decode())
        return
    when = "" if entry.at is None else f"{moment(entry.at)}  "
    first, *more = entry.text.split("\n")
    level = f"{entry.level}  " if entry.level else ""
    print(f"{when}{level}{escaped(entry.source)}  {escaped(first)}")
    for line in more:
        print(f"    {escaped(line)}")
