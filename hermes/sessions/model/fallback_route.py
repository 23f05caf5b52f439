"""The models that may answer: the user's choice and the fallback models (`fallback_providers`)."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack

from hermes.config.settings import ModelReference, Settings, SideTaskSettings
from hermes.core.errors import ConfigError
from hermes.core.frame import EpochFrame
from hermes.llm.client import ModelClient
from hermes.llm.side_task import OpenModel
from hermes.providers.resolve import ModelChoice
from hermes.providers.wire import Endpoint
from hermes.runtime.epochs import ModelCandidate
from hermes.sessions.model.endpoint import ModelConnection

FrameFactory = Callable[[Endpoint], EpochFrame]
ModelOpener = Callable[[ModelChoice], AbstractAsyncContextManager[ModelConnection]]
ClientFactory = Callable[[ModelConnection], Awaitable[ModelClient]]


class ModelPool:
    """The models of a process, each opened when it is first needed and closed with `stack`."""

    def __init__(self, choices: Sequence[ModelChoice], open_model: ModelOpener, stack: AsyncExitStack) -> None:
        self._choices = tuple(choices)
        self._open = open_model
        self._stack = stack
        self._models: dict[int, ModelConnection] = {}

    @property
    def length(self) -> int:
        """The number of models."""
        return len(self._choices)

    async def open_at(self, index: int) -> ModelConnection:
        """Open the model at this index, once. Raises ConfigError when it cannot be used as it is configured."""
        found = self._models.get(index)
        if found is None:
            choice = self._choices[index]
            try:
                found = await self._stack.enter_async_context(self._open(choice))
            except ConfigError as error:
                named = " ".join(one for one in (choice.provider, choice.model) if one)
                raise ConfigError(f"{named}: {error.message}" if index else error.message, error.hint) from None
            self._models[index] = found
        return found


class SessionModelRoute:
    """The model route of one session: the chosen model first, then its fallbacks."""

    def __init__(self, models: ModelPool, client: ClientFactory, frame: FrameFactory) -> None:
        self._models = models
        self._client = client
        self._frame = frame
        self._clients: dict[int, tuple[ModelClient, Endpoint]] = {}
        self.chosen_model: ModelChoice | None = None
        """The choice of the first model, when the user has chosen one for this session."""

    @property
    def length(self) -> int:
        """The number of models."""
        return self._models.length

    async def set_first_model(self, model: ModelConnection) -> None:
        """Use a model as the first of this session, from the next epoch on."""
        self._clients[0] = await self._client(model), model.endpoint
        self.chosen_model = model.choice
        """The choice of the first model, when the user has chosen one for this session."""

    async def candidate(self, index: int) -> ModelCandidate:
        """Return the model at this index, with the frame of an epoch with it as of now."""
        found = self._clients.get(index)
        if found is None:
            model = await self._models.open_at(index)
            found = self._clients[index] = (await self._client(model), model.endpoint)
        client, endpoint = found
        return ModelCandidate(client, self._frame(endpoint))


def model_openers(models: ModelPool, client: ClientFactory) -> list[OpenModel]:
    """Return functions that open the models for a side task, one after the other."""

    def opener_at(index: int) -> OpenModel:
        async def open_client() -> ModelClient:
            return await client(await models.open_at(index))

        return open_client

    return [opener_at(index) for index in range(models.length)]


def side_task_choices(settings: SideTaskSettings) -> tuple[ModelChoice, ...]:
    """Return the models that a side task's own settings name."""
    named: list[ModelReference | str] = []
    if settings.model or settings.default or settings.base_url or settings.provider not in ("", "auto", "main"):
        named.append(settings)
    return tuple(_model_choice(one) for one in (*named, *settings.fallback_providers))


def fallback_choices(settings: Settings, given: Sequence[ModelReference]) -> tuple[ModelChoice, ...]:
    """Return the fallback models in order: those of this run, then `fallback_providers` and `fallback_model`."""
    named = [*given, *settings.fallback_providers, *([settings.fallback_model] if settings.fallback_model else [])]
    return tuple(_model_choice(one) for one in named)


def _model_choice(one: ModelReference | str) -> ModelChoice:
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
