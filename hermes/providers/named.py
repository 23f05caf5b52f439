"""Providers that the settings name: from an entry to a record, and which of them a choice means.

`NAME`, `custom:NAME`, `NAME/MODEL`, `NAME:MODEL` and `custom:NAME:MODEL` all name one. An entry with the name of a
provider of the catalogue changes that one: what it does not say stays as the catalogue has it.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import structs

from hermes.config.provider_entries import (
    CUSTOM_PREFIX,
    ProviderEntry,
    iterate_provider_entries,
    list_models,
    normalize_provider_name,
    pick_address,
    refuse_entry,
)
from hermes.config.settings import ProviderSettings, Settings
from hermes.core.encoding import to_json
from hermes.core.errors import ConfigError
from hermes.core.secret import KeyHolder
from hermes.i18n.messages import N_
from hermes.plugins import suggest_name
from hermes.providers.records import ALIASES, find_host_owner, list_provider_names, load_record
from hermes.providers.resolve import ModelChoice
from hermes.providers.wire import ProviderRecord, Quirks, resolve_wire_name

_REFERENCE = re.compile(r"\$\{([A-Za-z_]\w*)\}", re.ASCII)


class NamedProvider(KeyHolder, frozen=True, kw_only=True):
    """A provider of the settings: its record, and the key that stands with it."""

    record: ProviderRecord
    api_key: str = ""
    headers: Mapping[str, str] = {}
    """Header fields as they are given, with their `${VARIABLE}`."""
    is_new: bool = True
    """Whether the catalogue has no provider of that name."""
    models: tuple[str, ...] = ()


class NamedProviders(KeyHolder, frozen=True):
    """The providers that the settings name, for a choice."""

    providers: tuple[NamedProvider, ...]

    def choose_provider(
        self, choice: ModelChoice, environ: Mapping[str, str]
    ) -> tuple[ModelChoice, ProviderRecord | None]:
        """Return the provider that a choice means, or None, and the choice with what its entry says."""
        choice, found = _split_choice(choice, self.providers)
        if found is None:
            if choice.provider and choice.provider.lower() != "auto":
                find_record(choice.provider, self.providers)  # whose error knows the names of both
            return choice, None
        record = found.record
        place = f"providers.{record.name}"
        fields = {name: _fill_variables(value, environ, place) for name, value in found.headers.items()}
        quirks = structs.replace(record.quirks, extra_headers={**record.quirks.extra_headers, **fields})
        base_url = _fill_variables(record.base_url, environ, place)
        key = choice.api_key or _fill_variables(found.api_key, environ, place)
        choice = structs.replace(choice, provider=record.name, api_key=key)
        return choice, structs.replace(record, base_url=base_url, quirks=quirks)


def build_named_providers(settings: Settings, file: Path) -> tuple[NamedProvider, ...]:
    """Return the providers that the settings name. Raises ConfigError with the place in the file for a bad entry."""
    return tuple(_build_provider(entry, file) for entry in iterate_provider_entries(settings))


def find_record(name: str, named: Sequence[NamedProvider]) -> ProviderRecord:
    """Return the record of a provider that the settings name, else of the catalogue. Raises ConfigError for neither."""
    wanted = normalize_provider_name(name)
    found = find_named(wanted, named)
    if found is not None:
        return found.record
    try:
        return load_record(name.removeprefix(CUSTOM_PREFIX) if name.lower().startswith(CUSTOM_PREFIX) else name)
    except ConfigError as error:
        near = suggest_name(wanted, [one.record.name for one in named])
        raise ConfigError(error.message, near or error.hint) from None


def find_named(name: str, named: Sequence[NamedProvider]) -> NamedProvider | None:
    """Return the provider of that name, or None."""
    wanted = normalize_provider_name(name)
    return next((one for one in named if one.record.name in (wanted, ALIASES.get(wanted))), None)


def pin_named_provider(choice: ModelChoice, named: Sequence[NamedProvider]) -> ModelChoice:
    """Return the choice with the provider in a field of its own, where its model's name begins with one."""
    choice, found = _split_choice(choice, named)
    return choice if found is None else structs.replace(choice, provider=found.record.name)


def _split_choice(choice: ModelChoice, named: Sequence[NamedProvider]) -> tuple[ModelChoice, NamedProvider | None]:
    """Return the provider that is named, by itself or before the model, and the choice without that prefix."""
    before = _split_model(choice.model, named)
    if before is not None and choice.prefix_decides and (before[0].is_new or not choice.provider):
        plain = ModelChoice(
            model=before[1],
            more_keys=choice.more_keys,
            cache_ttl=choice.cache_ttl,
            request_members=choice.request_members,
            reasoning_replay=choice.reasoning_replay,
            stored=choice.stored,
            named=choice.named,
        )
        return plain, before[0]
    if choice.provider and choice.provider.lower() != "auto":
        found = find_named(choice.provider, named)
        if found is not None and before is not None and before[0] == found:
            return structs.replace(choice, model=before[1]), found
        return choice, found
    if before is not None and not choice.base_url:
        return structs.replace(choice, model=before[1]), before[0]
    return choice, None


def _split_model(model: str, named: Sequence[NamedProvider]) -> tuple[NamedProvider, str] | None:
    """Return the provider before a model's name, and the name; None when none stands there."""
    text = model.strip()
    if text.lower().startswith(CUSTOM_PREFIX):
        text = text[len(CUSTOM_PREFIX) :]
    match = re.match(r"([^/:]+)([/:])(.+)", text)
    found = find_named(match[1], named) if match else None
    if match is None or found is None or (match[2] == ":" and not found.is_new):
        return None  # `qwen:7b` is a model of Ollama, whatever the settings say of the provider `qwen`
    return found, match[3]


def _build_provider(entry: ProviderEntry, file: Path) -> NamedProvider:
    given, address = entry.given, pick_address(entry.given)
    name = ALIASES.get(entry.name, entry.name)
    is_new = name not in list_provider_names()
    if is_new and not address:
        raise refuse_entry(entry, N_("it needs `base_url`."), file)
    try:
        wire = resolve_wire_name(given.api_mode or given.transport) if given.api_mode or given.transport else ""
    except ConfigError as error:
        raise refuse_entry(entry, error.message, file) from None
    record = _create_record(entry) if is_new else _change_record(load_record(name), given)
    record = structs.replace(
        record,
        wire=wire or record.wire,
        quirks=_change_quirks(record.quirks, given),
        context_lengths={**record.context_lengths, **_list_windows(given)},
        default_model=_pick_model(given) or record.default_model,
    )
    return NamedProvider(
        record=record,
        api_key=given.api_key,
        headers={**given.headers, **given.extra_headers},
        is_new=is_new,
        models=tuple(list_models(given)),
    )


def _create_record(entry: ProviderEntry) -> ProviderRecord:
    """Return a record like that of who owns the host, else of `custom`, without the variables of other servers."""
    given = entry.given
    variable = given.key_env or given.api_key_env
    host = _REFERENCE.sub("variable", pick_address(given)).partition("://")[2].partition("/")[0].partition(":")[0]
    owner = find_host_owner(host.lower())
    if owner:
        own = structs.replace(load_record(owner), name=entry.name, title=given.name.strip() or entry.name)
        return _change_record(own, given)
    return ProviderRecord(
        name=entry.name,
        title=given.name.strip() or entry.name,
        base_url=pick_address(given),
        wire="",
        key_variables=(variable,) if variable else (),
        key_required=bool(variable),
        quirks=load_record("custom").quirks,
    )


def _change_record(record: ProviderRecord, given: ProviderSettings) -> ProviderRecord:
    variable, address = given.key_env or given.api_key_env, pick_address(given)
    return structs.replace(
        record,
        base_url=address or record.base_url,
        base_url_variable="" if address else record.base_url_variable,
        key_variables=(variable,) if variable else record.key_variables,
    )


def _change_quirks(quirks: Quirks, given: ProviderSettings) -> Quirks:
    changes: dict[str, object] = {
        name: getattr(given, name)
        for name in ("strict_roles", "reasoning_field", "max_tokens_field", "stream_usage")
        if getattr(given, name) not in (None, "")
    }
    if given.extra_body:
        changes["extra_body"] = to_json(given.extra_body)[1:-1]
    return structs.replace(quirks, **changes) if changes else quirks


def _list_windows(given: ProviderSettings) -> dict[str, int]:
    own = {name: window for name, window in list_models(given).items() if window is not None}
    return {"*": given.context_length, **own} if given.context_length is not None else own


def _pick_model(given: ProviderSettings) -> str:
    """Return the model that an entry names as its own, else its only one."""
    models = list(list_models(given))
    return given.model or given.default_model or (models[0] if len(models) == 1 else "")


def _fill_variables(text: str, environ: Mapping[str, str], place: str) -> str:
    def fill(match: re.Match[str]) -> str:
        value = environ.get(match[1], "").strip()
        if not value:
            raise ConfigError(
                N_("`{where}` names the variable {name}, which is not set.", where=place, name=match[1]),
                N_("Put it into the home's .env file, or into the environment."),
            )
        return value

    return _REFERENCE.sub(fill, text)
