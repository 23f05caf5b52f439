"""Decides which key a call is made with, and what happens to one that failed."""

from typing import Protocol

from hermes.core.secret import KeyHolder
from hermes.core.stream import Failure


class KeyLease(KeyHolder, frozen=True):
    """A key for one call. `key_id` names its slot without showing the key; `model` and `taken_at` (wall time)
    say for what and when it was leased.
    """

    key: str
    key_id: str = ""
    model: str = ""
    taken_at: float = 0.0


class ProviderKeys(Protocol):
    """The keys of one provider."""

    async def lease_key(self, model: str) -> KeyLease | Failure:
        """Return a key that may be used for this model now, or a failure that says until when there is none."""
        ...

    async def has_usable_key(self, model: str) -> bool:
        """Return whether `lease_key` would give a key now."""
        ...

    async def report_success(self, lease: KeyLease) -> None:
        """Note that the call was answered."""
        ...

    async def report_failure(self, lease: KeyLease, failure: Failure) -> bool:
        """Note that the call failed, charged to what the failure's scope names.

        Return whether another key may be tried at once.
        """
        ...


class SingleKey:
    """A single key (or none) that is tried however often it fails."""

    def __init__(self, key: str) -> None:
        self._lease = KeyLease(key)

    async def lease_key(self, _model: str) -> KeyLease | Failure:
        """Return the key."""
        return self._lease

    async def has_usable_key(self, _model: str) -> bool:
        """Return True always."""
        return True

    async def report_success(self, lease: KeyLease) -> None:
        """Do nothing: nothing is counted."""

    async def report_failure(self, _lease: KeyLease, _failure: Failure) -> bool:
        """Return False: there is no other key."""
        return False
