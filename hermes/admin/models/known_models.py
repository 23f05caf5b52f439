"""The models that a person can choose without anything being asked of a provider: those of the catalogue and of the
settings whose provider has a key, and favourites.
"""

from typing import TYPE_CHECKING

from msgspec import Struct

from hermes.admin.models.favourites import FavouriteModels
from hermes.admin.models.models import find_keys
from hermes.core.errors import ConfigError
from hermes.providers.records import load_record
from hermes.sessions.model.credentials import list_named_providers

if TYPE_CHECKING:
    from hermes.providers.wire import Endpoint
    from hermes.sessions.services import Services

_MAX_MODELS = 30
"""Models of one provider; lists of hundreds can be read by nobody."""


class KnownProvider(Struct, frozen=True, kw_only=True):
    """A provider with the models of it that can be chosen."""

    name: str
    title: str
    models: tuple[str, ...]


def list_known_models(services: "Services", endpoint: "Endpoint") -> list[KnownProvider]:
    """Return the models that can be chosen, by provider: the session's own first, then that of its favourites and
    those that have a key, each with the newest first as its record lists them.
    """
    found: dict[str, dict[str, None]] = {}
    titles: dict[str, str] = {}
    for one in (endpoint, services.model.endpoint):  # the first of the process can be gone back to, wherever it is
        found.setdefault(one.record.name, {})[one.model] = None
        titles[one.record.name] = one.record.title
    for provider, model in reversed(FavouriteModels(services.home).list_all()):
        found.setdefault(provider, {})[model] = None
    for named in list_named_providers(services.home, services.settings):
        titles[named.record.name] = named.record.title
        found.setdefault(named.record.name, {}).update(dict.fromkeys(named.models))
    for key in find_keys(services.environ):
        found.setdefault(key.provider, {})
    providers: list[KnownProvider] = []
    for provider, models in found.items():
        try:
            record = load_record(provider)
        except ConfigError:  # one that only the settings name
            record = None
        if record is not None:
            titles.setdefault(provider, record.title)
            if provider not in ("custom", "local"):
                models.update(dict.fromkeys(name for name in record.prices if "*" not in name))
        if models:
            title = titles.get(provider, provider)
            providers.append(KnownProvider(name=provider, title=title, models=tuple(models)[:_MAX_MODELS]))
    return providers
