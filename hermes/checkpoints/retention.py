"""Keeps the copies within their limits: old checkpoints are pruned, and unreferenced contents deleted."""

import asyncio

from msgspec import Struct

from hermes.checkpoints.object_store import ObjectStore
from hermes.checkpoints.scan import decode_listing
from hermes.core.checkpoints import CheckpointLedger, Kind

_MAX_ROUNDS = 40
_ANY_NUMBER = 1 << 31
_MIN_GROWTH = 8_000_000
"""The bytes that one process stores before it checks the total size."""


class CheckpointRetention(Struct, frozen=True, kw_only=True):
    """How much is kept: checkpoints a folder, days, bytes of all copies together."""

    most: int = 20
    days: float = 7.0
    total: int = 500_000_000


async def prune_folder(
    folder: str,
    ledger: CheckpointLedger,
    objects: ObjectStore,
    retention: CheckpointRetention,
    now: float,
    *,
    keep: str = "",
) -> bool:
    """Prune a folder's checkpoints; contents are collected only when something was pruned or enough was stored.

    The last checkpoint of the session `keep` stays. Return whether any went that was not too old.
    """
    since = now - retention.days * 86_400
    expired = await ledger.prune(folder, most=_ANY_NUMBER, since=since)
    dropped = await ledger.prune(folder, most=retention.most, since=since)
    if expired or dropped or objects.bytes_added > min(_MIN_GROWTH, retention.total // 20):
        dropped |= await collect_contents(ledger, objects, retention, folder=folder, keep=keep)
    return bool(dropped)


async def collect_contents(
    ledger: CheckpointLedger, objects: ObjectStore, retention: CheckpointRetention, *, folder: str = "", keep: str = ""
) -> bool:
    """Delete unreferenced contents. Where the rest is still too large, the listings of other folders go first, which
    only save reading, then the oldest checkpoints, but not the last of the session `keep`, then this folder's listing.

    Nothing is done while a process takes or restores one: the next call does it. Return whether any checkpoint went.
    """
    dropped = False
    with objects.try_exclusive() as alone:
        for _ in range(_MAX_ROUNDS if alone else 0):
            files, listings = await ledger.list_named_contents()
            left = await asyncio.to_thread(_delete_unreferenced, objects, files, listings)
            if left <= retention.total:
                break
            if await ledger.forget_listings(keep=folder):
                continue
            if await ledger.prune_oldest(keep=keep):
                dropped = True
            elif not await ledger.forget_listings():
                break
    return dropped


def _delete_unreferenced(objects: ObjectStore, files: set[str], listings: set[str]) -> int:
    """Delete what is not named; return the bytes that are left."""
    named = files | listings
    for digest in listings:
        listing = decode_listing(objects.get(digest))
        if listing is not None:
            named |= {item.state.mark for item in listing.items.values() if item.state.kind is Kind.FILE}
    objects.bytes_added = 0
    return objects.collect(named)
