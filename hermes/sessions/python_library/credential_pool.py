"""Reads a program's `credential_pool`: keys, or mappings that also name the organisation that pays for a key."""

from collections.abc import Iterable, Mapping, Sequence

from hermes.core.errors import UsageError
from hermes.core.secret import KeyHolder

PoolEntry = str | Mapping[str, str]
"""A key, or a mapping of `api_key` and `organisation`."""


class CredentialPool(KeyHolder, frozen=True):
    """The keys of a pool, and the organisation of each (empty: unknown)."""

    more_keys: tuple[str, ...] = ()
    organisations: tuple[str, ...] = ()


def parse_credential_pool(pool: Sequence[PoolEntry] | None) -> CredentialPool:
    """Parse a pool. Raises UsageError, never with a key in it."""
    if pool is None:
        return CredentialPool()
    if isinstance(pool, str | Mapping) or not isinstance(pool, Iterable):
        raise UsageError("credential_pool must be a list of keys.")
    entries = [_parse_entry(entry) for entry in pool]
    return CredentialPool(tuple(key for key, _ in entries), tuple(name for _, name in entries))


def _parse_entry(entry: object) -> tuple[str, str]:
    if isinstance(entry, str):
        return entry, ""
    if isinstance(entry, Mapping) and {*entry} <= {"api_key", "organisation"}:
        key, organisation = entry.get("api_key"), entry.get("organisation", "")
        if isinstance(key, str) and isinstance(organisation, str):
            return key, organisation
    raise UsageError("credential_pool must be a list of keys, or of mappings with `api_key` and `organisation`.")
