"""The live part of a session: opening it restores or begins its epoch, encodes its
transcript, and finds a lost turn.

A session's messages in memory, packed: each reader decodes it again.

Most turns need none of them: what is sent is the lineage's own buffer. As values the messages of a chat
take five times their text, packed a fifth of it.
"""

import asyncio
import zlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import overload

import msgspec
from msgspec import Struct, field, structs

from hermes.agent import prompts
from hermes.agent.turn import ResumedTurn
from hermes.core.errors import NotFoundError
from hermes.core.frame import EpochFrame, Rewrite
from hermes.core.ids import is_nested_call
from hermes.core.messages import (
    ImagePart,
    Message,
    Part,
    Role,
    Source,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    ToolStatus,
)
from hermes.core.outcomes import ExitReason
from hermes.i18n.messages import N_
from hermes.llm.client import ModelClient
from hermes.llm.lineage import Lineage
from hermes.store.messages import encode_message
from hermes.store.records import EffectRow, StoredEpoch, StoredMessage
from hermes.store.store import Store
from hermes.tools.registry import BRIDGE_TOOLS

_PACK_SIZE = 64
"""Messages that are compressed together once so many have come."""


_DECODER = msgspec.json.Decoder(list[Message])


class PackedTranscript(Sequence[Message]):
    """Messages in order. Each access decodes the value again: none is the same object twice."""

    def __init__(self, messages: Iterable[Message] = ()) -> None:
        self._packed: list[bytes] = []
        self._unpacked: list[bytes] = []
        self.extend(messages)

    def extend(self, messages: Iterable[Message]) -> None:
        """Append messages."""
        for message in messages:
            self._unpacked.append(encode_message(message))
            if len(self._unpacked) == _PACK_SIZE:
                self._packed.append(zlib.compress(b",".join(self._unpacked), 1))
                self._unpacked.clear()

    def replace_all(self, messages: Iterable[Message]) -> None:
        """Replace all messages by these."""
        made = list(messages)
        self._packed.clear()
        self._unpacked.clear()
        self.extend(made)

    def __len__(self) -> int:
        return len(self._packed) * _PACK_SIZE + len(self._unpacked)

    def __iter__(self) -> Iterator[Message]:
        for part in range(len(self._packed) + 1):
            yield from self._decode_part(part)

    def __reversed__(self) -> Iterator[Message]:
        for part in range(len(self._packed), -1, -1):
            yield from reversed(self._decode_part(part))

    @overload
    def __getitem__(self, index: int) -> Message: ...
    @overload
    def __getitem__(self, index: slice) -> list[Message]: ...
    def __getitem__(self, index: int | slice) -> Message | list[Message]:
        if isinstance(index, slice):
            return list(self)[index]
        place = range(len(self))[index]
        return self._decode_part(place // _PACK_SIZE)[place % _PACK_SIZE]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence):
            return NotImplemented
        return len(self) == len(other) and all(one == two for one, two in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]

    def _decode_part(self, number: int) -> list[Message]:
        body = zlib.decompress(self._packed[number]) if number < len(self._packed) else b",".join(self._unpacked)
        return _DECODER.decode(b"[" + body + b"]")


class LiveConversation(Struct):
    """The live part of a session."""

    session_id: str
    epoch: int
    epoch_reason: str
    """Why the epoch began, when it began just now; empty for a restored one."""
    frame: EpochFrame
    lineage: Lineage
    client: ModelClient
    messages: PackedTranscript
    """The transcript without the messages of the turn that runs, or that is yet to be resumed."""
    lost_turn: ResumedTurn | None = None
    """A turn whose process died, until it is resumed."""
    last_told: float | None = None
    """When the model was last told date and time, in seconds since the epoch."""
    last_cwd: str | None = None
    open_calls: tuple[ToolCallPart, ...] = ()
    """The batch of calls with which the transcript ends: the program that asked runs some of them."""
    epoch_bytes: dict[int, int] = field(default_factory=dict)
    """By epoch that this process began: the bytes of the conversation that were sent without a prompt cache."""

    def enter_epoch(self, number: int, frame: EpochFrame, lineage: Lineage, client: ModelClient) -> None:
        """Continue in another epoch."""
        self.epoch, self.frame, self.lineage, self.client = number, frame, lineage, client
        self.epoch_bytes[number] = lineage.message_bytes


class ConversationPictures:
    """The pictures of a conversation whose turn runs; `messages` are those of the turn."""

    def __init__(self, conversation: LiveConversation, messages: Sequence[Message]) -> None:
        self._conversation = conversation
        self._messages = messages

    @property
    def can_be_shown(self) -> bool:
        """Whether the conversation's model is sent pictures, as far as that is known."""
        return Rewrite.NO_IMAGES not in self._conversation.frame.rewrites

    def find(self, reference: str) -> ImagePart | None:
        """Return the newest picture of that name, or None."""
        for messages in (self._messages, self._conversation.messages):
            for message in reversed(messages):
                found = next((image for image in message.images() if image.reference == reference), None)
                if found is not None:
                    return found
        return None


def _has_other_parameters(stored: EpochFrame, wanted: EpochFrame) -> bool:
    """Return whether the model is to be asked in another way; that its server does not stream may have been learned."""
    return stored.sampling != wanted.sampling or (stored.streams and not wanted.streams)


class CallableTools(Struct, frozen=True):
    """The names of the tools that can be called."""

    names: Collection[str] = ()
    """All of them, those that are found by a search included."""
    callers: Collection[str] = ()
    """Those that the program that asks has described and runs: their descriptions count, too."""


NO_TOOLS = CallableTools()


def find_frame_mismatch(stored: EpochFrame, wanted: EpochFrame, callable_tools: CallableTools = NO_TOOLS) -> str:
    """Return why `stored` cannot be continued as `wanted`; empty when it can.

    Tools are compared by name: what a newer program would say of the same tool is not worth the cached prefix, nor is
    that it finds one of them by a search.
    """
    if not stored.provider:
        return "what was stored could not be read"
    if (stored.provider, stored.model, stored.wire) != (wanted.provider, wanted.model, wanted.wire):
        return "another model"
    if not _has_same_tools(stored, wanted, callable_tools):
        return "another tool set"
    if _has_other_parameters(stored, wanted):
        return "other model parameters"
    if stored.encoder_version != wanted.encoder_version:
        return "a newer encoder"
    if stored.aside_mark != wanted.aside.digest:
        return "another ephemeral prompt"
    if not stored.system and wanted.system:
        return "a system prompt"
    return ""


def _has_same_tools(stored: EpochFrame, wanted: EpochFrame, callable_tools: CallableTools) -> bool:
    """Return whether the frames name the same tools, or differ only by tools that are found by a search since."""
    before, now = [tool.name for tool in stored.tools], [tool.name for tool in wanted.tools]
    if before == now:
        described = {tool.name: tool for tool in stored.tools}
        return all(described[tool.name] == tool for tool in wanted.tools if tool.name in callable_tools.callers)
    moved = {*before} - {*now}
    return bool(moved) and moved <= {*callable_tools.names} and {*now} - {*before} <= {*BRIDGE_TOOLS}


async def open_conversation(
    store: Store,
    session_id: str,
    *,
    wanted: EpochFrame,
    client: ModelClient,
    system: str | None = None,
    callable_tools: CallableTools = NO_TOOLS,
) -> LiveConversation:
    """Restore the session's epoch, or begin one with the frame `wanted`.

    `system` is a prompt that the caller insists on; one that differs from the stored one begins a new epoch. Raises
    NotFoundError for an unknown session.
    """
    if await store.sessions.get(session_id) is None:
        raise NotFoundError(
            N_("There is no session {session_id}.", session_id=repr(session_id)), "`hermes sessions list` shows them."
        )
    stored = await store.epochs.get_open(session_id)
    frame = wanted
    reason = "a new session" if stored is None else _find_epoch_end(stored.frame, frame, system, callable_tools)
    if stored is not None and not reason:
        number, frame = stored.number, structs.replace(stored.frame, aside=wanted.aside)
    else:
        number = await store.epochs.begin(session_id, frame, reason)
    rows = await store.messages.read(session_id)
    lost, own = await _adopt_lost_turn(store, session_id, rows)
    lost = _close_other_calls(lost, stored, wanted)
    lineage = Lineage(frame, client.endpoint)
    if lineage.shrinks_pictures:
        await asyncio.to_thread(_extend_lineage, lineage, rows, number)
    else:
        _extend_lineage(lineage, rows, number)
    conversation = LiveConversation(
        session_id=session_id,
        epoch=number,
        epoch_reason=reason,
        frame=frame,
        lineage=lineage,
        client=client,
        messages=PackedTranscript(row.message for row in rows[:own]),
        lost_turn=lost,
        open_calls=list_open_calls([row.message for row in rows[-1:]]) if lost is None else (),
        epoch_bytes={number: lineage.message_bytes} if reason else {},
    )
    restore_note_times(conversation, [(row.created_at, row.message) for row in rows])
    return conversation


def list_open_calls(messages: Sequence[Message]) -> tuple[ToolCallPart, ...]:
    """Return the calls that a transcript ends with; empty where it does not."""
    last = messages[-1] if messages else None
    return tuple(last.tool_calls()) if last is not None and last.role is Role.ASSISTANT else ()


def _extend_lineage(lineage: Lineage, rows: Sequence[StoredMessage], epoch: int) -> None:
    """Encode the transcript, and restore the provider's count for the epoch's last answer, which the caps use."""
    counted = max((place for place, row in enumerate(rows) if row.epoch == epoch and row.prompt_tokens), default=-1)
    for place, row in enumerate(rows):
        if place == counted:
            lineage.learn_input_tokens(lineage.max_text_tokens, row.prompt_tokens or 0)
            lineage.record_count(lineage.size, row.prompt_tokens or 0)
        lineage.append_messages((row.message,), carried=row.epoch < epoch)


def _find_epoch_end(stored: EpochFrame, wanted: EpochFrame, system: str | None, callable_tools: CallableTools) -> str:
    """Return the named reason that ends the stored epoch; empty when it goes on."""
    reason = find_frame_mismatch(stored, wanted, callable_tools)
    if not reason and system is not None and system != stored.system:
        reason = "another system prompt"
    return reason


def restore_note_times(conversation: LiveConversation, rows: Sequence[tuple[float, Message]]) -> None:
    """Find when the model was last told time and folder."""
    for created_at, message in reversed(rows):
        if message.role is Role.USER and not message.synthetic and any(_is_note(part) for part in message.parts):
            conversation.last_told = created_at
            return


def _is_note(part: Part) -> bool:
    return isinstance(part, TextPart) and part.provenance is not None and part.provenance.source is Source.PROGRAM


async def _adopt_lost_turn(
    store: Store, session_id: str, rows: Sequence[StoredMessage]
) -> tuple[ResumedTurn | None, int]:
    """Return the turn whose process died, taken over from it, and the index in `rows` where its messages begin.

    Of several only the last can be resumed; one that has no message (its person's words were never stored) and those
    before are ended by name.
    """
    lost = await store.turns.list_open(session_id)
    for turn in lost:
        own = next((place for place, row in enumerate(rows) if row.turn_id == turn.id), len(rows))
        fence = await store.turns.adopt(turn.id)
        if turn is lost[-1] and own < len(rows):
            last = rows[-1]
            results = _collect_results(await store.turns.list_effects(turn.id), last, is_stopping=turn.stopping)
            messages = tuple(row.message for row in rows[own:])
            return ResumedTurn(
                turn_id=turn.id, fence=fence, messages=messages, results=results, stopping=turn.stopping
            ), own
        error = "the process ended before the turn had begun"
        await store.turns.end(turn.id, ExitReason.LOCAL_ERROR, error=error, fence=fence)
    return None, len(rows)


def _collect_results(
    effects: Sequence[EffectRow], last: StoredMessage, *, is_stopping: bool
) -> dict[str, ToolResultPart]:
    """Return what is known of the calls of the last message. What code has called is looked up by its run, when that
    goes on; where the turn is to stop, it does not.
    """
    calls = tuple(last.message.tool_calls())
    outer = [call.call_id for call in calls]
    known = {one.call_id: one for one in effects if one.message_id in (None, last.id)}
    nested = [one for one in known if one not in outer and is_nested_call(one, outer)]
    results = {name: one.result or _make_uncertain_result(one) for name, one in known.items() if name not in nested}
    return results if not is_stopping else {**_list_begun_code(calls, nested), **results}


def _list_begun_code(calls: Iterable[ToolCallPart], nested: Sequence[str]) -> dict[str, ToolResultPart]:
    """Return results for the calls whose code has made calls of its own: what those did stands."""
    begun = [call for call in calls if any(is_nested_call(one, (call.call_id,)) for one in nested)]
    return {call.call_id: _make_crashed_result(call.call_id, call.name) for call in begun}


def _close_other_calls(lost: ResumedTurn | None, stored: StoredEpoch | None, wanted: EpochFrame) -> ResumedTurn | None:
    """Return the turn with results for its calls of tools that are others by now: a program's own tool may have had the
    name of one that runs here, and what was meant for the one is never run by the other.
    """
    if lost is None or stored is None:
        return lost
    before, now = ({one.name: one.parameters for one in frame.tools} for frame in (stored.frame, wanted))
    closed = {
        call.call_id: ToolResultPart(
            call_id=call.call_id, name=call.name, text=prompts.OTHER_TOOL, status=ToolStatus.INTERRUPTED
        )
        for call in lost.messages[-1].tool_calls()
        if call.name in before and before[call.name] != now.get(call.name)
    }
    return structs.replace(lost, results={**closed, **lost.results})


def _make_uncertain_result(effect: EffectRow) -> ToolResultPart:
    """Return the result that the model sees for a call that was under way when the process died."""
    return _make_crashed_result(effect.call_id, effect.tool)


def _make_crashed_result(call_id: str, name: str) -> ToolResultPart:
    return ToolResultPart(call_id=call_id, name=name, text=prompts.CRASHED_CALL, status=ToolStatus.UNCERTAIN)
