"""`hermes sessions`: list, show, search, export and delete."""

import argparse
import asyncio
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec

from hermes.app.sessions import Node, Sessions, stored_sessions
from hermes.cli.arguments import Parser
from hermes.cli.report import complain, failed
from hermes.config.environment import process_environment
from hermes.core.errors import HermesError
from hermes.util.local import moment
from hermes.util.say import phrase, say, say_many
from hermes.util.text import inert, one_line

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
        description="Look at, search, export and delete what was said.",
        epilog="example: hermes sessions search '天气 report' --limit 5",
    )
    verbs = made.add_subparsers(dest="verb", required=True, metavar="VERB")
    listing = verbs.add_parser("list", help="the newest sessions")
    tree = verbs.add_parser("tree", help="the newest sessions with their branches")
    show = verbs.add_parser("show", help="one session's messages")
    search = verbs.add_parser("search", help="messages with all of these words, or else with any")
    export = verbs.add_parser("export", help="JSON lines: the session, then a message each")
    delete = verbs.add_parser("delete", help="delete a session and every word of it")
    for verb in (listing, tree, show, search, delete):
        verb.add_argument("--json", action="store_true", help="print JSON")
    for verb in (listing, tree, search):
        verb.add_argument("--limit", type=int, default=20, metavar="N", help="how many at the most")
    for verb in (show, export, delete):
        verb.add_argument("session", help="an id, its beginning, or its whole title")
    for verb in (show, export):
        verb.add_argument("--hidden", action="store_true", help="show what Hermes itself wrote for the model, too")
    search.add_argument("words", nargs="+", help="in any script; one Chinese character is enough")
    search.add_argument("--best", action="store_true", help="best match first instead of newest first")
    export.add_argument("-o", "--output", metavar="FILE", help="a file instead of standard output")
    delete.add_argument("-y", "--yes", action="store_true", help="do not ask")
    return made


async def _run(given: argparse.Namespace) -> int:
    async with stored_sessions(process_environment()) as sessions:
        match given.verb:
            case "list":
                return _print(await sessions.newest(given.limit), given.json, _session_line, "There is no session yet.")
            case "tree":
                return _tree(await sessions.tree(given.limit), as_json=given.json)
            case "show":
                found = await sessions.show(given.session, hidden=given.hidden)
                return _show(found, as_json=given.json)
            case "search":
                hits = await sessions.search(" ".join(given.words), limit=given.limit, newest=not given.best)
                return _print(hits, given.json, _hit_line, "No message has these words.")
            case "export":
                return _export(await sessions.show(given.session, hidden=given.hidden), given.output)
            case _:
                return await _delete(sessions, given)


def _print(rows: list[Plain], as_json: bool, line: Callable[[Plain], str], none: str) -> int:
    if as_json:
        sys.stdout.write(_pretty(rows))
    else:
        for row in rows:
            print(line(row))
        if not rows:
            print(none)
    return 0


def _tree(roots: Sequence[Node], *, as_json: bool) -> int:
    if as_json:
        sys.stdout.write(_pretty(roots))
        return 0
    for root in roots:
        for line in _branches(root, "", ""):
            print(line)
    if not roots:
        print(say("There is no session yet."))
    return 0


def _branches(node: Node, lead: str, below: str) -> Iterator[str]:
    """A session with its branches, each a line; `below` is what stands in front of what comes below it."""
    title = one_line(inert(node.title), 60)
    said = say_many("{n} message", "{n} messages", node.messages)
    since = say("after turn {turn}", turn=node.turns) if node.turns else ""
    yield "  ".join(part for part in (f"{lead}{node.id}", moment(node.updated_at), said, since, title) if part)
    for number, one in enumerate(node.branches, 1):
        last = number == len(node.branches)
        yield from _branches(one, f"{below}{'└─ ' if last else '├─ '}", f"{below}{'   ' if last else '│  '}")


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


def _export(found: Plain, output: str | None) -> int:
    messages = found.pop("messages")
    assert isinstance(messages, list)
    lines = b"".join(msgspec.json.encode(entry) + b"\n" for entry in [found, *messages])
    if output is None:
        sys.stdout.buffer.write(lines)
        return 0
    try:
        Path(output).write_bytes(lines)
    except OSError as error:
        complain(f"{output} cannot be written: {error.strerror}.")
        return 1
    return 0


async def _delete(sessions: Sessions, given: argparse.Namespace) -> int:
    row = await sessions.find(given.session)
    if not given.yes:
        if not sys.stdin.isatty():
            complain("Deleting needs a yes: add --yes.")
            return 2
        title = one_line(inert(str(row["title"])), 60)
        about = f'{row["id"]} ("{title}", {row["message_count"]} messages)'
        print(f"Delete session {about} and every word of it? [y/N] ", end="", flush=True)
        if sys.stdin.readline().strip().lower() not in ("y", "yes", "是", "好"):
            return 1
    deleted = await sessions.delete(str(row["id"]))
    if given.json:
        sys.stdout.write(_pretty({"deleted": deleted}))
    else:
        print(f"Deleted {deleted}.")
    return 0


def _session_line(row: Plain) -> str:
    title = one_line(inert(str(row.get("title") or "")), 60)
    count = f"{row['message_count']:>5} messages"
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
