"""Branches: sessions that begin with the whole conversation of another one, and the tree that they form.

A branch is a copy of rows: independent from the first moment, whatever happens to the other session. Epochs are copied
too, so its first request continues the very prefix that the other session sent. The copies keep the positions of the
originals, so search finds each message once, in the session in which it was said.
"""

import itertools
import json
from collections.abc import Sequence

import msgspec

from hermes.core.errors import NotFoundError, UsageError
from hermes.i18n.messages import N_
from hermes.store import compactions, sessions, undo
from hermes.store.records import ARCHIVED, MessageState, NewSession, SessionRow
from hermes.store.repository import Repository, Transaction, reads, writes
from hermes.store.turns import get_open_epoch

BRANCHED = "branched"
"""The reason of an epoch that begins in a branch with fewer turns than the session it comes from."""
_ALL_TURNS = 1_000_000_000


class BranchRepository(Repository):
    """The branches, and the tree of sessions."""

    @writes
    def create(
        self, tx: Transaction, session_id: str, name: str, *, title: str = "", turns: int | None = None
    ) -> SessionRow:
        """Create a session `name` that begins with the first `turns` turns of another one (None: all of it).

        Messages that compressions have archived are copied into it as compacted. Raises NotFoundError, and
        UsageError when there are not that many turns.
        """
        row = sessions.get_session(tx, session_id)
        if row is None:
            raise NotFoundError(N_("There is no session {session_id}.", session_id=session_id))
        there = len(undo.list_last_turns(tx, session_id, _ALL_TURNS))
        kept_turns = there if turns is None else turns
        if not 0 < kept_turns <= there:
            raise UsageError(
                N_("The conversation has {there} turns.", there=there), "Name one of them, counted from 1."
            )
        fields = {one: getattr(row, one) for one in NewSession.__struct_fields__}
        own = {
            "id": name,
            "parent_id": session_id,
            "branched_at": kept_turns,
            "title": title or _find_free_title(tx, row),
        }
        sessions.create_session(tx, msgspec.convert(fields | own, NewSession))
        tx.execute(
            "INSERT INTO epochs (session_id, number, frame, began_at, begin_reason, ended_at, end_reason)"
            " SELECT ?, number, frame, began_at, begin_reason, ended_at, end_reason FROM epochs WHERE session_id = ?",
            (name, session_id),
        )
        tx.execute(
            "INSERT INTO todo_lists (session_id, items) SELECT ?, items FROM todo_lists WHERE session_id = ?",
            (name, session_id),
        )
        _copy_messages(tx, session_id, name)
        if kept_turns < there:
            _drop_last_turns(tx, name, there - kept_turns)
        tx.execute(
            "UPDATE sessions SET message_count = (SELECT count(*) FROM messages WHERE session_id = ?1) WHERE id = ?1",
            (name,),
        )
        made = sessions.get_session(tx, name)
        assert made is not None
        return made

    @reads
    def build_tree(
        self, tx: Transaction, limit: int, *, person: str | None = None, without: Sequence[str] = ()
    ) -> list[tuple[SessionRow, str | None]]:
        """Return the sessions used last and all their relatives by branching, each with the
        session that it branched from. `person` limits to one person's; `without` names sources that are left out.
        """
        recent = sessions.list_sessions(tx, limit, person=person, without=without)
        rows = {row.id: row for row in recent if row.end_reason != ARCHIVED}
        waiting = list(rows.values())
        found: dict[str, tuple[SessionRow, str | None]] = {}
        while waiting:
            row = waiting.pop()
            if row.id in found or (person is not None and row.user_id != person):
                continue
            parent = _find_parent(tx, row)
            found[row.id] = row, parent.id if parent is not None else None
            waiting += [parent] if parent is not None else []
            waiting += _list_branches(tx, row.id)
        return sorted(found.values(), key=lambda pair: (pair[0].created_at, pair[0].id))


def _find_parent(tx: Transaction, row: SessionRow) -> SessionRow | None:
    """Return the session that a branch comes from, skipping archives that its own compressions left."""
    at: SessionRow | None = row
    while row.branched_at is not None and at is not None and at.parent_id is not None:
        at = sessions.get_session(tx, at.parent_id)
        if at is not None and at.end_reason != ARCHIVED:
            return at
    return None


def _list_branches(tx: Transaction, session_id: str) -> list[SessionRow]:
    """Return the branches of a session."""
    below = [row[0] for row in tx.execute("SELECT id FROM sessions WHERE parent_id = ?", (session_id,))]
    tips = dict.fromkeys(sessions.find_tip(tx, one) for one in below)
    rows = (sessions.get_session(tx, one) for one in tips if one != session_id)
    return [row for row in rows if row is not None and row.branched_at is not None]


def _copy_messages(tx: Transaction, source: str, target: str) -> None:
    """Copy the messages of a conversation, with its compactions."""
    line = json.dumps(sessions.list_lineage(tx, source))
    old = [
        row[0]
        for row in tx.execute(
            "SELECT id FROM messages WHERE session_id IN (SELECT value FROM json_each(?))"
            f" AND state <> {MessageState.UNDONE:d} ORDER BY id",
            (line,),
        )
    ]
    last = tx.execute("SELECT seq FROM sqlite_sequence WHERE name = 'messages'").get or 0
    ids = dict(zip(old, itertools.count(int(last) + 1)))
    tx.executemany(
        "INSERT INTO messages (id, session_id, epoch, turn_id, role, state, position, created_at, prompt_tokens,"
        " output_tokens, body) SELECT ?, ?, epoch, turn_id, role, state, position, created_at, prompt_tokens,"
        " output_tokens, body FROM messages WHERE id = ?",
        [(new, target, one) for one, new in ids.items()],
    )
    for row in compactions.list_compactions(tx, source):
        if not row.undone:
            covered, made = ([ids[one] for one in some if one in ids] for some in (row.covered, row.made))
            tx.execute(
                "INSERT INTO compactions (session_id, epoch, covered, made, memo) VALUES (?, ?, ?, ?, ?)",
                (target, row.epoch, json.dumps(covered), json.dumps(made), row.memo),
            )


def _drop_last_turns(tx: Transaction, name: str, count: int) -> None:
    """Remove the last turns from a branch, as if they had never been said in it."""
    epoch = get_open_epoch(tx, name)
    assert epoch is not None
    undo.undo_turns(tx, name, count, epoch.frame)
    tx.execute("DELETE FROM undos WHERE session_id = ?", (name,))
    tx.execute(f"DELETE FROM messages WHERE session_id = ? AND state = {MessageState.UNDONE:d}", (name,))
    tx.execute("DELETE FROM compactions WHERE session_id = ? AND undone = 1", (name,))
    tx.execute("UPDATE epochs SET begin_reason = ? WHERE session_id = ? AND ended_at IS NULL", (BRANCHED, name))


def _find_free_title(tx: Transaction, row: SessionRow) -> str:
    """Return a title that no other branch has."""
    plain = compactions.strip_title_number(row.title)
    for number in itertools.count(1):
        title = f"{plain} (branch)" if number == 1 else f"{plain} (branch {number})"
        if tx.execute("SELECT 1 FROM sessions WHERE title = ?", (title.strip(),)).get is None:
            return title.strip()
    raise AssertionError
