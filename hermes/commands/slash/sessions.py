"""`/sessions`, `/resume`, `/title`, `/search`, `/history`: find, name and resume sessions."""

from collections.abc import Iterator, Sequence

from hermes.admin.sessions import SessionAdmin, SessionNode
from hermes.commands.command import CommandCall, CommandGroup, SlashCommand
from hermes.commands.context import MenuOption
from hermes.core.messages import Role
from hermes.i18n.formats import moment
from hermes.i18n.messages import phrase, say, say_many
from hermes.util.text import escaped, inert, one_line

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
    title = one_line(escaped(node.title), 60) or node.id
    count = say_many("{n} message", "{n} messages", node.messages)
    lead = "   " * (depth - 1) + "└─ " if depth else ""
    return MenuOption(lead + title, f"{moment(node.updated_at)} · {count} · {node.id}")


async def choose_session(call: CommandCall) -> None:
    """Choose among the sessions, the newest first, and resume one."""
    if call.text:
        await call.context.open_session(call.text)
        return
    here = call.context.port.session_id
    nodes = list(_flatten_tree(await _session_admin(call).list_tree(_MAX_LISTED)))
    if not [node for node, _ in nodes if node.id != here]:
        call.context.tell(say("There is no other session yet."))
        return
    chosen = next((at for at, (node, _) in enumerate(nodes) if node.id != here), 0)
    options = [_session_option(node, depth) for node, depth in nodes]
    taken = await call.context.choose(say("Go on with which session?"), options, chosen=chosen)
    if taken is not None and nodes[taken][0].id != here:
        await call.context.open_session(nodes[taken][0].id)


async def complete_sessions(call: CommandCall) -> Sequence[MenuOption]:
    """Complete the ids and titles of the newest sessions."""
    rows = await _session_admin(call).list_newest(50)
    return [MenuOption(str(row["id"]), one_line(escaped(str(row["title"])), 60)) for row in rows]


async def manage_title(call: CommandCall) -> None:
    """Show the session's title, or change it."""
    store, session_id = call.context.app.services.store, call.context.actor.session_id
    if call.text:
        await store.rename_session(session_id, one_line(call.text, 200))
    row = await call.context.app.session_row(call.context.actor)
    name = escaped(str(row["title"]))
    call.context.tell(say("This session is called “{title}”.", title=name) if name else say("It has no title yet."))
    await call.context.refresh_view()


async def search_messages(call: CommandCall) -> None:
    """Search all stored messages."""
    if not call.text:
        call.context.tell(say("Say what to look for: /search words"))
        return
    hits = await _session_admin(call).search_messages(call.text, limit=_MAX_HITS, newest=True)
    if not hits:
        call.context.tell(say("No message has these words."))
        return
    options = [
        MenuOption(
            one_line(escaped(str(hit["snippet"])), 100),
            f"{moment(float(str(hit['created_at'])))} · {hit['session_id']}",
        )
        for hit in hits
    ]
    taken = await call.context.choose(say("Found; go on with which session?"), options)
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
        call.context.tell(say("Nothing was said in this session yet."))
    for message in said[-count:]:
        if message.role is Role.USER:
            call.context.tell(f"› {inert(message.text)}")
        else:
            call.context.show(message.text)


COMMANDS = (
    SlashCommand(
        name="sessions",
        about=phrase("choose among your sessions and their branches, and go on with one"),
        group=CommandGroup.SESSION,
        run=choose_session,
        opens=True,
        while_busy=False,
    ),
    SlashCommand(
        name="resume",
        about=phrase("go on with a session: an id, its beginning, or its title"),
        usage=phrase("[session]"),
        group=CommandGroup.SESSION,
        run=choose_session,
        opens=True,
        complete=complete_sessions,
        while_busy=False,
    ),
    SlashCommand(
        name="title",
        about=phrase("show or set the session's title"),
        usage=phrase("[title]"),
        group=CommandGroup.SESSION,
        run=manage_title,
    ),
    SlashCommand(
        name="search",
        about=phrase("look through everything that was ever said"),
        usage=phrase("words"),
        group=CommandGroup.SESSION,
        run=search_messages,
        opens=True,
        while_busy=False,
    ),
    SlashCommand(
        name="history",
        about=phrase("show the last messages of this session"),
        usage=phrase("[number]"),
        group=CommandGroup.SESSION,
        run=show_history,
    ),
)
