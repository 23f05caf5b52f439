"""The compression of a live session: when its engine is asked, and how what it decides is stored, shown and undone."""

import asyncio
import ipaddress
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol
from urllib.parse import urlsplit

from msgspec import Struct

from hermes.agent.turn import Emit, TurnState
from hermes.context.engine import Compaction, ContextEngine, Kept, Load, Occasion, Trigger
from hermes.context.pointing import SEARCH
from hermes.core.events import Level, Notice
from hermes.core.frame import EpochFrame
from hermes.core.messages import Message
from hermes.llm.client import ModelClient
from hermes.llm.lineage import Lineage
from hermes.runtime.conversation import Conversation
from hermes.runtime.recorder import Recorder
from hermes.store.compactions import Cover
from hermes.store.rows import MessageState
from hermes.store.store import Store
from hermes.store.transcript import Entry
from hermes.tools.taint import Taint
from hermes.util.cancellation import whole

COMPRESSED = "compressed"
"""Why an epoch begins in whose transcript something stands for older messages."""
UNDONE = "compression undone"
"""Why an epoch begins in which they are back."""
PASSES = 3
"""How often a conversation is condensed at most before one request."""
HOOK_SECONDS = 30.0
"""How long one of `before_compress` may take."""

ASK_NEAR = 2_000
ASK_FAR = 16_000
"""Estimated tokens of a request from which on a provider on this machine or network, or any other, is asked. One that
has answered nothing yet is asked like any other: a single short question should not cost two."""

_LOG = logging.getLogger(__name__)

BeforeCompress = Callable[[Sequence[Message]], Awaitable[str]]
"""Called with the messages that are about to be condensed; gives what the summary should not lose, or nothing."""


class Turning(Protocol):
    """How a session gets into its next epoch."""

    async def fresh_frame(self) -> EpochFrame:
        """What an epoch with the same model is made of as of now."""
        ...

    async def go_on(
        self, number: int, frame: EpochFrame, reason: str, state: TurnState | None, emit: Emit, *, cached: bool = False
    ) -> None:
        """Go on in an epoch of that number, which has begun in the store with that frame for that reason.
        `cached`: what it sends is the beginning of what was sent before, so it costs nothing anew."""
        ...


class Windows:
    """The windows of a process's models. A provider that does not tell is not asked again."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], int | None] = {}

    async def of(self, client: ModelClient, estimated: int) -> int | None:
        """Tokens of the model's window; None: unknown, or not worth a question for so small a request."""
        endpoint = client.endpoint
        if endpoint.context_length is not None:
            return endpoint.context_length
        key = endpoint.base_url, endpoint.model
        if key not in self._known:
            near = client.called and _near(endpoint.base_url)
            if estimated < (ASK_NEAR if near else ASK_FAR):
                return None
            self._known[key] = await client.context_length()
        return self._known[key]


class Keeping(Struct, frozen=True):
    """With what a session is kept within its model's window."""

    engine: ContextEngine
    windows: Windows
    taint: Taint
    """Which strangers' text stands in the session's conversation."""
    enabled: bool = True
    in_place: bool = True
    """Whether the originals stay in the session; else they become a session of their own, its parent."""


class Compression:
    """Asks the engine, and does what it says."""

    def __init__(
        self, store: Store, conversation: Conversation, recorder: Recorder, keeping: Keeping, turning: Turning
    ) -> None:
        self._store = store
        self._conversation = conversation
        self._recorder = recorder
        self._engine = keeping.engine
        self._windows = keeping.windows
        self._taint = keeping.taint
        self._enabled = keeping.enabled
        self._in_place = keeping.in_place
        self._turning = turning
        self._counted: tuple[int, int] | None = None
        """The provider's count that the engine was told last."""
        self._quiet_until = 0
        """Estimated tokens below which nothing is tried again, since it did not help or was not wanted."""
        self.before: list[BeforeCompress] = []

    async def prepare(self, state: TurnState, emit: Emit) -> None:
        """Condense before a request that would pass the threshold, as often as it takes and helps."""
        if not self._enabled:
            return
        for number in range(PASSES):
            load = await self._load(state.lineage, state.model)
            if load.estimated < self._quiet_until or not self._engine.should_compress(load):
                return
            if not await self._run(Trigger.PREFLIGHT, load, state, emit, quietly=number > 0):
                break
        load = await self._load(state.lineage, state.model)
        if self._engine.should_compress(load):
            self._quiet_until = load.estimated + (load.window or 0) // 20

    async def overflowed(self, state: TurnState, emit: Emit) -> bool:
        """Condense because the provider refused the request as too long."""
        if not self._enabled:
            said = "The conversation is too long for the model, and `compression.enabled` is off. Everything is kept."
            await emit(Notice(level=Level.WARNING, text=said))
            return False
        load = await self._load(state.lineage, state.model)
        return await self._run(Trigger.OVERFLOW, load, state, emit)

    async def asked(self, emit: Emit) -> bool:
        """Condense between two turns."""
        load = await self._load(self._conversation.lineage, self._client(None))
        return await self._run(Trigger.ASKED, load, None, emit)

    async def undo(self, emit: Emit) -> bool:
        """Between two turns, put back what was condensed last."""
        await self._recorder.flush()
        if not await whole(self._undone(emit)):
            return False
        load = await self._load(self._conversation.lineage, self._conversation.client)
        self._quiet_until = load.estimated + (load.window or 0) // 10
        return True

    async def _load(self, lineage: Lineage, model: ModelClient) -> Load:
        """How full the window is: a few additions, nothing is counted again."""
        counted, estimated = lineage.last_count, lineage.estimated
        if counted is not None and counted is not self._counted:
            self._counted = counted
            self._engine.on_usage(counted[1], counted[0])
        return Load(
            estimated=estimated,
            counted=lineage.tokens(lineage.size) if counted is not None else None,
            window=await self._windows.of(model, estimated),
            frame=lineage.frame_estimate,
        )

    async def _run(
        self, trigger: Trigger, load: Load, state: TurnState | None, emit: Emit, *, quietly: bool = False
    ) -> bool:
        """Ask the engine and do what it says; False when nothing has changed, which is said."""
        await self._recorder.flush()
        found = await self._engine.compress(await self._occasion(trigger, load, state, emit), emit)
        if isinstance(found, Kept):
            if not quietly:
                await emit(Notice(level=Level.WARNING, text=_too_small(load) or _kept(trigger, found.reason)))
            return False
        await whole(self._condensed(found, state, emit))
        now = await self._load(self._conversation.lineage if state is None else state.lineage, self._client(state))
        covered = sum(len(change.covered) for change in found.changes)
        what = "1 message was" if covered == 1 else f"{covered} messages were"
        said = [f"{what} made shorter: about {load.estimated:,} tokens before, {now.estimated:,} now."]
        said += [found.notice] if found.notice else []
        if not self._in_place and (row := await self._store.session(self._conversation.session_id)) is not None:
            said.append(f"The originals are kept as session {row.parent_id}, from which this one goes on.")
        level = Level.WARNING if found.warning else Level.INFO
        await emit(Notice(level=level, text=f"{' '.join(said)} `/compress --undo` puts back what stood there."))
        return True

    def _client(self, state: TurnState | None) -> ModelClient:
        return self._conversation.client if state is None else state.model

    async def _occasion(self, trigger: Trigger, load: Load, state: TurnState | None, emit: Emit) -> Occasion:
        session_id = self._conversation.session_id
        rows = await self._store.transcript(session_id, everything=True)
        standing = [one for one in await self._store.compactions(session_id) if not one.undone]

        async def remember(messages: Sequence[Message]) -> str:
            return await self._remember(messages, emit)

        return Occasion(
            rows=tuple(row for row in rows if row.state is not MessageState.UNDONE),
            made=frozenset(number for one in standing for number in one.made),
            memo=standing[-1].memo if standing else b"",
            load=load,
            trigger=trigger,
            turn_id=state.turn_id if state is not None else "",
            searchable=any(tool.name == SEARCH for tool in self._conversation.frame.tools),
            remember=remember,
        )

    async def _remember(self, messages: Sequence[Message], emit: Emit) -> str:
        """What those who were told want to have kept; one that fails is said, and holds nothing up."""
        kept: list[str] = []
        for hook in self.before:
            try:
                async with asyncio.timeout(HOOK_SECONDS):
                    text = await hook(messages)
            except Exception as error:  # noqa: BLE001 - somebody else's code: logged, and said
                _LOG.warning("a hook before compression failed", exc_info=True)
                said = f"Memory could not look at what is condensed ({type(error).__name__}); it is condensed anyway."
                await emit(Notice(level=Level.WARNING, text=said))
            else:
                if text.strip():
                    kept.append(text.strip())
        return "\n".join(kept)

    async def _condensed(self, found: Compaction, state: TurnState | None, emit: Emit) -> None:
        """Put what was decided in its place, on disk and here, and begin the epoch that sends it."""
        conversation = self._conversation
        covers = [
            Cover(
                Entry(
                    session_id=conversation.session_id,
                    epoch=conversation.epoch,
                    turn_id=change.turn_id,
                    messages=(change.message,),
                ),
                change.covered,
            )
            for change in found.changes
        ]
        frame = await self._turning.fresh_frame()
        number = await self._store.compact_all(
            covers,
            frame,
            COMPRESSED,
            memo=found.memo,
            owner=self._recorder.owner,
            archive=not self._in_place,
        )
        await self._read(state)
        await self._turning.go_on(number, frame, COMPRESSED, state, emit)

    async def _undone(self, emit: Emit) -> bool:
        conversation = self._conversation
        frame = await self._turning.fresh_frame()
        number = await self._store.undo_compaction(conversation.session_id, frame, UNDONE)
        if number is None:
            return False
        await self._read(None)
        await self._turning.go_on(number, frame, UNDONE, None, emit)
        return True

    async def _read(self, state: TurnState | None) -> None:
        """Take the transcript from disk: up to the running turn's first message it is the conversation's, from there
        on the turn's, as after a restart."""
        conversation = self._conversation
        rows = await self._store.transcript(conversation.session_id)
        own = len(rows)
        if state is not None:
            own = next((place for place, row in enumerate(rows) if row.turn_id == state.turn_id), own)
            state.messages[:] = [row.message for row in rows[own:]]
        conversation.messages.restart(row.message for row in rows[:own])
        self._taint.restart_from(row.message for row in rows)


def _kept(trigger: Trigger, reason: str) -> str:
    if trigger is Trigger.OVERFLOW:
        return f"The conversation is too long. {reason} Everything is kept."
    return f"The conversation was not condensed. {reason} Everything is kept."


def _too_small(load: Load) -> str:
    """What to say where no conversation would fit; empty where one does."""
    if load.window is None or load.frame < load.window:
        return ""
    return (
        f"The model's window ({load.window:,} tokens) is smaller than what each request begins with (about"
        f" {load.frame:,}). Fewer tool sets (`-t`), or another model; `hermes prompt-size` shows the parts."
    )


def _near(url: str) -> bool:
    """Whether an address is on this machine or network, where models have small windows."""
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_private
    except ValueError:
        return "." not in host or host.endswith((".local", ".lan", ".localhost"))
