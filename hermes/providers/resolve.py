"""Resolves the user's choice of a model to an endpoint that can be called."""

from collections.abc import Iterator, Mapping
from typing import Protocol
from urllib.parse import urlsplit

import msgspec
from msgspec import structs

from hermes.core.encoding import to_json
from hermes.core.errors import ConfigError
from hermes.core.secret import KeyHolder
from hermes.i18n.messages import N_
from hermes.providers.records import (
    ALIASES,
    HOSTS,
    KEY_VARIABLES,
    LOCAL_PORTS,
    SIGN_IN_ONLY,
    find_host_owner,
    is_valid_key,
    list_provider_names,
    list_variable_keys,
    load_record,
)
from hermes.providers.wire import (
    Endpoint,
    ProviderRecord,
    find_by_name,
    load_cloud,
    matches_model,
    resolve_wire_name,
)
from hermes.util.hosts import is_loopback
from hermes.util.text import compile_late, redact_url

_REFERENCE = compile_late(r"\$(?:\{([A-Za-z_][A-Za-z0-9_]*)\}|([A-Za-z_][A-Za-z0-9_]*))")


class ModelChoice(KeyHolder, frozen=True):
    """What a user (or a session, or an option) says about the model; an empty field is resolved."""

    model: str = ""
    provider: str = ""
    base_url: str = ""
    api_key: str = ""
    api_mode: str = ""
    context_length: int | None = None
    more_keys: tuple[str, ...] = ()
    """Keys beside `api_key` that a program hands in."""
    key_organisations: tuple[str, ...] = ()
    """The organisations of `more_keys`, in the same order; empty ones are unknown."""
    cache_ttl: str = ""
    """How long marked prompts are to be kept (`5m`, `1h`); empty: no cache marks are sent."""
    request_members: bytes = b""
    """What is added to every request, as the inside of a JSON object; it replaces what the provider's record adds."""
    reasoning_replay: str = ""
    """Whether earlier reasoning is sent back: `on`, `off` or a field of chat messages; empty: as the record says."""
    stored: tuple[str, ...] = ()
    """Providers that the home holds keys for, beside the environment's."""
    named: "NamedProviderChooser | None" = None
    """Chooses among the providers that the settings name; None where they name none."""
    refreshed: "RecordRefresher | None" = None
    """Knows the windows and prices that were taken over from a list; None where none were."""
    spare_model: str = ""
    """The model where neither `model` nor the provider names one."""
    prefix_decides: bool = False
    """Whether the model was named without a provider for this run, so that a named provider before it goes first."""


class RecordRefresher(Protocol):
    """Knows windows and prices that were taken over from a list."""

    def refresh_record(self, record: ProviderRecord) -> ProviderRecord:
        """Return the record with them in the place of its own."""
        ...


class NamedProviderChooser(Protocol):
    """Knows the providers that the settings name."""

    def choose_provider(
        self, choice: ModelChoice, environ: Mapping[str, str]
    ) -> tuple[ModelChoice, ProviderRecord | None]:
        """Return the provider that a choice means, or None, and the choice with what the settings say of it."""
        ...


def is_configured(choice: ModelChoice, environ: Mapping[str, str]) -> bool:
    """Return whether anything says which model to use: a setting, an address, or a key in the environment."""
    named = choice.model or choice.provider or choice.base_url
    return bool(named or _provider_by_key(choice, environ) or _read_base_url_variable(environ))


def resolve_endpoint(choice: ModelChoice, environ: Mapping[str, str]) -> Endpoint:
    """Resolve a choice to an endpoint.

    The provider is the one that is named; else the one that owns the address; else the one that a `provider/model` name
    begins with, if its key is there; else the first of `records.KEY_VARIABLES` with a key. The API format is the one
    that is named; else what the address says; else the provider's. Raises `ConfigError`, never with a key in it.
    """
    choice, found = _find_record(choice, environ)
    found = _add_request_members(found, choice.request_members)
    base_url = _resolve_base_url(choice, found, environ)
    if found.name == "custom":
        found = structs.replace(found, title=N_("The server at {format_host}", format_host=_format_host(base_url)))
    found = _choose_replay(choice.reasoning_replay, found)
    model = _resolve_model(choice, found)
    wire = _choose_wire(choice, found, base_url, model)
    signer = None
    if found.cloud:
        cloud = load_cloud(found.cloud)
        base_url = cloud.resolve_address(base_url, model, wire, environ)
        signer = cloud.create_signer(base_url, environ)
    return Endpoint(
        record=found,
        model=model,
        base_url=_strip_version(base_url) if wire == "anthropic_messages" else base_url,
        api_key=_resolve_key(
            choice, found, base_url, environ, required=found.key_required and not (signer and signer.has_credentials)
        ),
        wire=wire,
        context_length=choice.context_length or find_known_length(found, model),
        reasoning_replay=choice.reasoning_replay,
        key_given=bool(choice.api_key),
        signer=signer,
        cache_ttl=choice.cache_ttl if matches_model(model, found.quirks.cache_marks) and wire != "responses" else "",
    )


def _find_record(choice: ModelChoice, environ: Mapping[str, str]) -> tuple[ModelChoice, ProviderRecord]:
    """Return the record, and the choice with what the settings say of a provider that they name."""
    if choice.named is not None:
        choice, named = choice.named.choose_provider(choice, environ)
        if named is not None:
            return choice, named
    found = _choose_provider(choice, environ)
    if choice.named is not None and not choice.provider and not choice.base_url:
        # What the settings say of a provider holds for one that its key, or a sign-in, has chosen, too.
        changed, named = choice.named.choose_provider(structs.replace(choice, provider=found.name), environ)
        if named is not None:
            return changed, named
    return choice, found if choice.refreshed is None else choice.refreshed.refresh_record(found)


def _add_request_members(found: ProviderRecord, members: bytes) -> ProviderRecord:
    """Return the record with these members in every request, beside its own of other names."""
    if not members:
        return found
    own, given = (
        msgspec.json.decode(b"{%b}" % one, type=dict[str, msgspec.Raw]) for one in (found.quirks.extra_body, members)
    )
    return structs.replace(found, quirks=structs.replace(found.quirks, extra_body=to_json(own | given)[1:-1]))


def find_known_length(found: ProviderRecord, model: str) -> int | None:
    """Return the record's own word on a model's window: by its name, else by the longest prefix; None when
    it has none.
    """
    return find_by_name(found.context_lengths, model)


def _choose_provider(choice: ModelChoice, environ: Mapping[str, str]) -> ProviderRecord:
    if choice.provider and choice.provider.lower() != "auto":
        return load_record(choice.provider)
    if choice.base_url:
        return _provider_by_address(choice.base_url)
    named = _provider_by_prefix(choice, environ)
    if named is not None:
        return named
    if _read_base_url_variable(environ):
        return load_record("custom")
    keyed = _provider_by_key(choice, environ)
    if keyed is None:
        raise ConfigError(
            "No model provider is configured.",
            "`hermes setup` helps; or set OPENROUTER_API_KEY (or another provider's key), or `model.provider` and "
            "`model.base_url`.",
        )
    return keyed


def _provider_by_address(base_url: str) -> ProviderRecord:
    """Return the provider whose host the address has; loopback servers are told apart by their usual port."""
    host, port = _split_address(base_url)
    name = LOCAL_PORTS.get(port or 80) if is_loopback(host) else find_host_owner(host)
    return load_record(name or "custom")


def _format_host(base_url: str) -> str:
    """Return host and port, as an error message names a server of the user's own."""
    host, port = _split_address(base_url)
    return f"{host}:{port}" if port else host


def _split_address(url: str) -> tuple[str, int | None]:
    try:
        parts = urlsplit(url.strip())
        host, port = (parts.hostname or "").lower(), parts.port
    except ValueError:
        host, port, parts = "", None, urlsplit("")
    if parts.scheme not in ("http", "https") or not host:
        raise ConfigError(
            N_("`{redact_url}` is not an http or https address.", redact_url=redact_url(url)), "Check `model.base_url`."
        )
    return host, port


def _provider_by_prefix(choice: ModelChoice, environ: Mapping[str, str]) -> ProviderRecord | None:
    """Return the provider that `provider/model` names, if it can be used; OpenRouter's names look the same and go
    there.
    """
    prefix, _, rest = choice.model.partition("/")
    if not rest:
        return None
    name = ALIASES.get(prefix.lower(), prefix.lower())
    if name not in list_provider_names():
        return None
    found = load_record(name)
    keyed = name in choice.stored or any(list_environment_keys(found, environ))
    return found if keyed or not found.key_required else None


def _provider_by_key(choice: ModelChoice, environ: Mapping[str, str]) -> ProviderRecord | None:
    """Return the first provider with a key in the environment, else the first with one, or a sign-in, in the home."""
    name = next((name for name, keys in KEY_VARIABLES.items() if any(list_variable_keys(keys, environ))), None)
    name = name or next((name for name in (*KEY_VARIABLES, *SIGN_IN_ONLY) if name in choice.stored), None)
    return load_record(name) if name else None


def _read_base_url_variable(environ: Mapping[str, str]) -> str:
    """Return OPENAI_BASE_URL, by which many guides point every tool at one server."""
    return environ.get("OPENAI_BASE_URL", "").strip()


def _resolve_base_url(choice: ModelChoice, found: ProviderRecord, environ: Mapping[str, str]) -> str:
    variable = environ.get(found.base_url_variable, "").strip() if found.base_url_variable else ""
    base_url = (choice.base_url or variable or found.base_url).strip().rstrip("/")
    if not base_url:
        if found.name == "local" or found.cloud:
            return ""
        raise ConfigError(N_("The provider `{name}` needs an address.", name=found.name), "Set `model.base_url`.")
    _split_address(base_url)
    return base_url


def _choose_wire(choice: ModelChoice, found: ProviderRecord, base_url: str, model: str) -> str:
    if choice.api_mode:
        return resolve_wire_name(choice.api_mode)
    if found.cloud:
        return _choose_cloud_wire(found, base_url, model)
    if choice.base_url or not found.wire or found.name == "custom":
        host, path = _split_address(base_url)[0], urlsplit(base_url).path.rstrip("/")
        if host == "api.anthropic.com" or path.endswith("/anthropic"):
            return "anthropic_messages"
        if path.endswith("/codex"):
            return "responses"
        if found.wire == "responses" and HOSTS.get(host) != found.name:
            return "chat_completions"
    return _find_model_wire(found, model) or "chat_completions"


def _find_model_wire(found: ProviderRecord, model: str) -> str:
    """Return the API format of a model: its own, else the provider's."""
    return next((wire for pattern, wire in found.wires.items() if matches_model(model, (pattern,))), found.wire)


def _choose_cloud_wire(found: ProviderRecord, base_url: str, model: str) -> str:
    if base_url.rstrip("/").endswith("/anthropic"):
        return "anthropic_messages"
    return _find_model_wire(found, model)


def _choose_replay(wanted: str, found: ProviderRecord) -> ProviderRecord:
    """Return the record with the person's word on whether, and in which field, earlier reasoning is sent back."""
    if not wanted:
        return found
    quirks = structs.replace(found.quirks, reasoning_replay=wanted != "off")
    if wanted not in ("on", "off"):
        quirks = structs.replace(quirks, reasoning_field=wanted)
    return structs.replace(found, quirks=quirks)


def _strip_version(base_url: str) -> str:
    """Return the address without the version, with which the Anthropic format's own path begins."""
    return base_url.removesuffix("/v1")


def _resolve_model(choice: ModelChoice, found: ProviderRecord) -> str:
    """Return the model's name as this provider knows it: without the prefix that only names the provider."""
    model = next(filter(None, (choice.model.strip(), found.default_model, choice.spare_model.strip())), "")
    if not model:
        raise ConfigError(
            N_("No model is named for {title}.", title=found.title), "Set `model.default` or give `-m MODEL`."
        )
    quirks = found.quirks
    if quirks.native_prefix and model.startswith(quirks.native_prefix):
        return model.removeprefix(quirks.native_prefix)
    prefix, _, rest = model.partition("/")
    if not rest or ALIASES.get(prefix.lower(), prefix.lower()) != found.name:
        return model
    # `groq/compound` and `openrouter/auto` are names of their own; `openrouter/vendor/model` is not.
    found_by_prefix = not choice.provider and not choice.base_url and found.name != "openrouter"
    return rest if not quirks.vendor_names or "/" in rest or found_by_prefix else model


def list_environment_keys(
    found: ProviderRecord, environ: Mapping[str, str], *, own_address: bool = True
) -> Iterator[tuple[str, str]]:
    """Yield the provider's keys in the environment, each with its variable's name, in order of preference.

    One that belongs to the environment's address only goes there: `own_address` says whether that is where it goes.
    """
    return list_variable_keys((*found.key_variables, *(found.address_keys if own_address else ())), environ)


def is_own_address(choice: ModelChoice, environ: Mapping[str, str]) -> bool:
    """Return whether the call goes to the address that the environment or the provider's record names."""
    return not choice.base_url or choice.base_url.strip().rstrip("/") == _read_base_url_variable(environ).rstrip("/")


def _resolve_key(
    choice: ModelChoice, found: ProviderRecord, base_url: str, environ: Mapping[str, str], *, required: bool
) -> str:
    """Return the key, or the first of several; empty where none is needed or the home holds it."""
    given = next((key for key in (choice.api_key.strip(), *choice.more_keys) if key), "")
    own = list_environment_keys(found, environ, own_address=is_own_address(choice, environ))
    key = _resolve_reference(given, environ) if given else next((key for _, key in own), "")
    if not key:
        if not required or found.name in choice.stored or is_loopback(_split_address(base_url)[0]):
            return ""
        if found.sign_in:
            raise ConfigError(
                N_("You are not signed in to {title}.", title=found.title),
                N_("`hermes auth login {name}` signs you in.", name=found.sign_in),
            )
        names = " or ".join((*found.key_variables, *found.credential_variables))
        raise ConfigError(
            N_("No API key for {title}.", title=found.title),
            N_("Set {names}, or `model.api_key`. `hermes auth add {name}` keeps one.", names=names, name=found.name),
        )
    if not is_valid_key(key):
        raise ConfigError(
            N_(
                "The API key for {title} holds a space, a line break or a typographic sign, which no key does.",
                title=found.title,
            ),
            N_("Check {key_variables}.", key_variables=" or ".join([*found.key_variables, "`model.api_key`"])),
        )
    return key


def _resolve_reference(value: str, environ: Mapping[str, str]) -> str:
    """Return the key, or the value of the variable when it is given as `${VARIABLE}` or `$VARIABLE`."""
    match = _REFERENCE.fullmatch(value)
    if match is None:
        return value
    name = match[1] or match[2]
    key = environ.get(name, "").strip()
    if not key:
        raise ConfigError(
            N_("`model.api_key` names the variable {name}, which is not set.", name=name), N_("Set {name}.", name=name)
        )
    return key
