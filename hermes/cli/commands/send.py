"""`hermes send`: send a message to a chat, from a script."""

import argparse
import importlib
import shlex
import sys
from collections.abc import Mapping, Sequence

from hermes.admin.home_services import open_home_services
from hermes.cli.piped_input import read_piped_input
from hermes.commands.verb import Verb, VerbCall, VerbResult, argument
from hermes.config.home import locate_home
from hermes.core.errors import BusyError, NotFoundError, UsageError
from hermes.i18n.messages import N_, localize, tr
from hermes.ipc import frames
from hermes.ipc.gateway_request import request_gateway
from hermes.sessions.target_book import load_target_book
from hermes.util.text import clean_surrogates, escape_unseen_characters

_DEFAULT_TARGET = "home"
SEND = Verb(
    "send",
    description="Send a message to a chat. It is stored first, and sent at once where the gateway "
    "runs, else as soon as it does. Exit code: 0 delivered, 75 stored for later, 1 refused.",
    example='hermes send --to telegram:12345 "The build is done."',
)


@SEND.action(
    "",
    "",
    argument("text", nargs="*", default=(), help="the message; `-`, or none, reads what is piped in"),
    argument(
        "--to",
        default=_DEFAULT_TARGET,
        metavar="TARGET",
        help="ACCOUNT:CHAT[:THREAD], ACCOUNT (its home chat, else the owner's direct chat), `home` (the default), "
        "`all` (every home chat), or a person's name or id",
    ),
    argument("--file", default="", metavar="FILE", help="a file to send along"),
    argument("--now", action="store_true", help="send it here, over a connection of its own, and wait for that"),
    argument("--list", action="store_true", dest="lists", help="the chats that are known"),
    argument("--json", action="store_true", dest="as_json", help="with --list: print JSON"),
)
async def send_message(call: VerbCall) -> VerbResult:
    """Send a message, or list the known chats. The exit code is 0 when it is delivered, 75 when it is stored and goes
    out later, 1 when the platform refused it.
    """
    if call.args.lists:
        return await _list_chats(call)
    said, code = await _send_message(call.args, call.environ)
    lines = [escape_unseen_characters(localize(said).strip())]
    return VerbResult(lines=() if code == 1 else lines, notices=lines if code == 1 else (), exit_code=code)


async def _send_message(args: argparse.Namespace, environ: Mapping[str, str]) -> tuple[str, int]:
    # Front-ends know nothing of each other: what the gateway knows of targets is found by its name.
    sending = importlib.import_module("hermes.gateway.send")
    if len(args.text) > 1 and args.to == _DEFAULT_TARGET:
        await _reject_target_as_text(args.text, environ)
    text = clean_surrogates(_read_text(args))
    file = sending.check_file(args.file) if args.file else ""
    if not text.strip() and not file:
        raise UsageError(N_("There is nothing to send."), N_("Give a text, `-` or --file."))
    if not args.now:
        ask = frames.SendFrame(id=1, to=args.to, text=text, file=file)
        said = await request_gateway(locate_home(environ), ask)
        if isinstance(said, frames.DoneFrame):
            return said.said, said.code
    async with open_home_services(environ) as services:
        saying = sending.SendContent(text=text, file=file)
        plans = sending.load_plans(services)
        if args.now:
            where = await sending.send_now(args.to, saying, plans, services)
            return tr("Sent: {where}", where=where), 0
        where = await sending.queue_message(args.to, saying, plans, services)
        return tr("No gateway runs: it goes out when one does: {where}", where=where), BusyError.exit_code


def _read_text(args: argparse.Namespace) -> str:
    """Return the message: its words, or what is piped in where there are none. Raises UsageError."""
    if args.text == ["-"]:
        return sys.stdin.read()
    return " ".join(args.text) if args.text or args.file else read_piped_input()


async def _reject_target_as_text(words: Sequence[str], environ: Mapping[str, str]) -> None:
    """Raise UsageError where the first of several words names a chat: it would be sent to another one."""
    async with open_home_services(environ) as services:
        book = await load_target_book(services.store, services.settings.platforms)
    try:
        book.check_target(words[0], words=())
    except NotFoundError:
        known = importlib.import_module("hermes.gateway.accounts").platform_names()
        if words[0] not in (*book.homes, *known):
            return
    command = shlex.join(["hermes", "send", "--to", words[0], " ".join(words[1:])])
    raise UsageError(N_("{name!r} is a target; --to names it.", name=words[0]), N_("Write: {command}", command=command))


async def _list_chats(call: VerbCall) -> VerbResult:
    sending = importlib.import_module("hermes.gateway.send")
    async with open_home_services(call.environ) as services:
        chats = await sending.list_known_chats(services)
    none = tr("No chat is known yet: write to the agent from one, or set `platforms.NAME.home`.")
    lines = ["  ".join(part for part in (target, kind, name) if part) for target, name, kind in chats]
    rows = [{"target": target, "name": name, "kind": kind} for target, name, kind in chats]
    return VerbResult(rows, [escape_unseen_characters(line) for line in lines] or [none])
