"""`/sessions`, `/resume`, `/title`, `/search`, `/history`: what was said before, here and elsewhere."""

from collections.abc import Iterator, Sequence

from hermes.admin.sessions import Node, Sessions
from hermes.commands.command import Call, Command, Group
from hermes.commands.context import Option
from hermes.core.messages import Role
from hermes.i18n.formats import moment
from hermes.i18n.messages import phrase, say, say_many
from hermes.util.text import escaped, inert, one_line

_LISTED = 200
_FOUND = 20
_HISTORY = 20


def _sessions(call: Call) -> Sessions:
    on = call.desk.app.premises
    return Sessions(on.store, on.home)


def _flat(nodes: Sequence[Node], depth: int = 0) -> Iterator[tuple[Node, int]]:
    """Sessions, the one used last first, each followed by its branches."""
    for node in nodes if depth else sorted(nodes, key=_last_use, reverse=True):
        yield node, depth
        yield from _flat(node.branches, depth + 1)


def _last_use(node: Node) -> float:
    return max([node.updated_at, *(_last_use(one) for one in node.branches)])


def _of_node(node: Node, depth: int) -> Option:
    title = one_line(escaped(node.title), 60) or node.id
    count = say_many("{n} message", "{n} messages", node.messages)
    lead = "   " * (depth - 1) + "└─ " if depth else ""
    return Option(lead + title, f"{moment(node.updated_at)} · {count} · {node.id}")


async def browse(call: Call) -> None:
    """Choose among the sessions, the newest first, and go on with one."""
    if call.text:
        await call.desk.open(call.text)
        return
    here = call.desk.port.session_id
    nodes = list(_flat(await _sessions(call).tree(_LISTED)))
    if not [node for node, _ in nodes if node.id != here]:
        call.desk.tell(say("There is no other session yet."))
        return
    chosen = next((at for at, (node, _) in enumerate(nodes) if node.id != here), 0)
    options = [_of_node(node, depth) for node, depth in nodes]
    taken = await call.desk.choose(say("Go on with which session?"), options, chosen=chosen)
    if taken is not None and nodes[taken][0].id != here:
        await call.desk.open(nodes[taken][0].id)


async def complete(call: Call) -> Sequence[Option]:
    """The ids and titles of the newest sessions."""
    rows = await _sessions(call).newest(50)
    return [Option(str(row["id"]), one_line(escaped(str(row["title"])), 60)) for row in rows]


async def title(call: Call) -> None:
    """Show the session's title, or give it another one."""
    store, session_id = call.desk.app.premises.store, call.desk.actor.session_id
    if call.text:
        await store.rename_session(session_id, one_line(call.text, 200))
    row = await call.desk.app.about(call.desk.actor)
    name = escaped(str(row["title"]))
    call.desk.tell(say("This session is called “{title}”.", title=name) if name else say("It has no title yet."))
    await call.desk.refresh()


async def search(call: Call) -> None:
    """Look through everything that was ever said."""
    if not call.text:
        call.desk.tell(say("Say what to look for: /search words"))
        return
    hits = await _sessions(call).search(call.text, limit=_FOUND, newest=True)
    if not hits:
        call.desk.tell(say("No message has these words."))
        return
    options = [
        Option(
            one_line(escaped(str(hit["snippet"])), 100),
            f"{moment(float(str(hit['created_at'])))} · {hit['session_id']}",
        )
        for hit in hits
    ]
    taken = await call.desk.choose(say("Found; go on with which session?"), options)
    if taken is not None:
        await call.desk.open(str(hits[taken]["session_id"]))


async def history(call: Call) -> None:
    """The conversation so far: the last so many messages."""
    count = int(call.text) if call.text.isdecimal() else _HISTORY
    said = [
        message
        for message in call.desk.actor.conversation.messages
        if not message.synthetic and message.role in (Role.USER, Role.ASSISTANT) and message.text.strip()
    ]
    if not said:
        call.desk.tell(say("Nothing was said in this session yet."))
    for message in said[-count:]:
        if message.role is Role.USER:
            call.desk.tell(f"› {inert(message.text)}")
        else:
            call.desk.show(message.text)


COMMANDS = (
    Command(
        name="sessions",
        about=phrase("choose among your sessions and their branches, and go on with one"),
        group=Group.SESSION,
        run=browse,
        opens=True,
        while_busy=False,
    ),
    Command(
        name="resume",
        about=phrase("go on with a session: an id, its beginning, or its title"),
        usage=phrase("[session]"),
        group=Group.SESSION,
        run=browse,
        opens=True,
        complete=complete,
        while_busy=False,
    ),
    Command(
        name="title",
        about=phrase("show or set the session's title"),
        usage=phrase("[title]"),
        group=Group.SESSION,
        run=title,
    ),
    Command(
        name="search",
        about=phrase("look through everything that was ever said"),
        usage=phrase("words"),
        group=Group.SESSION,
        run=search,
        opens=True,
        while_busy=False,
    ),
    Command(
        name="history",
        about=phrase("show the last messages of this session"),
        usage=phrase("[number]"),
        group=Group.SESSION,
        run=history,
    ),
)
