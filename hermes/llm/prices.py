"""What a model's tokens cost: as the settings say, else as its record lists them. Never guessed."""

import re
from collections.abc import Mapping

from hermes.core.money import Price
from hermes.providers.wire import Endpoint

_DATE = re.compile(r"-20\d\d-?\d\d-?\d\d$")


def known_price(endpoint: Endpoint, own: Mapping[str, Price]) -> Price | None:
    """The price of the endpoint's model; None when nobody has named one.

    `own` is by model or `PROVIDER/MODEL`, the longer name first; in both tables a name that ends in `*` stands for all
    that begin like it, the longest of them first. A dated snapshot of a model costs what the model does, unless it has
    a price of its own. Cache writes have the price of the time that the endpoint asks for.
    """
    record = endpoint.record
    found = model_price(record.name, endpoint.model, own, record.prices)
    return found.for_an_hour() if found is not None and endpoint.cache_ttl == "1h" else found


def model_price(provider: str, model: str, own: Mapping[str, Price], listed: Mapping[str, Price]) -> Price | None:
    """The price of a provider's model in the person's own table, else in the listed one."""
    return _found(own, f"{provider}/{model}") or _found(own, model) or _found(listed, model)


def _found(table: Mapping[str, Price], name: str) -> Price | None:
    if name in table:
        return table[name]
    undated = _DATE.sub("", name)
    if undated in table:
        return table[undated]
    prefixes = [known for known in table if known.endswith("*") and name.startswith(known[:-1])]
    return table[max(prefixes, key=len)] if prefixes else None
