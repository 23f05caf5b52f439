"""Metering of model calls: spending is reserved under the caps before a call and settled after it.

Finds what a model's tokens cost: as the settings say, else as its record lists them. Never guessed.
"""

import re
from collections.abc import Mapping
from typing import Protocol

from msgspec import Struct

from hermes.core.money import Cost, Price
from hermes.core.outcomes import FailureKind
from hermes.core.stream import Answer, Failure
from hermes.core.usage import Usage
from hermes.llm.exchange import ExchangeCall
from hermes.llm.lineage import Lineage
from hermes.providers.wire import Endpoint

_NOT_SENT_KINDS = frozenset({FailureKind.UNREACHABLE, FailureKind.TLS})
_PERHAPS_SERVED = frozenset({408, 502, 504, 524})
"""A gateway gave up waiting; the model behind it may have answered, and billed."""


class CallGrant(Struct, frozen=True):
    """Permission to make a call. `max_tokens` lowers its answer's limit; None leaves it as it is."""

    number: int = 0
    max_tokens: int | None = None


class CallUsage(Struct, frozen=True):
    """What is known of a call's usage once it is over.

    `billed`: whether anything can have been charged for it. `whole`: whether `usage` is the last word of
    the provider; else only its count of the prompt is.
    """

    usage: Usage | None
    whole: bool
    billed: bool


def read_call_usage(call: ExchangeCall, outcome: Answer | Failure | None) -> CallUsage:
    """Return the usage of a call; `outcome` is None when it was cancelled."""
    usage = outcome.usage if outcome is not None else None
    if usage is None and call.events:
        usage = call.decoder.build_answer().usage
    return CallUsage(usage=usage, whole=call.decoder.finished, billed=call.answered or not _cannot_be_served(outcome))


def _cannot_be_served(outcome: Answer | Failure | None) -> bool:
    """Return whether a call that got no answer's head cannot have been served; a cancelled one can."""
    if not isinstance(outcome, Failure):
        return False
    return outcome.kind in _NOT_SENT_KINDS or (outcome.status >= 300 and outcome.status not in _PERHAPS_SERVED)


class Meter(Protocol):
    """Reserves the worst case of each of a session's calls before it is made, and settles what it cost.

    One meter serves every model that the session calls, for whatever purpose.
    """

    def begin_turn(self, turn_id: str) -> None:
        """Begin a turn: its calls are counted for it, and `cost` from nothing."""
        ...

    @property
    def cost(self) -> Cost:
        """Return what the calls since `begin_turn` have cost."""
        ...

    async def reserve(self, lineage: Lineage, *, final: bool) -> CallGrant | Failure:
        """Reserve the lineage's next call, or return a failure of kind `SPEND_LIMIT`.

        May wait while calls under way hold what may be left over. Raises `StoreError` when the reservation, or
        what was settled before, cannot be written.
        """
        ...

    def settle(self, grant: CallGrant, heard: CallUsage) -> None:
        """Note what a call cost. Never waits and never raises, so no cancellation can lose it."""
        ...

    async def flush(self) -> None:
        """Wait until everything settled is on disk. Raises `StoreError` when it cannot be written."""
        ...


class Unmetered:
    """A meter without caps that writes nothing down."""

    cost = Cost()

    def begin_turn(self, turn_id: str) -> None:
        """Do nothing: nothing is counted."""

    async def reserve(self, _lineage: Lineage, *, final: bool) -> CallGrant | Failure:
        """Grant every call."""
        del final
        return CallGrant()

    def settle(self, grant: CallGrant, heard: CallUsage) -> None:
        """Do nothing: there is nothing to settle."""

    async def flush(self) -> None:
        """Return at once: there is nothing to wait for."""


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
