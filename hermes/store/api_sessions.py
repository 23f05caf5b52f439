"""Storage of the API server: sessions of API keys, responses by id, and runs."""

import apsw
from msgspec import convert

from hermes.core.api import NewRun, RunRow, StoredResponse
from hermes.core.errors import BusyError
from hermes.store import inbox, sessions
from hermes.store.access import StoreAccess
from hermes.store.records import InboxRow, SessionRow

_RUN = "id, owner, session_id, letter_id, turn_id, state, reason, error, wish, usage, made_at, ended_at"
_MAX_OPEN_RUNS = 10_000


class ApiAccess(StoreAccess):
    """Store operations of the API server. One owner never finds what belongs to another."""

    async def find_api_session(self, owner: str, name: str) -> str | None:
        """Return the id of the session to which an owner gave this name, or None."""
        return await self._database.read(
            lambda connection: _query_text(
                connection, "SELECT session_id FROM api_sessions WHERE owner = ? AND name = ?", owner, name
            )
        )

    async def bind_api_session(self, owner: str, name: str, session_id: str) -> str:
        """Give an existing session a name of an owner's; return the id of the session that has the name, another
        one where a concurrent call was faster.
        """
        now = self._clock.now()

        def insert_binding(connection: apsw.Connection) -> str:
            connection.execute(
                "INSERT INTO api_sessions (owner, name, session_id, used_at) VALUES (?, ?, ?, ?)"
                " ON CONFLICT DO NOTHING",
                (owner, name, session_id, now),
            )
            found = _query_text(
                connection, "SELECT session_id FROM api_sessions WHERE owner = ? AND name = ?", owner, name
            )
            assert found is not None
            return found

        return await self._database.write(insert_binding)

    async def take_api_session(self, owner: str, *, mark: bytes = b"", answer: str = "") -> tuple[str, str] | None:
        """Take the session whose last mark or answer is this one, and return its name and id, or None.

        Nobody else can take it until it is marked again.
        """
        column, value = ("mark", mark) if mark else ("answer", answer)

        def clear_marks(connection: apsw.Connection) -> tuple[str, str] | None:
            row = connection.execute(
                "UPDATE api_sessions SET mark = NULL, answer = NULL WHERE owner = ?1 AND name ="
                f" (SELECT name FROM api_sessions WHERE owner = ?1 AND {column} = ?2 ORDER BY used_at DESC LIMIT 1)"
                " RETURNING name, session_id",
                (owner, value),
            ).fetchone()
            return None if row is None else (str(row[0]), str(row[1]))

        return await self._database.write(clear_marks)

    async def mark_api_session(self, owner: str, name: str, *, mark: bytes | None, answer: str | None = None) -> None:
        """Store the state in which a session is now."""
        now = self._clock.now()
        await self._database.write(
            lambda connection: (
                connection.execute(
                    "UPDATE api_sessions SET mark = ?, answer = ?, used_at = ? WHERE owner = ? AND name = ?",
                    (mark, answer, now, owner, name),
                ).get
            )
        )

    async def list_api_sessions(self, owner: str, limit: int, *, offset: int = 0) -> list[tuple[str, SessionRow]]:
        """Return an owner's sessions with their names, the one used last first."""

        def select_sessions(connection: apsw.Connection) -> list[tuple[str, SessionRow]]:
            rows = connection.execute(
                "SELECT api_sessions.name, sessions.id FROM api_sessions JOIN sessions"
                " ON sessions.id = api_sessions.session_id WHERE owner = ? ORDER BY sessions.updated_at DESC, name"
                " LIMIT ? OFFSET ?",
                (owner, limit, offset),
            ).fetchall()
            found = [(str(name), sessions.get_session(connection, str(session_id))) for name, session_id in rows]
            return [(name, row) for name, row in found if row is not None]

        return await self._database.read(select_sessions)

    async def store_response(self, owner: str, response: StoredResponse) -> None:
        """Store a response, or its newer state."""
        now = self._clock.now()
        await self._database.write(
            lambda connection: (
                connection.execute(
                    "INSERT INTO api_responses (id, owner, session_id, turn_id, state, body, at)"
                    " VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE"
                    " SET turn_id = excluded.turn_id, state = excluded.state, body = excluded.body",
                    (
                        response.id,
                        owner,
                        response.session_id,
                        response.turn_id,
                        response.state,
                        response.body,
                        now,
                    ),
                ).get
            )
        )

    async def get_response(self, owner: str, response_id: str) -> StoredResponse | None:
        """Return a response of this owner, or None."""
        row = await self._database.read(
            lambda connection: connection.execute(
                "SELECT id, session_id, turn_id, state, body FROM api_responses WHERE owner = ? AND id = ?",
                (owner, response_id),
            ).fetchone()
        )
        if row is None:
            return None
        return StoredResponse(id=row[0], session_id=row[1], turn_id=row[2], state=row[3], body=bytes(row[4]))

    async def delete_response(self, owner: str, response_id: str) -> bool:
        """Delete a response; return whether there was one."""

        def delete_row(connection: apsw.Connection) -> bool:
            connection.execute("DELETE FROM api_responses WHERE owner = ? AND id = ?", (owner, response_id))
            return connection.changes() > 0

        return await self._database.write(delete_row)

    async def fail_lost_responses(self) -> int:
        """Mark responses whose process died as failed; return how many there were."""

        def mark_failed(connection: apsw.Connection) -> int:
            connection.execute(
                "UPDATE api_responses SET state = 'failed', body = json_set(CAST(body AS TEXT), '$.status', 'failed')"
                " WHERE state IN ('queued', 'in_progress')"
            )
            return connection.changes()

        return await self._database.write(mark_failed)

    async def begin_run(self, run: NewRun) -> RunRow:
        """Store a run together with its message to an existing session, or return the run that was begun under the same
        `idem`.

        Raises BusyError when the key was used for a different request.
        """
        now = self._clock.now()

        def insert_run(connection: apsw.Connection) -> RunRow:
            known = _find_run(connection, "owner = ? AND idem = ?", run.owner, run.idem) if run.idem else None
            if known is not None:
                digest = connection.execute("SELECT digest FROM api_runs WHERE id = ?", (known.id,)).get
                if digest != run.digest:
                    raise BusyError("Something else was asked under this Idempotency-Key.", "Use another one.")
                return known
            connection.execute(
                "INSERT INTO api_runs (id, owner, idem, digest, session_id, letter_id, state, wish, made_at)"
                " VALUES (?, ?, ?, ?, ?, ?, 'queued', ?, ?)",
                (run.id, run.owner, run.idem, run.digest, run.session_id, run.letter_id, run.wish, now),
            )
            inbox.enqueue_message(connection, run.session_id, InboxRow(run.letter_id, run.letter, now))
            made = _find_run(connection, "id = ?", run.id)
            assert made is not None
            return made

        return await self._database.write(insert_run)

    async def find_run_by_key(self, owner: str, idem: str, digest: bytes) -> RunRow | None:
        """Return the run that was begun under an idempotency key, or None. Raises BusyError as `begin_run` does."""

        def select_run(connection: apsw.Connection) -> RunRow | None:
            known = _find_run(connection, "owner = ? AND idem = ?", owner, idem)
            if known is not None:
                asked = connection.execute("SELECT digest FROM api_runs WHERE id = ?", (known.id,)).get
                if asked != digest:
                    raise BusyError("Something else was asked under this Idempotency-Key.", "Use another one.")
            return known

        return await self._database.read(select_run)

    async def get_run(self, owner: str, run_id: str) -> RunRow | None:
        """Return a run of this owner, or None."""
        return await self._database.read(
            lambda connection: _find_run(connection, "owner = ? AND id = ?", owner, run_id)
        )

    async def list_open_runs(self) -> list[RunRow]:
        """Return every run that has not ended, the oldest first."""
        return await self._database.read(
            lambda connection: _select_runs(connection, "ended_at IS NULL ORDER BY made_at LIMIT ?", _MAX_OPEN_RUNS)
        )

    async def end_run(self, run_id: str, state: str, *, reason: str, error: str, usage: bytes | None) -> None:
        """Store how a run ended, once, and remove its message from the inbox if it still waits there."""
        now = self._clock.now()

        def write_end(connection: apsw.Connection) -> None:
            connection.execute(
                "UPDATE api_runs SET state = ?, reason = ?, error = ?, usage = ?, ended_at = ?"
                " WHERE id = ? AND ended_at IS NULL",
                (state, reason, error, usage, now, run_id),
            )
            connection.execute("DELETE FROM inbox WHERE id = (SELECT letter_id FROM api_runs WHERE id = ?)", (run_id,))

        await self._database.write(write_end)

    async def has_inbound_event(self, platform: str, event_id: str) -> bool:
        """Return whether an event of this platform was received before."""
        return await self._database.read(
            lambda connection: (
                connection.execute(
                    "SELECT 1 FROM arrivals WHERE platform = ? AND event_id = ?", (platform, event_id)
                ).get
                is not None
            )
        )

    async def prune_api(self, before: float, limit: int = 2_000) -> int:
        """Delete responses and ended runs from before a time; return how many. What was said stays in the sessions."""

        def delete_old(connection: apsw.Connection) -> int:
            connection.execute(
                "DELETE FROM api_responses WHERE id IN (SELECT id FROM api_responses WHERE at < ? LIMIT ?)",
                (before, limit),
            )
            gone = connection.changes()
            connection.execute(
                "DELETE FROM api_runs WHERE id IN"
                " (SELECT id FROM api_runs WHERE ended_at IS NOT NULL AND ended_at < ? LIMIT ?)",
                (before, limit),
            )
            return gone + connection.changes()

        return await self._database.write(delete_old)


def _query_text(connection: apsw.Connection, query: str, *values: str) -> str | None:
    found = connection.execute(query, values).get
    return None if found is None else str(found)


def _find_run(connection: apsw.Connection, where: str, *values: object) -> RunRow | None:
    return next(iter(_select_runs(connection, where, *values)), None)


def _select_runs(connection: apsw.Connection, where: str, *values: object) -> list[RunRow]:
    rows: list[tuple[object, ...]] = connection.execute(f"SELECT {_RUN} FROM api_runs WHERE {where}", values).fetchall()
    names = RunRow.__struct_fields__
    return [convert(dict(zip(names, row, strict=True)), RunRow) for row in rows]
