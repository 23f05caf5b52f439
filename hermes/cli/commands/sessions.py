"""`hermes sessions`: list, show, search, rename, export, prune and delete."""

import argparse
import asyncio
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from hermes.admin.export import FORMATS, export_session
from hermes.admin.logs import parse_since
from hermes.admin.sessions import SessionAdmin, SessionNode, open_session_admin
from hermes.cli.arguments import Parser
from hermes.cli.errors import complain, failed
from hermes.cli.output import agreed, print_json, size
from hermes.commands.views.session_tree import format_branches
from hermes.config.environment import process_environment
from hermes.core.errors import HermesError, UsageError
from hermes.i18n.formats import compact, number
from hermes.i18n.messages import phrase, say, say_many
from hermes.util.text import escaped, inert, one_line

Plain = dict[str, object]
_MOST = 1_000_000
_KINDS = {"branch": phrase("branch"), "archive": phrase("condensed past")}


def run(arguments: list[str]) -> int:
    """Parse and run one of the verbs."""
    given = _parser().read(arguments)
    if not 0 < getattr(given, "limit", 1) < _MOST:
        complain(f"--limit must be above zero and below {_MOST}.")
        return 2
    try:
        return asyncio.run(_run(given))
    except HermesError as error:
        return failed(error)


def _parser() -> Parser:
    made = Parser(
        prog="hermes sessions",
        description="Look at, search, rename, export and delete what was said. In a chat `/sessions` browses them.",
        epilog="example: hermes sessions search '天气 report' --limit 5",
    )
    verbs = made.add_subparsers(dest="verb", metavar="VERB")
    listing = verbs.add_parser("list", help="the newest sessions (also without a verb)")
    tree = verbs.add_parser("tree", help="the newest sessions with their branches")
    show = verbs.add_parser("show", help="one session's messages")
    search = verbs.add_parser("search", help="messages with all of these words, or else with any")
    export = verbs.add_parser("export", help="one session as JSON lines, Markdown or a web page")
    rename = verbs.add_parser("rename", help="give a session another title")
    delete = verbs.add_parser("delete", help="delete a session and every word of it")
    prune = verbs.add_parser("prune", help="delete the sessions in which nothing was said for a time")
    stats = verbs.add_parser("stats", help="how much there is, by model and front-end")
    for verb in (listing, tree, show, search, rename, delete, prune, stats):
        verb.add_argument("--json", action="store_true", help="print JSON")
    for verb in (listing, tree, search):
        verb.add_argument("--limit", type=int, default=20, metavar="N", help="how many at the most")
    for verb in (show, export, rename, delete):
        verb.add_argument("session", help="an id, its beginning, or its whole title")
    for verb in (show, export):
        verb.add_argument("--hidden", action="store_true", help="show what Hermes itself wrote for the model, too")
    search.add_argument("words", nargs="+", help="in any script; one Chinese character is enough")
    search.add_argument("--best", action="store_true", help="best match first instead of newest first")
    export.add_argument("-o", "--output", metavar="FILE", help="a file instead of standard output")
    export.add_argument("--format", choices=FORMATS, default="jsonl", help="jsonl (a line each), md, or html")
    rename.add_argument("title", nargs="+", help="its new title")
    prune.add_argument("--older-than", required=True, metavar="TIME", help="how long nothing was said: 90d, 12w")
    prune.add_argument("--dry-run", action="store_true", help="only say which they are")
    for verb in (delete, prune):
        verb.add_argument("-y", "--yes", action="store_true", help="do not ask")
    return made


async def _run(given: argparse.Namespace) -> int:
    async with open_session_admin(process_environment()) as sessions:
        match given.verb:
            case None | "list":
                rows = await sessions.list_newest(getattr(given, "limit", 20))
                return _print(rows, getattr(given, "json", False), _session_line, say("There is no session yet."))
            case "tree":
                return _tree(await sessions.list_tree(given.limit), as_json=given.json)
            case "show":
                found = await sessions.show_session(given.session, hidden=given.hidden)
                return _show(found, as_json=given.json)
            case "search":
                hits = await sessions.search_messages(" ".join(given.words), limit=given.limit, newest=not given.best)
                return _print(hits, given.json, _hit_line, say("No message has these words."))
            case "export":
                found = await sessions.show_session(given.session, hidden=given.hidden)
                return _export(export_session(found, given.format), given.output)
            case "stats":
                return _stats(await sessions.compute_statistics(), as_json=given.json)
            case _:
                return await _change(sessions, given)


async def _change(sessions: SessionAdmin, given: argparse.Namespace) -> int:
    """The verbs that change something."""
    if given.verb == "rename":
        row = await sessions.rename_session(given.session, " ".join(given.title))
        said = say('Session {id} is called "{title}" now.', id=row["id"], title=row["title"])
        print_json(row) if given.json else print(escaped(said))
        return 0
    return await (_prune if given.verb == "prune" else _delete)(sessions, given)


def _print(rows: list[Plain], as_json: bool, line: Callable[[Plain], str], none: str) -> int:
    if as_json:
        sys.stdout.write(_pretty(rows))
    else:
        for row in rows:
            print(line(row))
        if not rows:
            print(none)
    return 0


def _tree(roots: Sequence[SessionNode], *, as_json: bool) -> int:
    if as_json:
        sys.stdout.write(_pretty(roots))
        return 0
    for root in roots:
        for line in format_branches(root, "", ""):
            print(line)
    if not roots:
        print(say("There is no session yet."))
    return 0


def _show(found: Plain, *, as_json: bool) -> int:
    if as_json:
        sys.stdout.write(_pretty(found))
        return 0
    print(_session_line(found))
    messages = found["messages"]
    assert isinstance(messages, list)
    for message in messages:
        calls = "".join(
            f"\n  · {call['function']['name']} {call['function']['arguments']}"
            for call in message.get("tool_calls", ())
        )
        print(f"\n[{message['role']}] {inert(str(message['content'] or ''))}{inert(calls)}")
    return 0


async def _prune(sessions: SessionAdmin, given: argparse.Namespace) -> int:
    seconds = time.time() - parse_since(given.older_than, time.time())
    if seconds <= 0:
        raise UsageError(phrase("--older-than must lie in the past."), "hermes sessions prune --older-than 90d")
    rows = await sessions.list_idle(seconds)
    if given.dry_run or not rows:
        return _print(rows, given.json, _session_line, say("There is no session that old."))
    if not given.json:
        for row in rows:
            print(_session_line(row))
    question = say_many(
        "Delete this {n} session and every word of it?", "Delete these {n} sessions and every word?", len(rows)
    )
    answer = agreed(question, yes=given.yes, what=say("Deleting"))
    if answer is not True:
        return 1 if answer is False else 2
    gone, held = await sessions.delete_idle(seconds)
    if given.json:
        print_json({"deleted": gone, "open": held})
        return 0
    print(say_many("{n} session deleted.", "{n} sessions deleted.", len(gone)))
    if held:
        complain(say_many("{n} is open and stays.", "{n} are open and stay.", len(held)))
    return 0


def _stats(found: Plain, *, as_json: bool) -> int:
    if as_json:
        print_json(found)
        return 0
    rows = {
        say("in all"): [found | {"key": ""}],
        say("by model"): found["models"],
        say("by front-end"): found["sources"],
    }
    for title, listed in rows.items():
        assert isinstance(listed, list)
        print(title)
        for row in listed:
            key = escaped(one_line(str(row["key"]), 40))
            counts = (number(row["sessions"]), number(row["messages"]), compact(row["tokens"]))
            said = say(
                "{sessions} sessions, {messages} messages, {tokens} tokens",
                sessions=counts[0],
                messages=counts[1],
                tokens=counts[2],
            )
            print(f"  {key:<32} {said}" if key else f"  {said}")
    sizes = found["bytes"]
    assert isinstance(sizes, dict)
    print(", ".join(f"{name} {size(count)}" for name, count in sizes.items()))
    return 0


def _export(lines: bytes, output: str | None) -> int:
    if output is None:
        sys.stdout.buffer.write(lines)
        return 0
    try:
        Path(output).write_bytes(lines)
    except OSError as error:
        complain(f"{output} cannot be written: {error.strerror}.")
        return 1
    return 0


async def _delete(sessions: SessionAdmin, given: argparse.Namespace) -> int:
    row = await sessions.find_session_row(given.session)
    if not given.yes:
        if not sys.stdin.isatty():
            complain("Deleting needs a yes: add --yes.")
            return 2
        title = one_line(inert(str(row["title"])), 60)
        about = say(
            '{id} ("{title}", {message_count} messages)', id=row["id"], title=title, message_count=row["message_count"]
        )
        print(say("Delete session {about} and every word of it?", about=about), "[y/N] ", end="", flush=True)
        if sys.stdin.readline().strip().lower() not in ("y", "yes", "是", "好"):
            return 1
    deleted = await sessions.delete_session(str(row["id"]))
    if given.json:
        sys.stdout.write(_pretty({"deleted": deleted}))
    else:
        print(say("Deleted {what}.", what=deleted))
    return 0


def _session_line(row: Plain) -> str:
    title = one_line(inert(str(row.get("title") or "")), 60)
    count = say("{message_count:>5} messages", message_count=row["message_count"])
    kind = f" ({say(_KINDS[str(row['kind'])])})" if row.get("kind") else ""
    return f"{row['id']}  {_when(row['updated_at'])}  {count}  {row.get('model') or ''}  {title}{kind}"


def _hit_line(row: Plain) -> str:
    return (
        f"{row['session_id']}  {_when(row['created_at'])}  {row['role']}: {one_line(inert(str(row['snippet'])), 160)}"
    )


def _when(seconds: object) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(float(str(seconds))))


def _pretty(value: object) -> str:
    return msgspec.json.format(msgspec.json.encode(value)).decode() + "\n"
