"""What the API server keeps of what programs ask for."""

from msgspec import Struct


class StoredResponse(Struct, frozen=True, kw_only=True):
    """An answer that was given under an id."""

    id: str
    session_id: str
    turn_id: str
    state: str
    body: bytes


class NewRun(Struct, frozen=True, kw_only=True):
    """A run as it is asked for: `idem` is the caller's own key of the request, `digest` what was asked under it,
    `letter` what is said to the session, `wish` how the session is opened again."""

    id: str
    owner: str
    idem: str | None
    digest: bytes
    session_id: str
    letter_id: str
    letter: bytes
    wish: bytes


class RunRow(Struct, frozen=True, kw_only=True):
    """A run and what became of it. Times in seconds since the epoch."""

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
