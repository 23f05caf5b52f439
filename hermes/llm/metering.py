"""Metering of model calls: spending is reserved under the caps before a call and settled after it."""

from typing import Protocol

from msgspec import Struct

from hermes.core.money import Cost
from hermes.core.outcomes import FailureKind
from hermes.core.stream import Answer, Failure
from hermes.core.usage import Usage
from hermes.llm.exchange import ExchangeCall
from hermes.llm.lineage import Lineage

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
