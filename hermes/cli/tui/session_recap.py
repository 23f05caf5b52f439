"""Build what is shown when a session is opened: its last messages, and its status."""

from collections.abc import Sequence

from hermes.cli.tui.status_line import SessionStatus
from hermes.cli.tui.terminal_style import TerminalStyle
from hermes.core.messages import Message, Role
from hermes.core.usage import Certainty, Cost, Usage
from hermes.i18n.messages import tr, tr_plural
from hermes.ipc.remote_session import RemoteSession
from hermes.ipc.session_server import require_local
from hermes.runtime.actor import SessionActor
from hermes.sessions.app import App
from hermes.sessions.port import SessionPort
from hermes.util.text import escape_unseen_characters, strip_control_characters, to_one_line

MAX_MESSAGES = 4
"""Messages of the conversation that are shown again."""
MAX_LINES = 24
"""Lines shown of one message."""


async def format_recap(app: App, port: SessionPort, terminal_style: TerminalStyle) -> list[str]:
    """Format the session's title and its last messages; empty for a fresh one."""
    messages: Sequence[Message]
    if isinstance(port, SessionActor):
        messages = port.conversation.messages
    else:
        messages = [row.message for row in await app.services.store.messages.read(port.session_id)]
    said = [one for one in _find_last_messages(messages, MAX_MESSAGES) if one.text.strip()]
    if not said:
        return []
    row = await app.services.store.sessions.get(port.session_id)
    title = to_one_line(escape_unseen_characters(row.title if row is not None else ""), 60) or port.session_id
    earlier = len(messages) - len(said)
    more = " " + tr_plural("({n} earlier message)", "({n} earlier messages)", earlier) if earlier > 0 else ""
    lines = ["", terminal_style.paint("notice", tr("Going on with “{title}”", title=title) + more), ""]
    for message in said:
        lines += _format_message(message, terminal_style)
    return lines


def _find_last_messages(messages: Sequence[Message], count: int) -> list[Message]:
    found: list[Message] = []
    for message in reversed(messages):
        if not message.synthetic and message.role in (Role.USER, Role.ASSISTANT) and message.text.strip():
            found.append(message)
        if len(found) == count:
            break
    return found[::-1]


def _format_message(message: Message, terminal_style: TerminalStyle) -> list[str]:
    if message.role is Role.USER:
        text = f"{terminal_style.get_mark('person')} {to_one_line(strip_control_characters(message.text), 400)}"
        return [*terminal_style.wrap_paragraphs("person", text, indent=2), ""]
    stream = terminal_style.open_stream()
    lines = [*stream.feed(message.text), *stream.close()]
    if len(lines) > MAX_LINES:
        hidden = len(lines) - MAX_LINES
        lines = [
            terminal_style.paint("notice", tr_plural("… {n} line above", "… {n} lines above", hidden)),
            *lines[-MAX_LINES:],
        ]
    return [*lines, ""]


async def load_status(app: App, port: SessionPort) -> SessionStatus:
    """Load a session's status from what is stored of it."""
    if isinstance(port, RemoteSession):
        about = port.attached
        return SessionStatus(
            model=about.model,
            window=about.window,
            session=about.title or about.session_id,
            place=about.place,
            yolo=about.yolo,
        )
    actor = require_local(port)
    row = await app.session_row(actor)
    usage = Usage(
        input=_as_int(row["input_tokens"]),
        output=_as_int(row["output_tokens"]),
        cache_read=_as_int(row["cache_read_tokens"]),
        cache_write=_as_int(row["cache_write_tokens"]),
    )
    cost = Cost()
    for total in await app.services.store.spending.list_totals(0, session_id=actor.session_id):
        certainty = Certainty.UNKNOWN if total.uncounted else Certainty.COMPUTED
        cost += Cost(nano=total.nano, certainty=certainty)
    pursuit = app.background_work.find_pursuit(actor)
    endpoint = actor.conversation.client.endpoint
    return SessionStatus(
        model=endpoint.model,
        window=endpoint.context_length,
        usage=usage,
        cost=cost,
        session=str(row["title"]) or actor.session_id,
        place=app.live_session(actor).tools.context.backend_handle.name,
        yolo=app.is_yolo(actor),
        goal=pursuit.word if pursuit is not None else "",
    )


def _as_int(value: object) -> int:
    return value if isinstance(value, int) else 0
