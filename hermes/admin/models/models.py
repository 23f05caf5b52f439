"""Show, list, test and save the model that answers."""

import asyncio
import re
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import msgspec
from msgspec import Struct, structs

from hermes.admin.config import change_settings, locate_writable_home
from hermes.admin.home_services import open_existing_store
from hermes.config.auth_file import read_entries
from hermes.config.environment import merge_dotenv
from hermes.config.home import HermesHome, locate_home
from hermes.config.load import load_settings
from hermes.config.settings import ModelSettings, Settings
from hermes.core.encoding import Plain
from hermes.core.errors import ConfigError, TransportError, UsageError
from hermes.core.frame import EpochFrame, Sampling
from hermes.core.messages import user_message
from hermes.core.outcomes import FailureKind
from hermes.core.protocols import HttpTimeouts
from hermes.core.secret import KeyHolder
from hermes.core.stream import Failure, StreamDelta
from hermes.core.usage import FREE, NANO_PER_USD, Price, Usage, compute_cost, format_amount
from hermes.i18n.messages import N_, tr
from hermes.llm.client import ModelClient, RetryLimits
from hermes.llm.context_length import find_context_length
from hermes.llm.exchange import Meter, Unmetered, find_price
from hermes.llm.lineage import Lineage
from hermes.plugins import suggest_name
from hermes.providers.model_facts import ModelFacts, read_own_row
from hermes.providers.records import KEY_VARIABLES, load_record
from hermes.providers.resolve import ModelChoice, find_known_length, list_environment_keys, resolve_endpoint
from hermes.providers.wire import Endpoint, build_request_headers, build_url, load_wire
from hermes.sessions.model.credentials import (
    Credentials,
    list_named_providers,
    load_known_record,
    with_pool_key,
    with_stored_providers,
)
from hermes.sessions.model.model_route import ModelConnection, choose_model, is_embedded, open_model
from hermes.sessions.model.spending import ProcessBudget, configured_prices
from hermes.sessions.options import SessionOptions
from hermes.util.clock import SystemClock
from hermes.util.localizable import join_localizable
from hermes.util.text import redact_url, strip_control_characters, to_one_line

LIST_SECONDS = 10.0
"""Time limit for listing the models of a server."""
CHECK_SECONDS = 3.0
"""Time limit for looking whether a server lists a model that somebody typed."""
TEST_SECONDS = 90.0
"""Time limit for one test answer; a model that is not loaded yet takes a while."""
_MAX_LIST_BYTES = 16 << 20
_MAX_MODELS = 5_000
_TEST_PROMPT = "This is a test of the connection. Answer with one word: ready"
_TEST_MAX_TOKENS = 64
_VERSION = re.compile(r"|:latest|[-@](\d{4}-?\d\d-?\d\d|latest)")
"""What a listed name may have behind the one that is typed for it."""
_SERVER_SPECIFIC_KEYS = ("base_url", "api_key", "api_mode", "context_length", "reasoning_replay")
_DEFAULTS = ModelSettings()


class ModelSelection(KeyHolder, frozen=True, kw_only=True):
    """A model choice that is not saved yet; an empty field is taken from the settings, or found."""

    model: str = ""
    provider: str = ""
    base_url: str = ""
    api_key: str = ""


class ListedModel(Struct, frozen=True):
    """A model that a server names, with its window, and its prices in dollars a million tokens, where it says them."""

    name: str
    context_length: int | None = None
    input: float | None = None
    output: float | None = None


class ModelTestResult(Struct, frozen=True):
    """The result of a test call. `cost` is in words; `problem` and `hint` are empty when it worked."""

    seconds: float
    cost: str
    said: str
    problem: str = ""
    hint: str = ""
    key_refused: bool = False
    """Whether the key is what is wrong."""


class FoundKey(Struct, frozen=True):
    """A place that holds a key of a provider: a variable, or an entry of `auth.json`. It never holds the key."""

    provider: str
    title: str
    place: str


def find_keys(environ: Mapping[str, str]) -> list[FoundKey]:
    """Find where keys are stored, in the order in which providers are preferred."""
    home = locate_home(environ)
    try:
        dotenv = merge_dotenv({}, home.env_file)
    except OSError:
        dotenv = {}
    whole = merge_dotenv(environ, home.env_file)
    stored = tuple(read_entries(home))
    found: list[FoundKey] = []
    for name in KEY_VARIABLES:
        known = load_record(name)
        for place, _ in list_environment_keys(known, whole, own_address=False):
            variable = place.partition("#")[0]
            where = ".env" if variable in dotenv and not environ.get(variable) else tr("the environment")
            found.append(FoundKey(name, known.title, tr("{variable} in {where}", variable=variable, where=where)))
        if name in stored:
            found.append(FoundKey(name, known.title, "auth.json"))
    return found


async def describe_current_model(environ: Mapping[str, str], *, ask: bool = False) -> Plain:
    """Describe the model that would answer now, and which setting selects it.

    With `ask` its server is asked for an unknown context window. Raises ConfigError when the settings lead to no model.
    """
    home, settings, whole = _load_home(environ)
    choice = with_stored_providers(choose_model(settings.model, SessionOptions()), home, settings)
    if is_embedded(choice, whole):
        why = tr("config.yaml") if settings.model.provider else tr("nothing is configured")
        return {
            "model": "smollm2-135m-instruct",
            "provider": "local",
            "title": load_record("local").title,
            "base_url": "",
            "wire": "chat_completions",
            "context_length": None,
            "price": None,
            "free": True,
            "sources": {"provider": why, "model": why},
        }
    endpoint = resolve_endpoint(choice, whole)
    window = endpoint.context_length
    if window is None and ask:
        async with _open_selection(environ, ModelSelection()) as (model, _):
            window = await find_context_length(model.endpoint, model.transport)
    price = find_price(endpoint, configured_prices(settings))
    return {
        "model": endpoint.model,
        "provider": endpoint.record.name,
        "title": endpoint.record.title,
        "base_url": redact_url(endpoint.base_url),
        "wire": endpoint.wire,
        "context_length": window,
        "price": None if price is None else {"input": price.input, "output": price.output, "as_of": price.as_of},
        "free": price == FREE,
        "sources": _setting_sources(settings.model, endpoint, whole),
    }


async def list_model_names(environ: Mapping[str, str], selection: ModelSelection) -> list[ListedModel]:
    """List the models that a provider or server names, sorted.

    Takes at most `LIST_SECONDS`. Raises ConfigError with a message that says what to do.
    """
    async with _open_selection(environ, structs.replace(selection, model=selection.model or "-")) as (model, _):
        own = _list_named_models(environ, model.endpoint)
        try:
            rows = await _request_rows(model)
        except _NoListError as error:
            if own and not isinstance(error, KeyRefusedError):
                return own
            raise
    found = {one.name: one for row in rows[:_MAX_MODELS] if (one := _parse_model(row)) is not None}
    found |= {one.name: one for one in own if one.name not in found}
    return [found[name] for name in sorted(found, key=str.lower)]


async def describe_unlisted(environ: Mapping[str, str], selection: ModelSelection) -> str:
    """Return a line about a model that its server does not list, with the nearest one that it does.

    Empty where it is listed, or the server names no models in time. A model that is not listed may work all the same.
    """
    endpoint = resolve_selection(environ, selection)
    if endpoint.record.name == "local":
        return ""
    try:
        async with asyncio.timeout(CHECK_SECONDS):
            names = [one.name for one in await list_model_names(environ, selection)]
    except (ConfigError, TimeoutError):
        return ""
    model = endpoint.model
    listed = (one.removeprefix(model) for one in names if one.startswith(model))
    if not names or model.partition(":")[0] in names or any(map(_VERSION.fullmatch, listed)):
        return ""
    return join_localizable(
        " ",
        (
            N_("{server} does not list {model}.", server=endpoint.record.title, model=model),
            suggest_name(model, names) or N_("`hermes model list` shows what it has."),
            N_("It is used all the same."),
        ),
    )


async def request_model_rows(environ: Mapping[str, str], selection: ModelSelection) -> list[object]:
    """Return the rows of a provider's own list as they are. Raises ConfigError as `list_model_names` does."""
    async with _open_selection(environ, structs.replace(selection, model=selection.model or "-")) as (model, _):
        return await _request_rows(model)


class _NoListError(ConfigError):
    """A server has no list for us."""


class KeyRefusedError(_NoListError):
    """A server does not accept the key."""


async def _request_rows(model: ModelConnection) -> list[object]:
    where = model.endpoint.record.title
    try:
        async with asyncio.timeout(LIST_SECONDS):
            status, body = await _request_model_list(model)
    except (TransportError, TimeoutError) as error:
        why = error.message if isinstance(error, TransportError) else N_("no answer in time.")
        raise _NoListError(
            N_(
                "{server} cannot be asked for its models: {why}",
                server=where,
                why=to_one_line(strip_control_characters(why), 200),
            ),
            N_("Is it running, and is the address right?"),
        ) from None
    if status in (401, 403):
        raise KeyRefusedError(N_("{server} does not accept the key.", server=where), N_("Check the key."))
    try:
        value: object = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError):
        value = None
    rows = value.get("data", value.get("models")) if isinstance(value, dict) else value
    if status != 200 or not isinstance(rows, list):
        raise _NoListError(
            N_("{server} does not say which models it has ({status}).", server=where, status=status),
            N_("Type the model's name."),
        )
    return rows


def _list_named_models(environ: Mapping[str, str], endpoint: Endpoint) -> list[ListedModel]:
    """Return the models that the settings name for this provider."""
    home, settings, _ = _load_home(environ)
    record = endpoint.record
    named = list_named_providers(home, settings)
    found = next((one for one in named if one.record.name == record.name), None)
    names = found.models if found is not None else ()
    return [ListedModel(name, find_known_length(record, name)) for name in sorted(names, key=str.lower)]


async def _request_model_list(model: ModelConnection) -> tuple[int, bytes]:
    """Request the list of models from a server; return the status and the body."""
    endpoint = model.endpoint
    base = endpoint.base_url.rstrip("/")
    versioned = endpoint.wire != "anthropic_messages" or base.endswith("/v1")
    url = build_url(base, "/models" if versioned else "/v1/models")
    headers = await build_request_headers(endpoint, model.transport, "GET", url)
    headers |= {"accept": "application/json"}
    timeouts = HttpTimeouts(connect=5.0, read=LIST_SECONDS)
    body = bytearray()
    async with model.transport.open("GET", url, headers=headers, body=b"", timeouts=timeouts) as stream:
        async for chunk in stream.chunks():
            body += chunk
            if len(body) > _MAX_LIST_BYTES:
                raise ConfigError(N_("{server} sent a list of models that is too long.", server=endpoint.record.title))
        return stream.status, bytes(body)


async def probe_model(environ: Mapping[str, str], selection: ModelSelection) -> ModelTestResult:
    """Make one small call, within the spending caps. Raises ConfigError for a choice that leads to no model."""
    home, settings, _ = _load_home(environ)
    clock = SystemClock()
    async with _open_selection(environ, selection) as (model, credentials), open_existing_store(home) as store:
        meter: Meter = Unmetered()
        if store is not None and not home.find_foreign_file():
            meter = ProcessBudget(settings, SessionOptions(), store.spending, clock).create_meter("", SessionOptions())
        keys = credentials.keys_for_endpoint(model.endpoint, model.choice)
        client = ModelClient(
            model.endpoint, model.transport, clock, keys=keys, meter=meter, limits=RetryLimits(retries=0)
        )
        began = time.monotonic()
        try:
            async with asyncio.timeout(TEST_SECONDS):
                outcome = await client.request_answer(_test_lineage(model.endpoint), _ignore_delta)
        except TimeoutError:
            outcome = Failure(kind=FailureKind.TIMEOUT, message=N_("No answer in {n} s.", n=int(TEST_SECONDS)))
        seconds = time.monotonic() - began
        price = find_price(model.endpoint, configured_prices(settings))
        paid = _format_cost(outcome.usage, price)
        if isinstance(outcome, Failure):
            message, hint = explain_failure(outcome, model.endpoint)
            refused = outcome.kind in (FailureKind.AUTH, FailureKind.AUTH_PERMANENT)
            return ModelTestResult(seconds, paid, "", message, hint, key_refused=refused)
        return ModelTestResult(seconds, paid, to_one_line(strip_control_characters(outcome.message.text), 60))


def resolve_selection(environ: Mapping[str, str], selection: ModelSelection) -> Endpoint:
    """Return the endpoint that a choice leads to. Raises ConfigError when it leads to none."""
    _, settings, whole = _load_home(environ)
    return resolve_endpoint(_model_choice(environ, settings, selection), whole)


def save_selection(environ: Mapping[str, str], selection: ModelSelection) -> list[str]:
    """Write a choice into `config.yaml` once it resolves to an endpoint; return the changed keys.

    With another provider or address, what belonged to the old one (its key, address, API format) is removed; with
    another model, the old model's window. Raises ConfigError, UsageError.
    """
    home = locate_writable_home(environ)
    settings = load_settings(home).settings
    if selection.provider.lower() != "local":
        record = resolve_selection(environ, selection)
        own = [one.record.name for one in list_named_providers(home, settings)]
        if selection.model and not selection.base_url and record.record.name in own:
            selection = structs.replace(selection, model=record.model, provider=record.record.name)
    if selection.provider:
        name = load_known_record(selection.provider, home, settings).name
        selection = structs.replace(selection, provider=name)
    before = settings.model.provider
    before = load_known_record(before, home, settings).name if before else ""
    changes, removed = _config_changes(settings.model, selection, before)
    if changes or removed:
        change_settings(home, changes, removed)
    return [".".join(path) for path in (*changes, *removed)]


def _config_changes(
    settings: ModelSettings, selection: ModelSelection, before: str
) -> tuple[dict[tuple[str, ...], object], list[tuple[str, ...]]]:
    """Return the keys that a choice writes and the keys that it removes; `before` is the provider up to now."""
    named = {
        "default": selection.model,
        "provider": selection.provider,
        "base_url": selection.base_url,
        "api_key": selection.api_key,
    }
    fresh = {name: value for name, value in named.items() if value and value != getattr(settings, name)}
    gone: tuple[str, ...] = ("context_length",) if "default" in fresh else ()
    if _is_other_server(settings, selection, before):
        gone = _SERVER_SPECIFIC_KEYS
    changed = [name for name in gone if getattr(settings, name) != getattr(_DEFAULTS, name)]
    removed: list[tuple[str, ...]] = [("model", name) for name in changed if name not in fresh]
    return {("model", name): value for name, value in fresh.items()}, removed


def _is_other_server(settings: ModelSettings, selection: ModelSelection, before: str) -> bool:
    """Return whether a choice leads to another server than the settings do."""
    moved = selection.provider not in ("", before)
    return moved or bool(selection.base_url and selection.base_url != settings.base_url)


def explain_failure(failure: Failure, endpoint: Endpoint) -> tuple[str, str]:
    """Describe a failure in one sentence, and what to do about it."""
    told = _FAILURE_TEXTS.get(failure.kind)
    names = " / ".join(endpoint.record.key_variables) or "model.api_key"
    values = {"server": endpoint.record.title, "model": endpoint.model, "key": names}
    if told is None:
        return to_one_line(strip_control_characters(failure.message), 300), failure.hint
    message, hint = told
    detail = to_one_line(strip_control_characters(failure.message), 200)
    said = tr(message, **values)
    return (f"{said} ({detail})" if detail else said), tr(hint, **values)


_KEY_HINT = N_("Check the key in {key}; `hermes auth list` shows where keys come from.")
_FAILURE_TEXTS: dict[FailureKind, tuple[str, str]] = {
    FailureKind.AUTH: (N_("{server} does not accept the key."), _KEY_HINT),
    FailureKind.AUTH_PERMANENT: (N_("{server} says that the key is revoked."), _KEY_HINT),
    FailureKind.BILLING: (
        N_("{server} says that the account has no credit."),
        N_("Add credit there, or choose another provider."),
    ),
    FailureKind.RATE_LIMIT: (
        N_("{server} limits how much is asked for now."),
        N_("Wait a little and try again."),
    ),
    FailureKind.MODEL_NOT_FOUND: (
        N_("{server} does not know the model {model}."),
        N_("`hermes model --list` shows those it has."),
    ),
    FailureKind.UNREACHABLE: (
        N_("{server} cannot be reached."),
        N_("Is it running, is the address right, and is this machine online?"),
    ),
    FailureKind.TLS: (
        N_("The certificate of {server} is not trusted."),
        N_("Behind a company's proxy set `model.ca_bundle` to its certificates."),
    ),
    FailureKind.TIMEOUT: (N_("{server} took too long."), N_("Try again; a local model may still be loading.")),
    FailureKind.OVERLOADED: (N_("{server} is overloaded."), N_("Try again in a minute.")),
    FailureKind.BAD_RESPONSE: (
        N_("The server at this address is not a model server of this kind."),
        N_("Check the base URL; it usually ends in /v1. `model.api_mode` sets the API format."),
    ),
}


def _load_home(environ: Mapping[str, str]) -> tuple[HermesHome, Settings, dict[str, str]]:
    home = locate_home(environ)
    home.check_usable()
    return home, load_settings(home).settings, merge_dotenv(environ, home.env_file)


def _model_choice(environ: Mapping[str, str], settings: Settings, selection: ModelSelection) -> ModelChoice:
    home = locate_home(environ)
    options = SessionOptions(
        model=selection.model, provider=selection.provider, base_url=selection.base_url, api_key=selection.api_key
    )
    chosen = settings.model
    if selection.model not in ("", chosen.default):
        chosen = structs.replace(chosen, context_length=None)
    return with_stored_providers(choose_model(chosen, options), home, settings)


@asynccontextmanager
async def _open_selection(
    environ: Mapping[str, str], selection: ModelSelection
) -> AsyncIterator[tuple[ModelConnection, Credentials]]:
    """Open the model of a choice, with a key in it; also yields the credentials that the key came from."""
    home, settings, whole = _load_home(environ)
    choice = _model_choice(environ, settings, selection)
    credentials = Credentials(home, environ, settings, SystemClock())
    async with open_model(choice, whole, ca_file=settings.model.ca_bundle) as model:
        endpoint = await with_pool_key(model.endpoint, credentials.keys_for_endpoint(model.endpoint, choice))
        yield structs.replace(model, endpoint=endpoint), credentials


def _parse_model(row: object) -> ListedModel | None:
    name = (row.get("id") or row.get("name")) if isinstance(row, dict) else None
    if not isinstance(row, dict) or not isinstance(name, str) or not name:
        return None
    _, facts = read_own_row({**row, "id": "-"}) or ("", ModelFacts())
    name = to_one_line(strip_control_characters(name), 200).removeprefix("models/")
    price = facts.price
    return ListedModel(name, facts.context_length, price.input if price else None, price.output if price else None)


def _test_lineage(endpoint: Endpoint) -> Lineage:
    known = endpoint.record
    frame = EpochFrame(
        provider=known.name,
        model=endpoint.model,
        wire=endpoint.wire,
        encoder_version=load_wire(endpoint.wire).version,
        system=known.prompt,
        sampling=Sampling(max_tokens=_TEST_MAX_TOKENS),
    )
    lineage = Lineage(frame, endpoint)
    lineage.append_messages((user_message(_TEST_PROMPT),))
    return lineage


async def _ignore_delta(_delta: StreamDelta | object) -> None:
    """Ignore the test's answer while it is streamed."""


def _format_cost(usage: Usage | None, price: Price | None) -> str:
    """Describe in words what the call cost."""
    if price == FREE:
        return tr("nothing")
    if usage is not None and usage.cost_usd is not None:
        return format_amount(round(usage.cost_usd * NANO_PER_USD))
    if usage is None or price is None:
        return tr("unknown: this model has no known price")
    return format_amount(compute_cost(usage, price))


def _setting_sources(settings: ModelSettings, endpoint: Endpoint, environ: Mapping[str, str]) -> Plain:
    """Name the settings that select the provider, the model and the key."""
    file = "config.yaml"
    by_key = next((place for place, _ in list_environment_keys(endpoint.record, environ, own_address=True)), "")
    if settings.provider:
        provider = f"{file} (model.provider)"
    elif settings.base_url:
        provider = f"{file} (model.base_url)"
    elif endpoint.record.name == "custom" and environ.get("OPENAI_BASE_URL"):
        provider = "OPENAI_BASE_URL"
    else:
        provider = by_key or "auth.json"
    key = (
        f"{file} (model.api_key)"
        if settings.api_key
        else f"{file} (providers.{endpoint.record.name})"
        if endpoint.key_given
        else by_key or (tr("kept in auth.json") if endpoint.api_key else tr("none needed"))
    )
    model = f"{file} (model.default)" if settings.default else tr("the provider's own choice")
    return {"provider": provider, "model": model, "key": key}


def check_key(text: str) -> None:
    """Raise UsageError for a text that cannot be a key, ConfigError for a token of a refused login."""
    from hermes.providers.records import check_refused_key, is_valid_key

    check_refused_key(text)
    if not text:
        raise UsageError(N_("No key was given."))
    if not is_valid_key(text):
        raise UsageError(N_("What was given holds a space, a line break or a typographic sign, which no key does."))
