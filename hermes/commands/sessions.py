"""`hermes sessions`: list, show, search, rename, export, prune and delete sessions.

`/sessions`, `/resume`, `/title`, `/search`, `/history` find, name and resume them in a chat; `/new` and `/clear` start
a fresh one, `/quit` leaves.
"""

import asyncio
import os
import re
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from hermes.admin.export import FORMATS, SHARING_ADVICE, choose_format, export_session
from hermes.admin.logs import parse_since
from hermes.admin.sessions import CUT_OFF, SessionAdmin, SessionNode, SubAgentNode, open_session_admin
from hermes.commands.command import TERMINAL_ONLY, CommandCall, CommandGroup, CommandList
from hermes.commands.context import CommandContext, MenuOption, Surface
from hermes.commands.texts.sub_agent_texts import name_state
from hermes.commands.verb import (
    JSON_OPTION,
    SHORT_YES_OPTION,
    YES_OPTION,
    AdminVerb,
    VerbCall,
    VerbResult,
    argument,
    rows_result,
)
from hermes.core.encoding import Plain
from hermes.core.errors import HermesError, NotFoundError, UsageError
from hermes.core.messages import Role
from hermes.i18n.formats import format_age, format_bytes, format_compact, format_number, format_time
from hermes.i18n.messages import N_, tr, tr_plural
from hermes.sessions.secrets import build_lenient_redactor
from hermes.sessions.session_lookup import row_to_dict
from hermes.util.atomic_write import write_atomic
from hermes.util.text import escape_unseen_characters, strip_control_characters, to_one_line

_MAX_LIMIT = 1_000_000
_MAX_LISTED = 200
_MAX_CHAT_LISTED = 10
"""Rows of a list that is shown as buttons in a chat."""
_MAX_HITS = 100
"""Messages that are looked at for a menu of sessions."""
_RESULT_MARKUP = re.compile(
    r"</?untrusted\b[^>]*(?:>|\Z)|\A[^<>]*\bid=\"?[0-9a-f]+\"?>|\[(?:exit code|ended by signal) -?\d+[^\]]*(?:\]|\Z)"
)
_DEFAULT_HISTORY = 20
_KIND_NAMES = {"branch": N_("branch"), "archive": N_("condensed past")}


@asynccontextmanager
async def _open_sessions(call: VerbCall) -> AsyncIterator[SessionAdmin]:
    if not 0 < getattr(call.args, "limit", 1) < _MAX_LIMIT:
        raise UsageError(N_("--limit must be above zero and below {MAX_LIMIT}.", MAX_LIMIT=_MAX_LIMIT))
    async with open_session_admin(call.environ) as admin:
        yield admin


_ALL = argument("--all", action="store_true", help="runs of jobs and of programs, too")
_LIMIT = argument("--limit", type=int, default=20, metavar="N", help="how many at the most")
_SESSION = argument("session", help="an id, its beginning, or its whole title")
_OR_NEWEST = argument(
    "session", nargs="?", default="", help="an id, its beginning, or its whole title; without one, the newest"
)
_HIDDEN = argument("--hidden", action="store_true", help="show what Hermes itself wrote for the model, too")
SESSIONS = AdminVerb(
    "sessions",
    _open_sessions,
    description=("List, search, rename, export and delete conversations. In a chat `/sessions` browses them."),
    example="hermes sessions search '天气 report' --limit 5",
)


@SESSIONS.admin_action("list", "the newest sessions (also without a verb)", JSON_OPTION, _LIMIT, _ALL)
async def list_sessions(admin: SessionAdmin, call: VerbCall) -> VerbResult:
    """List the newest sessions."""
    return rows_result(
        await admin.list_newest(call.args.limit, everything=call.args.all),
        _format_session,
        tr("There is no session yet."),
    )


@SESSIONS.admin_action("tree", "the newest sessions with their branches and sub-agents", JSON_OPTION, _LIMIT, _ALL)
async def list_tree(admin: SessionAdmin, call: VerbCall) -> VerbResult:
    """List the newest sessions with their branches and sub-agents."""
    roots = await admin.list_tree(call.args.limit, everything=call.args.all)
    return rows_result(roots, lambda root: list(format_branches(root, "", "")), tr("There is no session yet."))


async def _name_session(admin: SessionAdmin, call: VerbCall) -> str:
    """Return the name of the session that was given, or the id of the newest one. Raises NotFoundError."""
    if call.args.session:
        return str(call.args.session)
    newest = await admin.list_newest(1)
    if not newest:
        raise NotFoundError(N_("There is no session yet."))
    return str(newest[0]["id"])


@SESSIONS.admin_action("show", "one session's messages", JSON_OPTION, _OR_NEWEST, _HIDDEN)
async def show_session(admin: SessionAdmin, call: VerbCall) -> VerbResult:
    """Show a session's messages."""
    found = await admin.show_session(await _name_session(admin, call), hidden=call.args.hidden)
    return VerbResult(found, [_format_session(found), *_format_outcome(found), *_format_messages(found)])


@SESSIONS.admin_action(
    "search",
    "messages with all of these words, or else with any",
    JSON_OPTION,
    _LIMIT,
    argument("words", nargs="+", help="in any script; one Chinese character is enough"),
    argument("--best", action="store_true", help="best match first instead of newest first"),
)
async def find_messages(admin: SessionAdmin, call: VerbCall) -> VerbResult:
    """Search all messages."""
    args = call.args
    hits = await admin.search_messages(" ".join(args.words), limit=args.limit, newest=not args.best)
    return rows_result(hits, _format_hit, tr("No message has these words."))


@SESSIONS.admin_action(
    "export",
    "one session as JSON lines, Markdown or a web page",
    _OR_NEWEST,
    _HIDDEN,
    argument("-o", "--output", metavar="FILE", help="a file instead of standard output; its ending says the format"),
    argument("--format", choices=FORMATS, help="jsonl (a line each; without a file, too), md, or html"),
)
async def write_export(admin: SessionAdmin, call: VerbCall) -> VerbResult:
    """Export a session to a file or to standard output."""
    args = call.args
    format_name = args.format or choose_format(args.output or "")
    shown = await admin.show_session(await _name_session(admin, call), hidden=args.hidden)
    found = export_session(shown, format_name, build_lenient_redactor(call.environ, admin.home).redact)
    if args.output is None:
        return VerbResult(data=found)
    await _write_file(Path(args.output), found)
    return VerbResult(notices=[_describe_file(args.output, found)])


@SESSIONS.admin_action(
    "share",
    "one session as a web page that stands alone, without keys: a file, nothing is sent",
    _OR_NEWEST,
    argument("-o", "--output", metavar="FILE", help="where to write it (default: ID.html in this folder)"),
    YES_OPTION,
)
async def share_session(admin: SessionAdmin, call: VerbCall) -> VerbResult:
    """Write a session as a web page."""
    shown = await admin.show_session(await _name_session(admin, call))
    found = export_session(shown, "html", build_lenient_redactor(call.environ, admin.home).redact)
    target = Path(os.getcwd(), call.args.output or f"{shown['id']}.html")
    name = escape_unseen_characters(str(target))
    if await asyncio.to_thread(os.path.lexists, target):
        question = tr("{file} is there already. Write over it?", file=name)
        await call.require_yes(question, what=tr("Writing over a file"))
    await _write_file(target, found)
    return VerbResult(
        lines=[
            _describe_file(str(target), found),
            tr("It is a file on this machine; nothing was sent anywhere. {advice}", advice=tr(SHARING_ADVICE)),
        ]
    )


def _describe_file(file: str, data: bytes) -> str:
    return tr("Written: {file} ({size}).", file=escape_unseen_characters(file), size=format_bytes(len(data)))


async def _write_file(target: Path, data: bytes) -> None:
    """Write what was exported to a file that only its owner may read. Raises HermesError."""
    try:
        await asyncio.to_thread(write_atomic, target, data, mode=0o600)
    except OSError as error:
        raise HermesError(
            N_("{output} cannot be written: {strerror}.", output=str(target), strerror=error.strerror)
        ) from None


@SESSIONS.admin_action(
    "rename",
    "give a session another title",
    JSON_OPTION,
    _SESSION,
    argument("title", nargs="+", help="its new title"),
)
async def rename_session(admin: SessionAdmin, call: VerbCall) -> VerbResult:
    """Change a session's title."""
    row = await admin.rename_session(call.args.session, " ".join(call.args.title))
    said = tr('Session {id} is called "{title}" now.', id=row["id"], title=row["title"])
    return VerbResult(row, [escape_unseen_characters(said)])


@SESSIONS.admin_action("delete", "delete a session and every word of it", JSON_OPTION, _SESSION, SHORT_YES_OPTION)
async def delete_session(admin: SessionAdmin, call: VerbCall) -> VerbResult:
    """Delete a session after a yes."""
    row = await admin.find_session_row(call.args.session)
    title = to_one_line(strip_control_characters(str(row["title"])), 60)
    about = tr(
        '{id} ("{title}", {message_count} messages)', id=row["id"], title=title, message_count=row["message_count"]
    )
    question = tr("Delete session {about} and every word of it?", about=about)
    await call.require_yes(question, what=tr("Deleting"))
    deleted = await admin.delete_session(str(row["id"]))
    return VerbResult({"deleted": deleted}, [tr("Deleted {what}.", what=deleted)])


@SESSIONS.admin_action(
    "prune",
    "delete sessions that were not used for a time",
    JSON_OPTION,
    argument("--older-than", metavar="TIME", exclusive="which", help="how long it was unused: 90d, 12w"),
    argument(
        "--by-policy",
        action="store_true",
        exclusive="which",
        help="what the gateway deletes by itself once a day (session_retention): sessions of jobs and programs",
    ),
    argument("--dry-run", action="store_true", help="only say which they are"),
    SHORT_YES_OPTION,
)
async def prune_sessions(admin: SessionAdmin, call: VerbCall) -> VerbResult:
    """Show the sessions in which nothing was said for a time, and delete them after a yes."""
    if call.args.by_policy:
        from hermes.admin.session_retention import load_policy

        expired = await load_policy(admin).list_expired(time.time())
        rows = [row_to_dict(row) for row in expired]
        listed = rows_result(rows, _format_session, tr("There is no session that the policy deletes."))
        if call.args.dry_run or not rows:
            return listed
        call.show(listed.lines)
        await call.require_yes(_ask_to_delete(len(rows)), what=tr("Deleting"))
        gone, held = await admin.delete_rows(expired)
        return _describe_pruning(call, [row_to_dict(row) for row in gone], [row_to_dict(row) for row in held])
    if not call.args.older_than:
        raise UsageError(N_("Say which: --older-than TIME, or --by-policy."), "hermes sessions prune --older-than 90d")
    seconds = time.time() - parse_since(call.args.older_than, time.time())
    if seconds <= 0:
        raise UsageError(N_("--older-than must lie in the past."), "hermes sessions prune --older-than 90d")
    rows = await admin.list_idle(seconds)
    listed = rows_result(rows, _format_session, tr("No session is that old."))
    if call.args.dry_run or not rows:
        return listed
    call.show(listed.lines)
    await call.require_yes(_ask_to_delete(len(rows)), what=tr("Deleting"))
    return _describe_pruning(call, *await admin.delete_idle(seconds))


def _ask_to_delete(count: int) -> str:
    return tr_plural(
        "Delete this {n} session and every word of it?", "Delete these {n} sessions and every word?", count
    )


def _describe_pruning(call: VerbCall, gone: Sequence[Plain], held: Sequence[Plain]) -> VerbResult:
    notices = [tr_plural("{n} is open and stays.", "{n} are open and stay.", len(held))]
    return VerbResult(
        {"deleted": gone, "open": held},
        [tr_plural("{n} session deleted.", "{n} sessions deleted.", len(gone))],
        notices if held and not call.as_json else (),
    )


@SESSIONS.admin_action("stats", "how much there is, by model and front-end", JSON_OPTION)
async def show_statistics(admin: SessionAdmin, call: VerbCall) -> VerbResult:
    """Show how much there is, in all and by model and front-end."""
    del call
    found = await admin.compute_statistics()
    return VerbResult(found, _format_statistics(found))


def format_branches(node: SessionNode, lead: str, below: str) -> Iterator[str]:
    """Yield a line for a session and for each of its branches; `below` is the prefix of the lines below it."""
    title = to_one_line(strip_control_characters(node.title), 60)
    said = tr_plural("{n} message", "{n} messages", node.messages)
    since = tr("after turn {turn}", turn=node.turns) if node.turns else ""
    yield "  ".join(part for part in (f"{lead}{node.id}", format_time(node.updated_at), said, since, title) if part)
    below_it: list[SubAgentNode | SessionNode] = [*node.sub_agents, *node.branches]
    for one in below_it:
        last = one is below_it[-1]
        first, rest = f"{below}{'└─ ' if last else '├─ '}", f"{below}{'   ' if last else '│  '}"
        if isinstance(one, SubAgentNode):
            yield from _format_sub_agents(one, first, rest)
        else:
            yield from format_branches(one, first, rest)


def _format_sub_agents(node: SubAgentNode, lead: str, below: str) -> Iterator[str]:
    """Yield a line for a sub-agent and for each of its own."""
    name = to_one_line(strip_control_characters(node.name), 60)
    yield f"{lead}{node.number} {name}  {name_state(node.state)}  {node.id}"
    for one in node.sub_agents:
        last = one is node.sub_agents[-1]
        yield from _format_sub_agents(one, f"{below}{'└─ ' if last else '├─ '}", f"{below}{'   ' if last else '│  '}")


def _format_statistics(found: Plain) -> list[str]:
    lines: list[str] = []
    rows = {
        tr("in all"): [found | {"key": ""}],
        tr("by model"): found["models"],
        tr("by front-end"): found["sources"],
    }
    for title, listed in rows.items():
        assert isinstance(listed, list)
        lines.append(title)
        for row in listed:
            key = escape_unseen_characters(to_one_line(str(row["key"]), 40))
            counts = (format_number(row["sessions"]), format_number(row["messages"]), format_compact(row["tokens"]))
            said = tr(
                "{sessions} sessions, {messages} messages, {tokens} tokens",
                sessions=counts[0],
                messages=counts[1],
                tokens=counts[2],
            )
            lines.append(f"  {key:<32} {said}" if key else f"  {said}")
    sizes = found["bytes"]
    assert isinstance(sizes, dict)
    return [*lines, ", ".join(f"{name} {format_bytes(count)}" for name, count in sizes.items())]


def _format_messages(found: Plain) -> Iterator[str]:
    messages = found["messages"]
    assert isinstance(messages, list)
    for message in messages:
        calls = "".join(
            f"\n  · {call['function']['name']} {call['function']['arguments']}"
            for call in message.get("tool_calls", ())
        )
        text = strip_control_characters(str(message["content"] or ""))
        yield f"\n[{message['role']}] {text}{strip_control_characters(calls)}"


def _format_session(row: Plain) -> str:
    title = to_one_line(strip_control_characters(str(row.get("title") or "")), 60)
    count = tr("{message_count:>5} messages", message_count=row["message_count"])
    kind = f" ({tr(_KIND_NAMES[str(row['kind'])])})" if row.get("kind") else ""
    return f"{row['id']}  {_format_timestamp(row['updated_at'])}  {count}  {row.get('model') or ''}  {title}{kind}"


def _format_outcome(found: Plain) -> Iterator[str]:
    """Yield a line that names how the newest turn ended."""
    outcome = str(found["outcome"])
    if outcome == CUT_OFF:
        yield tr("Last turn: cut off when its process ended; `hermes --resume {id}` goes on.", id=found["id"])
    elif outcome:
        yield tr("Last turn: {outcome}", outcome=outcome)


def _format_hit(row: Plain) -> str:
    return (
        f"{row['session_id']}  {_format_timestamp(row['created_at'])}  {row['role']}: "
        f"{to_one_line(strip_control_characters(str(row['snippet'])), 160)}"
    )


def _format_timestamp(seconds: object) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(float(str(seconds))))


def _session_admin(context: CommandContext) -> SessionAdmin:
    on = context.app.services
    return SessionAdmin(on.store, on.home)


def _flatten_tree(nodes: Sequence[SessionNode], depth: int = 0) -> Iterator[tuple[SessionNode, int]]:
    """Yield sessions, the most recent first, each followed by its branches."""
    for node in nodes if depth else sorted(nodes, key=_last_update, reverse=True):
        yield node, depth
        yield from _flatten_tree(node.branches, depth + 1)


def _last_update(node: SessionNode) -> float:
    return max([node.updated_at, *(_last_update(one) for one in node.branches)])


def _session_option(node: SessionNode, depth: int) -> MenuOption:
    lead = "   " * (depth - 1) + "└─ " if depth else ""
    title = to_one_line(escape_unseen_characters(node.title), 60) or node.id
    return MenuOption(lead + title, _format_details(node.updated_at, node.messages, node.folder), is_title=True)


def _format_details(updated_at: float, messages: int, folder: str) -> str:
    """Return what a menu says of a session beside its title: its age, messages, and the end of its folder's name."""
    count = tr_plural("{n} message", "{n} messages", messages)
    parts = [format_age(updated_at), count, to_one_line(os.path.basename(folder.rstrip("/")), 30)]
    return " · ".join(part for part in parts if part)


COMMANDS = CommandList(CommandGroup.SESSION)


async def complete_sessions(call: CommandCall) -> Sequence[MenuOption]:
    """Complete the ids and titles of the newest sessions."""
    rows = await _session_admin(call.context).list_newest(50, person=call.context.session_person)
    return [MenuOption(str(row["id"]), to_one_line(escape_unseen_characters(str(row["title"])), 60)) for row in rows]


@COMMANDS.command(
    "resume",
    N_("go on with a session: an id, its beginning, or its title"),
    usage=N_("[session|--all]"),
    aliases=("continue",),
    complete=complete_sessions,
    while_busy=False,
    opens=True,
)
@COMMANDS.command(
    "sessions",
    N_("choose among your sessions and their branches, and go on with one"),
    usage=N_("[session|--all]"),
    while_busy=False,
    opens=True,
)
async def choose_session(call: CommandCall) -> None:
    """Choose among the sessions, the newest first, and resume one."""
    everything = call.text == "--all"
    if call.text and not everything:
        await call.context.open_session(call.text)
        return
    here, context = call.context.port.session_id, call.context
    limit = _MAX_LISTED if context.surface is Surface.TERMINAL else _MAX_CHAT_LISTED
    tree = await _session_admin(context).list_tree(limit, person=context.session_person, everything=everything)
    nodes = list(_flatten_tree(tree))[: limit + 1]
    if not [node for node, _ in nodes if node.id != here]:
        call.context.tell(tr("There is no other session yet."))
        return
    chosen = next((at for at, (node, _) in enumerate(nodes) if node.id != here), 0)
    options = [_session_option(node, depth) for node, depth in nodes]
    taken = await call.context.choose(tr("Go on with which session?"), options, chosen=chosen)
    if taken is not None and nodes[taken][0].id != here:
        await call.context.open_session(nodes[taken][0].id)


@COMMANDS.command("title", N_("show or set the session's title"), usage=N_("[title]"), aliases=("rename",))
async def manage_title(call: CommandCall) -> None:
    """Show the session's title, or change it."""
    store, session_id = call.context.app.services.store, call.context.actor.session_id
    if call.text:
        await store.sessions.rename(session_id, to_one_line(call.text, 200))
    row = await call.context.app.session_row(call.context.actor)
    name = escape_unseen_characters(str(row["title"]))
    call.context.tell(tr("This session is called “{title}”.", title=name) if name else tr("It has no title yet."))
    await call.context.refresh_view()


@COMMANDS.command("search", N_("search all conversations"), usage=N_("words"), while_busy=False, opens=True)
async def search_messages(call: CommandCall) -> None:
    """Search all stored messages."""
    if not call.text:
        call.context.tell(tr("Say what to look for: /search words"))
        return
    admin = _session_admin(call.context)
    best = _pick_best_hits(await admin.search_messages(call.text, limit=_MAX_HITS, newest=True))
    if not best:
        call.context.tell(tr("No message has these words."))
        return
    options = [await _hit_option(admin, hit, tuple(call.text.split())) for hit in best]
    taken = await call.context.choose(tr("Found; go on with which session?"), options)
    if taken is not None:
        await call.context.open_session(str(best[taken]["session_id"]))


def _pick_best_hits(hits: Sequence[Plain]) -> list[Plain]:
    """Return one hit of each session: what somebody said before what a tool gave; sessions with only that last."""
    found: dict[str, Plain] = {}
    for hit in sorted(hits, key=_is_tool_hit):
        found.setdefault(str(hit["session_id"]), hit)
    return list(found.values())


def _is_tool_hit(hit: Plain) -> bool:
    return str(hit["role"]) == Role.TOOL


async def _hit_option(admin: SessionAdmin, hit: Plain, words: tuple[str, ...]) -> MenuOption:
    row = await admin.find_session_row(str(hit["session_id"]))
    title = to_one_line(escape_unseen_characters(str(row["title"])), 60) or str(row["id"])
    updated_at, messages = float(str(row["updated_at"])), int(str(row["message_count"]))
    return MenuOption(
        title,
        _format_details(updated_at, messages, str(row["cwd"] or "")),
        note=to_one_line(escape_unseen_characters(_clean_snippet(str(hit["snippet"]))), 200),
        marked=words,
        is_title=True,
    )


def _clean_snippet(text: str) -> str:
    """Return an excerpt without what Hermes has put around results of tools; it may begin or end inside of that."""
    return _RESULT_MARKUP.sub(" ", text).strip()


@COMMANDS.command("history", N_("show the last messages of this session"), usage=N_("[number]"))
async def show_history(call: CommandCall) -> None:
    """Show the last messages of the conversation."""
    count = int(call.text) if call.text.isdecimal() else _DEFAULT_HISTORY
    said = [
        message
        for message in call.context.actor.conversation.messages
        if not message.synthetic and message.role in (Role.USER, Role.ASSISTANT) and message.text.strip()
    ]
    if not said:
        call.context.tell(tr("This session has no messages yet."))
    for message in said[-count:]:
        if message.role is Role.USER:
            call.context.tell(f"› {strip_control_characters(message.text)}")
        else:
            call.context.show(message.text)


@COMMANDS.command(
    "new",
    N_("begin a new session; the one before is kept"),
    usage=N_("[title]"),
    aliases=("reset",),
    while_busy=False,
    opens=True,
)
async def start_session(call: CommandCall) -> None:
    """Start a fresh session, with a title if one is given."""
    before = call.context.app.find_live_session(call.context.actor.session_id)
    if before is not None and before.hooks is not None:
        await before.hooks.tell_reset()
    actor = await call.context.open_session(None)
    if call.text:
        await call.context.app.services.store.sessions.rename(actor.session_id, call.text)
    call.context.tell(tr("A new session: {id}.", id=actor.session_id))


@COMMANDS.command(
    "clear", N_("clear the screen and begin a new session"), surfaces=TERMINAL_ONLY, while_busy=False, opens=True
)
async def clear_and_start(call: CommandCall) -> None:
    """Clear the screen, start a fresh session, and say there how to return to the one before."""
    call.require_no_arguments()
    if call.context.terminal is not None:
        call.context.terminal.clear()
    await start_session(call)


async def complete_quit(_call: CommandCall) -> Sequence[MenuOption]:
    """Complete the only option."""
    return [MenuOption("--delete", tr("delete the session, too"))]


@COMMANDS.command(
    "quit",
    N_("leave, as Ctrl-D does"),
    usage=N_("[--delete]"),
    aliases=("exit",),
    complete=complete_quit,
    surfaces=TERMINAL_ONLY,
)
async def quit_chat(call: CommandCall) -> None:
    """Leave the chat; with `--delete` delete the session, too, once that is confirmed."""
    if call.text not in ("", "--delete"):
        raise UsageError(N_("/quit takes `--delete` or nothing."))
    if not call.text:
        call.context.leave_chat()
    elif await call.context.confirm(tr("Delete this session and every word of it?")):
        call.context.leave_chat(delete=True)
