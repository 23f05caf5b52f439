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
from hermes.providers.wires import wire

OpenModel = Callable[[], Awaitable[ModelClient]]


class SideTask:
    """One kind of side task. `models` are asked in order until one answers; each is opened when its turn comes."""

    def __init__(self, models: Sequence[OpenModel]) -> None:
        self._models = models

    async def ask(self, system: str, text: str, emit: Emit, *, max_tokens: int | None = None) -> str | Failure:
        """The answer's text, or why nobody gave one. Never raises for what a provider or a setting does wrong."""
        outcome = await self.answer(system, text, emit, max_tokens=max_tokens)
        return outcome if isinstance(outcome, Failure) else outcome.message.text.strip()

    async def answer(self, system: str, text: str, emit: Emit, *, max_tokens: int | None = None) -> Answer | Failure:
        """As `ask`; the whole answer, which has text in it."""
        failure = Failure(kind=FailureKind.UNKNOWN, message="No model is configured for this task.")
        for opened in self._models:
            try:
                client = await opened()
            except ConfigError as error:
                failure = Failure(kind=FailureKind.AUTH, message=error.message, hint=error.hint)
                continue
            outcome = await client.answer(_lineage(client, system, text, max_tokens), _pauses(emit))
            if isinstance(outcome, Failure):
                failure = outcome
            elif outcome.message.text.strip():
                return outcome
            else:
                failure = _empty(client, outcome)
        return failure

    async def window(self) -> int | None:
        """Tokens of the window of the model that is asked first, where its settings or its record say it."""
        for opened in self._models:
            try:
                return (await opened()).endpoint.context_length
            except ConfigError:
                continue
        return None


def _lineage(client: ModelClient, system: str, text: str, max_tokens: int | None) -> Lineage:
    # Nobody asks again with the same beginning, and what a mark lets a provider keep costs more.
    endpoint = structs.replace(client.endpoint, cache_ttl="")
    frame = EpochFrame(
        provider=endpoint.record.name,
        model=endpoint.model,
        wire=endpoint.wire,
        encoder_version=wire(endpoint.wire).version,
        system=system,
        sampling=Sampling(max_tokens=max_tokens),
    )
    lineage = Lineage(frame, endpoint)
    lineage.extend((user_message(text),))
    return lineage


def _pauses(emit: Emit) -> Emit:
    """Only pauses are shown: a side task's words are not the conversation's."""

    async def show(event: Event) -> None:
        if isinstance(event, Retrying):
            await emit(event)

    return show


def _empty(client: ModelClient, answer: Answer) -> Failure:
    title = client.endpoint.record.title
    return Failure(kind=FailureKind.BAD_RESPONSE, message=f"{title} gave an empty answer.", usage=answer.usage)
