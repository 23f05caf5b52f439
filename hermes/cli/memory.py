"""`hermes memory`: what the agent remembers, what it wants to, and taking changes back."""

import argparse
import asyncio
import json
import time
from collections.abc import Callable, Sequence

from hermes.app.memory import MemoryDesk, as_shown, open_desk
from hermes.app.openai_form import Plain
from hermes.cli.arguments import Parser
from hermes.cli.report import explained, failed
from hermes.config.environment import process_environment
from hermes.core.errors import HermesError
from hermes.util.say import phrase, say

_USAGE = phrase("/memory; /memory pending; /memory approve N; /memory reject N; /memory undo N.")
_NONE = phrase("No change waits.")


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
    for verb in ("add", "remove"):
        parsers[verb].add_argument("--user", action="store_true", help="in USER.md, about you; else in MEMORY.md")
        parsers[verb].add_argument("text", nargs="+", help="the words")
    for verb in ("approve", "reject", "undo"):
        parsers[verb].add_argument("number", type=int, help="the change, as `pending` or `log` numbers it")
    return made


async def _done(given: argparse.Namespace) -> list[str]:
    async with open_desk(process_environment()) as desk:
        match given.verb:
            case "add" | "remove":
                write = desk.add if given.verb == "add" else desk.remove
                return [await write("user" if given.user else "memory", " ".join(given.text))]
            case "approve" | "reject" | "undo":
                return [await _answered(desk, given.verb, given.number)]
            case "pending":
                return _shown(await desk.pending(), given.as_json, change_lines, _NONE)
            case "log":
                return _shown(await desk.log(), given.as_json, change_lines, say("Nothing was ever changed."))
            case _:
                return _shown(
                    await desk.rows(), getattr(given, "as_json", False), file_lines, say("There is no memory.")
                )


async def told(desk: MemoryDesk, words: Sequence[str]) -> list[str]:
    """What `/memory` says and does in a chat."""
    try:
        match words:
            case []:
                return _shown(await desk.rows(), False, file_lines, "")
            case ["pending"]:
                return _shown(await desk.pending(), False, change_lines, _NONE)
            case [("approve" | "reject" | "undo") as verb, number] if number.isdecimal():
                return [await _answered(desk, verb, int(number[:18]))]
    except HermesError as error:
        return [as_shown(explained(error))]
    return [_USAGE]


async def _answered(desk: MemoryDesk, verb: str, number: int) -> str:
    answers = {"approve": desk.approve, "reject": desk.reject, "undo": desk.undo}
    row = await answers[verb](number)
    return as_shown(say("Change {id} ({what}) is {state}.", id=row["id"], what=row["what"], state=row["state"]))


def file_lines(row: Plain) -> list[str]:
    """One of the files with its entries."""
    if row["wrong"]:
        return [as_shown(str(row["wrong"]))]
    entries = row["entries"]
    assert isinstance(entries, list)
    head = say(
        "{file}  {usage} characters{entries}",
        file=row["file"],
        usage=row["usage"],
        entries="" if entries else "  " + say("(empty)"),
    )
    return [as_shown(head), *(line for entry in entries for line in _entry("- ", str(entry)))]


def change_lines(row: Plain) -> list[str]:
    """A change with all that a person needs to decide on it."""
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(float(str(row["made_at"]))))
    by = (" " + say("by {decided_by}", decided_by=row["decided_by"])) if row["decided_by"] else ""
    reason = f": {row['reason']}" if row["reason"] else ""
    lines = [
        as_shown(
            say(
                "{id:>4}  {when}  {state}{by}  {name}, from {author}{reason}",
                id=row["id"],
                when=when,
                state=row["state"],
                by=by,
                name=row["name"],
                author=row["author"],
                reason=reason,
            )
        )
    ]
    sources = row["sources"]
    assert isinstance(sources, list)
    lines += [
        ("      " + say("strangers' words stood there: {as_shown}", as_shown=as_shown(str(source))))
        for source in sources
    ]
    for sign, text in (("- ", row["before"]), ("+ ", row["after"])):
        lines += [f"      {line}" for line in _entry(sign, str(text))] if text is not None else []
    if row["state"] == "pending":
        lines.append(f"      hermes memory approve {row['id']}, or reject {row['id']}")
    return lines


def _entry(sign: str, text: str) -> list[str]:
    """An entry behind its sign; nothing in it that a terminal would obey, or that cannot be seen."""
    first, *more = text.split("\n")
    return [sign + as_shown(first), *(f"  {as_shown(line)}" for line in more)]


def _shown(rows: list[Plain], as_json: bool, lines: Callable[[Plain], list[str]], none: str) -> list[str]:
    if as_json:
        return [json.dumps(rows, ensure_ascii=False)]
    return [line for row in rows for line in lines(row)] or [none]
