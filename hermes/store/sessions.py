"""Sessions: rows, goals, the archives that compressions leave behind them, and marks of the files that they wrote."""

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from hermes.core.encoding import to_json
from hermes.core.errors import NotFoundError, UsageError
from hermes.i18n.messages import N_
from hermes.store.records import ARCHIVED, NewSession, SessionRow
from hermes.store.repository import Repository, Transaction, as_method, reads, to_value, writes
from hermes.util.text import clean_surrogates

_SELECT = f"SELECT {', '.join(SessionRow.__struct_fields__)} FROM sessions"


def create_session(tx: Transaction, session: NewSession) -> None:
    """Store a new session; `UsageError` when the id is taken, `NotFoundError` when the parent is unknown."""
    if session.parent_id is not None and get_session(tx, session.parent_id) is None:
        raise NotFoundError(N_("There is no session {parent_id}.", parent_id=session.parent_id))
    values = [
        clean_surrogates(value) if isinstance(value, str) else value for value in msgspec.structs.astuple(session)
    ]
    names = NewSession.__struct_fields__
    marks = ", ".join("?" * (len(names) + 2))
    tx.execute(
        f"INSERT INTO sessions ({', '.join(names)}, created_at, updated_at) VALUES ({marks})"
        " ON CONFLICT (id) DO NOTHING",
        (*values, tx.now, tx.now),
    )
    if tx.changes() == 0:
        raise UsageError(N_("There is a session {id} already.", id=session.id))


def get_session(tx: Transaction, session_id: str) -> SessionRow | None:
    """Return the session of exactly this id, or None."""
    row = tx.execute(f"{_SELECT} WHERE id = ?", (session_id,)).fetchone()
    return None if row is None else to_value(SessionRow, row)


def list_lineage(tx: Transaction, session_id: str, schema: str = "main") -> list[str]:
    """Return the ids of the session and of the archives that its compressions left, the newest first; empty for an
    unknown id.
    """
    rows = tx.execute(
        f"WITH RECURSIVE line (id, parent_id) AS (SELECT id, parent_id FROM {schema}.sessions WHERE id = ?1"
        f" UNION SELECT one.id, one.parent_id FROM {schema}.sessions AS one JOIN line ON one.id = line.parent_id"
        " WHERE one.end_reason = ?2) SELECT id FROM line",
        (session_id, ARCHIVED),
    )
    return [row[0] for row in rows]


def find_tip(tx: Transaction, session_id: str) -> str:
    """Return the session in which an archive's conversation goes on; any other session's id is returned as it is."""
    found = tx.execute(
        "WITH RECURSIVE line (id, end_reason) AS (SELECT id, end_reason FROM sessions WHERE id = ?1"
        " UNION SELECT one.id, one.end_reason FROM sessions AS one JOIN line ON one.parent_id = line.id"
        " WHERE line.end_reason = ?2) SELECT id FROM line WHERE end_reason <> ?2 LIMIT 1",
        (session_id, ARCHIVED),
    ).get
    return session_id if found is None else str(found)


def list_sessions(
    tx: Transaction,
    limit: int,
    *,
    before: str | None = None,
    source: str | None = None,
    person: str | None = None,
    folder: str | None = None,
    without: Sequence[str] = (),
) -> list[SessionRow]:
    """Return sessions that have messages, by last use, newest first; none of the sources `without`.

    `before` is the last id of the page before; `person` limits to one person's sessions: empty means the
    owner's, None all; `folder` to those that began there. `without` names sources whose sessions are left out.
    """
    wanted, values = ["message_count > 0"], list[str | int]()
    if before is not None:
        wanted.append("(updated_at, id) < (SELECT updated_at, id FROM sessions WHERE id = ?)")
        values.append(before)
    if source is not None:
        wanted.append("source = ?")
        values.append(source)
    if person is not None:
        wanted.append("user_id = ?")
        values.append(person)
    if folder is not None:
        wanted.append("cwd = ?")
        values.append(clean_surrogates(folder))
    if without:
        wanted.append(f"source NOT IN ({', '.join('?' * len(without))})")
        values += without
    where = " AND ".join(wanted)
    return tx.select_all(
        SessionRow, f"{_SELECT} WHERE {where} ORDER BY updated_at DESC, id DESC LIMIT ?", (*values, limit)
    )


def rename_session(tx: Transaction, session_id: str, title: str) -> None:
    """Set the session's title."""
    tx.execute("UPDATE sessions SET title = ? WHERE id = ?", (clean_surrogates(title), session_id))
    require_changed_row(tx, session_id)


def replace_title(tx: Transaction, session_id: str, title: str, *, expected: str) -> bool:
    """Set the session's title when it still is `expected`; return whether it was."""
    return tx.change_any(
        "UPDATE sessions SET title = ? WHERE id = ? AND title = ?", (clean_surrogates(title), session_id, expected)
    )


def end_session(tx: Transaction, session_id: str, reason: str) -> None:
    """Mark the session as ended. Appending to it reopens it."""
    tx.execute("UPDATE sessions SET ended_at = ?, end_reason = ? WHERE id = ?", (tx.now, reason, session_id))
    require_changed_row(tx, session_id)


def require_changed_row(tx: Transaction, session_id: str) -> None:
    """Raise `NotFoundError` when the last statement changed no row."""
    if tx.changes() == 0:
        raise NotFoundError(
            N_("There is no session {session_id}.", session_id=session_id),
            "`hermes sessions list` shows those there are.",
        )


_NOBODY_WAITS = " AND ".join(
    f"NOT EXISTS (SELECT 1 FROM {table} WHERE {condition})"
    for table, condition in {
        "chat_sessions": "session_id = sessions.id",
        "sessions child": "child.parent_id = sessions.id",
        "goals": "session_id = sessions.id",
        "turns": "session_id = sessions.id AND ended_at IS NULL",
        "inbox": "session_id = sessions.id",
        "approvals": "session_id = sessions.id AND state = 'pending'",
        "api_runs": "session_id = sessions.id AND ended_at IS NULL",
        "deliveries": "session_id = sessions.id AND ended_at IS NULL",
        "sub_agents": "parent_id = sessions.id AND (ended_at IS NULL OR delivery = 'inbox')",
        "job_instants": "session_id = sessions.id AND (delivery = 'owed' OR ended_at IS NULL)",
    }.items()
)
"""Whether a session has nothing that a person goes on with or waits for."""


class SessionRepository(Repository):
    """The sessions. Methods that name a session raise `NotFoundError` when there is none."""

    create = writes(as_method(create_session))
    get = reads(as_method(get_session))
    list_recent = reads(as_method(list_sessions))
    list_lineage = reads(as_method(list_lineage))
    find_tip = reads(as_method(find_tip))
    rename = writes(as_method(rename_session))
    replace_title = writes(as_method(replace_title))
    end = writes(as_method(end_session))

    @reads
    def find(
        self, tx: Transaction, prefix_or_title: str, *, limit: int = 20, person: str | None = None
    ) -> list[SessionRow]:
        """Return sessions whose id begins with the text or whose title equals it, the one used last first; with
        `person` only those of that person.
        """
        text = clean_surrogates(prefix_or_title)
        if not text:
            return []
        return tx.select_all(
            SessionRow,
            f"{_SELECT} WHERE ((id >= ?1 AND id < ?1 || char(1114111)) OR title = ?1)"
            " AND (?3 IS NULL OR user_id = ?3) ORDER BY updated_at DESC, id DESC LIMIT ?2",
            (text, limit, person),
        )

    async def get_latest(
        self,
        source: str | None = None,
        *,
        person: str | None = None,
        folder: str | None = None,
        without: Sequence[str] = (),
    ) -> SessionRow | None:
        """Return the session in which something was said last, or None."""
        rows = await self.list_recent(1, source=source, person=person, folder=folder, without=without)
        return next(iter(rows), None)

    @reads
    def list_idle(self, tx: Transaction, before: float) -> list[SessionRow]:
        """Return sessions in which nothing was said since `before`, the oldest first.

        Archives belong to the session that continues them, and sub-agents to the session that they worked for.
        """
        return tx.select_all(
            SessionRow,
            f"{_SELECT} WHERE updated_at < ? AND end_reason <> ? AND id NOT IN (SELECT session_id FROM sub_agents)"
            " ORDER BY updated_at",
            (before, ARCHIVED),
        )

    @reads
    def list_expired(
        self, tx: Transaction, sources: Sequence[str], *, before: float, keep: int, limit: int = 1_000
    ) -> list[SessionRow]:
        """Return sessions of these sources in which nothing was said since `before`, or that are not among the `keep`
        newest; the oldest first.

        Left out is what a person may go on with, or somebody waits for: sessions of chats, branches, goals, unfinished
        turns and runs, waiting messages, and output that is still to be delivered.
        """
        named = ", ".join("?" * len(sources))
        return tx.select_all(
            SessionRow,
            f"{_SELECT} WHERE source IN ({named}) AND end_reason <> ? AND (updated_at < ? OR id NOT IN"
            f" (SELECT id FROM sessions WHERE source IN ({named}) ORDER BY updated_at DESC, id DESC LIMIT ?))"
            f" AND {_NOBODY_WAITS} ORDER BY updated_at LIMIT ?",
            (*sources, ARCHIVED, before, *sources, keep, limit),
        )

    @reads
    def sum_totals(self, tx: Transaction, by: str = "") -> list[tuple[str, int, int, int]]:
        """Return the numbers of sessions, messages and tokens: in all, or one row for each `by` `model` or `source`."""
        column = {"": "''", "model": "model", "source": "source"}[by]
        rows = tx.execute(
            f"SELECT {column}, count(*), total(message_count), total(input_tokens + output_tokens) FROM sessions"
            " WHERE message_count > 0 AND end_reason <> ? GROUP BY 1 ORDER BY 2 DESC, 1",
            (ARCHIVED,),
        )
        return [(str(row[0]), int(row[1]), int(row[2]), int(row[3])) for row in rows]

    @writes
    def drop_empty(self, tx: Transaction, session_id: str) -> bool:
        """Delete a session in which nothing was ever said, not even in a lost turn, and for which no sub-agent has
        worked; return whether there was one.
        """
        return tx.change_any(
            "DELETE FROM sessions WHERE id = ?1 AND message_count = 0"
            " AND NOT EXISTS (SELECT 1 FROM turns WHERE session_id = ?1)"
            " AND NOT EXISTS (SELECT 1 FROM messages WHERE session_id = ?1)"
            " AND NOT EXISTS (SELECT 1 FROM sub_agents WHERE parent_id = ?1)",
            (session_id,),
        )


_ROW = tuple[str, bytes, tuple[str, ...]]


class TaintedFileRepository(Repository):
    """Store operations for marked files: (path, hash of the content, sources)."""

    @reads
    def list_all(self, tx: Transaction) -> list[tuple[str, bytes, tuple[str, ...]]]:
        """Return all marks."""
        rows = tx.execute("SELECT path, digest, sources FROM marked_files").fetchall()
        return [
            msgspec.convert((path, digest, msgspec.json.decode(str(sources))), _ROW) for path, digest, sources in rows
        ]

    @writes
    def mark_all(
        self, tx: Transaction, marks: Sequence[tuple[str, bytes, tuple[str, ...]]], gone: Sequence[str]
    ) -> None:
        """Store marks and delete those of some paths. A file that another process has marked has both sources."""
        tx.executemany("DELETE FROM marked_files WHERE path = ?", [(path,) for path in gone])
        texts = {sources: to_json(sources).decode() for sources in {one[2] for one in marks}}
        tx.executemany(
            "INSERT INTO marked_files (path, digest, sources, at) VALUES (?, ?, ?, ?) ON CONFLICT (path) DO UPDATE SET"
            " digest = excluded.digest, at = excluded.at, sources = CASE sources WHEN excluded.sources THEN sources"
            " ELSE (SELECT json_group_array(value) FROM (SELECT value FROM json_each(marked_files.sources)"
            " UNION SELECT value FROM json_each(excluded.sources))) END",
            [(path, digest, texts[sources], tx.now) for path, digest, sources in marks],
        )

    @writes
    def trust(self, tx: Transaction, folder: str) -> int:
        """Delete the marks of a folder and all below it; return how many there were."""
        below = folder.rstrip("/") + "/"
        return tx.change_rows(
            "DELETE FROM marked_files WHERE path = ?1 OR substr(path, 1, length(?2)) = ?2", (folder, below)
        )


class GoalRow(Struct, frozen=True, kw_only=True):
    """A session's goal in the person's words.

    `state` is `active`, `paused` or `reached`; `turns` counts the turns made for it; `why` explains the state.
    """

    text: str
    state: str = "active"
    turns: int = 0
    why: str = ""


class GoalRepository(Repository):
    """Store operations for goals, which are deleted with their session."""

    @reads
    def get(self, tx: Transaction, session_id: str) -> GoalRow | None:
        """Return the session's goal, or None."""
        row = tx.execute("SELECT text, state, turns, why FROM goals WHERE session_id = ?", (session_id,)).get
        if row is None:
            return None
        text, state, turns, why = msgspec.convert(row, tuple[str, str, int, str])
        return GoalRow(text=text, state=state, turns=turns, why=why)

    @writes
    def replace(self, tx: Transaction, session_id: str, goal: GoalRow | None) -> None:
        """Store the session's goal, or delete it when it is None."""
        if goal is None:
            tx.execute("DELETE FROM goals WHERE session_id = ?", (session_id,))
            return
        tx.execute(
            "REPLACE INTO goals (session_id, text, state, turns, why) VALUES (?, ?, ?, ?, ?)",
            (session_id, goal.text, goal.state, goal.turns, goal.why),
        )
