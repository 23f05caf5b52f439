"""`hermes logs`: show Hermes' own errors and warnings."""

import argparse
import asyncio
import sys
import time

import msgspec

from hermes.admin.logs import LEVELS, LogEntry, LogFilter, follow_log, parse_since, read_log
from hermes.cli.output import print_error, report_failure
from hermes.cli.parser import CommandParser
from hermes.config.environment import copy_environment
from hermes.config.home import HermesHome, locate_home
from hermes.core.errors import HermesError
from hermes.i18n.formats import format_time
from hermes.i18n.messages import tr
from hermes.util.text import escape_unseen_characters

_MAX_LINES = 1_000_000


def run(arguments: list[str]) -> int:
    """Print the newest entries, and with `-f` those that are written from then on."""
    parser = CommandParser(
        prog="hermes logs",
        description=tr("The newest entries of the logs, the newest last. Secrets were taken out as they were written."),
        epilog="example: hermes logs --since 2h --level error",
    )
    parser.add_argument("-f", "--follow", action="store_true", help=tr("go on with what is written from now on"))
    parser.add_argument("-n", "--lines", type=int, default=50, metavar="N", help=tr("how many entries (default: 50)"))
    parser.add_argument("--level", choices=LEVELS, default="", help=tr("of this level and graver ones"))
    parser.add_argument("--session", default="", metavar="ID", help=tr("those that name a session"))
    parser.add_argument("--since", default="", metavar="TIME", help=tr("since then: 30m, 2h, 7d, 2026-11-01"))
    parser.add_argument("--json", action="store_true", dest="as_json", help=tr("one JSON object a line"))
    args = parser.parse_arguments(arguments)
    if not 0 <= args.lines < _MAX_LINES:
        parser.error(tr("--lines must be from 0 on and below {most}", most=_MAX_LINES))
    try:
        home = locate_home(copy_environment())
        begin = parse_since(args.since, time.time()) if args.since else 0.0
        return _print_entries(home, LogFilter(level=args.level, session=args.session, since=begin), args)
    except HermesError as error:
        return report_failure(error)


def _print_entries(home: HermesHome, log_filter: LogFilter, args: argparse.Namespace) -> int:
    found = read_log(home, log_filter, args.lines)
    for entry in found:
        _print_entry(entry, as_json=args.as_json)
    if args.follow:
        sys.stdout.flush()
        asyncio.run(_follow_entries(home, log_filter, as_json=args.as_json))
    elif not found and not args.as_json and not any(home.logs.glob("*.log")):
        print(tr("Nothing went wrong yet: there is no log."))
    elif not found and not args.as_json:
        print_error(tr("There is no such entry in {folder}.", folder=home.logs))
    return 0


async def _follow_entries(home: HermesHome, log_filter: LogFilter, *, as_json: bool) -> None:
    async for entry in follow_log(home, log_filter):
        _print_entry(entry, as_json=as_json)
        sys.stdout.flush()


def _print_entry(entry: LogEntry, *, as_json: bool) -> None:
    if as_json:
        print(msgspec.json.encode(entry).decode())
        return
    when = "" if entry.at is None else f"{format_time(entry.at)}  "
    first, *more = entry.text.split("\n")
    level = f"{entry.level}  " if entry.level else ""
    print(f"{when}{level}{escape_unseen_characters(entry.source)}  {escape_unseen_characters(first)}")
    for line in more:
        print(f"    {escape_unseen_characters(line)}")
