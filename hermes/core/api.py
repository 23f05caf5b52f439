"""Values that the API server stores: responses and runs that programs asked for."""

from msgspec import Struct


class StoredResponse(Struct, frozen=True, kw_only=True):
    """A stored response of the API, found again by its id."""

    id: str
    session_id: str
    turn_id: str
    state: str
    body: bytes


class NewRun(Struct, frozen=True, kw_only=True):
    """A run that is about to be stored.

    `idem` is the caller's idempotency key, `digest` a hash of what was asked under it, `letter` the message
    for the session, `wish` how the session is opened again.
    """

    id: str
    owner: str
    idem: str | None
    digest: bytes
    session_id: str
    letter_id: str
    letter: bytes
    wish: bytes


class RunRow(Struct, frozen=True, kw_only=True):
    """A stored run with its state. Times are in seconds since the epoch."""

    id: str
    owner: str
    session_id: str
    letter_id: str
    turn_id: str
    state: str
    reason: str
    error: str
    wish: bytes
    usage: bytes | None
    made_at: float
    ended_at: float | None
