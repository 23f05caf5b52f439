"""Which key a call is made with, and what becomes of one that failed."""

from typing import Protocol

from hermes.core.secret import KeyHolder
from hermes.core.stream import Failure


class Lease(KeyHolder, frozen=True):
    """A key for one call. `key_id` names its place without showing it; what it was taken for, and when (wall time)."""

    key: str
    key_id: str = ""
    model: str = ""
    taken_at: float = 0.0


class Keys(Protocol):
    """The keys of one provider."""

    async def lease(self, model: str) -> Lease | Failure:
        """A key that may be used for this model now; a failure that says until when when there is none."""
        ...

    async def available(self, model: str) -> bool:
        """Whether `lease` would give a key now."""
        ...

    async def succeeded(self, lease: Lease) -> None:
        """The call was answered."""
        ...

    async def failed(self, lease: Lease, failure: Failure) -> bool:
        """The call failed; the failure's scope says what is to blame. Whether another key may be tried at once."""
        ...


class OneKey:
    """A single key (or none), that is tried however often it fails."""

    def __init__(self, key: str) -> None:
        self._lease = Lease(key)

    async def lease(self, _model: str) -> Lease | Failure:
        """The key."""
        return self._lease

    async def available(self, _model: str) -> bool:
        """Always."""
        return True

    async def succeeded(self, lease: Lease) -> None:
        """Nothing is counted."""

    async def failed(self, _lease: Lease, _failure: Failure) -> bool:
        """There is no other key."""
        return False
