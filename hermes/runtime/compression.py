"""Compression of a live session: when its engine is asked, and how its decision is stored, shown and undone."""

import asyncio
import ipaddress
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol
from urllib.parse import urlsplit

from msgspec import Struct

from hermes.agent.turn import Emit, TurnState
from hermes.context.engine import (
    NO_WISH,
    SEARCH_TOOL,
    Compaction,
    CompactionPreview,
    CompactionRequest,
    CompactionTrigger,
    CompactionWish,
    ContextEngine,
    ContextLoad,
    NoCompaction,
    PreviewingEngine,
)
from hermes.core.events import Level, Notice
from hermes.core.frame import EpochFrame
from hermes.core.messages import Message
from hermes.i18n.messages import N_
from hermes.llm.client import ModelClient
from hermes.llm.lineage import Lineage
from hermes.runtime.conversation import LiveConversation
from hermes.runtime.recorder import TurnRecorder
from hermes.store.messages import TranscriptEntry
from hermes.store.records import MessageState
from hermes.store.store import Store
from hermes.tools.taint import Taint
from hermes.util.cancellation import run_ignoring_cancellation, run_to_completion

COMPRESSED = "compressed"
"""The reason of an epoch in whose transcript a summary stands for older messages."""
UNDONE = "compression undone"
"""The reason of an epoch in which the older messages are back."""
MAX_PASSES = 3
"""How often a conversation is compressed at most before one request."""
HOOK_SECONDS = 30.0
"""Seconds that one of the `before_compress` hooks may take."""

ASK_LOCAL_TOKENS = 2_000
ASK_REMOTE_TOKENS = 16_000
"""Estimated tokens of a request from which on a provider on this machine or network, or any other one, is asked for its
window.

One that has not answered yet is asked like any other: a single short question should not cost two requests.
"""

_LOG = logging.getLogger(__name__)

BeforeCompress = Callable[[Sequence[Message]], Awaitable[str]]
"""Called with the messages that are about to be compressed; returns what the summary should not lose, or nothing."""


class EpochSwitcher(Protocol):
    """Moves a session into its next epoch."""

    async def build_frame(self) -> EpochFrame:
        """Return the frame of an epoch with the same model as of now."""
        ...

    async def enter_epoch(
        self, number: int, frame: EpochFrame, reason: str, state: TurnState | None, emit: Emit, *, cached: bool = False
    ) -> None:
        """Continue in the epoch `number`, which has begun in the store with that frame for that reason.

        `cached` says that what it sends is a prefix of what was sent before, so nothing is sent again.
        """
        ...


class CompressionGuard(Protocol):
    """Other people's code beside compression. No method raises anything but CancelledError."""

    async def review_compression(self, trigger: str, wish: str) -> str:
        """Return why nothing is made shorter now, empty where it may be; the trigger is `manual` or `auto`."""
        ...

    async def note_compression(self, trigger: str) -> None:
        """Take note that the conversation was made shorter."""
        ...


def _count_covered(found: Compaction) -> str:
    covered = sum(len(change.covered) for change in found.changes)
    return "1 message was" if covered == 1 else N_("{covered} messages were", covered=covered)


def _name_trigger(trigger: CompactionTrigger) -> str:
    return "manual" if trigger is CompactionTrigger.ASKED else "auto"


class ContextWindows:
    """The context windows of a process's models. A provider that does not tell is not asked again."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], int | None] = {}

    async def get_window(self, client: ModelClient, estimated: int) -> int | None:
        """Return the tokens of the model's window; None when unknown, or when a small
        request does not justify asking.
        """
        endpoint = client.endpoint
        if endpoint.context_length is not None:
            return endpoint.context_length
        key = endpoint.base_url, endpoint.model
        if key not in self._known:
            near = client.was_called and _is_nearby_host(endpoint.base_url)
            if estimated < (ASK_LOCAL_TOKENS if near else ASK_REMOTE_TOKENS):
                return None
            self._known[key] = await client.find_context_length()
        return self._known[key]


class CompressionDeps(Struct, frozen=True):
    """What keeps a session within its model's context window."""

    engine: ContextEngine
    windows: ContextWindows
    taint: Taint
    """The untrusted sources whose text stands in the session's conversation."""
    enabled: bool = True
    in_place: bool = True
    """Whether the originals stay in the session; else they move to a session of their own, its parent."""


class SessionCompression:
    """Asks the engine to compress, and carries out what it decides."""

    def __init__(
        self,
        store: Store,
        conversation: LiveConversation,
        recorder: TurnRecorder,
        deps: CompressionDeps,
        epoch_switcher: EpochSwitcher,
    ) -> None:
        self._store = store
        self._conversation = conversation
        self._recorder = recorder
        self._engine = deps.engine
        self._windows = deps.windows
        self._taint = deps.taint
        self._enabled = deps.enabled
        self._in_place = deps.in_place
        self._epoch_switcher = epoch_switcher
        self._counted: tuple[int, int] | None = None
        """The provider's count that the engine was told last."""
        self._quiet_until = 0
        """Estimated tokens below which nothing is tried again, since it did not help or was not wanted."""
        self.hooks: list[BeforeCompress] = []
        """Hooks that see what is about to be compressed and may name what must not be lost."""
        self.guard: CompressionGuard | None = None
        """Asked before anything is compressed."""

    async def compress_if_full(self, state: TurnState, emit: Emit) -> None:
        """Compress before a request that would pass the threshold, as often as it takes and helps."""
        if not self._enabled:
            return
        for number in range(MAX_PASSES):
            load = await self._measure_load(state.lineage, state.model)
            if load.estimated < self._quiet_until or not self._engine.should_compress(load):
                return
            if not await self._run_engine(CompactionTrigger.PREFLIGHT, load, state, emit, quietly=number > 0):
                break
        load = await self._measure_load(state.lineage, state.model)
        if self._engine.should_compress(load):
            self._quiet_until = load.estimated + (load.window or 0) // 20

    async def compress_overflow(self, state: TurnState, emit: Emit) -> bool:
        """Compress because the provider refused the request as too long."""
        if not self._enabled:
            said = "The conversation is too long for the model, and `compression.enabled` is off. Everything is kept."
            await emit(Notice(level=Level.WARNING, text=said))
            return False
        load = await self._measure_load(state.lineage, state.model)
        return await self._run_engine(CompactionTrigger.OVERFLOW, load, state, emit)

    async def compress_now(self, emit: Emit, wish: CompactionWish = NO_WISH) -> bool:
        """Compress between two turns, because the person wants it."""
        load = await self._measure_load(self._conversation.lineage, self._get_client(None))
        return await self._run_engine(CompactionTrigger.ASKED, load, None, emit, wish=wish)

    async def preview(self, emit: Emit, wish: CompactionWish) -> CompactionPreview | NoCompaction:
        """Return what `compress_now` would do, between two turns. No model is asked, and nothing changes."""
        if not isinstance(self._engine, PreviewingEngine):
            return NoCompaction(N_("The context engine {name} cannot say it beforehand.", name=self._engine.name))
        await self._recorder.flush()
        load = await self._measure_load(self._conversation.lineage, self._get_client(None))
        return await self._engine.preview(await self._build_occasion(CompactionTrigger.ASKED, load, None, emit, wish))

    async def undo_last(self, emit: Emit) -> bool:
        """Restore, between two turns, what was compressed last; return False when there is nothing to restore."""
        await self._recorder.flush()
        if not await run_to_completion(self._restore_originals(emit)):
            return False
        load = await self._measure_load(self._conversation.lineage, self._conversation.client)
        self._quiet_until = load.estimated + (load.window or 0) // 10
        return True

    async def _measure_load(self, lineage: Lineage, model: ModelClient) -> ContextLoad:
        """Return how full the window is: a few additions, nothing is counted again."""
        counted, estimated = lineage.last_count, lineage.estimated_tokens
        if counted is not None and counted is not self._counted:
            self._counted = counted
            self._engine.on_usage(counted[1], counted[0])
        return ContextLoad(
            estimated=estimated,
            counted=lineage.count_tokens(lineage.size) if counted is not None else None,
            window=await self._windows.get_window(model, estimated),
            frame=lineage.frame_estimate,
        )

    async def _run_engine(
        self,
        trigger: CompactionTrigger,
        load: ContextLoad,
        state: TurnState | None,
        emit: Emit,
        *,
        quietly: bool = False,
        wish: CompactionWish = NO_WISH,
    ) -> bool:
        """Ask the engine and carry out its decision; return False, and say so, when nothing has changed."""
        if await self._is_refused(trigger, wish, emit):
            return False
        await self._recorder.flush()
        found = await self._engine.compress(await self._build_occasion(trigger, load, state, emit, wish), emit)
        if isinstance(found, NoCompaction):
            text = _explain_small_window(load) or _explain_unchanged(trigger, found.reason)
            if not quietly:
                await emit(Notice(level=Level.WARNING, text=text))
            return False
        # Between two turns a stop that comes this late changes nothing: what is stored is told, and stays.
        finish = run_ignoring_cancellation if state is None else run_to_completion
        await finish(self._store_compaction(found, state, emit))
        now = await self._measure_load(
            self._conversation.lineage if state is None else state.lineage, self._get_client(state)
        )
        what = _count_covered(found)
        said = [
            N_(
                "{what} made shorter: about {estimated} tokens before, {estimated_2} now.",
                what=what,
                estimated=format(load.estimated, ","),
                estimated_2=format(now.estimated, ","),
            )
        ]
        said += [found.notice] if found.notice else []
        if not self._in_place and (row := await self._store.sessions.get(self._conversation.session_id)) is not None:
            said.append(
                N_(
                    "The originals are kept as session {parent_id}, from which this one goes on.",
                    parent_id=row.parent_id,
                )
            )
        level = Level.WARNING if found.warning else Level.INFO
        await emit(
            Notice(
                level=level, text=N_("{said} `/compress --undo` restores the original messages.", said=" ".join(said))
            )
        )
        await self._tell_guard(trigger)
        return True

    async def _is_refused(self, trigger: CompactionTrigger, wish: CompactionWish, emit: Emit) -> bool:
        """Return whether the guard wants nothing to be made shorter now, and say so."""
        why = await self.guard.review_compression(_name_trigger(trigger), wish.topic) if self.guard is not None else ""
        if why:
            await emit(Notice(level=Level.WARNING, text=N_("Nothing was made shorter: {reason}", reason=why)))
        return bool(why)

    async def _tell_guard(self, trigger: CompactionTrigger) -> None:
        if self.guard is not None:
            await self.guard.note_compression(_name_trigger(trigger))

    def _get_client(self, state: TurnState | None) -> ModelClient:
        return self._conversation.client if state is None else state.model

    async def _build_occasion(
        self, trigger: CompactionTrigger, load: ContextLoad, state: TurnState | None, emit: Emit, wish: CompactionWish
    ) -> CompactionRequest:
        session_id = self._conversation.session_id
        rows = await self._store.messages.read(session_id, everything=True)
        standing = [one for one in await self._store.compactions.list_all(session_id) if not one.undone]

        async def ask_hooks(messages: Sequence[Message]) -> str:
            return await self._ask_hooks(messages, emit)

        return CompactionRequest(
            rows=tuple(row for row in rows if row.state is not MessageState.UNDONE),
            replacement_ids=frozenset(number for one in standing for number in one.made),
            memo=standing[-1].memo if standing else b"",
            load=load,
            trigger=trigger,
            turn_id=state.turn_id if state is not None else "",
            searchable=any(tool.name == SEARCH_TOOL for tool in self._conversation.frame.tools),
            wish=wish,
            remember=ask_hooks,
        )

    async def _ask_hooks(self, messages: Sequence[Message], emit: Emit) -> str:
        """Return what the hooks want to have kept. One that fails is reported, and delays nothing."""
        notes: list[str] = []
        for hook in self.hooks:
            try:
                async with asyncio.timeout(HOOK_SECONDS):
                    text = await hook(messages)
            except Exception as error:  # noqa: BLE001 - somebody else's code: logged, and said
                _LOG.warning("a hook before compression failed", exc_info=True)
                said = N_(
                    ("The memory provider could not read what is condensed ({name}); it is condensed anyway."),
                    name=type(error).__name__,
                )
                await emit(Notice(level=Level.WARNING, text=said))
            else:
                if text.strip():
                    notes.append(text.strip())
        return "\n".join(notes)

    async def _store_compaction(self, found: Compaction, state: TurnState | None, emit: Emit) -> None:
        """Store a compaction, update the session in memory, and begin the epoch that sends it."""
        from hermes.store.compactions import CompactionCover

        conversation = self._conversation
        covers = [
            CompactionCover(
                TranscriptEntry(
                    session_id=conversation.session_id,
                    epoch=conversation.epoch,
                    turn_id=change.turn_id,
                    messages=(change.message,),
                ),
                change.covered,
            )
            for change in found.changes
        ]
        frame = await self._epoch_switcher.build_frame()
        number = await self._store.compactions.apply(
            covers,
            frame,
            COMPRESSED,
            memo=found.memo,
            owner=self._recorder.owner,
            archive=not self._in_place,
        )
        await self._reload_transcript(state)
        await self._epoch_switcher.enter_epoch(number, frame, COMPRESSED, state, emit)

    async def _restore_originals(self, emit: Emit) -> bool:
        conversation = self._conversation
        frame = await self._epoch_switcher.build_frame()
        number = await self._store.compactions.undo_last(conversation.session_id, frame, UNDONE)
        if number is None:
            return False
        await self._reload_transcript(None)
        await self._epoch_switcher.enter_epoch(number, frame, UNDONE, None, emit)
        return True

    async def _reload_transcript(self, state: TurnState | None) -> None:
        """Read the transcript from disk. Up to the running turn's first message it is the conversation's, from
        there on the turn's, as after a restart.
        """
        conversation = self._conversation
        rows = await self._store.messages.read(conversation.session_id)
        own = len(rows)
        if state is not None:
            own = next((place for place, row in enumerate(rows) if row.turn_id == state.turn_id), own)
            state.messages[:] = [row.message for row in rows[own:]]
        conversation.messages.replace_all(row.message for row in rows[:own])
        self._taint.restart_from(row.message for row in rows)


def _explain_unchanged(trigger: CompactionTrigger, reason: str) -> str:
    if trigger is CompactionTrigger.OVERFLOW:
        return N_("The conversation is too long. {reason} Everything is kept.", reason=reason)
    return N_("The conversation was not condensed. {reason} Everything is kept.", reason=reason)


def _explain_small_window(load: ContextLoad) -> str:
    """Return the message for a window that no conversation would fit; empty where one does."""
    if load.window is None or load.frame < load.window:
        return ""
    return N_(
        "The model's window ({window} tokens) is smaller than what each request begins with "
        "(about {frame}). Fewer tool sets (`-t`), or another model; `hermes prompt-size` shows "
        "the parts.",
        window=format(load.window, ","),
        frame=format(load.frame, ","),
    )


def _is_nearby_host(url: str) -> bool:
    """Return whether an address is on this machine or network, where models have small windows."""
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_private
    except ValueError:
        return "." not in host or host.endswith((".local", ".lan", ".localhost"))
