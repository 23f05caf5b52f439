"""The models that may answer: the person's choice, and those that stand in for it (`fallback_providers`)."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack

from hermes.app.endpoint import Model, open_model
from hermes.config.settings import ModelReference, Settings
from hermes.core.frame import EpochFrame
from hermes.llm.client import ModelClient
from hermes.providers.resolve import ModelChoice
from hermes.providers.wire import Endpoint
from hermes.runtime.epochs import Candidate

Frame = Callable[[Endpoint], EpochFrame]


class Models:
    """The models of a process, each opened when it is first needed; closed with `stack`."""

    def __init__(
        self,
        first: Model,
        others: Sequence[ModelChoice],
        environ: Mapping[str, str],
        settings: Settings,
        stack: AsyncExitStack,
    ) -> None:
        self._choices = tuple(others)
        self._opened: dict[int, Model] = {0: first}
        self._environ = environ
        self._settings = settings
        self._stack = stack

    @property
    def length(self) -> int:
        """How many there are."""
        return len(self._choices) + 1

    async def at(self, index: int) -> Model:
        """The model at this place. Raises ConfigError when it cannot be used as it is configured."""
        found = self._opened.get(index)
        if found is None:
            choice = self._choices[index - 1]
            context = open_model(choice, self._environ, ca_file=self._settings.model.ca_bundle)
            found = self._opened[index] = await self._stack.enter_async_context(context)
        return found


class SessionRoute:
    """The `Route` of one session."""

    def __init__(self, models: Models, client: Callable[[Model], Awaitable[ModelClient]], frame: Frame) -> None:
        self._models = models
        self._client = client
        self._frame = frame
        self._candidates: dict[int, Candidate] = {}

    @property
    def length(self) -> int:
        """How many models there are."""
        return self._models.length

    async def candidate(self, index: int) -> Candidate:
        """The model at this place, with what an epoch with it is made of."""
        found = self._candidates.get(index)
        if found is None:
            model = await self._models.at(index)
            found = Candidate(await self._client(model), self._frame(model.endpoint))
            self._candidates[index] = found
        return found


def fallbacks(settings: Settings, given: Sequence[ModelReference]) -> tuple[ModelChoice, ...]:
    """What was given for this run, then what `fallback_providers` (and the older `fallback_model`) name, in order."""
    named = [*given, *settings.fallback_providers, *([settings.fallback_model] if settings.fallback_model else [])]
    return tuple(_choice(one) for one in named)


def _choice(one: ModelReference | str) -> ModelChoice:
    if isinstance(one, str):
        return ModelChoice(model=one)
    return ModelChoice(
        model=one.model or one.default,
        provider=one.provider,
        base_url=one.base_url,
        api_key=one.api_key,
        api_mode=one.api_mode,
        context_length=one.context_length,
    )
