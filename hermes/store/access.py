"""Store operations by subject: sessions and epochs, transcripts, turns. `Store` combines them all."""

import os
from asyncio import Future
from collections.abc import Sequence

import apsw

from hermes.core.frame import EpochFrame
from hermes.core.ids import new_session_id
from hermes.core.messages import Message
from hermes.core.outcomes import ExitReason
from hermes.core.parts import Provenance, ToolResultPart
from hermes.core.protocols import Intent
from hermes.core.usage import Usage
from hermes.store import compactions, imported_sessions, inbox, sessions, transcript, turns
from hermes.store.compactions import CompactionCover
from hermes.store.imported_sessions import ImportedSession
from hermes.store.records import (
    CompactionRow,
    EffectRow,
    InboxRow,
    MessageState,
    NewSession,
    SessionExport,
    SessionPreview,
    SessionRow,
    StoredEpoch,
    StoredMessage,
    TurnRow,
)
from hermes.store.sqlite.database import Database
from hermes.store.transcript import TranscriptEntry
from hermes.store.turns import TurnEnd, TurnOwner
from hermes.util.clock import Clock


class StoreAccess:
    """The base of the store's operations: the database and the clock."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock


class SessionAccess(StoreAccess):
    """Sessions and their epochs. Methods that name a session raise `NotFoundError` when there is none."""

    async def create_session(self, session: NewSession) -> None:
        """Store a new session. Raises `UsageError` when its id is taken."""
        now = self._clock.now()
        await self._database.write(lambda connection: sessions.create_session(connection, session, now))

    async def import_session(self, old: ImportedSession) -> int | None:
        """Store another program's session, or what was said in it since it was imported last; return the number of new
        messages.

        Returns None, with nothing changed, when another session has its id, or when it was changed here since.
        """
        return await self._database.write(lambda connection: imported_sessions.import_session(connection, old))

    async def get_session(self, session_id: str) -> SessionRow | None:
        """Return the session of exactly this id, or None."""
        return await self._database.read(lambda connection: sessions.get_session(connection, session_id))

    async def find_sessions(self, prefix_or_title: str, *, limit: int = 20) -> list[SessionRow]:
        """Return sessions whose id begins with the text or whose title equals it, the one used last first."""
        return await self._database.read(lambda connection: sessions.find_sessions(connection, prefix_or_title, limit))

    async def list_sessions(
        self, limit: int, *, before: str | None = None, source: str | None = None, person: str | None = None
    ) -> list[SessionRow]:
        """Return sessions that have messages, by last use, newest first.

        `before` is the last id of the page before; `person` limits to one person's sessions: empty means the
        owner's, None all.
        """
        return await self._database.read(
            lambda connection: sessions.list_sessions(connection, limit, before=before, source=source, person=person)
        )

    async def get_latest_session(self, source: str | None = None, *, person: str | None = None) -> SessionRow | None:
        """Return the session in which something was said last, or None."""
        return next(iter(await self.list_sessions(1, source=source, person=person)), None)

    async def list_idle_sessions(self, before: float) -> list[SessionRow]:
        """Return the sessions in which nothing was said since `before`, the oldest first."""
        return await self._database.read(lambda connection: sessions.list_idle_sessions(connection, before))

    async def sum_sessions(self, by: str = "") -> list[tuple[str, int, int, int]]:
        """Return the numbers of sessions, messages and tokens: in all, or one row for each `by` `model` or `source`."""
        column = {"": "''", "model": "model", "source": "source"}[by]
        return await self._database.read(lambda connection: sessions.sum_sessions(connection, column))

    async def list_lineage(self, session_id: str) -> list[str]:
        """Return the ids of the session and of the archives that its compressions left, newest first; empty for an
        unknown id.
        """
        return await self._database.read(lambda connection: sessions.list_lineage(connection, session_id))

    async def find_tip(self, session_id: str) -> str:
        """Return the session in which an archive's conversation goes on; any other session's id is returned
        as it is.
        """
        return await self._database.read(lambda connection: sessions.find_tip(connection, session_id))

    async def drop_empty_session(self, session_id: str) -> bool:
        """Delete a session in which nothing was ever said; return whether there was one."""
        return await self._database.write(lambda connection: sessions.drop_empty_session(connection, session_id))

    async def replace_title(self, session_id: str, title: str, *, expected: str) -> bool:
        """Set the session's title when it still is `instead_of`; return whether it was."""
        return await self._database.write(
            lambda connection: sessions.replace_title(connection, session_id, title, expected)
        )

    async def rename_session(self, session_id: str, title: str) -> None:
        """Set the session's title."""
        await self._database.write(lambda connection: sessions.rename_session(connection, session_id, title))

    async def end_session(self, session_id: str, reason: str) -> None:
        """Mark a session as ended. Appending to it reopens it."""
        now = self._clock.now()
        await self._database.write(lambda connection: sessions.end_session(connection, session_id, reason, now))

    async def begin_epoch(self, session_id: str, frame: EpochFrame, reason: str, owner: TurnOwner | None = None) -> int:
        """Begin the session's next epoch, end the one that is open, and return the new number (from 1).

        With an `owner`, here and below, raises `StoreError` when another process has taken over the turn.
        """
        now = self._clock.now()

        def insert_epoch(connection: apsw.Connection) -> int:
            if owner is not None:
                turns.require_owner(connection, owner.turn_id, owner.fence)
            return sessions.begin_epoch(connection, session_id, frame, reason, now)

        return await self._database.write(insert_epoch)

    async def end_epoch(self, session_id: str, number: int, reason: str) -> None:
        """End an epoch. One that has ended already stays as it is."""
        now = self._clock.now()
        await self._database.write(lambda connection: sessions.end_epoch(connection, session_id, number, reason, now))

    async def get_open_epoch(self, session_id: str) -> StoredEpoch | None:
        """Return the session's open epoch, or None."""
        return await self._database.read(lambda connection: sessions.get_open_epoch(connection, session_id))


class TranscriptAccess(StoreAccess):
    """The messages of sessions."""

    def append_messages(
        self,
        session_id: str,
        epoch: int,
        turn_id: str | None,
        messages: Sequence[Message],
        usage: Usage | None = None,
    ) -> Future[list[int]]:
        """Queue messages behind all earlier writes and return at once; the future gives their ids once they are on
        disk.

        Writes keep their order, so whoever awaits a later one may take these as stored, unless this future holds an
        error: await it before the turn ends. `usage` belongs to the call that wrote the assistant message among them.
        """
        return self.append_entry(
            TranscriptEntry(session_id=session_id, epoch=epoch, turn_id=turn_id, messages=tuple(messages), usage=usage)
        )

    def append_entry(self, entry: TranscriptEntry) -> Future[list[int]]:
        """Queue an entry, as `append_messages` does, with every field that an entry has."""
        now = self._clock.now()
        return self._database.submit(lambda connection: transcript.append_entry(connection, entry, now))

    async def read_transcript(self, session_id: str, *, everything: bool = False) -> list[StoredMessage]:
        """Return the session's active messages in order; empty for an unknown session.

        With `everything`, compacted and undone messages are included, also those that an archive holds.
        """
        return await self._database.read(
            lambda connection: transcript.read_messages(connection, session_id, everything=everything)
        )

    async def read_around(self, session_id: str, message_id: int, count: int) -> list[StoredMessage]:
        """Return a message, compacted or not, with up to `count` before and after it; empty when there is no such
        message.
        """
        return await self._database.read(
            lambda connection: transcript.read_around(connection, session_id, message_id, count)
        )

    async def list_previews(self, session_ids: Sequence[str], count: int) -> list[SessionPreview]:
        """Return previews of sessions: up to `count` of their first and of their last spoken messages."""

        def select_previews(connection: apsw.Connection) -> list[SessionPreview]:
            found = []
            for session_id in session_ids:
                row = sessions.get_session(connection, session_id)
                if row is not None:
                    first, last = transcript.read_ends(connection, session_id, count)
                    found.append(SessionPreview(session=row, first=tuple(first), last=tuple(last)))
            return found

        return await self._database.read(select_previews)

    async def list_untrusted_sources(self, session_ids: Sequence[str]) -> list[Provenance]:
        """Return the untrusted sources whose text stands in these sessions."""
        return await self._database.read(
            lambda connection: [
                origin
                for session_id in session_ids
                for origin in transcript.list_untrusted_sources(connection, session_id)
            ]
        )

    async def export_session(self, session_id: str) -> SessionExport | None:
        """Return all of a session in one state, or None: its row, every epoch and every message, undone and
        compacted ones too.
        """

        def select_export(connection: apsw.Connection) -> SessionExport | None:
            row = sessions.get_session(connection, session_id)
            if row is None:
                return None
            return SessionExport(
                session=row,
                epochs=tuple(sessions.list_epochs(connection, session_id)),
                messages=tuple(transcript.read_messages(connection, session_id, everything=True)),
            )

        return await self._database.read(select_export)

    def enqueue_message(self, session_id: str, letter_id: str, body: bytes, *, first: bool = False) -> Future[None]:
        """Queue the storing of a message that waits for its session; the future is done once it is on disk."""
        row = InboxRow(letter_id, body, self._clock.now())
        return self._database.submit(lambda connection: inbox.enqueue_message(connection, session_id, row, first=first))

    async def list_inbox(self, session_id: str) -> list[InboxRow]:
        """Return the messages that wait for a session, in order."""
        return await self._database.read(lambda connection: inbox.list_waiting(connection, session_id))

    async def compact_messages(
        self,
        entry: TranscriptEntry,
        covered: Sequence[int],
        frame: EpochFrame,
        reason: str,
        owner: TurnOwner | None = None,
    ) -> tuple[list[int], int]:
        """Replace the covered messages by the entry's, at their place, and begin the epoch that sends them.

        All or nothing: a summary never stands in an epoch that was sent without it. The covered messages are
        kept. Returns the new ids and the epoch's number.
        """
        now = self._clock.now()

        def write_compaction(connection: apsw.Connection) -> tuple[list[int], int]:
            if owner is not None:
                turns.require_owner(connection, owner.turn_id, owner.fence)
            ids = compactions.replace_covered(connection, entry, covered, now)
            return ids, sessions.begin_epoch(connection, entry.session_id, frame, reason, now)

        return await self._database.write(write_compaction)

    async def apply_compaction(
        self,
        changes: Sequence[CompactionCover],
        frame: EpochFrame,
        reason: str,
        *,
        memo: bytes = b"",
        owner: TurnOwner | None = None,
        archive: bool = False,
    ) -> int:
        """Compact several places of one session and record it, so that `undo_compaction` can take it back; return the
        epoch's number.

        With `archive` the covered messages move to a session of their own, which becomes the parent of this one.
        """
        now = self._clock.now()
        session_id = changes[0].entry.session_id

        def write_compaction(connection: apsw.Connection) -> int:
            if owner is not None:
                turns.require_owner(connection, owner.turn_id, owner.fence)
            made = [
                one
                for change in changes
                for one in compactions.replace_covered(connection, change.entry, change.covered, now)
            ]
            epoch = sessions.begin_epoch(connection, session_id, frame, reason, now)
            compactions.record_compaction(connection, session_id, epoch, changes, made, memo)
            if archive:
                covered = [one for change in changes for one in change.covered]
                compactions.archive_messages(connection, session_id, new_session_id(now), covered, now)
            return epoch

        return await self._database.write(write_compaction)

    async def list_compactions(self, session_id: str) -> list[CompactionRow]:
        """Return the session's compactions, oldest first, undone ones included."""
        return await self._database.read(lambda connection: compactions.list_compactions(connection, session_id))

    async def undo_compaction(self, session_id: str, frame: EpochFrame, reason: str) -> int | None:
        """Restore the originals of the last compaction, all or nothing, and begin the epoch that sends them.

        Returns the epoch's number, or None when there is no compaction to undo.
        """
        now = self._clock.now()

        def restore_originals(connection: apsw.Connection) -> int | None:
            if not compactions.undo_last_compaction(connection, session_id):
                return None
            return sessions.begin_epoch(connection, session_id, frame, reason, now)

        return await self._database.write(restore_originals)

    async def set_message_state(self, session_id: str, ids: Sequence[int], state: MessageState) -> None:
        """Mark messages as undone or active. The search index follows; rows are kept."""
        await self._database.write(lambda connection: transcript.set_message_state(connection, session_id, ids, state))


class TurnAccess(StoreAccess):
    """Turns and their effects."""

    async def begin_turn(self, session_id: str, turn_id: str, *, text: str = "") -> None:
        """Store that a turn begins in this process; `text` is kept until the turn's first message is appended."""
        turn = turns.make_turn_row(turn_id, session_id, self._clock.now(), text=text)
        await self._database.write(lambda connection: turns.insert_turn(connection, turn))

    async def start_turn(self, entry: TranscriptEntry, *, title: str = "") -> None:
        """Store, all or nothing, a turn, its first message, and a title for a session that has none."""
        now = self._clock.now()
        assert entry.turn_id is not None
        turn = turns.make_turn_row(entry.turn_id, entry.session_id, now)

        def write_turn(connection: apsw.Connection) -> None:
            turns.insert_turn(connection, turn)
            transcript.append_entry(connection, entry, now)
            if title:
                sessions.replace_title(connection, entry.session_id, title, "")

        await self._database.write(write_turn)

    async def adopt_turn(self, turn_id: str) -> int:
        """Take over a turn whose owner died; return the fence that its writes carry from now on."""
        return await self._database.write(lambda connection: turns.adopt_turn(connection, turn_id, os.getpid()))

    def mark_stopping(self, owner: TurnOwner) -> Future[None]:
        """Queue the note that the person asked for the turn to stop."""
        return self._database.submit(lambda connection: turns.mark_stopping(connection, owner))

    async def end_turn(
        self,
        turn_id: str,
        reason: ExitReason,
        *,
        usage: Usage | None = None,
        calls: int = 0,
        error: str = "",
        fence: int = 0,
    ) -> None:
        """Store a turn's named end, once. Raises `NotFoundError` when the turn is not running.

        With a `fence`, here and below, raises `StoreError` when another process has taken over the turn.
        """
        now = self._clock.now()
        how = TurnEnd(reason=reason, usage=usage or Usage(), calls=calls, error=error)
        await self._database.write(lambda connection: turns.end_turn(connection, turn_id, how, now, fence))

    async def get_turn(self, turn_id: str) -> TurnRow | None:
        """Return the turn of this id, or None."""
        return await self._database.read(lambda connection: turns.get_turn(connection, turn_id))

    async def list_open_turns(self, session_id: str) -> list[TurnRow]:
        """Return the session's turns that have not ended, whether they run or their process died."""
        return await self._database.read(lambda connection: turns.list_running_turns(connection, session_id))

    async def record_intents(self, turn_id: str, intents: Sequence[Intent], *, fence: int = 0) -> None:
        """Record the calls of a batch, all or none, before the first of them starts."""
        now = self._clock.now()
        await self._database.write(lambda connection: turns.record_intents(connection, turn_id, intents, now, fence))

    async def record_result(self, turn_id: str, result: ToolResultPart, *, fence: int = 0) -> None:
        """Record the result of a call."""
        now = self._clock.now()
        await self._database.write(lambda connection: turns.record_result(connection, turn_id, result, now, fence))

    async def mark_uncertain(self, turn_id: str) -> int:
        """Mark open calls that are not repeatable as uncertain; return how many there are."""
        return await self._database.write(lambda connection: turns.mark_uncertain(connection, turn_id))

    async def list_effects(self, turn_id: str) -> list[EffectRow]:
        """Return the turn's effects in the order of their intents."""
        return await self._database.read(lambda connection: turns.list_effects(connection, turn_id))

    def open_journal(self, turn_id: str) -> "TurnJournal":
        """Return the effect journal of one turn, for the executor."""
        return TurnJournal(self, turn_id)


class TurnJournal:
    """The `EffectJournal` of one turn."""

    def __init__(self, store: TurnAccess, turn_id: str) -> None:
        self._store = store
        self._turn_id = turn_id

    async def record_intents(self, intents: Sequence[Intent]) -> None:
        """Record the intents of a batch, all or none."""
        await self._store.record_intents(self._turn_id, intents)

    async def record_result(self, result: ToolResultPart) -> None:
        """Record the result of a call."""
        await self._store.record_result(self._turn_id, result)
