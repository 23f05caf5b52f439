"""What stands between a call and its bill: room under the caps before it, its cost after it."""

from typing import Protocol

from msgspec import Struct

from hermes.core.money import Cost
from hermes.core.outcomes import FailureKind
from hermes.core.stream import Answer, Failure
from hermes.core.usage import Usage
from hermes.llm.exchange import Call
from hermes.llm.lineage import Lineage

_NOT_SENT = frozenset({FailureKind.UNREACHABLE, FailureKind.TLS})
_PERHAPS_SERVED = frozenset({408, 502, 504, 524})
"""A gateway gave up waiting; the model behind it may have answered, and billed."""


class Grant(Struct, frozen=True):
    """Leave to make a call. `max_tokens` lowers its answer's limit; None leaves it as it is."""

    number: int = 0
    max_tokens: int | None = None


class Heard(Struct, frozen=True):
    """What is known of a call's use once it is over.

    `billed`: whether anything can have been charged for it. `whole`: whether `usage` is the last word of the provider;
    else only its count of the prompt is.
    """

    usage: Usage | None
    whole: bool
    billed: bool


def heard(call: Call, outcome: Answer | Failure | None) -> Heard:
    """What became of a call; `outcome` is None when it was cancelled."""
    usage = outcome.usage if outcome is not None else None
    if usage is None and call.events:
        usage = call.decoder.answer().usage
    return Heard(usage=usage, whole=call.decoder.finished, billed=call.answered or not _unserved(outcome))


def _unserved(outcome: Answer | Failure | None) -> bool:
    """Whether a call that got no answer's head cannot have been served; a cancelled one can."""
    if not isinstance(outcome, Failure):
        return False
    return outcome.kind in _NOT_SENT or (outcome.status >= 300 and outcome.status not in _PERHAPS_SERVED)


class Meter(Protocol):
    """Reserves the worst case of each of a session's calls before it is made, and settles what it cost.

    One meter serves every model that the session calls, for whatever purpose.
    """

    def begin(self, turn_id: str) -> None:
        """A turn begins: its calls are counted for it, and `cost` from nothing."""
        ...

    @property
    def cost(self) -> Cost:
        """What the calls since `begin` have cost."""
        ...

    async def reserve(self, lineage: Lineage, *, final: bool) -> Grant | Failure:
        """Leave to make the lineage's next call, or a failure of kind `SPEND_LIMIT`.

        May wait while calls under way hold what may be left over. Raises `StoreError` when it, or what was settled
        before, cannot be written.
        """
        ...

    def settle(self, grant: Grant, heard: Heard) -> None:
        """Note what a call cost. Never waits and never raises, so no cancellation can lose it."""
        ...

    async def flush(self) -> None:
        """Wait until everything settled is on disk. Raises `StoreError` when it cannot be written."""
        ...


class Unmetered:
    """No caps, nothing written down."""

    cost = Cost()

    def begin(self, turn_id: str) -> None:
        """Nothing is counted."""

    async def reserve(self, _lineage: Lineage, *, final: bool) -> Grant | Failure:
        """Always granted."""
        del final
        return Grant()

    def settle(self, grant: Grant, heard: Heard) -> None:
        """Nothing to settle."""

    async def flush(self) -> None:
        """Nothing to wait for."""
