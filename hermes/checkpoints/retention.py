"""Keeps the copies within their bounds: old checkpoints are forgotten, and the contents that nobody names go."""

import asyncio

from msgspec import Struct

from hermes.checkpoints.object_store import ObjectStore
from hermes.checkpoints.scan import decoded
from hermes.core.checkpoints import CheckpointLedger, Kind

_ROUNDS = 40
_NOTICED = 8_000_000
"""Bytes that one process puts before it looks at how much there is."""


class Keep(Struct, frozen=True, kw_only=True):
    """How much is kept: checkpoints a folder, days, bytes of all copies together."""

    most: int = 20
    days: float = 7.0
    total: int = 500_000_000


async def tidy(folder: str, ledger: CheckpointLedger, objects: ObjectStore, keep: Keep, now: float) -> None:
    """Forget what is too much of a folder's checkpoints; contents are looked through only when something was."""
    forgotten = await ledger.prune_checkpoints(folder, most=keep.most, since=now - keep.days * 86_400)
    if forgotten or objects.grown > min(_NOTICED, keep.total // 20):
        await collect(ledger, objects, keep)


async def collect(ledger: CheckpointLedger, objects: ObjectStore, keep: Keep) -> None:
    """Delete the contents that nobody names; where the rest is still too large, the oldest checkpoints go, too.

    Nothing is done while a process takes or restores one: who comes next does it.
    """
    with objects.alone() as alone:
        for _ in range(_ROUNDS if alone else 0):
            files, listings = await ledger.named_contents()
            left = await asyncio.to_thread(_collected, objects, files, listings)
            if left <= keep.total or not await ledger.prune_oldest():
                return


def _collected(objects: ObjectStore, files: set[str], listings: set[str]) -> int:
    """Delete what is not named; the bytes that are left."""
    named = files | listings
    for digest in listings:
        listing = decoded(objects.get(digest))
        if listing is not None:
            named |= {item.state.mark for item in listing.items.values() if item.state.kind is Kind.FILE}
    objects.grown = 0
    return objects.collect(named)
