"""`hermes gateway logs`: what the gateway did."""

import argparse
import asyncio
import sys

import msgspec

from hermes.admin.service.log import GatewayLogEntry, follow_log, read_log
from hermes.config.home import Home
from hermes.i18n.formats import moment
from hermes.i18n.messages import say
from hermes.util.text import escaped


def show(home: Home, given: argparse.Namespace) -> int:
    """Show the newest lines, and with `-f` those that come."""
    found = read_log(home.logs, given.account, given.lines, given.level)
    for line in found:
        _print(line, as_json=given.as_json)
    if given.follow:
        sys.stdout.flush()
        asyncio.run(_follow(home, given))
    elif not found and not given.as_json:
        print(say("The gateway has written nothing like that."))
    return 0


async def _follow(home: Home, given: argparse.Namespace) -> None:
    async for line in follow_log(home.logs, given.account, given.level):
        _print(line, as_json=given.as_json)
        sys.stdout.flush()


def _print(line: GatewayLogEntry, *, as_json: bool) -> None:
    if as_json:
        print(msgspec.json.encode(line).decode())
        return
    where = line.lane.rstrip(":") or line.account
    seconds = f"{line.seconds:.2f} s" if line.seconds else ""
    parts = [moment(line.time), line.level, line.event, where, line.session, line.outcome, seconds, line.text]
    print(escaped("  ".join(part for part in parts if part)))
