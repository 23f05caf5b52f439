"""`hermes send`: send a message to a chat, from a script."""

import argparse
import asyncio
import importlib
import sys
from collections.abc import Mapping

from hermes.admin.home_services import open_home_services
from hermes.cli.output import print_json, report_failure
from hermes.cli.parser import CommandParser
from hermes.config.environment import copy_environment
from hermes.config.home import locate_home
from hermes.core.errors import HermesError, UsageError
from hermes.i18n.messages import N_, tr
from hermes.ipc import frames
from hermes.ipc.gateway_request import request_gateway
from hermes.util.text import clean_surrogates, escape_unseen_characters


def run(arguments: list[str]) -> int:
    """Send a message, or list the known chats."""
    parser = CommandParser(
        prog="hermes send",
        description=tr(
            "Say something to a chat. It is written down first: where the gateway runs it is sent at once, "
            "and else as soon as it does."
        ),
        epilog='example: hermes send --to telegram:12345 "The build is done."',
    )
    parser.add_argument("text", nargs="?", default="", help=tr("what to say; `-` reads it from standard input"))
    parser.add_argument(
        "--to",
        default="home",
        metavar="TARGET",
        help=tr("ACCOUNT:CHAT[:THREAD], ACCOUNT (its home chat), `home` (the default) or `all` (every home chat)"),
    )
    parser.add_argument("--file", default="", metavar="FILE", help=tr("a file to send along"))
    parser.add_argument(
        "--now", action="store_true", help=tr("send it here, over a connection of its own, and wait for that")
    )
    parser.add_argument("--list", action="store_true", dest="lists", help=tr("the chats that are known"))
    parser.add_argument("--json", action="store_true", dest="as_json", help=tr("with --list: print JSON"))
    args = parser.parse_arguments(arguments)
    try:
        return asyncio.run(_print_chats(args) if args.lists else _send_message(args, copy_environment()))
    except HermesError as error:
        return report_failure(error)


async def _send_message(args: argparse.Namespace, environ: Mapping[str, str]) -> int:
    # Front-ends know nothing of each other: what the gateway knows of targets is found by its name.
    sending = importlib.import_module("hermes.gateway.send")
    text = clean_surrogates(sys.stdin.read() if args.text == "-" else args.text)
    file = sending.check_file(args.file) if args.file else ""
    if not text.strip() and not file:
        raise UsageError(N_("There is nothing to send."), N_("Give a text, `-` or --file."))
    if not args.now:
        ask = frames.SendFrame(id=1, to=args.to, text=text, file=file)
        said = await request_gateway(locate_home(environ), ask)
        if isinstance(said, frames.DoneFrame):
            print(tr("It goes out: {where}", where=escape_unseen_characters(said.said)))
            return 0
    async with open_home_services(environ) as services:
        saying = sending.SendContent(text=text, file=file)
        plans = sending.load_plans(services)
        if args.now:
            where = await sending.send_now(args.to, saying, plans, services)
            print(tr("Sent: {where}", where=escape_unseen_characters(where)))
        else:
            where = await sending.queue_message(args.to, saying, plans, services)
            print(tr("No gateway runs: it goes out when one does: {where}", where=escape_unseen_characters(where)))
    return 0


async def _print_chats(args: argparse.Namespace) -> int:
    sending = importlib.import_module("hermes.gateway.send")
    async with open_home_services(copy_environment()) as services:
        chats = await sending.list_known_chats(services)
    if args.as_json:
        print_json([{"target": target, "name": name, "kind": kind} for target, name, kind in chats])
    elif not chats:
        print(tr("No chat is known yet: write to the agent from one, or set `platforms.NAME.home`."))
    for target, name, kind in () if args.as_json else chats:
        print(escape_unseen_characters("  ".join(part for part in (target, kind, name) if part)))
    return 0
