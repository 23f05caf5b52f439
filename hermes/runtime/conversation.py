"""A session brought back to life: its epoch restored or begun, its transcript encoded, its last turn found."""

from collections.abc import Sequence

from msgspec import Struct, field, structs

from hermes.agent import prompts
from hermes.agent.turn import Resumed
from hermes.core.errors import NotFoundError
from hermes.core.frame import EpochFrame
from hermes.core.messages import Message, Role
from hermes.core.outcomes import ExitReason
from hermes.core.parts import Part, Source, TextPart, ToolResultPart, ToolStatus
from hermes.llm.client import ModelClient
from hermes.llm.lineage import Lineage
from hermes.runtime.transcript import Transcript
from hermes.store.rows import EffectRow, StoredMessage
from hermes.store.store import Store


class Conversation(Struct):
    """The live part of a session."""

    session_id: str
    epoch: int
    began: str
    """Why the epoch began, when it began just now; empty for a restored one."""
    frame: EpochFrame
    lineage: Lineage
    client: ModelClient
    messages: Transcript
    """The transcript without the messages of the turn that runs, or that is yet to be resumed."""
    lost: Resumed | None = None
    """A turn whose process died, until it is gone on with."""
    last_told: float | None = None
    """When date and time were last told to the model, in seconds since the epoch."""
    last_cwd: str | None = None
    epoch_bytes: dict[int, int] = field(default_factory=dict)
    """By epoch that this process began: the bytes of the conversation that were sent without help from a cache."""

    def begin(self, number: int, frame: EpochFrame, lineage: Lineage, client: ModelClient) -> None:
        """Go on in another epoch."""
        self.epoch, self.frame, self.lineage, self.client = number, frame, lineage, client
        self.epoch_bytes[number] = lineage.message_bytes


def same_lineage(stored: EpochFrame, wanted: EpochFrame) -> str:
    """Why `stored` cannot be gone on with as `wanted`; empty when it can.

    Tools are compared by name: what a newer program would say of the same tool is not worth the cached prefix.
    """
    if not stored.provider:
        return "what was stored could not be read"
    if (stored.provider, stored.model, stored.wire) != (wanted.provider, wanted.model, wanted.wire):
        return "another model"
    if [tool.name for tool in stored.tools] != [tool.name for tool in wanted.tools]:
        return "another tool set"
    if stored.sampling != wanted.sampling:
        return "other model parameters"
    if stored.encoder_version != wanted.encoder_version:
        return "a newer encoder"
    if stored.aside_mark != wanted.aside.mark:
        return "another ephemeral prompt"
    if not stored.system and wanted.system:
        return "a system prompt"
    return ""


async def open_conversation(
    store: Store, session_id: str, *, wanted: EpochFrame, client: ModelClient, system: str | None = None
) -> Conversation:
    """Restore the session's epoch, or begin one with the frame `wanted`.

    `system` is a prompt that the caller insists on; one that differs from the stored one begins a new epoch.
    """
    if await store.session(session_id) is None:
        raise NotFoundError(f"There is no session {session_id!r}.", "`hermes sessions list` shows them.")
    stored = await store.current_epoch(session_id)
    frame = wanted
    reason = "a new session" if stored is None else _epoch_ends(stored.frame, frame, system)
    if stored is not None and not reason:
        number, frame = stored.number, structs.replace(stored.frame, aside=wanted.aside)
    else:
        number = await store.begin_epoch(session_id, frame, reason)
    rows = await store.transcript(session_id)
    lost, own = await _lost_turn(store, session_id, rows)
    lineage = Lineage(frame, client.endpoint)
    _extend(lineage, rows, number)
    conversation = Conversation(
        session_id=session_id,
        epoch=number,
        began=reason,
        frame=frame,
        lineage=lineage,
        client=client,
        messages=Transcript(row.message for row in rows[:own]),
        lost=lost,
        epoch_bytes={number: lineage.message_bytes} if reason else {},
    )
    recall_notes(conversation, [(row.created_at, row.message) for row in rows])
    return conversation


def _extend(lineage: Lineage, rows: Sequence[StoredMessage], epoch: int) -> None:
    """Encode the transcript; what the provider counted for the epoch's last answer is known again, for the caps."""
    counted = max((place for place, row in enumerate(rows) if row.epoch == epoch and row.prompt_tokens), default=-1)
    for place, row in enumerate(rows):
        if place == counted:
            lineage.learn_input(lineage.text_bound, row.prompt_tokens or 0)
            lineage.counted(lineage.size, row.prompt_tokens or 0)
        lineage.extend((row.message,), carried=row.epoch < epoch)


def _epoch_ends(stored: EpochFrame, wanted: EpochFrame, system: str | None) -> str:
    """The named event that ends the stored epoch; empty when it goes on."""
    reason = same_lineage(stored, wanted)
    if not reason and system is not None and system != stored.system:
        reason = "another system prompt"
    return reason


def recall_notes(conversation: Conversation, rows: Sequence[tuple[float, Message]]) -> None:
    """Find what the model was last told about time and place."""
    for created_at, message in reversed(rows):
        if message.role is Role.USER and not message.synthetic and any(_is_note(part) for part in message.parts):
            conversation.last_told = created_at
            return


def _is_note(part: Part) -> bool:
    return isinstance(part, TextPart) and part.provenance is not None and part.provenance.source is Source.PROGRAM


async def _lost_turn(store: Store, session_id: str, rows: Sequence[StoredMessage]) -> tuple[Resumed | None, int]:
    """The turn whose process died, taken over from it, and where in `rows` its messages begin.

    Of several only the last can be gone on with; one that has no message (its person's words were never stored) and
    those before are ended by name.
    """
    lost = await store.open_turns(session_id)
    for turn in lost:
        own = next((place for place, row in enumerate(rows) if row.turn_id == turn.id), len(rows))
        fence = await store.adopt_turn(turn.id)
        if turn is lost[-1] and own < len(rows):
            last = rows[-1]
            effects = [one for one in await store.effects(turn.id) if one.message_id in (None, last.id)]
            results = {one.call_id: one.result or _uncertain(one) for one in effects}
            messages = tuple(row.message for row in rows[own:])
            return Resumed(
                turn_id=turn.id, fence=fence, messages=messages, results=results, stopping=turn.stopping
            ), own
        error = "the process ended before the turn had begun"
        await store.end_turn(turn.id, ExitReason.LOCAL_ERROR, error=error, fence=fence)
    return None, len(rows)


def _uncertain(effect: EffectRow) -> ToolResultPart:
    """What the model is told of a call that was under way when the process died."""
    return ToolResultPart(
        call_id=effect.call_id, name=effect.tool, text=prompts.CRASHED_CALL, status=ToolStatus.UNCERTAIN
    )
