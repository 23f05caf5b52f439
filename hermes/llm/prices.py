"""Finds what a model's tokens cost: as the settings say, else as its record lists them. Never guessed."""

import re
from collections.abc import Mapping

from hermes.core.money import Price
from hermes.providers.wire import Endpoint

_DATE = re.compile(r"-20\d\d-?\d\d-?\d\d$")


def find_price(endpoint: Endpoint, configured: Mapping[str, Price]) -> Price | None:
    """Return the price of the endpoint's model; None when nobody has named one.

    `configured` is by model or `PROVIDER/MODEL`, the longer name first; in both tables a name that ends in `*` matches
    all that begin like it, the longest of them first. A dated snapshot of a model costs what the model does, unless it
    has a price of its own. Cache writes have the price of the time that the endpoint asks for.
    """
    record = endpoint.record
    found = find_model_price(record.name, endpoint.model, configured, record.prices)
    return found.price_for_hour_cache() if found is not None and endpoint.cache_ttl == "1h" else found


def find_model_price(
    provider: str, model: str, configured: Mapping[str, Price], listed: Mapping[str, Price]
) -> Price | None:
    """Return the price of a provider's model in the user's own table, else in the listed one."""
    return (
        _lookup_price(configured, f"{provider}/{model}")
        or _lookup_price(configured, model)
        or _lookup_price(listed, model)
    )


def _lookup_price(table: Mapping[str, Price], name: str) -> Price | None:
    if name in table:
        return table[name]
    undated = _DATE.sub("", name)
    if undated in table:
        return table[undated]
    prefixes = [known for known in table if known.endswith("*") and name.startswith(known[:-1])]
    return table[max(prefixes, key=len)] if prefixes else None
