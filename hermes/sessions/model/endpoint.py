"""Opens the model that answers: the chosen one, or the embedded one when nothing is configured."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from msgspec import Struct

from hermes.config.environment import merge_dotenv
from hermes.config.home import locate_home
from hermes.config.load import load_settings
from hermes.config.settings import ModelSettings
from hermes.core.protocols import HttpTransport
from hermes.providers.http import create_http_transport
from hermes.providers.records import load_record
from hermes.providers.resolve import ModelChoice, is_configured, resolve_endpoint
from hermes.providers.wire import Endpoint
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
    base = ModelSettings(default=settings.default) if elsewhere else settings
    return ModelChoice(
        model=options.model or base.default,
        provider=options.provider or base.provider,
        base_url=options.base_url or base.base_url,
        api_key=options.api_key or ("" if options.credential_pool else base.api_key),
        more_keys=options.credential_pool,
        api_mode=options.api_mode or base.api_mode,
        context_length=options.context_length or base.context_length,
    )


def is_nothing_configured(options: SessionOptions, environ: Mapping[str, str]) -> bool:
    """Return whether neither the command line, nor the settings, nor any key says which model to use."""
    home = locate_home(environ)
    choice = with_stored_providers(choose_model(load_settings(home).settings.model, options), home)
    return not is_configured(choice, merge_dotenv(environ, home.env_file))
