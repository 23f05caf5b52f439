"""The epochs of a live session: how one ends by name and the next begins, stored and shown."""

import asyncio
import weakref
from collections.abc import Collection, Sequence
from functools import cached_property
from importlib.util import find_spec
from itertools import chain
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct, structs

from hermes.agent.turn import Emit, TurnState
from hermes.core.errors import ConfigError
from hermes.core.events import EpochBegan, FellBack, Level, Notice
from hermes.core.frame import PICTURE_REWRITES, EpochFrame, Rewrite
from hermes.core.messages import Message, Role
from hermes.core.outcomes import FailureKind
from hermes.core.stream import Failure
from hermes.i18n.messages import N_
from hermes.llm.client import ModelClient
from hermes.llm.lineage import Lineage, simplify_schemas
from hermes.runtime.compression import CompressionDeps, SessionCompression
from hermes.runtime.conversation import LiveConversation
from hermes.runtime.recorder import TurnRecorder
from hermes.store.store import Store
from hermes.util.cancellation import run_to_completion
from hermes.util.localizable import join_localizable

if TYPE_CHECKING:
    from hermes.runtime.undo import TurnUndo
_CARRIERS = {Rewrite.TEXT_RESULTS: (Role.TOOL,), Rewrite.NO_IMAGES: (Role.USER, Role.TOOL)}
"""The roles whose messages a rewrite of pictures is about."""


class ModelCandidate(Struct, frozen=True):
    """A model that can answer: its client, and the frame of an epoch with it."""

    client: ModelClient
    frame: EpochFrame


class ModelRoute(Protocol):
    """The models that may answer, in order. The first is the person's choice, the others are fallback models."""

    @property
    def length(self) -> int:
        """The number of models."""
        ...

    async def candidate(self, index: int) -> ModelCandidate:
        """Return the model at this index. Raises `ConfigError` when it cannot be used as it is configured."""
        ...


class SessionEpochs:
    """The `TurnEpochs` of one session's turns."""

    def __init__(
        self,
        store: Store,
        conversation: LiveConversation,
        recorder: TurnRecorder,
        route: ModelRoute,
        deps: CompressionDeps,
    ) -> None:
        self._store = store
        self._conversation = conversation
        self._recorder = recorder
        self._route = route
        own: SessionEpochs = weakref.proxy(self)  # they are its own: no circle for the collector
        self.compression = SessionCompression(store, conversation, recorder, deps, own)
        self._taint = deps.taint
        self._route_index = 0
        """The index on the route of the model that answers."""
        self._picture_step: Rewrite | None = None
        """How pictures are sent in the epoch that a compression begins."""
        self._passing_index: int | None = None
        """The first model on the route that failed in this turn for a reason that passes."""
        self._route_is_spent = False
        """Whether every model was tried in this turn."""

    @cached_property
    def turn_undo(self) -> "TurnUndo":
        """Undoes and redoes turns; for use between two turns."""
        from hermes.runtime.undo import TurnUndo

        return TurnUndo(self._store, self._conversation, self._recorder, self._taint, weakref.proxy(self))

    def can_fall_back(self, state: TurnState) -> bool:
        """Return whether another model is left to try."""
        return not self._route_is_spent and self._route_index + 1 < self._route.length

    async def fall_back(self, state: TurnState, failure: Failure, emit: Emit) -> bool:
        """Switch to the next usable model of the route; return False when there is none.

        When none is left and the last one cannot be helped, the first that failed for a reason that passes is called
        again, now for as long as there is time.
        """
        if self._route_is_spent:
            return False
        if failure.retryable and self._passing_index is None:
            self._passing_index = self._route_index
        for place in range(self._route_index + 1, self._route.length):
            try:
                found = await self._route.candidate(place)
            except ConfigError as error:
                await emit(
                    Notice(level=Level.WARNING, text=N_("A fallback model cannot be used: {error}", error=error))
                )
                continue
            if not await found.client.has_usable_key():
                continue
            await self._fall_back_to(place, found, failure, state, emit)
            return True
        self._route_is_spent = True
        passing = self._passing_index
        if failure.retryable or passing is None or passing == self._route_index:
            return False
        await self._fall_back_to(passing, await self._route.candidate(passing), failure, state, emit)
        return True

    async def _fall_back_to(
        self, place: int, found: ModelCandidate, failure: Failure, state: TurnState, emit: Emit
    ) -> None:
        self._route_index = place
        endpoint = found.client.endpoint
        await emit(FellBack(provider=endpoint.record.name, model=endpoint.model, reason=failure.message))
        await self._switch_epoch(found, f"fell back: {failure.kind.value}", state, emit)

    async def return_to_first_model(self, emit: Emit) -> None:
        """Switch back to the first model of the route, when another one answers and the first has a key again. Called
        before each turn.
        """
        self._passing_index, self._route_is_spent = None, False
        if self._route_index == 0:
            return
        try:
            first = await self._route.candidate(0)
        except ConfigError:
            return
        if await first.client.has_usable_key():
            self._route_index = 0
            await self._switch_epoch(first, "back to the first model", None, emit)

    async def renew_epoch(self, reason: str, emit: Emit, *, first: bool = False) -> int:
        """Begin, between two turns, an epoch with the current route and frame; return the bytes of the
        conversation that are sent again.

        With `first` it switches to the first model of the route.
        """
        place = 0 if first else self._route_index
        found = await self._route.candidate(place)
        if found.client is self._conversation.client:
            found = ModelCandidate(found.client, await self.build_frame())
        await self._switch_epoch(found, reason, None, emit)
        self._route_index = place
        return self._conversation.epoch_bytes[self._conversation.epoch]

    async def rewrite_request(self, state: TurnState, how: Rewrite, emit: Emit) -> bool:
        """Send what was refused in another form from here on; return False when this epoch does so already, or when
        the order of roles would be the same.
        """
        from hermes.llm.role_order import ROLE_REWRITES

        frame = self._conversation.frame
        if how in frame.rewrites or (how in _CARRIERS and not self._has_pictures(state, _CARRIERS[how])):
            return False
        tools = simplify_schemas(frame.tools) if how is Rewrite.PLAIN_SCHEMAS else frame.tools
        changed = structs.replace(frame, rewrites=(*frame.rewrites, how), tools=tools)
        candidate = ModelCandidate(self._conversation.client, changed)
        if how in ROLE_REWRITES:
            messages = [*self._conversation.messages, *state.messages]
            arranged = await asyncio.to_thread(_encode_transcript, candidate, messages)
            if arranged.build_body() == state.lineage.build_body():
                return False
        await self._switch_epoch(candidate, f"rewritten: {how.value}", state, emit)
        return True

    async def prepare_request(self, state: TurnState, emit: Emit) -> None:
        """Compress a transcript that is about to become too long. Costs next to nothing where nothing is to be done."""
        await self.compression.compress_if_full(state, emit)

    def _has_pictures(self, state: TurnState, carriers: Collection[Role]) -> bool:
        """Return whether a message of these roles has a picture."""
        messages = chain(self._conversation.messages, state.messages)
        return any(message.role in carriers and any(message.images()) for message in messages)

    async def shrink_pictures(self, state: TurnState, failure: Failure, emit: Emit) -> bool:
        """Send pictures smaller, since the provider finds one of them too large; False when they cannot be."""
        step = await self._choose_picture_step(state, failure, emit, halve=False)
        if step is None:
            return False
        await self._switch_epoch(self._with_pictures(step), f"rewritten: {step.value}", state, emit)
        return True

    async def shrink_request(self, state: TurnState, failure: Failure, emit: Emit) -> bool:
        """Make the request smaller, since the provider finds it too long or too large: pictures where their bytes
        count, and old results and older messages where that is not enough. Begins one epoch; False when nothing can be
        made smaller.
        """
        by_bytes = failure.kind is FailureKind.PAYLOAD_TOO_LARGE
        step = None
        if by_bytes and state.lineage.image_bytes:
            step = await self._choose_picture_step(state, failure, emit, halve=True)
        if step is not None and state.lineage.image_bytes > state.lineage.size // 2:
            await self._switch_epoch(self._with_pictures(step), f"rewritten: {step.value}", state, emit)
            return True
        self._picture_step = step
        try:
            shrunk = await self.compression.compress_overflow(state, emit)
        finally:
            self._picture_step = None
        if not shrunk and step is not None:
            await self._switch_epoch(self._with_pictures(step), f"rewritten: {step.value}", state, emit)
        return shrunk or step is not None

    async def _choose_picture_step(
        self, state: TurnState, failure: Failure, emit: Emit, *, halve: bool
    ) -> Rewrite | None:
        """Choose how pictures are sent from here on, and say so where some are left out."""
        from hermes.llm.pictures import choose_picture_step, find_picture_step

        messages = [*self._conversation.messages, *state.messages]
        images = [image for message in messages for image in message.images()]
        current = find_picture_step(self._conversation.frame.rewrites)
        step = await asyncio.to_thread(choose_picture_step, images, current, failure.message, halve=halve)
        if step is Rewrite.NO_LARGE_IMAGES:
            said = [N_("Pictures are too large for the provider and are left out from here on.")]
            if find_spec("PIL") is None:
                said.append(N_("`pip install 'hermes-anew[media]'` lets Hermes make them smaller."))
            await emit(Notice(level=Level.WARNING, text=join_localizable(" ", said)))
        return step

    def _with_pictures(self, step: Rewrite) -> ModelCandidate:
        frame = self._conversation.frame
        changed = structs.replace(frame, rewrites=_replace_picture_step(frame.rewrites, step))
        return ModelCandidate(self._conversation.client, changed)

    async def _switch_epoch(self, candidate: ModelCandidate, reason: str, state: TurnState | None, emit: Emit) -> None:
        """End the epoch and continue in the next. A stop waits for it: what is in memory is what is on disk."""
        await self._recorder.flush()
        await run_to_completion(self._store_epoch(candidate, reason, state, emit))

    async def _store_epoch(self, candidate: ModelCandidate, reason: str, state: TurnState | None, emit: Emit) -> None:
        number = await self._store.epochs.begin(
            self._conversation.session_id, candidate.frame, reason, self._recorder.owner
        )
        await self._enter_epoch(number, candidate, reason, state, emit)

    async def build_frame(self) -> EpochFrame:
        """Return the frame of an epoch with the current model as of now, with the
        rewrites that this epoch has learned.
        """
        found = (await self._route.candidate(self._route_index)).frame
        rewrites = tuple(dict.fromkeys((*self._conversation.frame.rewrites, *found.rewrites)))
        if self._picture_step is not None:
            rewrites = _replace_picture_step(rewrites, self._picture_step)
        tools = simplify_schemas(found.tools) if Rewrite.PLAIN_SCHEMAS in rewrites else found.tools
        return structs.replace(found, rewrites=rewrites, tools=tools)

    async def enter_epoch(
        self,
        number: int,
        frame: EpochFrame,
        reason: str,
        state: TurnState | None,
        emit: Emit,
        *,
        cached: bool = False,
    ) -> None:
        """Continue with the same model in an epoch that has begun in the store."""
        await self._enter_epoch(
            number, ModelCandidate(self._conversation.client, frame), reason, state, emit, cached=cached
        )

    async def _enter_epoch(
        self,
        number: int,
        candidate: ModelCandidate,
        reason: str,
        state: TurnState | None,
        emit: Emit,
        *,
        cached: bool = False,
    ) -> None:
        """Encode the transcript for an epoch that has begun in the store, and continue in it."""
        conversation = self._conversation
        own = state.messages if state is not None else []
        lineage = await asyncio.to_thread(_encode_transcript, candidate, [*conversation.messages, *own])
        if state is not None:
            state.taint.restart_from([*conversation.messages, *state.messages])
            state.lineage, state.model = lineage, candidate.client
        conversation.enter_epoch(number, candidate.frame, lineage, candidate.client)
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


def _replace_picture_step(rewrites: Sequence[Rewrite], step: Rewrite) -> tuple[Rewrite, ...]:
    return (*(one for one in rewrites if one not in PICTURE_REWRITES), step)


def _encode_transcript(candidate: ModelCandidate, messages: Sequence[Message]) -> Lineage:
    """Return the transcript as the model is sent it. Runs in a thread: a long one would block other sessions."""
    lineage = Lineage(candidate.frame, candidate.client.endpoint)
    lineage.append_messages(messages, carried=True)
    return lineage
