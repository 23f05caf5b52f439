"""`hermes sessions`: list, show, search, rename, export, prune and delete sessions.

Format sessions with their branches as lines.
"""

import argparse
import asyncio
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec

from hermes.admin.export import FORMATS, export_session
from hermes.admin.logs import parse_since
from hermes.admin.sessions import SessionAdmin, SessionNode, open_session_admin
from hermes.cli.output import confirm_action, format_bytes, print_error, print_json, report_failure
from hermes.cli.parser import CommandParser
from hermes.config.environment import copy_environment
from hermes.core.errors import HermesError, UsageError
from hermes.i18n.formats import format_compact, format_number, format_time
from hermes.i18n.messages import N_, tr, tr_plural
from hermes.util.text import escape_unseen_characters, strip_control_characters, to_one_line


def format_branches(node: SessionNode, lead: str, below: str) -> Iterator[str]:
    """Yield a line for a session and for each of its branches; `below` is the prefix of the lines below it."""
    title = to_one_line(strip_control_characters(node.title), 60)
    said = tr_plural("{n} message", "{n} messages", node.messages)
    since = tr("after turn {turn}", turn=node.turns) if node.turns else ""
    yield "  ".join(part for part in (f"{lead}{node.id}", format_time(node.updated_at), said, since, title) if part)
    for one in node.branches:
        last = one is node.branches[-1]
        yield from format_branches(one, f"{below}{'└─ ' if last else '├─ '}", f"{below}{'   ' if last else '│  '}")


Plain = dict[str, object]
_MAX_LIMIT = 1_000_000
_KIND_NAMES = {"branch": N_("branch"), "archive": N_("condensed past")}


def run(arguments: list[str]) -> int:
    """Parse the arguments and run one of the verbs."""
    args = _build_parser().parse_arguments(arguments)
    if not 0 < getattr(args, "limit", 1) < _MAX_LIMIT:
        print_error(f"--limit must be above zero and below {_MAX_LIMIT}.")
        return 2
    try:
        return asyncio.run(_run_verb(args))
    except HermesError as error:
        return report_failure(error)


def _build_parser() -> CommandParser:
    made = CommandParser(
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


async def _run_verb(args: argparse.Namespace) -> int:
    async with open_session_admin(copy_environment()) as sessions:
        match args.verb:
            case None | "list":
                rows = await sessions.list_newest(getattr(args, "limit", 20))
                return _print_rows(rows, getattr(args, "json", False), _format_session, tr("There is no session yet."))
            case "tree":
                return _print_tree(await sessions.list_tree(args.limit), as_json=args.json)
            case "show":
                found = await sessions.show_session(args.session, hidden=args.hidden)
                return _print_session(found, as_json=args.json)
            case "search":
                hits = await sessions.search_messages(" ".join(args.words), limit=args.limit, newest=not args.best)
                return _print_rows(hits, args.json, _format_hit, tr("No message has these words."))
            case "export":
                found = await sessions.show_session(args.session, hidden=args.hidden)
                return _write_export(export_session(found, args.format), args.output)
            case "stats":
                return _print_stats(await sessions.compute_statistics(), as_json=args.json)
            case _:
                return await _change_sessions(sessions, args)


async def _change_sessions(sessions: SessionAdmin, args: argparse.Namespace) -> int:
    """Run the verbs that change something."""
    if args.verb == "rename":
        row = await sessions.rename_session(args.session, " ".join(args.title))
        said = tr('Session {id} is called "{title}" now.', id=row["id"], title=row["title"])
        print_json(row) if args.json else print(escape_unseen_characters(said))
        return 0
    return await (_prune_sessions if args.verb == "prune" else _delete_session)(sessions, args)


def _print_rows(rows: list[Plain], as_json: bool, line: Callable[[Plain], str], none: str) -> int:
    if as_json:
        sys.stdout.write(_encode_json(rows))
    else:
        for row in rows:
            print(line(row))
        if not rows:
            print(none)
    return 0


def _print_tree(roots: Sequence[SessionNode], *, as_json: bool) -> int:
    if as_json:
        sys.stdout.write(_encode_json(roots))
        return 0
    for root in roots:
        for line in format_branches(root, "", ""):
            print(line)
    if not roots:
        print(tr("There is no session yet."))
    return 0


def _print_session(found: Plain, *, as_json: bool) -> int:
    if as_json:
        sys.stdout.write(_encode_json(found))
        return 0
    print(_format_session(found))
    messages = found["messages"]
    assert isinstance(messages, list)
    for message in messages:
        calls = "".join(
            f"\n  · {call['function']['name']} {call['function']['arguments']}"
            for call in message.get("tool_calls", ())
        )
        print(
            f"\n[{message['role']}] "
            f"{strip_control_characters(str(message['content'] or ''))}{strip_control_characters(calls)}"
        )
    return 0


async def _prune_sessions(sessions: SessionAdmin, args: argparse.Namespace) -> int:
    seconds = time.time() - parse_since(args.older_than, time.time())
    if seconds <= 0:
        raise UsageError(N_("--older-than must lie in the past."), "hermes sessions prune --older-than 90d")
    rows = await sessions.list_idle(seconds)
    if args.dry_run or not rows:
        return _print_rows(rows, args.json, _format_session, tr("There is no session that old."))
    if not args.json:
        for row in rows:
            print(_format_session(row))
    question = tr_plural(
        "Delete this {n} session and every word of it?", "Delete these {n} sessions and every word?", len(rows)
    )
    answer = confirm_action(question, yes=args.yes, what=tr("Deleting"))
    if answer is not True:
        return 1 if answer is False else 2
    gone, held = await sessions.delete_idle(seconds)
    if args.json:
        print_json({"deleted": gone, "open": held})
        return 0
    print(tr_plural("{n} session deleted.", "{n} sessions deleted.", len(gone)))
    if held:
        print_error(tr_plural("{n} is open and stays.", "{n} are open and stay.", len(held)))
    return 0


def _print_stats(found: Plain, *, as_json: bool) -> int:
    if as_json:
        print_json(found)
        return 0
    rows = {
        tr("in all"): [found | {"key": ""}],
        tr("by model"): found["models"],
        tr("by front-end"): found["sources"],
    }
    for title, listed in rows.items():
        assert isinstance(listed, list)
        print(title)
        for row in listed:
            key = escape_unseen_characters(to_one_line(str(row["key"]), 40))
            counts = (format_number(row["sessions"]), format_number(row["messages"]), format_compact(row["tokens"]))
            said = tr(
                "{sessions} sessions, {messages} messages, {tokens} tokens",
                sessions=counts[0],
                messages=counts[1],
                tokens=counts[2],
            )
            print(f"  {key:<32} {said}" if key else f"  {said}")
    sizes = found["bytes"]
    assert isinstance(sizes, dict)
    print(", ".join(f"{name} {format_bytes(count)}" for name, count in sizes.items()))
    return 0


def _write_export(lines: bytes, output: str | None) -> int:
    if output is None:
        sys.stdout.buffer.write(lines)
        return 0
    try:
        Path(output).write_bytes(lines)
    except OSError as error:
        print_error(f"{output} cannot be written: {error.strerror}.")
        return 1
    return 0


async def _delete_session(sessions: SessionAdmin, args: argparse.Namespace) -> int:
    row = await sessions.find_session_row(args.session)
    if not args.yes:
        if not sys.stdin.isatty():
            print_error("Deleting needs a yes: add --yes.")
            return 2
        title = to_one_line(strip_control_characters(str(row["title"])), 60)
        about = tr(
            '{id} ("{title}", {message_count} messages)', id=row["id"], title=title, message_count=row["message_count"]
        )
        print(tr("Delete session {about} and every word of it?", about=about), "[y/N] ", end="", flush=True)
        if sys.stdin.readline().strip().lower() not in ("y", "yes", "是", "好"):
            return 1
    deleted = await sessions.delete_session(str(row["id"]))
    if args.json:
        sys.stdout.write(_encode_json({"deleted": deleted}))
    else:
        print(tr("Deleted {what}.", what=deleted))
    return 0


def _format_session(row: Plain) -> str:
    title = to_one_line(strip_control_characters(str(row.get("title") or "")), 60)
    count = tr("{message_count:>5} messages", message_count=row["message_count"])
    kind = f" ({tr(_KIND_NAMES[str(row['kind'])])})" if row.get("kind") else ""
    return f"{row['id']}  {_format_timestamp(row['updated_at'])}  {count}  {row.get('model') or ''}  {title}{kind}"


def _format_hit(row: Plain) -> str:
    return (
        f"{row['session_id']}  {_format_timestamp(row['created_at'])}  {row['role']}: "
        f"{to_one_line(strip_control_characters(str(row['snippet'])), 160)}"
    )


def _format_timestamp(seconds: object) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(float(str(seconds))))


def _encode_json(value: object) -> str:
    return msgspec.json.format(msgspec.json.encode(value)).decode() + "\n"
