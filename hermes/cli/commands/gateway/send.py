"""`hermes send`: say something to a chat, from a script."""

import argparse
import asyncio
import importlib
import sys
from collections.abc import Mapping

from hermes.admin.send import open_home_services
from hermes.cli.arguments import Parser
from hermes.cli.errors import failed
from hermes.cli.output import print_json
from hermes.config.environment import process_environment
from hermes.config.home import locate_home
from hermes.core.errors import HermesError, UsageError
from hermes.i18n.messages import phrase, say
from hermes.ipc import frames
from hermes.ipc.gateway_request import request_gateway
from hermes.util.text import clean_surrogates, escaped


def run(arguments: list[str]) -> int:
    """Say something, or list the chats there are."""
    parser = Parser(
        prog="hermes send",
        description=say(
            "Say something to a chat. It is written down first: where the gateway runs it is sent at once, "
            "and else as soon as it does."
        ),
        epilog='example: hermes send --to telegram:12345 "The build is done."',
    )
    parser.add_argument("text", nargs="?", default="", help=say("what to say; `-` reads it from standard input"))
    parser.add_argument(
        "--to",
        default="home",
        metavar="TARGET",
        help=say("ACCOUNT:CHAT[:THREAD], ACCOUNT (its home chat), `home` (the default) or `all` (every home chat)"),
    )
    parser.add_argument("--file", default="", metavar="FILE", help=say("a file to send along"))
    parser.add_argument(
        "--now", action="store_true", help=say("send it here, over a connection of its own, and wait for that")
    )
    parser.add_argument("--list", action="store_true", dest="lists", help=say("the chats that are known"))
    parser.add_argument("--json", action="store_true", dest="as_json", help=say("with --list: print JSON"))
    given = parser.read(arguments)
    try:
        return asyncio.run(_listed(given) if given.lists else _sent(given, process_environment()))
    except HermesError as error:
        return failed(error)


async def _sent(given: argparse.Namespace, environ: Mapping[str, str]) -> int:
    # Front-ends know nothing of each other: what the gateway knows of targets is found by its name.
    sending = importlib.import_module("hermes.gateway.send")
    text = clean_surrogates(sys.stdin.read() if given.text == "-" else given.text)
    file = sending.check_file(given.file) if given.file else ""
    if not text.strip() and not file:
        raise UsageError(phrase("There is nothing to send."), phrase("Give a text, `-` or --file."))
    if not given.now:
        ask = frames.SendFrame(id=1, to=given.to, text=text, file=file)
        said = await request_gateway(locate_home(environ), ask)
        if isinstance(said, frames.DoneFrame):
            print(say("It goes out: {where}", where=escaped(said.said)))
            return 0
    async with open_home_services(environ) as desk:
        saying = sending.SendContent(text=text, file=file)
        plans = sending.load_plans(desk)
        if given.now:
            where = await sending.send_now(given.to, saying, plans, desk)
            print(say("Sent: {where}", where=escaped(where)))
        else:
            where = await sending.queue_message(given.to, saying, plans, desk)
            print(say("No gateway runs: it goes out when one does: {where}", where=escaped(where)))
    return 0


async def _listed(given: argparse.Namespace) -> int:
    sending = importlib.import_module("hermes.gateway.send")
    async with open_home_services(process_environment()) as desk:
        chats = await sending.list_known_chats(desk)
    if given.as_json:
        print_json([{"target": target, "name": name, "kind": kind} for target, name, kind in chats])
    elif not chats:
        print(say("No chat is known yet: write to the agent from one, or set `platforms.NAME.home`."))
    for target, name, kind in () if given.as_json else chats:
        print(escaped("  ".join(part for part in (target, kind, name) if part)))
    return 0
