"""From what the person chose to an endpoint that can be called (rows AM-04 and EP-19 of the feature list)."""

import re
from collections.abc import Mapping
from urllib.parse import urlsplit

from msgspec import Struct

from hermes.core.errors import ConfigError
from hermes.providers.proxies import is_loopback
from hermes.providers.records import ALIASES, HOSTS, KEYS, LOCAL_PORTS, provider_names, record
from hermes.providers.wire import Endpoint, ProviderRecord
from hermes.providers.wires import wire_name

_REFERENCE = re.compile(r"\$(?:\{([A-Za-z_][A-Za-z0-9_]*)\}|([A-Za-z_][A-Za-z0-9_]*))")
_KEY_CHARACTERS = re.compile(r"[!-~]+")


class ModelChoice(Struct, frozen=True):
    """What a person (or a session, or an option) says about the model; empty means: find it."""

    model: str = ""
    provider: str = ""
    base_url: str = ""
    api_key: str = ""
    api_mode: str = ""
    context_length: int | None = None


def configured(choice: ModelChoice, environ: Mapping[str, str]) -> bool:
    """Whether anything says which model to use: a setting, an address, or a key in the environment."""
    return bool(choice.model or choice.provider or choice.base_url or _by_key(environ) or _variable_url(environ))


def resolve(choice: ModelChoice, environ: Mapping[str, str]) -> Endpoint:
    """The endpoint of a choice.

    The provider is the one that is named; else the one that owns the address; else the one that a `provider/model`
    name begins with, if its key is there; else the first of `records.KEYS` with a key. The wire is the one that is
    named; else what the address says; else the provider's. Raises `ConfigError`, never with a key in it.
    """
    found = _provider(choice, environ)
    base_url = _base_url(choice, found, environ)
    wire = _wire(choice, found, base_url)
    model = _model(choice, found)
    return Endpoint(
        record=found,
        model=model,
        base_url=_without_version(base_url) if wire == "anthropic_messages" else base_url,
        api_key=_key(choice, found, base_url, environ),
        wire=wire,
        context_length=choice.context_length or known_length(found, model),
    )


def known_length(found: ProviderRecord, model: str) -> int | None:
    """The record's own word on a model's window: by its name, else by the longest prefix; None when it has none."""
    lengths = found.context_lengths
    if model in lengths:
        return lengths[model]
    prefixes = [name for name in lengths if name.endswith("*") and model.startswith(name[:-1])]
    return lengths[max(prefixes, key=len)] if prefixes else None


def _provider(choice: ModelChoice, environ: Mapping[str, str]) -> ProviderRecord:
    if choice.provider and choice.provider.lower() != "auto":
        return record(choice.provider)
    if choice.base_url:
        return _by_address(choice.base_url)
    named = _by_prefix(choice.model, environ)
    if named is not None:
        return named
    if _variable_url(environ):
        return record("custom")
    keyed = _by_key(environ)
    if keyed is None:
        raise ConfigError(
            "No model provider is configured.",
            "Set OPENROUTER_API_KEY (or another provider's key), or `model.provider` and `model.base_url`.",
        )
    return keyed


def _by_address(base_url: str) -> ProviderRecord:
    """The provider whose host the address has; loopback servers are told apart by their usual port."""
    host, port = _split(base_url)
    name = LOCAL_PORTS.get(port or 80) if is_loopback(host) else HOSTS.get(host)
    return record(name or "custom")


def _split(url: str) -> tuple[str, int | None]:
    try:
        parts = urlsplit(url.strip())
        host, port = (parts.hostname or "").lower(), parts.port
    except ValueError:
        host, port, parts = "", None, urlsplit("")
    if parts.scheme not in ("http", "https") or not host:
        raise ConfigError(f"`{url}` is not an http or https address.", "Check `model.base_url`.")
    return host, port


def _by_prefix(model: str, environ: Mapping[str, str]) -> ProviderRecord | None:
    """The provider that `provider/model` names, if it can be used; OpenRouter's names look the same and go there."""
    prefix, _, rest = model.partition("/")
    if not rest:
        return None
    name = ALIASES.get(prefix.lower(), prefix.lower())
    if name not in provider_names():
        return None
    found = record(name)
    return found if _environment_key(found, environ) or not found.key_required else None


def _by_key(environ: Mapping[str, str]) -> ProviderRecord | None:
    name = next((name for name, keys in KEYS.items() if any(environ.get(key, "").strip() for key in keys)), None)
    return record(name) if name else None


def _variable_url(environ: Mapping[str, str]) -> str:
    """OPENAI_BASE_URL, by which many guides point every tool at one server."""
    return environ.get("OPENAI_BASE_URL", "").strip()


def _base_url(choice: ModelChoice, found: ProviderRecord, environ: Mapping[str, str]) -> str:
    variable = environ.get(found.base_url_variable, "").strip() if found.base_url_variable else ""
    base_url = (choice.base_url or variable or found.base_url).strip().rstrip("/")
    if not base_url:
        if found.name == "local":
            return ""
        raise ConfigError(f"The provider `{found.name}` needs an address.", "Set `model.base_url`.")
    _split(base_url)
    return base_url


def _wire(choice: ModelChoice, found: ProviderRecord, base_url: str) -> str:
    if choice.api_mode:
        return wire_name(choice.api_mode)
    if choice.base_url or found.name == "custom":
        host, path = _split(base_url)[0], urlsplit(base_url).path.rstrip("/")
        if host == "api.anthropic.com" or path.endswith("/anthropic"):
            return "anthropic_messages"
        if path.endswith("/codex"):
            return "responses"
        if found.wire == "responses" and HOSTS.get(host) != found.name:
            return "chat_completions"
    return found.wire


def _without_version(base_url: str) -> str:
    """The Anthropic wire's own path begins with the version."""
    return base_url.removesuffix("/v1")


def _model(choice: ModelChoice, found: ProviderRecord) -> str:
    """The model's name as this provider knows it: without the prefix that only names the provider."""
    model = choice.model.strip() or found.default_model
    if not model:
        raise ConfigError(f"No model is named for {found.title}.", "Set `model.default` or give `-m MODEL`.")
    quirks = found.quirks
    if quirks.native_prefix and model.startswith(quirks.native_prefix):
        return model.removeprefix(quirks.native_prefix)
    prefix, _, rest = model.partition("/")
    if not rest or ALIASES.get(prefix.lower(), prefix.lower()) != found.name:
        return model
    # `groq/compound` and `openrouter/auto` are names of their own; `openrouter/vendor/model` is not.
    found_by_prefix = not choice.provider and not choice.base_url and found.name != "openrouter"
    return rest if not quirks.vendor_names or "/" in rest or found_by_prefix else model


def _environment_key(found: ProviderRecord, environ: Mapping[str, str], *, own_address: bool = True) -> str:
    """The key from the environment; one that belongs to the environment's address only goes there."""
    names = (*found.key_variables, *(found.address_keys if own_address else ()))
    return next((environ[name].strip() for name in names if environ.get(name, "").strip()), "")


def _key(choice: ModelChoice, found: ProviderRecord, base_url: str, environ: Mapping[str, str]) -> str:
    given = choice.api_key.strip()
    own = not choice.base_url or choice.base_url.strip().rstrip("/") == _variable_url(environ).rstrip("/")
    key = _referenced(given, environ) if given else _environment_key(found, environ, own_address=own)
    if not key:
        if not found.key_required or is_loopback(_split(base_url)[0]):
            return ""
        names = " or ".join(found.key_variables)
        raise ConfigError(f"No API key for {found.title}.", f"Set {names}, or `model.api_key`.")
    if not _KEY_CHARACTERS.fullmatch(key):
        raise ConfigError(
            f"The API key for {found.title} holds a space, a line break or a typographic sign, which no key does.",
            f"Check {' or '.join([*found.key_variables, '`model.api_key`'])}.",
        )
    return key


def _referenced(value: str, environ: Mapping[str, str]) -> str:
    """A key given as `${VARIABLE}` or `$VARIABLE` is that variable's value."""
    match = _REFERENCE.fullmatch(value)
    if match is None:
        return value
    name = match[1] or match[2]
    key = environ.get(name, "").strip()
    if not key:
        raise ConfigError(f"`model.api_key` names the variable {name}, which is not set.", f"Set {name}.")
    return key
