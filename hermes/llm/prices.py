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
    a price of its own.
    """
    record = endpoint.record
    full = f"{record.name}/{endpoint.model}"
    return _found(own, full) or _found(own, endpoint.model) or _found(record.prices, endpoint.model)


def _found(table: Mapping[str, Price], name: str) -> Price | None:
    if name in table:
        return table[name]
    undated = _DATE.sub("", name)
    if undated in table:
        return table[undated]
    prefixes = [known for known in table if known.endswith("*") and name.startswith(known[:-1])]
    return table[max(prefixes, key=len)] if prefixes else None
