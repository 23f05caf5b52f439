"""What is shown when a session is opened: its last words, and where it stands."""

from collections.abc import Sequence

from hermes.cli.tui.status import Status
from hermes.cli.tui.style import Look
from hermes.core.messages import Message, Role
from hermes.core.money import Certainty, Cost
from hermes.core.usage import Usage
from hermes.i18n.messages import say, say_many
from hermes.ipc.remote_session import RemoteSession
from hermes.ipc.session_server import require_local
from hermes.runtime.actor import SessionActor
from hermes.sessions.app import App
from hermes.sessions.port import SessionPort
from hermes.util.text import escaped, inert, one_line

SHOWN = 4
"""Messages of the conversation that are shown again."""
MOST_LINES = 24
"""Lines of one of them."""


async def recalled(app: App, port: SessionPort, look: Look) -> list[str]:
    """The session's title and its last words; empty for a fresh one."""
    messages: Sequence[Message]
    if isinstance(port, SessionActor):
        messages = port.conversation.messages
    else:
        messages = [row.message for row in await app.services.store.transcript(port.session_id)]
    said = [one for one in _last(messages, SHOWN) if one.text.strip()]
    if not said:
        return []
    row = await app.services.store.session(port.session_id)
    title = one_line(escaped(row.title if row is not None else ""), 60) or port.session_id
    earlier = len(messages) - len(said)
    more = " " + say_many("({n} earlier message)", "({n} earlier messages)", earlier) if earlier > 0 else ""
    lines = ["", look.paint("notice", say("Going on with “{title}”", title=title) + more), ""]
    for message in said:
        lines += _shown(message, look)
    return lines


def _last(messages: Sequence[Message], count: int) -> list[Message]:
    found: list[Message] = []
    for message in reversed(messages):
        if not message.synthetic and message.role in (Role.USER, Role.ASSISTANT) and message.text.strip():
            found.append(message)
        if len(found) == count:
            break
    return found[::-1]


def _shown(message: Message, look: Look) -> list[str]:
    if message.role is Role.USER:
        text = f"{look.mark('person')} {one_line(inert(message.text), 400)}"
        return [*look.wrapped("person", text, indent=2), ""]
    stream = look.stream()
    lines = [*stream.feed(message.text), *stream.close()]
    if len(lines) > MOST_LINES:
        hidden = len(lines) - MOST_LINES
        lines = [look.paint("notice", say_many("… {n} line above", "… {n} lines above", hidden)), *lines[-MOST_LINES:]]
    return [*lines, ""]


async def status_of(app: App, port: SessionPort) -> Status:
    """Where a session stands, from what is stored of it."""
    if isinstance(port, RemoteSession):
        about = port.attached
        return Status(
            model=about.model,
            window=about.window,
            session=about.title or about.session_id,
            place=about.place,
            yolo=about.yolo,
        )
    actor = require_local(port)
    row = await app.session_row(actor)
    usage = Usage(
        input=_count(row["input_tokens"]),
        output=_count(row["output_tokens"]),
        cache_read=_count(row["cache_read_tokens"]),
        cache_write=_count(row["cache_write_tokens"]),
    )
    cost = Cost()
    for total in await app.services.store.spend_totals(0, session_id=actor.session_id):
        certainty = Certainty.UNKNOWN if total.uncounted else Certainty.COMPUTED
        cost += Cost(nano=total.nano, certainty=certainty)
    pursuit = app.background_work.find_pursuit(actor)
    endpoint = actor.conversation.client.endpoint
    return Status(
        model=endpoint.model,
        window=endpoint.context_length,
        usage=usage,
        cost=cost,
        session=str(row["title"]) or actor.session_id,
        place=app.live_session(actor).tools.context.backend.name,
        yolo=app.is_yolo(actor),
        goal=pursuit.word if pursuit is not None else "",
    )


def _count(value: object) -> int:
    return value if isinstance(value, int) else 0
