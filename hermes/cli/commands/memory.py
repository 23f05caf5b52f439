"""`hermes memory`: show and change what the agent remembers, decide on its proposed changes, and undo changes."""

import argparse
import asyncio
import json
from collections.abc import Callable

from hermes.admin.memory import open_memory_admin
from hermes.cli.output import report_failure
from hermes.cli.parser import CommandParser
from hermes.commands.views.memory import NO_PENDING_CHANGE, decide_change, format_memory_change, format_memory_file
from hermes.config.environment import copy_environment
from hermes.core.errors import HermesError
from hermes.i18n.messages import tr
from hermes.sessions.formats.openai_format import Plain


def run(arguments: list[str]) -> int:
    """Parse the arguments and run one of the verbs."""
    args = _build_parser().parse_arguments(arguments)
    try:
        print("\n".join(asyncio.run(_run_verb(args))))
    except HermesError as error:
        return report_failure(error)
    return 0


def _build_parser() -> CommandParser:
    made = CommandParser(
        prog="hermes memory",
        description="What the agent remembers from session to session: look at it, change it, decide on changes.",
        epilog='example: hermes memory add --user "Wants short answers."',
    )
    verbs = made.add_subparsers(dest="verb", metavar="VERB")
    verb_help = {
        "list": tr("all entries (also without a verb)"),
        "add": tr("add an entry"),
        "remove": tr("remove the entry that holds these words"),
        "pending": tr("the changes that wait for your yes"),
        "approve": tr("say yes to a change"),
        "reject": tr("say no to a change"),
        "undo": tr("put back what stood there before a change"),
        "log": tr("the newest 100 changes"),
    }
    parsers = {verb: verbs.add_parser(verb, help=what) for verb, what in verb_help.items()}
    for verb in ("list", "pending", "log"):
        parsers[verb].add_argument("--json", action="store_true", dest="as_json", help="print JSON")
    for parser in parsers.values():
        parser.add_argument("--person", default="", metavar="ID", help=tr("somebody's who talks from a chat"))
    for verb in ("add", "remove"):
        parsers[verb].add_argument("--user", action="store_true", help="in USER.md, about you; else in MEMORY.md")
        parsers[verb].add_argument("text", nargs="+", help="the words")
    for verb in ("approve", "reject", "undo"):
        parsers[verb].add_argument("number", type=int, help="the change, as `pending` or `log` numbers it")
    return made


async def _run_verb(args: argparse.Namespace) -> list[str]:
    async with open_memory_admin(copy_environment(), person=getattr(args, "person", "")) as admin:
        match args.verb:
            case "add" | "remove":
                write = admin.add_entry if args.verb == "add" else admin.remove_entry
                return [await write("user" if args.user else "memory", " ".join(args.text))]
            case "approve" | "reject" | "undo":
                return [await decide_change(admin, args.verb, args.number)]
            case "pending":
                return _format_rows(await admin.list_pending(), args.as_json, format_memory_change, NO_PENDING_CHANGE)
            case "log":
                return _format_rows(
                    await admin.list_log(), args.as_json, format_memory_change, tr("Nothing was ever changed.")
                )
            case _:
                return _format_rows(
                    await admin.list_files(),
                    getattr(args, "as_json", False),
                    format_memory_file,
                    tr("There is no memory."),
                )


def _format_rows(rows: list[Plain], as_json: bool, lines: Callable[[Plain], list[str]], none: str) -> list[str]:
    if as_json:
        return [json.dumps(rows, ensure_ascii=False)]
    return [line for row in rows for line in lines(row)] or [none]
