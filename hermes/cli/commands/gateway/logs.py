"""`hermes gateway logs`: show what the gateway did."""

import argparse
import asyncio
import sys

import msgspec

from hermes.admin.service.gateway_log import GatewayLogEntry, follow_log, read_log
from hermes.config.home import HermesHome
from hermes.i18n.formats import format_time
from hermes.i18n.messages import tr
from hermes.util.text import escape_unseen_characters


def show_logs(home: HermesHome, args: argparse.Namespace) -> int:
    """Print the newest lines, and with `-f` those that are written from then on."""
    found = read_log(home.logs, args.account, args.lines, args.level)
    for line in found:
        _print_line(line, as_json=args.as_json)
    if args.follow:
        sys.stdout.flush()
        asyncio.run(_follow_lines(home, args))
    elif not found and not args.as_json:
        print(tr("The gateway has written nothing like that."))
    return 0


async def _follow_lines(home: HermesHome, args: argparse.Namespace) -> None:
    async for line in follow_log(home.logs, args.account, args.level):
        _print_line(line, as_json=args.as_json)
        sys.stdout.flush()


def _print_line(line: GatewayLogEntry, *, as_json: bool) -> None:
    if as_json:
        print(msgspec.json.encode(line).decode())
        return
    where = line.lane.rstrip(":") or line.account
    seconds = f"{line.seconds:.2f} s" if line.seconds else ""
    parts = [format_time(line.time), line.level, line.event, where, line.session, line.outcome, seconds, line.text]
    print(escape_unseen_characters("  ".join(part for part in parts if part)))
