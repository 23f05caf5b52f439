"""Side tasks: one question to a model, without history or tools. Each task has its own order of models to ask."""

from collections.abc import Awaitable, Callable, Sequence

from msgspec import structs

from hermes.core.errors import ConfigError
from hermes.core.events import Event, Retrying
from hermes.core.frame import EpochFrame, Sampling
from hermes.core.messages import user_message
from hermes.core.outcomes import FailureKind
from hermes.core.stream import Answer, Failure
from hermes.llm.client import ModelClient
from hermes.llm.exchange import Emit
from hermes.llm.lineage import Lineage
from hermes.providers.wires import load_wire

OpenModel = Callable[[], Awaitable[ModelClient]]


class SideTask:
    """One kind of side task. `models` are asked in order until one answers; each is opened when its turn comes."""

    def __init__(self, models: Sequence[OpenModel]) -> None:
        self._models = models

    async def ask(self, system: str, text: str, emit: Emit, *, max_tokens: int | None = None) -> str | Failure:
        """Return the answer's text, or why nobody gave one. Never raises for what a
        provider or a setting does wrong.
        """
        outcome = await self.request_answer(system, text, emit, max_tokens=max_tokens)
        return outcome if isinstance(outcome, Failure) else outcome.message.text.strip()

    async def request_answer(
        self, system: str, text: str, emit: Emit, *, max_tokens: int | None = None
    ) -> Answer | Failure:
        """Return the whole answer, which has text in it, or why nobody gave one; otherwise like `ask`."""
        failure = Failure(kind=FailureKind.UNKNOWN, message="No model is configured for this task.")
        for opened in self._models:
            try:
                client = await opened()
            except ConfigError as error:
                failure = Failure(kind=FailureKind.AUTH, message=error.message, hint=error.hint)
                continue
            outcome = await client.request_answer(_build_lineage(client, system, text, max_tokens), _only_pauses(emit))
            if isinstance(outcome, Failure):
                failure = outcome
            elif outcome.message.text.strip():
                return outcome
            else:
                failure = _empty_answer_failure(client, outcome)
        return failure

    async def context_window(self) -> int | None:
        """Return the window, in tokens, of the model that is asked first, where its settings or its record say it."""
        for opened in self._models:
            try:
                return (await opened()).endpoint.context_length
            except ConfigError:
                continue
        return None


def _build_lineage(client: ModelClient, system: str, text: str, max_tokens: int | None) -> Lineage:
    # Nobody asks again with the same beginning, and what a mark lets a provider keep costs more.
    endpoint = structs.replace(client.endpoint, cache_ttl="")
    frame = EpochFrame(
        provider=endpoint.record.name,
        model=endpoint.model,
        wire=endpoint.wire,
        encoder_version=load_wire(endpoint.wire).version,
        system=system,
        sampling=Sampling(max_tokens=max_tokens),
    )
    lineage = Lineage(frame, endpoint)
    lineage.append_messages((user_message(text),))
    return lineage


def _only_pauses(emit: Emit) -> Emit:
    """Return an `emit` that shows only pauses: a side task's text is not the conversation's."""

    async def emit_pause(event: Event) -> None:
        if isinstance(event, Retrying):
            await emit(event)

    return emit_pause


def _empty_answer_failure(client: ModelClient, answer: Answer) -> Failure:
    title = client.endpoint.record.title
    return Failure(kind=FailureKind.BAD_RESPONSE, message=f"{title} gave an empty answer.", usage=answer.usage)
