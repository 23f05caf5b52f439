"""The store's verbs by concern: sessions and epochs, transcripts, turns. `Store` has them all."""

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
from hermes.store.compactions import Cover
from hermes.store.imported_sessions import OldSession
from hermes.store.rows import (
    CompactionRow,
    EffectRow,
    Glimpse,
    InboxRow,
    MessageState,
    NewSession,
    SessionExport,
    SessionRow,
    StoredEpoch,
    StoredMessage,
    TurnRow,
)
from hermes.store.sqlite.database import Database
from hermes.store.transcript import Entry
from hermes.store.turns import Owner, TurnEnd
from hermes.util.clock import Clock


class Access:
    """What the verbs stand on."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock


class SessionAccess(Access):
    """Sessions and their epochs. What names a session that is not there raises `NotFoundError`."""

    async def create_session(self, session: NewSession) -> None:
        """Store a new session; `UsageError` when its id is taken."""
        now = self._clock.now()
        await self._database.write(lambda connection: sessions.create(connection, session, now))

    async def take_session(self, old: OldSession) -> int | None:
        """Store another program's session, or what was said in it since it was taken last; how many messages that were.

        None, with nothing changed, when another session has its id, or when it was changed here since.
        """
        return await self._database.write(lambda connection: imported_sessions.take(connection, old))

    async def session(self, session_id: str) -> SessionRow | None:
        """The session of exactly this id."""
        return await self._database.read(lambda connection: sessions.get(connection, session_id))

    async def find_sessions(self, prefix_or_title: str, *, limit: int = 20) -> list[SessionRow]:
        """Sessions whose id begins with the text or whose title it is, the one used last first."""
        return await self._database.read(lambda connection: sessions.find(connection, prefix_or_title, limit))

    async def list_sessions(
        self, limit: int, *, before: str | None = None, source: str | None = None, person: str | None = None
    ) -> list[SessionRow]:
        """Sessions with messages, by last use, newest first; `before` is the last id of the page that came before,
        `person` whose they are: empty for the owner, None for all."""
        return await self._database.read(
            lambda connection: sessions.newest(connection, limit, before=before, source=source, person=person)
        )

    async def latest_session(self, source: str | None = None, *, person: str | None = None) -> SessionRow | None:
        """The session in which something was said last."""
        return next(iter(await self.list_sessions(1, source=source, person=person)), None)

    async def idle_sessions(self, before: float) -> list[SessionRow]:
        """Conversations in which nothing was said since a moment, the oldest first."""
        return await self._database.read(lambda connection: sessions.idle(connection, before))

    async def session_sums(self, by: str = "") -> list[tuple[str, int, int, int]]:
        """How many conversations, messages and tokens there are, in all, or each `by` `model` or `source`."""
        column = {"": "''", "model": "model", "source": "source"}[by]
        return await self._database.read(lambda connection: sessions.totals(connection, column))

    async def lineage(self, session_id: str) -> list[str]:
        """The session and the archives that its compressions have left, the newest first; none for an unknown one."""
        return await self._database.read(lambda connection: sessions.lineage(connection, session_id))

    async def tip(self, session_id: str) -> str:
        """Where the conversation that an archive is of goes on; any other session is its own."""
        return await self._database.read(lambda connection: sessions.tip(connection, session_id))

    async def drop_empty_session(self, session_id: str) -> bool:
        """Delete a session in which nothing was ever said; whether there was one."""
        return await self._database.write(lambda connection: sessions.drop_empty(connection, session_id))

    async def name_session(self, session_id: str, title: str, *, instead_of: str) -> bool:
        """Give the session a title where it still has that other one; whether it had."""
        return await self._database.write(lambda connection: sessions.name(connection, session_id, title, instead_of))

    async def rename_session(self, session_id: str, title: str) -> None:
        """Give a session another title."""
        await self._database.write(lambda connection: sessions.rename(connection, session_id, title))

    async def end_session(self, session_id: str, reason: str) -> None:
        """Mark a session as ended; appending to it opens it again."""
        now = self._clock.now()
        await self._database.write(lambda connection: sessions.end(connection, session_id, reason, now))

    async def begin_epoch(self, session_id: str, frame: EpochFrame, reason: str, owner: Owner | None = None) -> int:
        """Begin the session's next epoch, ending the one that is open; its number (from 1).

        With an `owner`, here and below, `StoreError` when the turn is another process's by now.
        """
        now = self._clock.now()

        def work(connection: apsw.Connection) -> int:
            if owner is not None:
                turns.must_own(connection, owner.turn_id, owner.fence)
            return sessions.begin_epoch(connection, session_id, frame, reason, now)

        return await self._database.write(work)

    async def end_epoch(self, session_id: str, number: int, reason: str) -> None:
        """End an epoch; one that has ended stays as it is."""
        now = self._clock.now()
        await self._database.write(lambda connection: sessions.end_epoch(connection, session_id, number, reason, now))

    async def current_epoch(self, session_id: str) -> StoredEpoch | None:
        """The session's open epoch."""
        return await self._database.read(lambda connection: sessions.current_epoch(connection, session_id))


class TranscriptAccess(Access):
    """The messages of sessions."""

    def append(
        self,
        session_id: str,
        epoch: int,
        turn_id: str | None,
        messages: Sequence[Message],
        usage: Usage | None = None,
    ) -> Future[list[int]]:
        """Queue messages behind every write before and go on; the future gives their ids once they are on disk.

        Writes are in order, so whoever awaits a later one may take these for stored, unless this future holds an
        error: await it before the turn ends. `usage` is of the call that wrote the assistant message among them.
        """
        return self.put(
            Entry(session_id=session_id, epoch=epoch, turn_id=turn_id, messages=tuple(messages), usage=usage)
        )

    def put(self, entry: Entry) -> Future[list[int]]:
        """As `append`, with everything that an entry can say."""
        now = self._clock.now()
        return self._database.submit(lambda connection: transcript.append(connection, entry, now))

    async def transcript(self, session_id: str, *, everything: bool = False) -> list[StoredMessage]:
        """The conversation as it stands: active messages in order; empty for an unknown session.

        With `everything` compacted and undone ones too, also where an archive holds them.
        """
        return await self._database.read(
            lambda connection: transcript.read(connection, session_id, everything=everything)
        )

    async def around(self, session_id: str, message_id: int, count: int) -> list[StoredMessage]:
        """A message, compacted or not, with up to `count` before it and after it; empty when there is no such."""
        return await self._database.read(
            lambda connection: transcript.around(connection, session_id, message_id, count)
        )

    async def glimpses(self, session_ids: Sequence[str], count: int) -> list[Glimpse]:
        """What is seen of sessions at a glance: up to `count` of their first and of their last spoken messages."""

        def work(connection: apsw.Connection) -> list[Glimpse]:
            found = []
            for session_id in session_ids:
                row = sessions.get(connection, session_id)
                if row is not None:
                    first, last = transcript.ends(connection, session_id, count)
                    found.append(Glimpse(session=row, first=tuple(first), last=tuple(last)))
            return found

        return await self._database.read(work)

    async def strangers(self, session_ids: Sequence[str]) -> list[Provenance]:
        """Where text in these sessions came from that nobody vouched for."""
        return await self._database.read(
            lambda connection: [
                origin for session_id in session_ids for origin in transcript.strangers(connection, session_id)
            ]
        )

    async def export_session(self, session_id: str) -> SessionExport | None:
        """All of a session in one state: its row, every epoch and every message, undone and compacted ones too."""

        def work(connection: apsw.Connection) -> SessionExport | None:
            row = sessions.get(connection, session_id)
            if row is None:
                return None
            return SessionExport(
                session=row,
                epochs=tuple(sessions.epochs(connection, session_id)),
                messages=tuple(transcript.read(connection, session_id, everything=True)),
            )

        return await self._database.read(work)

    def enqueue(self, session_id: str, letter_id: str, body: bytes, *, first: bool = False) -> Future[None]:
        """Queue the storing of something that waits to be said; the future is done once it is on disk."""
        row = InboxRow(letter_id, body, self._clock.now())
        return self._database.submit(lambda connection: inbox.put(connection, session_id, row, first=first))

    async def inbox(self, session_id: str) -> list[InboxRow]:
        """What waits to be said to a session, in order."""
        return await self._database.read(lambda connection: inbox.waiting(connection, session_id))

    async def compact(
        self, entry: Entry, covered: Sequence[int], frame: EpochFrame, reason: str, owner: Owner | None = None
    ) -> tuple[list[int], int]:
        """Let the entry's messages stand for the covered ones, at their place, and begin the epoch that sends them.

        All or nothing: a summary never stands in an epoch that was sent without it. The covered messages are kept.
        Returns the new ids and the epoch's number.
        """
        now = self._clock.now()

        def work(connection: apsw.Connection) -> tuple[list[int], int]:
            if owner is not None:
                turns.must_own(connection, owner.turn_id, owner.fence)
            ids = compactions.compact(connection, entry, covered, now)
            return ids, sessions.begin_epoch(connection, entry.session_id, frame, reason, now)

        return await self._database.write(work)

    async def compact_all(
        self,
        changes: Sequence[Cover],
        frame: EpochFrame,
        reason: str,
        *,
        memo: bytes = b"",
        owner: Owner | None = None,
        archive: bool = False,
    ) -> int:
        """As `compact`, for several places of one session; remembered, so that `undo_compaction` can take it back.

        With `archive` the covered messages move to a session of their own, which becomes the parent of this one.
        """
        now = self._clock.now()
        session_id = changes[0].entry.session_id

        def work(connection: apsw.Connection) -> int:
            if owner is not None:
                turns.must_own(connection, owner.turn_id, owner.fence)
            made = [
                one for change in changes for one in compactions.compact(connection, change.entry, change.covered, now)
            ]
            epoch = sessions.begin_epoch(connection, session_id, frame, reason, now)
            compactions.remember(connection, session_id, epoch, changes, made, memo)
            if archive:
                covered = [one for change in changes for one in change.covered]
                compactions.archive(connection, session_id, new_session_id(now), covered, now)
            return epoch

        return await self._database.write(work)

    async def compactions(self, session_id: str) -> list[CompactionRow]:
        """The session's compactions, the oldest first; those that were undone too."""
        return await self._database.read(lambda connection: compactions.read(connection, session_id))

    async def undo_compaction(self, session_id: str, frame: EpochFrame, reason: str) -> int | None:
        """Put the originals of the last compaction back, all or nothing, and begin the epoch that sends them.

        The epoch's number; None when there is no compaction that could be undone.
        """
        now = self._clock.now()

        def work(connection: apsw.Connection) -> int | None:
            if not compactions.undo_last(connection, session_id):
                return None
            return sessions.begin_epoch(connection, session_id, frame, reason, now)

        return await self._database.write(work)

    async def mark_messages(self, session_id: str, ids: Sequence[int], state: MessageState) -> None:
        """Undo messages or bring them back; search follows. Rows are kept."""
        await self._database.write(lambda connection: transcript.set_state(connection, session_id, ids, state))


class TurnAccess(Access):
    """Turns and their effects."""

    async def begin_turn(self, session_id: str, turn_id: str, *, text: str = "") -> None:
        """Store that a turn begins here; `text` is kept until the turn's first message is appended."""
        turn = turns.fresh(turn_id, session_id, self._clock.now(), text=text)
        await self._database.write(lambda connection: turns.begin(connection, turn))

    async def start_turn(self, entry: Entry, *, title: str = "") -> None:
        """Store, all or nothing: a turn, the message that it begins with, and a title for a session that has none."""
        now = self._clock.now()
        assert entry.turn_id is not None
        turn = turns.fresh(entry.turn_id, entry.session_id, now)

        def work(connection: apsw.Connection) -> None:
            turns.begin(connection, turn)
            transcript.append(connection, entry, now)
            if title:
                sessions.name(connection, entry.session_id, title, "")

        await self._database.write(work)

    async def adopt_turn(self, turn_id: str) -> int:
        """Take over a turn whose owner died; the fence that its writes carry from now on."""
        return await self._database.write(lambda connection: turns.adopt(connection, turn_id, os.getpid()))

    def mark_stopping(self, owner: Owner) -> Future[None]:
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
        """Store a turn's named end, once; `NotFoundError` when it is not running.

        With a `fence`, here and below, `StoreError` when the turn is another process's by now.
        """
        now = self._clock.now()
        how = TurnEnd(reason=reason, usage=usage or Usage(), calls=calls, error=error)
        await self._database.write(lambda connection: turns.end(connection, turn_id, how, now, fence))

    async def turn(self, turn_id: str) -> TurnRow | None:
        """The turn of this id."""
        return await self._database.read(lambda connection: turns.get_turn(connection, turn_id))

    async def open_turns(self, session_id: str) -> list[TurnRow]:
        """The session's turns that have not ended: at work, or of a process that died."""
        return await self._database.read(lambda connection: turns.running(connection, session_id))

    async def intend(self, turn_id: str, intents: Sequence[Intent], *, fence: int = 0) -> None:
        """Record the calls of a batch, all or none, before the first of them starts."""
        now = self._clock.now()
        await self._database.write(lambda connection: turns.intend(connection, turn_id, intents, now, fence))

    async def done(self, turn_id: str, result: ToolResultPart, *, fence: int = 0) -> None:
        """Record what a call gave back."""
        now = self._clock.now()
        await self._database.write(lambda connection: turns.done(connection, turn_id, result, now, fence))

    async def doubt(self, turn_id: str) -> int:
        """Mark what was under way and is not repeatable as uncertain; how many calls that are."""
        return await self._database.write(lambda connection: turns.doubt(connection, turn_id))

    async def effects(self, turn_id: str) -> list[EffectRow]:
        """The turn's effects in the order of their intents."""
        return await self._database.read(lambda connection: turns.effects(connection, turn_id))

    def journal(self, turn_id: str) -> "TurnJournal":
        """The effect journal of one turn, for the executor."""
        return TurnJournal(self, turn_id)


class TurnJournal:
    """One turn's `EffectJournal`."""

    def __init__(self, store: TurnAccess, turn_id: str) -> None:
        self._store = store
        self._turn_id = turn_id

    async def intend(self, intents: Sequence[Intent]) -> None:
        """Record the intents of a batch, all or none."""
        await self._store.intend(self._turn_id, intents)

    async def done(self, result: ToolResultPart) -> None:
        """Record what a call gave back."""
        await self._store.done(self._turn_id, result)
