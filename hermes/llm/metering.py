"""What stands between a call and its bill: room under the caps before it, its cost after it."""

from typing import Protocol

from msgspec import Struct

from hermes.core.stream import Answer, Failure
from hermes.llm.lineage import Lineage


class Grant(Struct, frozen=True):
    """Leave to make a call. `max_tokens` lowers its answer's limit; None leaves it as it is."""

    reservation: int = 0
    max_tokens: int | None = None


class Meter(Protocol):
    """Reserves the worst case of a call before it is made and settles what it cost."""

    async def reserve(self, lineage: Lineage, *, final: bool) -> Grant | Failure:
        """Leave to make the lineage's next call, or a failure of kind `SPEND_LIMIT`."""
        ...

    async def settle(self, grant: Grant, outcome: Answer | Failure | None) -> None:
        """Write down what a call cost; `outcome` is None when it was cancelled. Must not be lost to a cancellation."""
        ...


class Unmetered:
    """No caps, nothing written down."""

    async def reserve(self, _lineage: Lineage, *, final: bool) -> Grant | Failure:
        """Always granted."""
        del final
        return Grant()

    async def settle(self, grant: Grant, outcome: Answer | Failure | None) -> None:
        """Nothing to settle."""
