"""`/sessions`, `/resume`, `/title`, `/search`, `/history`: find, name and resume sessions.

`/new` and `/clear`: start a fresh session; the previous one is kept.

`/quit`: leave the chat.
"""

from collections.abc import Iterator, Sequence

from hermes.admin.sessions import SessionAdmin, SessionNode
from hermes.commands.command import TERMINAL_ONLY, CommandCall, CommandGroup, SlashCommand
from hermes.commands.context import MenuOption
from hermes.core.errors import UsageError
from hermes.core.messages import Role
from hermes.i18n.formats import format_time
from hermes.i18n.messages import N_, tr, tr_plural
from hermes.util.text import escape_unseen_characters, strip_control_characters, to_one_line

_MAX_LISTED = 200
_MAX_HITS = 20
_DEFAULT_HISTORY = 20


def _session_admin(call: CommandCall) -> SessionAdmin:
    on = call.context.app.services
    return SessionAdmin(on.store, on.home)


def _flatten_tree(nodes: Sequence[SessionNode], depth: int = 0) -> Iterator[tuple[SessionNode, int]]:
    """Yield sessions, the most recent first, each followed by its branches."""
    for node in nodes if depth else sorted(nodes, key=_last_update, reverse=True):
        yield node, depth
        yield from _flatten_tree(node.branches, depth + 1)


def _last_update(node: SessionNode) -> float:
    return max([node.updated_at, *(_last_update(one) for one in node.branches)])


def _session_option(node: SessionNode, depth: int) -> MenuOption:
    title = to_one_line(escape_unseen_characters(node.title), 60) or node.id
    count = tr_plural("{n} message", "{n} messages", node.messages)
    lead = "   " * (depth - 1) + "└─ " if depth else ""
    return MenuOption(lead + title, f"{format_time(node.updated_at)} · {count} · {node.id}")


async def choose_session(call: CommandCall) -> None:
    """Choose among the sessions, the newest first, and resume one."""
    if call.text:
        await call.context.open_session(call.text)
        return
    here = call.context.port.session_id
    nodes = list(_flatten_tree(await _session_admin(call).list_tree(_MAX_LISTED)))
    if not [node for node, _ in nodes if node.id != here]:
        call.context.tell(tr("There is no other session yet."))
        return
    chosen = next((at for at, (node, _) in enumerate(nodes) if node.id != here), 0)
    options = [_session_option(node, depth) for node, depth in nodes]
    taken = await call.context.choose(tr("Go on with which session?"), options, chosen=chosen)
    if taken is not None and nodes[taken][0].id != here:
        await call.context.open_session(nodes[taken][0].id)


async def complete_sessions(call: CommandCall) -> Sequence[MenuOption]:
    """Complete the ids and titles of the newest sessions."""
    rows = await _session_admin(call).list_newest(50)
    return [MenuOption(str(row["id"]), to_one_line(escape_unseen_characters(str(row["title"])), 60)) for row in rows]


async def manage_title(call: CommandCall) -> None:
    """Show the session's title, or change it."""
    store, session_id = call.context.app.services.store, call.context.actor.session_id
    if call.text:
        await store.sessions.rename(session_id, to_one_line(call.text, 200))
    row = await call.context.app.session_row(call.context.actor)
    name = escape_unseen_characters(str(row["title"]))
    call.context.tell(tr("This session is called “{title}”.", title=name) if name else tr("It has no title yet."))
    await call.context.refresh_view()


async def search_messages(call: CommandCall) -> None:
    """Search all stored messages."""
    if not call.text:
        call.context.tell(tr("Say what to look for: /search words"))
        return
    hits = await _session_admin(call).search_messages(call.text, limit=_MAX_HITS, newest=True)
    if not hits:
        call.context.tell(tr("No message has these words."))
        return
    options = [
        MenuOption(
            to_one_line(escape_unseen_characters(str(hit["snippet"])), 100),
            f"{format_time(float(str(hit['created_at'])))} · {hit['session_id']}",
        )
        for hit in hits
    ]
    taken = await call.context.choose(tr("Found; go on with which session?"), options)
    if taken is not None:
        await call.context.open_session(str(hits[taken]["session_id"]))


async def show_history(call: CommandCall) -> None:
    """Show the last messages of the conversation."""
    count = int(call.text) if call.text.isdecimal() else _DEFAULT_HISTORY
    said = [
        message
        for message in call.context.actor.conversation.messages
        if not message.synthetic and message.role in (Role.USER, Role.ASSISTANT) and message.text.strip()
    ]
    if not said:
        call.context.tell(tr("Nothing was said in this session yet."))
    for message in said[-count:]:
        if message.role is Role.USER:
            call.context.tell(f"› {strip_control_characters(message.text)}")
        else:
            call.context.show(message.text)


_SESSIONS_COMMANDS = (
    SlashCommand(
        name="sessions",
        about=N_("choose among your sessions and their branches, and go on with one"),
        group=CommandGroup.SESSION,
        run=choose_session,
        opens=True,
        while_busy=False,
    ),
    SlashCommand(
        name="resume",
        about=N_("go on with a session: an id, its beginning, or its title"),
        usage=N_("[session]"),
        group=CommandGroup.SESSION,
        run=choose_session,
        opens=True,
        complete=complete_sessions,
        while_busy=False,
    ),
    SlashCommand(
        name="title",
        about=N_("show or set the session's title"),
        usage=N_("[title]"),
        group=CommandGroup.SESSION,
        run=manage_title,
    ),
    SlashCommand(
        name="search",
        about=N_("look through everything that was ever said"),
        usage=N_("words"),
        group=CommandGroup.SESSION,
        run=search_messages,
        opens=True,
        while_busy=False,
    ),
    SlashCommand(
        name="history",
        about=N_("show the last messages of this session"),
        usage=N_("[number]"),
        group=CommandGroup.SESSION,
        run=show_history,
    ),
)


async def start_session(call: CommandCall) -> None:
    """Start a fresh session, with a title if one is given."""
    actor = await call.context.open_session(None)
    if call.text:
        await call.context.app.services.store.sessions.rename(actor.session_id, call.text)
    call.context.tell(tr("A new session: {id}.", id=actor.session_id))


async def clear_and_start(call: CommandCall) -> None:
    """Clear the screen and start a fresh session."""
    call.require_no_arguments()
    await start_session(call)
    if call.context.terminal is not None:
        call.context.terminal.clear()


_NEW_COMMANDS = (
    SlashCommand(
        name="new",
        aliases=("reset",),
        about=N_("begin a new session; the one before is kept"),
        usage=N_("[title]"),
        group=CommandGroup.SESSION,
        run=start_session,
        opens=True,
        while_busy=False,
    ),
    SlashCommand(
        name="clear",
        about=N_("clear the screen and begin a new session"),
        group=CommandGroup.SESSION,
        run=clear_and_start,
        opens=True,
        surfaces=TERMINAL_ONLY,
        while_busy=False,
    ),
)


async def quit_chat(call: CommandCall) -> None:
    """Leave the chat; with `--delete` delete the session, too, once that is confirmed."""
    if call.text not in ("", "--delete"):
        raise UsageError(N_("/quit takes `--delete` or nothing."))
    if not call.text:
        call.context.leave_chat()
    elif await call.context.confirm(tr("Delete this session and every word of it?")):
        call.context.leave_chat(delete=True)


async def complete_quit(_call: CommandCall) -> Sequence[MenuOption]:
    """Complete the only option."""
    return [MenuOption("--delete", tr("delete the session, too"))]


_QUIT_COMMAND = SlashCommand(
    name="quit",
    aliases=("exit",),
    about=N_("leave, as Ctrl-D does"),
    usage=N_("[--delete]"),
    group=CommandGroup.SESSION,
    run=quit_chat,
    complete=complete_quit,
    surfaces=TERMINAL_ONLY,
)

COMMANDS = (*_SESSIONS_COMMANDS, *_NEW_COMMANDS, _QUIT_COMMAND)
