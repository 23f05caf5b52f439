"""The models that may answer: the person's choice, and those that stand in for it (`fallback_providers`)."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack

from hermes.config.settings import ModelReference, Settings, SideTaskSettings
from hermes.core.errors import ConfigError
from hermes.core.frame import EpochFrame
from hermes.llm.auxiliary import OpenModel
from hermes.llm.client import ModelClient
from hermes.providers.resolve import ModelChoice
from hermes.providers.wire import Endpoint
from hermes.runtime.epochs import Candidate
from hermes.sessions.model.endpoint import Model

Frame = Callable[[Endpoint], EpochFrame]
Open = Callable[[ModelChoice], AbstractAsyncContextManager[Model]]
ClientFor = Callable[[Model], Awaitable[ModelClient]]


class Models:
    """The models of a process, each opened when it is first needed; closed with `stack`."""

    def __init__(self, choices: Sequence[ModelChoice], opened: Open, stack: AsyncExitStack) -> None:
        self._choices = tuple(choices)
        self._open = opened
        self._stack = stack
        self._models: dict[int, Model] = {}

    @property
    def length(self) -> int:
        """How many there are."""
        return len(self._choices)

    async def at(self, index: int) -> Model:
        """The model at this place. Raises ConfigError when it cannot be used as it is configured."""
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


class SessionRoute:
    """The `Route` of one session."""

    def __init__(self, models: Models, client: ClientFor, frame: Frame) -> None:
        self._models = models
        self._client = client
        self._frame = frame
        self._clients: dict[int, tuple[ModelClient, Endpoint]] = {}
        self.leader: ModelChoice | None = None
        """What the first model was chosen by, when the person has chosen one for this session."""

    @property
    def length(self) -> int:
        """How many models there are."""
        return self._models.length

    async def lead(self, model: Model) -> None:
        """Let a model be the first of this session, from the next epoch on."""
        self._clients[0] = await self._client(model), model.endpoint
        self.leader = model.choice

    async def candidate(self, index: int) -> Candidate:
        """The model at this place, with what an epoch with it is made of as of now."""
        found = self._clients.get(index)
        if found is None:
            model = await self._models.at(index)
            found = self._clients[index] = (await self._client(model), model.endpoint)
        client, endpoint = found
        return Candidate(client, self._frame(endpoint))


def openers(models: Models, client: ClientFor) -> list[OpenModel]:
    """How the models are asked for a side task, one after the other."""

    def opening(index: int) -> OpenModel:
        async def opened() -> ModelClient:
            return await client(await models.at(index))

        return opened

    return [opening(index) for index in range(models.length)]


def side_choices(settings: SideTaskSettings) -> tuple[ModelChoice, ...]:
    """The models that a side task's own settings name."""
    named: list[ModelReference | str] = []
    if settings.model or settings.default or settings.base_url or settings.provider not in ("", "auto", "main"):
        named.append(settings)
    return tuple(_choice(one) for one in (*named, *settings.fallback_providers))


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
