"""Branches: sessions that begin with the whole conversation of another one, and the tree that they make.

A branch is a copy of rows: its own from the first moment, whatever becomes of the other. Epochs are copied too, so its
first request continues the very prefix that the other one sent. The copies keep the positions of the originals, by
which the search knows them and finds each word once, in the session in which it was said.
"""

import itertools
import json

import apsw
import msgspec

from hermes.core.errors import NotFoundError, UsageError
from hermes.store import compactions, sessions, undo
from hermes.store.access import Access
from hermes.store.rows import ARCHIVED, MessageState, NewSession, SessionRow

BRANCHED = "branched"
"""Why an epoch begins in a branch that has fewer turns than the session it comes from."""
_MOST = 1_000_000_000


def branch(
    connection: apsw.Connection, session_id: str, name: str, *, title: str, turns: int | None, now: float
) -> SessionRow:
    """Make a session `name` that begins with the first `turns` turns of another one (None: all of it).

    What compressions have archived is copied into it as condensed. Raises NotFoundError, and UsageError for a number of
    turns that there are not.
    """
    row = sessions.get(connection, session_id)
    if row is None:
        raise NotFoundError(f"There is no session {session_id}.")
    there = len(undo.last_turns(connection, session_id, _MOST))
    kept = there if turns is None else turns
    if not 0 < kept <= there:
        raise UsageError(f"The conversation has {there} turns.", "Name one of them, counted from 1.")
    fields = {one: getattr(row, one) for one in NewSession.__struct_fields__}
    own = {"id": name, "parent_id": session_id, "branched_at": kept, "title": title or _title(connection, row)}
    sessions.create(connection, msgspec.convert(fields | own, NewSession), now)
    connection.execute(
        "INSERT INTO epochs (session_id, number, frame, began_at, begin_reason, ended_at, end_reason)"
        " SELECT ?, number, frame, began_at, begin_reason, ended_at, end_reason FROM epochs WHERE session_id = ?",
        (name, session_id),
    )
    _copy(connection, session_id, name)
    if kept < there:
        _shorten(connection, name, there - kept, now)
    connection.execute(
        "UPDATE sessions SET message_count = (SELECT count(*) FROM messages WHERE session_id = ?1) WHERE id = ?1",
        (name,),
    )
    made = sessions.get(connection, name)
    assert made is not None
    return made


def tree(connection: apsw.Connection, limit: int) -> list[tuple[SessionRow, str | None]]:
    """The sessions used last, and all that are their kin by branching, each with the one that it branched from."""
    rows = {row.id: row for row in sessions.newest(connection, limit) if row.end_reason != ARCHIVED}
    waiting = list(rows.values())
    found: dict[str, tuple[SessionRow, str | None]] = {}
    while waiting:
        row = waiting.pop()
        if row.id in found:
            continue
        parent = _parent(connection, row)
        found[row.id] = row, parent.id if parent is not None else None
        waiting += [parent] if parent is not None else []
        waiting += _children(connection, row.id)
    return sorted(found.values(), key=lambda pair: (pair[0].created_at, pair[0].id))


def _parent(connection: apsw.Connection, row: SessionRow) -> SessionRow | None:
    """The session that a branch comes from, past the archives that its own compressions have left."""
    at: SessionRow | None = row
    while row.branched_at is not None and at is not None and at.parent_id is not None:
        at = sessions.get(connection, at.parent_id)
        if at is not None and at.end_reason != ARCHIVED:
            return at
    return None


def _children(connection: apsw.Connection, session_id: str) -> list[SessionRow]:
    """The branches of a session."""
    below = [row[0] for row in connection.execute("SELECT id FROM sessions WHERE parent_id = ?", (session_id,))]
    tips = dict.fromkeys(sessions.tip(connection, one) for one in below)
    rows = (sessions.get(connection, one) for one in tips if one != session_id)
    return [row for row in rows if row is not None and row.branched_at is not None]


def _copy(connection: apsw.Connection, source: str, target: str) -> None:
    """Copy what stands of a conversation, with what was condensed of it and by what."""
    line = json.dumps(sessions.lineage(connection, source))
    old = [
        row[0]
        for row in connection.execute(
            "SELECT id FROM messages WHERE session_id IN (SELECT value FROM json_each(?))"
            f" AND state <> {MessageState.UNDONE:d} ORDER BY id",
            (line,),
        )
    ]
    last = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'messages'").get or 0
    ids = dict(zip(old, itertools.count(int(last) + 1)))
    connection.executemany(
        "INSERT INTO messages (id, session_id, epoch, turn_id, role, state, position, created_at, prompt_tokens,"
        " output_tokens, body) SELECT ?, ?, epoch, turn_id, role, state, position, created_at, prompt_tokens,"
        " output_tokens, body FROM messages WHERE id = ?",
        [(new, target, one) for one, new in ids.items()],
    )
    for row in compactions.read(connection, source):
        if not row.undone:
            covered, made = ([ids[one] for one in some if one in ids] for some in (row.covered, row.made))
            connection.execute(
                "INSERT INTO compactions (session_id, epoch, covered, made, memo) VALUES (?, ?, ?, ?, ?)",
                (target, row.epoch, json.dumps(covered), json.dumps(made), row.memo),
            )


def _shorten(connection: apsw.Connection, name: str, count: int, now: float) -> None:
    """Leave the last turns out of a branch: they were never said in it."""
    epoch = sessions.current_epoch(connection, name)
    assert epoch is not None
    undo.take_back(connection, name, count, epoch.frame, now)
    connection.execute("DELETE FROM undos WHERE session_id = ?", (name,))
    connection.execute(f"DELETE FROM messages WHERE session_id = ? AND state = {MessageState.UNDONE:d}", (name,))
    connection.execute("DELETE FROM compactions WHERE session_id = ? AND undone = 1", (name,))
    connection.execute("UPDATE epochs SET begin_reason = ? WHERE session_id = ? AND ended_at IS NULL", (BRANCHED, name))


def _title(connection: apsw.Connection, row: SessionRow) -> str:
    """A title that no other branch has."""
    plain = compactions.unnumbered(row.title)
    for number in itertools.count(1):
        title = f"{plain} (branch)" if number == 1 else f"{plain} (branch {number})"
        if connection.execute("SELECT 1 FROM sessions WHERE title = ?", (title.strip(),)).get is None:
            return title.strip()
    raise AssertionError


class BranchAccess(Access):
    """Branches, and the tree of sessions."""

    async def branch_session(
        self, session_id: str, name: str, *, title: str = "", turns: int | None = None
    ) -> SessionRow:
        """Make a session that begins with the first `turns` turns of another one (None: all of it)."""
        now = self._clock.now()
        return await self._database.write(
            lambda connection: branch(connection, session_id, name, title=title, turns=turns, now=now)
        )

    async def session_tree(self, limit: int) -> list[tuple[SessionRow, str | None]]:
        """The sessions used last, and all that are their kin by branching, each with the one that it branched from."""
        return await self._database.read(lambda connection: tree(connection, limit))
