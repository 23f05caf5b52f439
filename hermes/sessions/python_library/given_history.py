"""Finds the session in which a history that a program hands in goes on.

A history that says the same as the session is its own history: the session goes on, and what only it knows (results
of tools, summaries) stays. Any other history begins a branch, a session of its own: nothing of it is ignored.
"""

from collections.abc import Iterable, Sequence

from msgspec import Struct

from hermes.core.ids import new_session_id
from hermes.core.messages import ImagePart, Message, Role, ToolStatus
from hermes.store.records import MessageState, NewSession, SessionRow, StoredMessage
from hermes.store.store import Store
from hermes.util.text import clean_surrogates


class ChosenSession(Struct, frozen=True, kw_only=True):
    """The session to open, the messages to put before the first of it, and the session it branches from."""

    session_id: str
    history: tuple[Message, ...] = ()
    branched_from: str = ""


async def choose_session(
    store: Store, session_id: str, history: Sequence[Message], *, now: float, cwd: str, person: str = ""
) -> ChosenSession:
    """Return where a conversation with this history goes on; a branch is created here.

    A history that is the beginning of the session's, by whole turns, begins a branch that the provider's cache knows.
    """
    given = tuple(history)
    row = await store.sessions.get(await store.sessions.find_tip(session_id)) if session_id else None
    if row is None or row.user_id != person:
        return ChosenSession(session_id=session_id, history=given)
    rows = await store.messages.read(row.id, everything=True)
    kept = [one for one in rows if one.state is not MessageState.UNDONE]
    if not kept:
        return ChosenSession(session_id=session_id, history=given)
    said = _Transcript(given)
    whole = _Transcript(one.message for one in kept)
    if said.agrees_with(whole) and said.text in (whole.text, _visible_text(kept)):
        return ChosenSession(session_id=session_id)
    name = new_session_id(now)
    turns = _count_turns(kept, said) if said.agrees_with(whole) else 0
    if turns:
        await store.branches.create(row.id, name, turns=turns)
        return ChosenSession(session_id=name, branched_from=row.id)
    await store.sessions.create(_describe_branch(row, name, cwd))
    return ChosenSession(session_id=name, history=given, branched_from=row.id)


def _describe_branch(row: SessionRow, name: str, cwd: str) -> NewSession:
    return NewSession(
        id=name,
        source=row.source,
        user_id=row.user_id,
        provider=row.provider,
        model=row.model,
        cwd=cwd,
        parent_id=row.id,
        branched_at=0,
    )


class _Transcript:
    """What was said in a conversation, in a form in which two of them can be compared.

    White space does not count, and neither does how a text is cut into messages. Calls and results are facts by their
    ids: a history may leave them out, but not have others.
    """

    def __init__(self, messages: Iterable[Message]) -> None:
        self._pieces: list[str] = []
        self.facts: dict[tuple[str, str], str] = {}
        """Calls and results, by kind and id."""
        self._role: Role | None = None
        for message in messages:
            self.add_message(message)

    @property
    def text(self) -> str:
        """Everything that was said, with a mark where the other one speaks."""
        return "".join(self._pieces)

    @property
    def length(self) -> int:
        """The characters of `text`."""
        return sum(map(len, self._pieces))

    def add_message(self, message: Message) -> None:
        """Add one message; what Hermes itself wrote does not count."""
        if message.synthetic:
            return
        for call in message.tool_calls():
            self.facts["call", call.call_id] = call.name + "".join(call.arguments.split())
        for result in message.tool_results():
            if result.status is not ToolStatus.UNCERTAIN:
                self.facts["result", result.call_id] = "".join(clean_surrogates(result.text).split())
        images = [part.url or part.data for part in message.parts if isinstance(part, ImagePart)]
        text = "".join([*clean_surrogates(message.text).split(), *images])
        if message.role is Role.TOOL or not text:
            return
        if message.role is not self._role:
            self._role = message.role
            self._pieces.append(f"\0{message.role.value}\0")
        self._pieces.append(text)

    def agrees_with(self, other: "_Transcript") -> bool:
        """Return whether the calls and results in this one are those of the other."""
        return self.facts.items() <= other.facts.items()


def _visible_text(rows: Sequence[StoredMessage]) -> str:
    """Return what was said in the messages that no compression stands for, which is what results show."""
    return _Transcript(one.message for one in rows if one.state is MessageState.ACTIVE).text


def _count_turns(rows: Sequence[StoredMessage], said: _Transcript) -> int:
    """Return how many of the session's first turns say exactly this; 0 where the history is none of its beginnings."""
    seen, turns, wanted, length = _Transcript(()), 0, said.text, said.length
    for index, row in enumerate(rows):
        seen.add_message(row.message)
        after = rows[index + 1].turn_id if index + 1 < len(rows) else None
        if row.turn_id is None or row.turn_id == after:
            continue
        turns += 1
        if seen.length >= length:
            return turns if seen.text == wanted else 0
    return 0
