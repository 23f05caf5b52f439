"""Epochs: stretches of a session in which system prompt, tools and parameters never change."""

import msgspec

from hermes.core.frame import EpochFrame
from hermes.store.records import StoredEpoch
from hermes.store.repository import Repository, Transaction, as_method, reads, to_value, writes
from hermes.store.sessions import require_changed_row
from hermes.store.turns import TurnOwner, require_owner

_FRAME = msgspec.json.Decoder(EpochFrame)
_UNREADABLE_FRAME = EpochFrame(provider="", model="", wire="", encoder_version=0, system="")


def begin_epoch(tx: Transaction, session_id: str, frame: EpochFrame, reason: str) -> int:
    """Begin the session's next epoch, end the one that is open, and return the new number (from 1)."""
    tx.execute("UPDATE sessions SET provider = ?, model = ? WHERE id = ?", (frame.provider, frame.model, session_id))
    require_changed_row(tx, session_id)
    tx.execute(
        "UPDATE epochs SET ended_at = ?, end_reason = ? WHERE session_id = ? AND ended_at IS NULL",
        (tx.now, reason, session_id),
    )
    last = tx.execute("SELECT coalesce(max(number), 0) FROM epochs WHERE session_id = ?", (session_id,)).get
    number = msgspec.convert(last, int) + 1
    tx.execute(
        "INSERT INTO epochs (session_id, number, frame, began_at, begin_reason) VALUES (?, ?, ?, ?, ?)",
        (session_id, number, msgspec.json.encode(frame.stored_frame), tx.now, reason),
    )
    return number


def list_epochs(tx: Transaction, session_id: str) -> list[StoredEpoch]:
    """Return all epochs of a session, in order."""
    rows = tx.execute(
        "SELECT session_id, number, frame, began_at, begin_reason, ended_at, end_reason FROM epochs"
        " WHERE session_id = ? ORDER BY number",
        (session_id,),
    )
    return [to_value(StoredEpoch, (*row[:2], _decode_frame(row[2]), *row[3:])) for row in rows]


def _decode_frame(stored: bytes) -> EpochFrame:
    """Return the frame, or one without a provider when the stored one cannot be read: a
    session's words are worth more.
    """
    try:
        return _FRAME.decode(stored)
    except msgspec.MsgspecError:
        return _UNREADABLE_FRAME


def get_open_epoch(tx: Transaction, session_id: str) -> StoredEpoch | None:
    """Return the session's open epoch, or None."""
    return next((epoch for epoch in reversed(list_epochs(tx, session_id)) if epoch.ended_at is None), None)


class EpochRepository(Repository):
    """The epochs of sessions. Methods that name a session raise `NotFoundError` when there is none."""

    get_open = reads(as_method(get_open_epoch))

    @writes
    def begin(
        self, tx: Transaction, session_id: str, frame: EpochFrame, reason: str, owner: TurnOwner | None = None
    ) -> int:
        """Begin the session's next epoch, end the one that is open, and return the new number (from 1).

        With an `owner` it raises `StoreError` when another process has taken over the turn.
        """
        require_owner(tx, owner)
        return begin_epoch(tx, session_id, frame, reason)

    @writes
    def end(self, tx: Transaction, session_id: str, number: int, reason: str) -> None:
        """End an epoch. Ending one that has ended changes nothing."""
        tx.execute(
            "UPDATE epochs SET ended_at = ?, end_reason = ? WHERE session_id = ? AND number = ? AND ended_at IS NULL",
            (tx.now, reason, session_id, number),
        )
