"""The providers that a person names in the settings: their names, and what is wrong with an entry.

Entries of `providers` and of `custom_providers` are the same; guides write some keys in two ways. A name is compared in
lower case, with `-` for blanks and without the `custom:` that some write before it.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import urlsplit

from msgspec import Struct

from hermes.config.settings import ProviderModelSettings, ProviderSettings, Settings
from hermes.core.errors import ConfigError
from hermes.i18n.messages import N_
from hermes.plugins import suggest_name
from hermes.util.localizable import join_localizable
from hermes.util.text import redact_url

CUSTOM_PREFIX = "custom:"
"""What may stand before the name of such a provider."""
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}", re.ASCII)
_VARIABLE = re.compile(r"\$\{\w+\}", re.ASCII)
_VARIABLE_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_FIELD_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}", re.ASCII)
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", re.ASCII)
_KNOWN_ELSEWHERE = frozenset(
    {"request_timeout_seconds", "stale_timeout_seconds", "discover_models", "rate_limit_delay", "timeout", "enabled"}
)
"""Keys that guides for such agents mention and this version does not act on."""
_RESERVED = frozenset({"auto", "custom", "local", "main"})


class ProviderEntry(Struct, frozen=True):
    """One entry: where it stands in the settings, its name in the form that is compared, and what it says."""

    place: str
    name: str
    given: ProviderSettings


def normalize_provider_name(name: str) -> str:
    """Return the form in which names of providers are compared."""
    return "-".join(name.strip().lower().removeprefix(CUSTOM_PREFIX).split())


def iterate_provider_entries(settings: Settings) -> Iterator[ProviderEntry]:
    """Yield the entries, those of `providers` first."""
    for name, given in settings.providers.items():
        yield ProviderEntry(f"providers.{name}", normalize_provider_name(name), given)
    for number, given in enumerate(settings.custom_providers):
        yield ProviderEntry(f"custom_providers[{number}]", normalize_provider_name(given.name), given)


def pick_address(given: ProviderSettings) -> str:
    """Return the address of an entry, by whichever name it is given."""
    return (given.base_url or given.api or given.url).strip().rstrip("/")


def list_models(given: ProviderSettings) -> dict[str, int | None]:
    """Return the models that an entry names, each with its window where it says one."""
    if isinstance(given.models, Mapping):
        return {name: one.context_length if one else None for name, one in given.models.items()}
    found: dict[str, int | None] = {}
    for one in given.models:
        if isinstance(one, ProviderModelSettings):
            found[one.id or one.name] = one.context_length
        else:
            found[one] = None
    return found


def check_provider_entries(settings: Settings, document: Mapping[str, object], file: Path) -> list[str]:
    """Raise ConfigError, with the line, for the first entry that cannot be used; return warnings of unknown keys."""
    seen: dict[str, str] = {}
    for entry in iterate_provider_entries(settings):
        fault = _find_fault(entry)
        if not fault and entry.name in seen:
            fault = N_("the name `{name}` is taken by `{place}`.", name=entry.name, place=seen[entry.name])
        if fault:
            raise refuse_entry(entry, fault, file)
        seen[entry.name] = entry.place
    return list(_describe_unknown_keys(document))


def refuse_entry(entry: ProviderEntry, fault: str, file: Path) -> ConfigError:
    """Return the error for an entry that cannot be used, with its place in the file."""
    from hermes.config.yaml_edit import find_line, read_text

    line = find_line(read_text(file), re.split(r"[.\[]", entry.place, maxsplit=1))
    where = N_("{file}, line {n}", file=file, n=line) if line else str(file)
    return ConfigError(
        N_("{where}: `{place}`: {fault}", where=where, place=entry.place, fault=fault),
        N_("Fix that line and try again."),
    )


def _find_fault(entry: ProviderEntry) -> str:
    """Return what is wrong with an entry; empty: nothing."""
    given = entry.given
    if not _NAME.fullmatch(entry.name):
        return N_("its name must be letters, digits, `-`, `_` or `.`, not {name}.", name=repr(entry.name[:40]))
    if entry.name in _RESERVED:
        return N_("the name `{name}` has a meaning of its own; choose another.", name=entry.name)
    return _find_address_fault(given) or _find_key_fault(given) or _find_form_fault(given)


def _find_address_fault(given: ProviderSettings) -> str:
    address = pick_address(given)
    if not address:
        return ""
    try:
        parts = urlsplit(_VARIABLE.sub("variable", address))
        sound = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        sound = False
    if sound or _VARIABLE.match(address):
        return ""
    return N_("`base_url` is not an http or https address: {url}.", url=redact_url(address[:100]))


def _find_key_fault(given: ProviderSettings) -> str:
    variable = given.key_env or given.api_key_env
    if variable and not _VARIABLE_NAME.fullmatch(variable):
        return N_("`key_env` takes the name of a variable, not a key.")
    for name, value in {**given.headers, **given.extra_headers}.items():
        if not _HEADER_NAME.fullmatch(name):
            return N_("`{name}` cannot be the name of a header field.", name=name[:40])
        if not all(" " <= sign != "\x7f" for sign in value) or not value.isascii():
            return N_("the header field `{name}` holds signs that no header may hold.", name=name)
    return ""


def _find_form_fault(given: ProviderSettings) -> str:
    for key, value in (("reasoning_field", given.reasoning_field), ("max_tokens_field", given.max_tokens_field)):
        if value and not _FIELD_NAME.fullmatch(value):
            return N_("`{key}` must be the name of a field, not {value}.", key=key, value=repr(value[:40]))
    windows = {"context_length": given.context_length} | {f"models.{k}": v for k, v in list_models(given).items()}
    for key, window in windows.items():
        if window is not None and window <= 0:
            return N_("`{key}` must be above zero, not {value}.", key=key, value=window)
    if "" in list_models(given):
        return N_("each of `models` needs its name.")
    return ""


def _describe_unknown_keys(document: Mapping[str, object]) -> Iterator[str]:
    known = ProviderSettings.__struct_fields__
    for key, given in _iterate_raw_entries(document):
        for field in given if isinstance(given, dict) else ():
            if field not in known and field not in _KNOWN_ELSEWHERE:
                unknown = N_("config.yaml: unknown setting `{key}`.", key=f"{key}.{field}")
                yield join_localizable(" ", (unknown, suggest_name(str(field), known)))


def _iterate_raw_entries(document: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    named, listed = document.get("providers"), document.get("custom_providers")
    for name, given in named.items() if isinstance(named, dict) else ():
        yield f"providers.{name}", given
    for number, given in enumerate(listed if isinstance(listed, list) else ()):
        yield f"custom_providers[{number}]", given
