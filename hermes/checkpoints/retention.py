"""Keeps the copies within their limits: old checkpoints are pruned, and unreferenced contents deleted."""

import asyncio

from msgspec import Struct

from hermes.checkpoints.object_store import ObjectStore
from hermes.checkpoints.scan import decode_listing
from hermes.core.checkpoints import CheckpointLedger, Kind

_MAX_ROUNDS = 40
_MIN_GROWTH = 8_000_000
"""The bytes that one process stores before it checks the total size."""


class CheckpointRetention(Struct, frozen=True, kw_only=True):
    """How much is kept: checkpoints a folder, days, bytes of all copies together."""

    most: int = 20
    days: float = 7.0
    total: int = 500_000_000


async def prune_folder(
    folder: str, ledger: CheckpointLedger, objects: ObjectStore, retention: CheckpointRetention, now: float
) -> None:
    """Prune a folder's checkpoints; contents are collected only when something was pruned or enough was stored."""
    forgotten = await ledger.prune(folder, most=retention.most, since=now - retention.days * 86_400)
    if forgotten or objects.bytes_added > min(_MIN_GROWTH, retention.total // 20):
        await collect_contents(ledger, objects, retention)


async def collect_contents(ledger: CheckpointLedger, objects: ObjectStore, retention: CheckpointRetention) -> None:
    """Delete unreferenced contents; where the rest is still too large, the oldest checkpoints go, too.

    Nothing is done while a process takes or restores one: the next call does it.
    """
    with objects.try_exclusive() as alone:
        for _ in range(_MAX_ROUNDS if alone else 0):
            files, listings = await ledger.list_named_contents()
            left = await asyncio.to_thread(_delete_unreferenced, objects, files, listings)
            if left <= retention.total or not await ledger.prune_oldest():
                return


def _delete_unreferenced(objects: ObjectStore, files: set[str], listings: set[str]) -> int:
    """Delete what is not named; return the bytes that are left."""
    named = files | listings
    for digest in listings:
        listing = decode_listing(objects.get(digest))
        if listing is not None:
            named |= {item.state.mark for item in listing.items.values() if item.state.kind is Kind.FILE}
    objects.bytes_added = 0
    return objects.collect(named)
