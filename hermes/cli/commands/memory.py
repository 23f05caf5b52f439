"""`hermes memory`: what the agent remembers, what it wants to, and taking changes back."""

import argparse
import asyncio
import json
from collections.abc import Callable

from hermes.admin.memory import open_desk
from hermes.cli.arguments import Parser
from hermes.cli.errors import failed
from hermes.commands.views.memory import NO_PENDING_CHANGE, decide_change, format_memory_change, format_memory_file
from hermes.config.environment import process_environment
from hermes.core.errors import HermesError
from hermes.i18n.messages import say
from hermes.sessions.formats.openai_format import Plain


def run(arguments: list[str]) -> int:
    """Parse and run one of the verbs."""
    given = _parser().read(arguments)
    try:
        print("\n".join(asyncio.run(_done(given))))
    except HermesError as error:
        return failed(error)
    return 0


def _parser() -> Parser:
    made = Parser(
        prog="hermes memory",
        description="What the agent remembers from session to session: look at it, change it, decide on changes.",
        epilog='example: hermes memory add --user "Wants short answers."',
    )
    verbs = made.add_subparsers(dest="verb", metavar="VERB")
    told = {
        "list": say("all entries (also without a verb)"),
        "add": say("add an entry"),
        "remove": say("remove the entry that holds these words"),
        "pending": say("the changes that wait for your yes"),
        "approve": say("say yes to a change"),
        "reject": say("say no to a change"),
        "undo": say("put back what stood there before a change"),
        "log": say("the newest 100 changes"),
    }
    parsers = {verb: verbs.add_parser(verb, help=what) for verb, what in told.items()}
    for verb in ("list", "pending", "log"):
        parsers[verb].add_argument("--json", action="store_true", dest="as_json", help="print JSON")
    for parser in parsers.values():
        parser.add_argument("--person", default="", metavar="ID", help=say("somebody's who talks from a chat"))
    for verb in ("add", "remove"):
        parsers[verb].add_argument("--user", action="store_true", help="in USER.md, about you; else in MEMORY.md")
        parsers[verb].add_argument("text", nargs="+", help="the words")
    for verb in ("approve", "reject", "undo"):
        parsers[verb].add_argument("number", type=int, help="the change, as `pending` or `log` numbers it")
    return made


async def _done(given: argparse.Namespace) -> list[str]:
    async with open_desk(process_environment(), person=getattr(given, "person", "")) as desk:
        match given.verb:
            case "add" | "remove":
                write = desk.add_entry if given.verb == "add" else desk.remove_entry
                return [await write("user" if given.user else "memory", " ".join(given.text))]
            case "approve" | "reject" | "undo":
                return [await decide_change(desk, given.verb, given.number)]
            case "pending":
                return _shown(await desk.list_pending(), given.as_json, format_memory_change, NO_PENDING_CHANGE)
            case "log":
                return _shown(
                    await desk.list_log(), given.as_json, format_memory_change, say("Nothing was ever changed.")
                )
            case _:
                return _shown(
                    await desk.list_files(),
                    getattr(given, "as_json", False),
                    format_memory_file,
                    say("There is no memory."),
                )


def _shown(rows: list[Plain], as_json: bool, lines: Callable[[Plain], list[str]], none: str) -> list[str]:
    if as_json:
        return [json.dumps(rows, ensure_ascii=False)]
    return [line for row in rows for line in lines(row)] or [none]
