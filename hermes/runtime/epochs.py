"""The epochs of a live session: how one ends by name and the next begins, stored and shown."""

import asyncio
import weakref
from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct, structs

from hermes.agent.turn import Emit, TurnState
from hermes.core.errors import ConfigError
from hermes.core.events import EpochBegan, FellBack, Level, Notice
from hermes.core.frame import EpochFrame, Rewrite
from hermes.core.messages import Message
from hermes.core.stream import Failure
from hermes.llm.client import ModelClient
from hermes.llm.lineage import Lineage
from hermes.llm.rewrites import plain_schemas
from hermes.runtime.compression import BeforeCompress, Compression, Keeping
from hermes.runtime.conversation import Conversation
from hermes.runtime.recorder import Recorder
from hermes.runtime.undo import Undoing
from hermes.store.store import Store
from hermes.util.cancellation import whole


class Candidate(Struct, frozen=True):
    """A model that can answer: how to call it, and the frame of an epoch with it."""

    client: ModelClient
    frame: EpochFrame


class Route(Protocol):
    """The models that may answer, in order. The first is the person's choice, the others stand in for it."""

    @property
    def length(self) -> int:
        """How many there are."""
        ...

    async def candidate(self, index: int) -> Candidate:
        """The model at this place. Raises `ConfigError` when it cannot be used as it is configured."""
        ...


class SessionEpochs:
    """The `Epochs` of one session's turns."""

    def __init__(
        self,
        store: Store,
        conversation: Conversation,
        recorder: Recorder,
        route: Route,
        keeping: Keeping,
    ) -> None:
        self._store = store
        self._conversation = conversation
        self._recorder = recorder
        self._route = route
        own: SessionEpochs = weakref.proxy(self)  # they are its own: no circle for the collector
        self._compression = Compression(store, conversation, recorder, keeping, own)
        self.undoing = Undoing(store, conversation, recorder, keeping.taint, own)
        self._place = 0
        """Where on the route the model that answers stands."""

    def can_fall_back(self, state: TurnState) -> bool:
        """Whether another model is left to try."""
        return self._place + 1 < self._route.length

    async def fall_back(self, state: TurnState, failure: Failure, emit: Emit) -> bool:
        """Go on with the next model of the route that can be used."""
        for place in range(self._place + 1, self._route.length):
            try:
                found = await self._route.candidate(place)
            except ConfigError as error:
                await emit(Notice(level=Level.WARNING, text=f"A fallback model cannot be used: {error}"))
                continue
            if not await found.client.available():
                continue
            self._place = place
            endpoint = found.client.endpoint
            await emit(FellBack(provider=endpoint.record.name, model=endpoint.model, reason=failure.message))
            await self._begin(found, f"fell back: {failure.kind.value}", state, emit)
            return True
        return False

    async def go_home(self, emit: Emit) -> None:
        """Go back to the first model of the route, when another one answers and the first has a key again."""
        if self._place == 0:
            return
        try:
            first = await self._route.candidate(0)
        except ConfigError:
            return
        if await first.client.available():
            self._place = 0
            await self._begin(first, "back to the first model", None, emit)

    async def renew(self, reason: str, emit: Emit, *, first: bool = False) -> int:
        """Between two turns, begin an epoch as the route and what frames are made of are now; with `first` go to the
        first model of the route. The bytes of the conversation that are sent anew."""
        place = 0 if first else self._place
        found = await self._route.candidate(place)
        if found.client is self._conversation.client:
            found = Candidate(found.client, await self.fresh_frame())
        await self._begin(found, reason, None, emit)
        self._place = place
        return self._conversation.epoch_bytes[self._conversation.epoch]

    async def rewrite(self, state: TurnState, how: Rewrite, emit: Emit) -> bool:
        """Send what was refused in another form from here on."""
        frame = self._conversation.frame
        if how in frame.rewrites:
            return False
        tools = plain_schemas(frame.tools) if how is Rewrite.PLAIN_SCHEMAS else frame.tools
        changed = structs.replace(frame, rewrites=(*frame.rewrites, how), tools=tools)
        await self._begin(Candidate(self._conversation.client, changed), f"rewritten: {how.value}", state, emit)
        return True

    async def prepare(self, state: TurnState, emit: Emit) -> None:
        """Condense what is about to become too long. Costs next to nothing where nothing is to be done."""
        await self._compression.prepare(state, emit)

    async def compress(self, state: TurnState, emit: Emit) -> bool:
        """Go on with a record in the place of older messages, since the provider finds them too many."""
        return await self._compression.overflowed(state, emit)

    async def compress_now(self, emit: Emit) -> bool:
        """Condense the conversation between two turns, because the person wants it."""
        return await self._compression.asked(emit)

    async def undo_compression(self, emit: Emit) -> bool:
        """Between two turns, put back what was condensed last; False when there is nothing to put back."""
        return await self._compression.undo(emit)

    @property
    def before_compress(self) -> list[BeforeCompress]:
        """Who is told what is about to be condensed, and may say what must not be lost."""
        return self._compression.before

    async def _begin(self, candidate: Candidate, reason: str, state: TurnState | None, emit: Emit) -> None:
        """End the epoch, and go on in the next. A stop waits for it: what is in memory is what is on disk."""
        await self._recorder.flush()
        await whole(self._begun(candidate, reason, state, emit))

    async def _begun(self, candidate: Candidate, reason: str, state: TurnState | None, emit: Emit) -> None:
        number = await self._store.begin_epoch(
            self._conversation.session_id, candidate.frame, reason, self._recorder.owner
        )
        await self._enter(number, candidate, reason, state, emit)

    async def fresh_frame(self) -> EpochFrame:
        """What an epoch with the model that answers is made of as of now; it sends things in the form that this one has
        learnt to send them in."""
        found = (await self._route.candidate(self._place)).frame
        rewrites = self._conversation.frame.rewrites
        tools = plain_schemas(found.tools) if Rewrite.PLAIN_SCHEMAS in rewrites else found.tools
        return structs.replace(found, rewrites=rewrites, tools=tools)

    async def go_on(
        self,
        number: int,
        frame: EpochFrame,
        reason: str,
        state: TurnState | None,
        emit: Emit,
        *,
        cached: bool = False,
    ) -> None:
        """Go on with the same model in an epoch that has begun in the store."""
        await self._enter(number, Candidate(self._conversation.client, frame), reason, state, emit, cached=cached)

    async def _enter(
        self,
        number: int,
        candidate: Candidate,
        reason: str,
        state: TurnState | None,
        emit: Emit,
        *,
        cached: bool = False,
    ) -> None:
        """Encode the transcript for an epoch that has begun in the store, and go on in it."""
        conversation = self._conversation
        own = state.messages if state is not None else []
        lineage = await asyncio.to_thread(_encoded, candidate, [*conversation.messages, *own])
        if state is not None:
            state.taint.restart_from([*conversation.messages, *state.messages])
            state.lineage, state.model = lineage, candidate.client
        conversation.begin(number, candidate.frame, lineage, candidate.client)
        if cached:
            conversation.epoch_bytes[number] = 0
        self._recorder.epoch = number
        await emit(
            EpochBegan(
                number=number,
                reason=reason,
                provider=candidate.frame.provider,
                model=candidate.frame.model,
                bytes=conversation.epoch_bytes[number],
            )
        )


def _encoded(candidate: Candidate, messages: Sequence[Message]) -> Lineage:
    """The transcript as the model is sent it; of a long one that takes too long for other sessions to wait."""
    lineage = Lineage(candidate.frame, candidate.client.endpoint)
    lineage.extend(messages, carried=True)
    return lineage
