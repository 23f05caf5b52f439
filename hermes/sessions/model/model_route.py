"""The models of a session: the chosen one, or the embedded one when nothing is configured, and the fallback models
(`fallback_providers`); each is opened when its turn comes.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager

from msgspec import Struct

from hermes.config.environment import merge_dotenv
from hermes.config.home import locate_home
from hermes.config.load import load_settings
from hermes.config.settings import ModelReference, ModelSettings, Settings, SideTaskSettings
from hermes.core.errors import ConfigError
from hermes.core.frame import EpochFrame
from hermes.core.protocols import HttpTransport
from hermes.i18n.messages import N_
from hermes.llm.client import ModelClient, OpenModel
from hermes.providers.http import create_http_transport
from hermes.providers.records import load_record
from hermes.providers.resolve import ModelChoice, is_configured, resolve_endpoint
from hermes.providers.wire import Endpoint
from hermes.runtime.epochs import ModelCandidate
from hermes.sessions.model.credentials import with_stored_providers
from hermes.sessions.options import SessionOptions

LOCAL_NOTICE = (
    "No model is configured, so the small embedded one answers (SmolLM2, 135 million parameters). It shows that "
    "everything works; it has no tools, knows English only and is often wrong. For real work: hermes setup. "
    "未配置模型:由内置小模型回答(只懂英文,没有工具,常会答错)。"
)


class ModelConnection(Struct, frozen=True):
    """A model that can be called: its endpoint, its transport, and a notice to show first."""

    endpoint: Endpoint
    transport: HttpTransport
    notice: str = ""
    choice: ModelChoice = ModelChoice()
    """The choice that it was resolved from; it decides which keys are used."""


def is_embedded(choice: ModelChoice, environ: Mapping[str, str]) -> bool:
    """Return whether the embedded model answers: it was asked for by name, or nothing else is configured."""
    return choice.provider == "local" or not is_configured(choice, environ)


def open_model(
    choice: ModelChoice, environ: Mapping[str, str], *, ca_file: str
) -> AbstractAsyncContextManager[ModelConnection]:
    """Open a model as a context that closes its connections. Raises ConfigError at once for wrong settings."""
    if is_embedded(choice, environ):
        return _open_embedded(named=choice.provider == "local")
    return _open_remote(choice, resolve_endpoint(choice, environ), create_http_transport(environ, ca_file=ca_file))


@asynccontextmanager
async def _open_remote(
    choice: ModelChoice, endpoint: Endpoint, transport: HttpTransport
) -> AsyncIterator[ModelConnection]:
    try:
        yield ModelConnection(endpoint=endpoint, transport=transport, choice=choice)
    finally:
        await transport.close()


@asynccontextmanager
async def _open_embedded(*, named: bool) -> AsyncIterator[ModelConnection]:
    from hermes.providers.embedded import CONTEXT_LENGTH, serve_embedded_model

    async with serve_embedded_model() as served:
        transport = create_http_transport({}, uds=served.socket)
        try:
            yield ModelConnection(
                endpoint=Endpoint(
                    record=load_record("local"),
                    model="smollm2-135m-instruct",
                    base_url="http://embedded/v1",
                    api_key=served.key,
                    wire="chat_completions",
                    context_length=CONTEXT_LENGTH,
                ),
                transport=transport,
                notice="" if named else LOCAL_NOTICE,
            )
        finally:
            await transport.close()


def choose_model(settings: ModelSettings, options: SessionOptions) -> ModelChoice:
    """Return the model that the settings choose, overridden by the options of this run.

    A provider or an address given for this run does not inherit the key, address and API format of the configured one.
    """
    elsewhere = bool(options.base_url) or options.provider not in ("", settings.provider)
    base = ModelSettings() if elsewhere else settings
    return ModelChoice(
        model=options.model or base.default,
        spare_model=settings.default,
        provider=options.provider or base.provider,
        base_url=options.base_url or base.base_url,
        api_key=options.api_key or ("" if options.credential_pool else base.api_key),
        more_keys=options.credential_pool,
        key_organisations=options.key_organisations,
        api_mode=options.api_mode or base.api_mode,
        context_length=options.context_length or base.context_length,
        request_members=options.request_members,
        reasoning_replay="" if base.reasoning_replay == "auto" else base.reasoning_replay,
        prefix_decides=_names_model_only(options),
    )


def _names_model_only(options: SessionOptions) -> bool:
    return bool(options.model) and not (options.provider or options.base_url)


def is_nothing_configured(options: SessionOptions, environ: Mapping[str, str]) -> bool:
    """Return whether neither the command line, nor the settings, nor any key says which model to use."""
    home = locate_home(environ)
    settings = load_settings(home, ignored=options.ignore_config).settings
    choice = with_stored_providers(choose_model(settings.model, options), home, settings)
    return not is_configured(choice, merge_dotenv(environ, home.env_file))


def has_embedded_model() -> bool:
    """Return whether the small embedded model is installed."""
    from hermes.providers.embedded import find_embedded_model

    return find_embedded_model() is not None


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
        self.length = len(self._choices)
        """The number of models."""

    async def open_at(self, index: int) -> ModelConnection:
        """Open the model at this index, once. Raises ConfigError when it cannot be used as it is configured."""
        found = self._models.get(index)
        if found is None:
            choice = self._choices[index]
            try:
                found = await self._stack.enter_async_context(self._open(choice))
            except ConfigError as error:
                named = " ".join(one for one in (choice.provider, choice.model) if one)
                raise ConfigError(
                    N_("{named}: {message}", named=named, message=error.message) if index else error.message, error.hint
                ) from None
            self._models[index] = found
        return found


class SessionModelRoute:
    """The model route of one session: the chosen model first, then its fallbacks."""

    def __init__(self, models: ModelPool, client: ClientFactory, frame: FrameFactory) -> None:
        self._models = models
        self.length = models.length
        """The number of models."""
        self._client = client
        self._frame = frame
        self._clients: dict[int, tuple[ModelClient, Endpoint]] = {}
        self.chosen_model: ModelChoice | None = None
        """The choice of the first model, when the user has chosen one for this session."""

    async def set_first_model(self, model: ModelConnection) -> None:
        """Use a model as the first of this session, from the next epoch on."""
        self._clients[0] = await self._client(model), model.endpoint
        self.chosen_model = model.choice

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
    return tuple(make_model_choice(one) for one in (*named, *settings.fallback_providers))


def fallback_choices(settings: Settings, given: Sequence[ModelReference]) -> tuple[ModelChoice, ...]:
    """Return the fallback models in order: those of this run, then `fallback_providers` and `fallback_model`."""
    named = [*given, *settings.fallback_providers, *([settings.fallback_model] if settings.fallback_model else [])]
    return tuple(make_model_choice(one) for one in named)


def make_model_choice(one: ModelReference | str) -> ModelChoice:
    """Return the choice of a model that the settings name."""
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
