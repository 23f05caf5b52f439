"""The messages of sessions: their transcripts, and the search over them, whose code is loaded when it is needed."""

import json
from asyncio import Future
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import apsw
import msgspec

from hermes.core.encoding import to_json, to_plain
from hermes.core.errors import NotFoundError, StoreError
from hermes.core.messages import Message, Provenance, Role, Source
from hermes.core.usage import Usage
from hermes.i18n.messages import N_
from hermes.store.database import Database
from hermes.store.records import (
    IndexReport,
    MessageState,
    SearchHit,
    SearchQuery,
    SessionExport,
    SessionPreview,
    StoredMessage,
)
from hermes.store.repository import Repository, Transaction, as_method, joins_next, queues, reads, writes
from hermes.store.sessions import get_session, list_lineage, replace_title, require_changed_row
from hermes.store.turns import TurnOwner, insert_turn, list_epochs, require_owner, take_messages
from hermes.util.clock import Clock
from hermes.util.text import clean_surrogates

if TYPE_CHECKING:
    from hermes.store.search.search import SearchIndex


_BODIES = msgspec.json.Decoder(list[Message])
_DECODE_BATCH = 500
"""The number of messages that are decoded in one go."""
_OF_LINEAGE = "session_id IN (SELECT value FROM json_each(?))"
_FIELDS = "body, id, epoch, turn_id, state, created_at, prompt_tokens, output_tokens"
_INSERT = (
    "INSERT INTO messages"
    " (id, session_id, epoch, turn_id, role, position, created_at, prompt_tokens, output_tokens, body)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_COUNT = (
    "UPDATE sessions SET updated_at = ?, ended_at = NULL, end_reason = '', message_count = message_count + ?,"
    " tool_call_count = tool_call_count + ?, input_tokens = input_tokens + ?, output_tokens = output_tokens + ?,"
    " cache_read_tokens = cache_read_tokens + ?, cache_write_tokens = cache_write_tokens + ?,"
    " reasoning_tokens = reasoning_tokens + ?,"
    " cost_usd = iif(?9 IS NULL, cost_usd, coalesce(cost_usd, 0) + ?9) WHERE id = ?"
)


class TranscriptEntry(msgspec.Struct, frozen=True, kw_only=True):
    """Messages to be appended together. `usage` is of the call that wrote the first assistant message among them.

    With a `fence` the turn must still be this owner's. `inbox_ids` are inbox rows that become part of the transcript
    with this.
    """

    session_id: str
    epoch: int
    turn_id: str | None
    messages: tuple[Message, ...]
    usage: Usage | None = None
    fence: int = 0
    inbox_ids: tuple[str, ...] = ()


def encode_message(message: Message) -> bytes:
    """Return the message as it is stored: JSON, lone surrogates replaced."""
    try:
        return to_json(message)
    except UnicodeEncodeError:
        text = json.dumps(to_plain(message), ensure_ascii=False, separators=(",", ":"))
        return clean_surrogates(text).encode()


def append_entry(tx: Transaction, entry: TranscriptEntry, *, position: int | None = None) -> list[int]:
    """Store the messages and count them in their session; return their ids, in order.

    `position` puts them where other messages stood instead of at the end.
    """
    if entry.fence and entry.turn_id is not None:
        require_owner(tx, TurnOwner(entry.turn_id, entry.fence))
    usage = entry.usage or Usage()
    calls = sum(1 for message in entry.messages for _ in message.tool_calls())
    totals = (usage.input, usage.output, usage.cache_read, usage.cache_write, usage.reasoning, usage.cost_usd)
    tx.execute(_COUNT, (tx.now, len(entry.messages), calls, *totals, entry.session_id))
    require_changed_row(tx, entry.session_id)
    last = tx.execute("SELECT seq FROM sqlite_sequence WHERE name = 'messages'").get or 0
    speaker = _find_speaker(entry)
    ids = []
    for number, message in enumerate(entry.messages):
        last += 1
        tokens = (usage.input, usage.output) if number == speaker else (None, None)
        place = last if position is None else position
        tx.execute(
            _INSERT,
            (
                last,
                entry.session_id,
                entry.epoch,
                entry.turn_id,
                message.role,
                place,
                tx.now,
                *tokens,
                encode_message(message),
            ),
        )
        ids.append(last)
    take_messages(tx, entry.turn_id, entry.inbox_ids)
    if entry.turn_id is not None:
        tx.execute("UPDATE turns SET text = '' WHERE id = ? AND text <> ''", (entry.turn_id,))
    return ids


def _find_speaker(entry: TranscriptEntry) -> int:
    """Return the index of the message that the usage belongs to; -1 when there is none."""
    if entry.usage is None:
        return -1
    return next((n for n, message in enumerate(entry.messages) if message.role is Role.ASSISTANT), 0)


def read_messages(tx: Transaction, session_id: str, *, everything: bool = False) -> list[StoredMessage]:
    """Return the session's active messages in order; with `everything` also compacted and undone ones and
    those of its archives.
    """
    if everything:
        where, value = _OF_LINEAGE, _encode_lineage(tx, session_id)
    else:
        where, value = f"session_id = ? AND state = {MessageState.ACTIVE:d}", session_id
    return _decode_rows(tx.execute(f"SELECT {_FIELDS} FROM messages WHERE {where} ORDER BY position, id", (value,)))


def read_messages_by_id(tx: Transaction, listed: str) -> list[StoredMessage]:
    """Return the messages of these ids (a JSON list)."""
    return _decode_rows(
        tx.execute(f"SELECT {_FIELDS} FROM messages WHERE id IN (SELECT value FROM json_each(?))", (listed,))
    )


def _read_ends(tx: Transaction, session_id: str, count: int) -> tuple[list[StoredMessage], list[StoredMessage]]:
    """Return the first and the last messages of a session that are not tool results, up
    to `count` of each, none twice.
    """
    shown = (
        f"SELECT {_FIELDS} FROM messages WHERE {_OF_LINEAGE} AND state <> {MessageState.UNDONE:d} AND role <> 'tool'"
        " AND instr(body, '\"synthetic\":true') = 0 ORDER BY position"
    )
    line = _encode_lineage(tx, session_id)
    first = _decode_rows(tx.execute(f"{shown}, id LIMIT ?", (line, count)))
    last = _decode_rows(tx.execute(f"{shown} DESC, id DESC LIMIT ?", (line, count)))
    known = {row.id for row in first}
    return first, [row for row in reversed(last) if row.id not in known]


def _encode_lineage(tx: Transaction, session_id: str) -> str:
    return json.dumps(list_lineage(tx, session_id))


def _decode_rows(cursor: apsw.Cursor) -> list[StoredMessage]:
    """Return rows of `_FIELDS` as messages."""
    rows = list(cursor)
    messages: list[Message] = []
    for begin in range(0, len(rows), _DECODE_BATCH):  # a decoder lets no other thread run
        messages += _BODIES.decode(b"[" + b",".join([row[0] for row in rows[begin : begin + _DECODE_BATCH]]) + b"]")
    states = tuple(MessageState)
    return [
        StoredMessage(identity, epoch, turn_id, states[state], created_at, prompt, output, message)
        for (_, identity, epoch, turn_id, state, created_at, prompt, output), message in zip(
            rows, messages, strict=True
        )
    ]


def set_message_state(tx: Transaction, session_id: str, ids: Sequence[int], state: MessageState) -> None:
    """Make messages active, compacted or undone. Raises `NotFoundError` when one of them is not the session's."""
    known = filter_owned(tx, [session_id], ids)
    if len(known) != len(set(ids)):
        raise NotFoundError(
            N_("Session {session_id} has no message {min}.", session_id=session_id, min=min(set(ids) - known))
        )
    listed = json.dumps(sorted(known))
    tx.execute("UPDATE messages SET state = ? WHERE id IN (SELECT value FROM json_each(?))", (int(state), listed))
    note_changes(tx, listed, erase=False)


def filter_owned(tx: Transaction, session_ids: Sequence[str], ids: Iterable[int]) -> set[int]:
    """Return those of the ids that are messages of these sessions."""
    rows = tx.execute(
        "SELECT id FROM messages WHERE session_id IN (SELECT value FROM json_each(?))"
        " AND id IN (SELECT value FROM json_each(?))",
        (json.dumps(list(session_ids)), json.dumps(list(ids))),
    )
    return {row[0] for row in rows}


def note_changes(tx: Transaction, listed: str, *, erase: bool) -> None:
    """Have the search index look at these messages (a JSON list of ids) again; with `erase` their words are
    removed from it.
    """
    tx.execute("INSERT INTO changes (message_id, erase) SELECT value, ? FROM json_each(?)", (int(erase), listed))


def remove_messages(tx: Transaction, session_id: str, ids: Iterable[int]) -> int:
    """Delete messages of the session with their words; return how many there were."""
    listed = json.dumps(sorted(filter_owned(tx, [session_id], ids)))
    note_changes(tx, listed, erase=True)
    gone = tx.change_rows("DELETE FROM messages WHERE id IN (SELECT value FROM json_each(?))", (listed,))
    tx.execute("UPDATE sessions SET message_count = message_count - ? WHERE id = ?", (gone, session_id))
    return gone


INDEX_EVERY = 512
"""The index is updated whenever a message's id passes a multiple of this, so no search has much to do."""


class SearchRepository:
    """The search index of a store, in a file of its own beside it."""

    def __init__(self, path: Path, store_path: Path, *, vfs: str | None) -> None:
        self._path = path
        self._store_path = store_path
        self._vfs = vfs
        self._index: SearchIndex | None = None
        self._update: Future[IndexReport] | None = None
        self._closed = False

    async def find(
        self,
        query: str,
        *,
        limit: int = 20,
        offset: int = 0,
        newest: bool = True,
        session: str | None = None,
        roles: Sequence[Role] | None = None,
    ) -> list[SearchHit]:
        """Return messages that contain every word of `query`, the newest first, or with `newest` off the best first.

        Words match with other endings; where no message has all words, the best with some of them are returned. Nothing
        in `query` is syntax. `run_query` takes more limits.
        """
        return await self.run_query(
            SearchQuery(
                query=query, limit=limit, offset=offset, newest=newest, session=session, roles=tuple(roles or ())
            )
        )

    async def run_query(self, search: SearchQuery, redact: Callable[[str], str] = str) -> list[SearchHit]:
        """Return the messages that match a search with every limit there is. `redact` gets the whole text of each
        before the snippet is cut out of it, in the thread of the index: of a key that is cut in two nothing is known.
        """
        return await self._open_index().find_messages(search, redact)

    async def update_index(self) -> IndexReport:
        """Update and tidy the search index now."""
        return await self._open_index().update_index()

    def follow_append(self, appended: Future[list[int]]) -> None:
        """Update the index in its own thread, from time to time, when messages were appended."""
        if appended.cancelled() or appended.exception() is not None:
            return
        ids = appended.result()
        passed = bool(ids) and (ids[0] - 1) // INDEX_EVERY != ids[-1] // INDEX_EVERY
        if passed and (self._update is None or self._update.done()) and not self._closed:
            self._update = self._open_index().schedule_update()

    async def erase_deleted(self) -> None:
        """Remove every trace of deleted and redacted messages from the index's files, if there are any."""
        if self._path.exists():
            await self._open_index().erase_deleted()

    async def close(self) -> None:
        """Stop indexing, and close the file."""
        self._closed = True
        if self._index is not None:
            await self._index.close()

    def _open_index(self) -> "SearchIndex":
        if self._closed:
            raise StoreError("The store is closed.")
        if self._index is None:
            from hermes.store.search.search import SearchIndex

            self._index = SearchIndex(self._path, self._store_path, vfs=self._vfs)
        return self._index


class MessageRepository(Repository):
    """The messages of sessions. Those that are appended reach the search index from time to time."""

    read = reads(as_method(read_messages))
    set_state = writes(as_method(set_message_state))
    _append_entry = queues(as_method(append_entry))
    _append_with_next = joins_next(as_method(append_entry))

    def __init__(self, database: Database, clock: Clock, search: SearchRepository) -> None:
        super().__init__(database, clock)
        self._search = search

    def append(
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
        future = self._append_entry(
            TranscriptEntry(session_id=session_id, epoch=epoch, turn_id=turn_id, messages=tuple(messages), usage=usage)
        )
        future.add_done_callback(self._search.follow_append)
        return future

    def append_with_next(self, entry: TranscriptEntry) -> Future[list[int]]:
        """Queue an entry, as `append` does, to be stored in one transaction with the next write, which is soon."""
        future = self._append_with_next(entry)
        future.add_done_callback(self._search.follow_append)
        return future

    @writes
    def start_turn(self, tx: Transaction, entry: TranscriptEntry, *, title: str = "") -> None:
        """Store, all or nothing, a turn, its first message, and a title for a session that has none."""
        assert entry.turn_id is not None
        insert_turn(tx, entry.session_id, entry.turn_id)
        append_entry(tx, entry)
        if title:
            replace_title(tx, entry.session_id, title, expected="")

    @reads
    def read_around(self, tx: Transaction, session_id: str, message_id: int, count: int) -> list[StoredMessage]:
        """Return a message, compacted or not, with up to `count` before and after it; empty when the session has
        no such message.
        """
        line = _encode_lineage(tx, session_id)
        position = tx.execute(f"SELECT position FROM messages WHERE {_OF_LINEAGE} AND id = ?", (line, message_id)).get
        if position is None:
            return []
        shown = f"SELECT {_FIELDS} FROM messages WHERE {_OF_LINEAGE} AND state <> {MessageState.UNDONE:d}"
        at = (line, position, message_id)
        before = tx.execute(
            f"{shown} AND (position, id) <= (?, ?) ORDER BY position DESC, id DESC LIMIT ?", (*at, count + 1)
        )
        earlier = _decode_rows(before)[::-1]
        return earlier + _decode_rows(
            tx.execute(f"{shown} AND (position, id) > (?, ?) ORDER BY position, id LIMIT ?", (*at, count))
        )

    @reads
    def read_page(
        self, tx: Transaction, session_id: str, after: int, count: int, without: Sequence[int] = ()
    ) -> list[StoredMessage]:
        """Return up to `count` messages behind the message `after` (0: from the first), compacted or not, those of the
        session's archives too; none that was undone or is named in `without`.
        """
        position = tx.execute("SELECT position FROM messages WHERE id = ?", (after,)).get
        at = after if position is None else position
        found: list[tuple[int, int]] = []
        for one in list_lineage(tx, session_id):  # each by the index alone: a sort over all would read every body
            found += tx.execute(
                "SELECT position, id FROM messages WHERE session_id = ? AND (position, id) > (?, ?)"
                f" AND state <> {MessageState.UNDONE:d} AND id NOT IN (SELECT value FROM json_each(?))"
                " ORDER BY position, id LIMIT ?",
                (one, at, after, json.dumps(list(without)), count),
            )
        listed = [identity for _, identity in sorted(found)[:count]]
        return sorted(read_messages_by_id(tx, json.dumps(listed)), key=lambda row: listed.index(row.id))

    @reads
    def list_previews(self, tx: Transaction, session_ids: Sequence[str], count: int) -> list[SessionPreview]:
        """Return previews of sessions: up to `count` of their first and of their last spoken messages."""
        found = []
        for session_id in session_ids:
            row = get_session(tx, session_id)
            if row is not None:
                first, last = _read_ends(tx, session_id, count)
                found.append(SessionPreview(session=row, first=tuple(first), last=tuple(last)))
        return found

    @reads
    def list_spoken(self, tx: Transaction, turn_id: str) -> list[Message]:
        """Return the messages of a turn without the results of its tools, the oldest first."""
        rows = tx.execute(
            "SELECT body FROM messages WHERE turn_id = ? AND role <> 'tool' ORDER BY position, id", (turn_id,)
        )
        return [msgspec.json.decode(bytes(body), type=Message) for (body,) in rows]

    @reads
    def list_untrusted_sources(self, tx: Transaction, session_ids: Sequence[str]) -> list[Provenance]:
        """Return the untrusted sources whose text stands in these sessions."""
        return [origin for session_id in session_ids for origin in _list_session_sources(tx, session_id)]

    @reads
    def export_session(self, tx: Transaction, session_id: str) -> SessionExport | None:
        """Return all of a session in one state, or None: its row, every epoch and every message, undone and
        compacted ones too.
        """
        row = get_session(tx, session_id)
        if row is None:
            return None
        return SessionExport(
            session=row,
            epochs=tuple(list_epochs(tx, session_id)),
            messages=tuple(read_messages(tx, session_id, everything=True)),
        )


def _list_session_sources(tx: Transaction, session_id: str) -> list[Provenance]:
    """Return the untrusted sources whose text stands in a session, each once, the newest first.

    All of its messages count: with a limit untrusted content would be forgotten.
    """
    found = tx.execute(
        "SELECT part.value ->> '$.provenance.source' AS source, part.value ->> '$.provenance.label' AS label"
        " FROM messages, json_each(CAST(body AS TEXT), '$.parts') AS part"
        f" WHERE {_OF_LINEAGE} AND state <> {MessageState.UNDONE:d} AND instr(body, '\"provenance\":')"
        " AND source IS NOT NULL AND NOT coalesce(part.value ->> '$.provenance.vouched', 0)"
        " GROUP BY source, label ORDER BY max(messages.id) DESC",
        (_encode_lineage(tx, session_id),),
    )
    origins = [Provenance(Source(source), label or "") for source, label in found]
    return [origin for origin in origins if origin.is_untrusted]
