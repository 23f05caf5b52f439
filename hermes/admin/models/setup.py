"""Resolve and save what a user chooses during setup: provider, model, address and key."""

import re
from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

from msgspec import Struct, structs

from hermes.admin.config import locate_writable_home
from hermes.admin.models.local_servers import LocalModelServer
from hermes.admin.models.models import (
    FoundKey,
    ListedModel,
    ModelSelection,
    check_key,
    find_keys,
    list_model_names,
    save_selection,
)
from hermes.config.environment import merge_dotenv, set_variables
from hermes.config.home import locate_home
from hermes.core.errors import ConfigError, UsageError
from hermes.core.secret import KeyHolder
from hermes.i18n.messages import N_, tr
from hermes.providers.records import list_provider_names, load_record
from hermes.util.text import strip_control_characters, to_one_line

_MAX_SHOWN_MODELS = 8


class SetupRequest(KeyHolder, frozen=True, kw_only=True):
    """What the user named; every field may be empty."""

    provider: str = ""
    model: str = ""
    base_url: str = ""
    api_key: str = ""
    """A key that was typed or read from standard input; it is written into `.env`."""
    variable: str = ""
    """The variable that holds the key."""


class SetupSelection(KeyHolder, frozen=True, kw_only=True):
    """A choice that can be tested and saved. `api_key` is a typed key, to be stored in `variable`."""

    selection: ModelSelection
    api_key: str = ""
    variable: str = ""

    @property
    def trial_selection(self) -> ModelSelection:
        """The choice as it is tested: a typed key is not in the environment yet."""
        return structs.replace(self.selection, api_key=self.api_key) if self.api_key else self.selection


class ProviderOption(Struct, frozen=True):
    """A provider that can be chosen, and the variable for its key (empty when it needs none)."""

    name: str
    title: str
    variable: str
    key_required: bool


def list_providers() -> list[ProviderOption]:
    """List all providers that need a key and nothing else, by title."""
    found = [load_record(name) for name in list_provider_names()]
    return sorted(
        (
            ProviderOption(one.name, one.title, next(iter(one.key_variables), ""), one.key_required)
            for one in found
            if one.key_required and not one.cloud and not one.sign_in
        ),
        key=lambda one: one.title.lower(),
    )


def key_variable(provider: str) -> str:
    """Return the variable for a provider's key."""
    return next(iter(load_record(provider or "custom").key_variables), "")


def normalize_address(typed: str) -> str:
    """Return the address with `http://` before a bare HOST:PORT, or an empty text when it is none."""
    url = typed.strip()
    if "://" not in url and re.match(r"(?:\w[\w.-]*|\[[0-9a-fA-F:]+\])(?::\d+)?(?:/|$)", url):
        url = f"http://{url}"
    try:
        found = urlsplit(url)
        sound = found.scheme in ("http", "https") and bool(found.hostname) and (found.port or 1) > 0
    except ValueError:
        return ""
    return url if sound and url.isprintable() and " " not in url else ""


def resolve_setup(environ: Mapping[str, str], request: SetupRequest) -> SetupSelection:
    """Resolve what the user named into a choice. Raises UsageError, ConfigError."""
    provider = load_record(request.provider).name if request.provider else "custom" if request.base_url else ""
    candidate = ModelSelection(provider=provider, model=request.model, base_url=request.base_url.rstrip("/"))
    if request.api_key:
        check_key(request.api_key)
        return SetupSelection(selection=candidate, api_key=request.api_key, variable=key_variable(provider))
    if request.variable:
        whole = merge_dotenv(environ, locate_home(environ).env_file)
        if not request.variable.isidentifier():
            raise UsageError(N_("--api-key-env takes the name of a variable, not a key."))
        if not whole.get(request.variable, "").strip():
            raise ConfigError(
                N_("The variable {name} is not set.", name=request.variable), N_("Set it, or use --key-stdin.")
            )
        if not provider or request.variable not in load_record(provider).key_variables:
            candidate = structs.replace(candidate, api_key=f"${{{request.variable}}}")
    return SetupSelection(selection=candidate)


def suggest_setup(keys: Sequence[FoundKey], servers: Sequence[LocalModelServer]) -> SetupRequest | None:
    """Suggest a choice when nothing was named: the first key's provider, or the only server."""
    if keys:
        return SetupRequest(provider=keys[0].provider)
    if len(servers) == 1:
        return SetupRequest(provider=servers[0].provider, base_url=servers[0].base_url)
    return None


async def complete_model(environ: Mapping[str, str], choice: SetupSelection) -> SetupSelection:
    """Add a model to the choice: the named one, the provider's default, or the only one.

    Raises UsageError that names some when there are several.
    """
    candidate = choice.selection
    if candidate.model or candidate.provider == "local":
        return choice
    own = load_record(candidate.provider).default_model if candidate.provider else ""
    if not own:
        found: list[ListedModel] = await list_model_names(environ, choice.trial_selection)
        if len(found) != 1:
            some = ", ".join(one.name for one in found[:_MAX_SHOWN_MODELS])
            more = ", ..." if len(found) > _MAX_SHOWN_MODELS else ""
            raise UsageError(
                N_("Which model? It has: {names}", names=strip_control_characters(to_one_line(some + more, 600))),
                N_("Name one with --model."),
            )
        own = found[0].name
    return structs.replace(choice, selection=structs.replace(candidate, model=own))


def save_setup(environ: Mapping[str, str], choice: SetupSelection) -> list[str]:
    """Save settings into `config.yaml` and a typed key into `.env`; return the changed places.

    Raises ConfigError, UsageError.
    """
    home = locate_writable_home(environ)
    home.ensure_exists()
    places: list[str] = []
    if choice.api_key:
        if environ.get(choice.variable, choice.api_key) != choice.api_key:
            raise ConfigError(
                N_("{name} is set in the environment to another key, which would be used.", name=choice.variable),
                N_("Unset it first, or choose the key that is there."),
            )
        set_variables(home.env_file, {choice.variable: choice.api_key})
        places.append(tr("{name} in {file}", name=choice.variable, file=home.env_file))
    whole = {**environ, choice.variable: choice.api_key} if choice.api_key else environ
    changed = save_selection(whole, choice.selection)
    if changed:
        places.append(tr("{keys} in {file}", keys=", ".join(changed), file=home.config_file))
    return places


def find_provider_keys(environ: Mapping[str, str]) -> list[FoundKey]:
    """Return the keys that were found, one per provider."""
    return list({one.provider: one for one in reversed(find_keys(environ))}.values())[::-1]
