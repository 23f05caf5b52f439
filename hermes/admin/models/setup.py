"""What setting up needs besides choosing: where a key goes, which choice suggests itself, writing it all down."""

import re
from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

from msgspec import Struct, structs

from hermes.admin.config import writable_home
from hermes.admin.models.local_servers import FoundServer
from hermes.admin.models.models import Candidate, FoundKey, Listed, found_keys, keep, model_names, refuse_key
from hermes.config.env_file import set_variables
from hermes.config.environment import with_dotenv
from hermes.config.home import locate_home
from hermes.core.errors import ConfigError, UsageError
from hermes.core.secret import KeyHolder
from hermes.i18n.messages import phrase, say
from hermes.providers.records import provider_names, record
from hermes.util.text import inert, one_line

_SHOWN = 8


class Wanted(KeyHolder, frozen=True, kw_only=True):
    """What a person named: all of it may be empty."""

    provider: str = ""
    model: str = ""
    base_url: str = ""
    api_key: str = ""
    """A key that was typed or read from standard input; it goes into `.env`."""
    variable: str = ""
    """A variable that holds the key."""


class Ready(KeyHolder, frozen=True, kw_only=True):
    """A choice that can be tried and written. `api_key` is a typed key, to be kept in `variable`."""

    candidate: Candidate
    api_key: str = ""
    variable: str = ""

    @property
    def trial(self) -> Candidate:
        """The choice as it is tried: a typed key is not in the environment yet."""
        return structs.replace(self.candidate, api_key=self.api_key) if self.api_key else self.candidate


class Provider(Struct, frozen=True):
    """A provider that can be chosen, and the variable that its key is kept in (empty: it needs none)."""

    name: str
    title: str
    variable: str
    key_required: bool


def providers() -> list[Provider]:
    """All that are reached over the network with a key, by title."""
    found = [record(name) for name in provider_names()]
    return sorted(
        (
            Provider(one.name, one.title, next(iter(one.key_variables), ""), one.key_required)
            for one in found
            if one.key_required
        ),
        key=lambda one: one.title.lower(),
    )


def key_variable(provider: str) -> str:
    """The variable that a provider's key is kept in."""
    return next(iter(record(provider or "custom").key_variables), "")


def whole_address(typed: str) -> str:
    """The address that somebody means, with `http://` before HOST:PORT; empty when it is none."""
    url = typed.strip()
    if "://" not in url and re.match(r"(?:\w[\w.-]*|\[[0-9a-fA-F:]+\])(?::\d+)?(?:/|$)", url):
        url = f"http://{url}"
    try:
        found = urlsplit(url)
        sound = found.scheme in ("http", "https") and bool(found.hostname) and (found.port or 1) > 0
    except ValueError:
        return ""
    return url if sound and url.isprintable() and " " not in url else ""


def ready(environ: Mapping[str, str], wanted: Wanted) -> Ready:
    """The choice that somebody's words stand for. Raises UsageError, ConfigError."""
    provider = record(wanted.provider).name if wanted.provider else "custom" if wanted.base_url else ""
    candidate = Candidate(provider=provider, model=wanted.model, base_url=wanted.base_url.rstrip("/"))
    if wanted.api_key:
        refuse_key(wanted.api_key)
        return Ready(candidate=candidate, api_key=wanted.api_key, variable=key_variable(provider))
    if wanted.variable:
        whole = with_dotenv(environ, locate_home(environ).env_file)
        if not wanted.variable.isidentifier():
            raise UsageError(phrase("--api-key-env takes the name of a variable, not a key."))
        if not whole.get(wanted.variable, "").strip():
            raise ConfigError(
                phrase("The variable {name} is not set.", name=wanted.variable), phrase("Set it, or use --key-stdin.")
            )
        if not provider or wanted.variable not in record(provider).key_variables:
            candidate = structs.replace(candidate, api_key=f"${{{wanted.variable}}}")
    return Ready(candidate=candidate)


def suggested(keys: Sequence[FoundKey], servers: Sequence[FoundServer]) -> Wanted | None:
    """What was found suggests, when nothing was named: the first key's provider, or the only server."""
    if keys:
        return Wanted(provider=keys[0].provider)
    if len(servers) == 1:
        return Wanted(provider=servers[0].provider, base_url=servers[0].base_url)
    return None


async def with_model(environ: Mapping[str, str], choice: Ready) -> Ready:
    """The choice with a model: the one that is named, the provider's own, or the only one there is.

    Raises UsageError that names some when there are several.
    """
    candidate = choice.candidate
    if candidate.model or candidate.provider == "local":
        return choice
    own = record(candidate.provider).default_model if candidate.provider else ""
    if not own:
        found: list[Listed] = await model_names(environ, choice.trial)
        if len(found) != 1:
            some = ", ".join(one.name for one in found[:_SHOWN])
            more = ", ..." if len(found) > _SHOWN else ""
            raise UsageError(
                phrase("Which model? It has: {names}", names=inert(one_line(some + more, 600))),
                phrase("Name one with --model."),
            )
        own = found[0].name
    return structs.replace(choice, candidate=structs.replace(candidate, model=own))


def save(environ: Mapping[str, str], choice: Ready) -> list[str]:
    """Write the choice down: settings into `config.yaml`, a typed key into `.env`; what was changed, by place.

    Raises ConfigError, UsageError.
    """
    home = writable_home(environ)
    home.ensure()
    places: list[str] = []
    if choice.api_key:
        if environ.get(choice.variable, choice.api_key) != choice.api_key:
            raise ConfigError(
                phrase("{name} is set in the environment to another key, which would be used.", name=choice.variable),
                phrase("Unset it first, or choose the key that is there."),
            )
        set_variables(home.env_file, {choice.variable: choice.api_key})
        places.append(say("{name} in {file}", name=choice.variable, file=home.env_file))
    whole = {**environ, choice.variable: choice.api_key} if choice.api_key else environ
    changed = keep(whole, choice.candidate)
    if changed:
        places.append(say("{keys} in {file}", keys=", ".join(changed), file=home.config_file))
    return places


def found(environ: Mapping[str, str]) -> list[FoundKey]:
    """Keys that were found, one a provider."""
    return list({one.provider: one for one in reversed(found_keys(environ))}.values())[::-1]
