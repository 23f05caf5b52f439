"""What the API server keeps: the sessions of its keys, answers by their ids, and runs."""

import apsw
from msgspec import convert

from hermes.core.api import NewRun, RunRow, StoredResponse
from hermes.core.errors import BusyError
from hermes.store import inbox, sessions
from hermes.store.access import Access
from hermes.store.rows import InboxRow, SessionRow

_RUN = "id, owner, session_id, letter_id, turn_id, state, reason, error, wish, usage, made_at, ended_at"
_MOST_OPEN = 10_000


class ApiAccess(Access):
    """The verbs of the API server. Nothing of one owner is found by another."""

    async def api_session(self, owner: str, name: str) -> str | None:
        """The session that an owner calls so."""
        return await self._database.read(
            lambda connection: _text(
                connection, "SELECT session_id FROM api_sessions WHERE owner = ? AND name = ?", owner, name
            )
        )

    async def bind_api_session(self, owner: str, name: str, session_id: str) -> str:
        """Let an owner call a session so, which must be there; the session that is called so, another one where
        somebody was faster."""
        now = self._clock.now()

        def work(connection: apsw.Connection) -> str:
            connection.execute(
                "INSERT INTO api_sessions (owner, name, session_id, used_at) VALUES (?, ?, ?, ?)"
                " ON CONFLICT DO NOTHING",
                (owner, name, session_id, now),
            )
            found = _text(connection, "SELECT session_id FROM api_sessions WHERE owner = ? AND name = ?", owner, name)
            assert found is not None
            return found

        return await self._database.write(work)

    async def take_api_session(self, owner: str, *, mark: bytes = b"", answer: str = "") -> tuple[str, str] | None:
        """Go on with the session in which just that was said, or answered last, by its name and its id; nobody else
        goes on with it until it is marked again."""
        column, value = ("mark", mark) if mark else ("answer", answer)

        def work(connection: apsw.Connection) -> tuple[str, str] | None:
            row = connection.execute(
                "UPDATE api_sessions SET mark = NULL, answer = NULL WHERE owner = ?1 AND name ="
                f" (SELECT name FROM api_sessions WHERE owner = ?1 AND {column} = ?2 ORDER BY used_at DESC LIMIT 1)"
                " RETURNING name, session_id",
                (owner, value),
            ).fetchone()
            return None if row is None else (str(row[0]), str(row[1]))

        return await self._database.write(work)

    async def mark_api_session(self, owner: str, name: str, *, mark: bytes | None, answer: str | None = None) -> None:
        """Note the state that a session is in now."""
        now = self._clock.now()
        await self._database.write(
            lambda connection: (
                connection.execute(
                    "UPDATE api_sessions SET mark = ?, answer = ?, used_at = ? WHERE owner = ? AND name = ?",
                    (mark, answer, now, owner, name),
                ).get
            )
        )

    async def api_sessions(self, owner: str, limit: int, *, offset: int = 0) -> list[tuple[str, SessionRow]]:
        """An owner's sessions by their names, the one used last first."""

        def work(connection: apsw.Connection) -> list[tuple[str, SessionRow]]:
            rows = connection.execute(
                "SELECT api_sessions.name, sessions.id FROM api_sessions JOIN sessions"
                " ON sessions.id = api_sessions.session_id WHERE owner = ? ORDER BY sessions.updated_at DESC, name"
                " LIMIT ? OFFSET ?",
                (owner, limit, offset),
            ).fetchall()
            found = [(str(name), sessions.get(connection, str(session_id))) for name, session_id in rows]
            return [(name, row) for name, row in found if row is not None]

        return await self._database.read(work)

    async def put_response(self, owner: str, response: StoredResponse) -> None:
        """Keep an answer, or what has become of it since."""
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

    async def response(self, owner: str, response_id: str) -> StoredResponse | None:
        """An answer of this owner."""
        row = await self._database.read(
            lambda connection: connection.execute(
                "SELECT id, session_id, turn_id, state, body FROM api_responses WHERE owner = ? AND id = ?",
                (owner, response_id),
            ).fetchone()
        )
        if row is None:
            return None
        return StoredResponse(id=row[0], session_id=row[1], turn_id=row[2], state=row[3], body=bytes(row[4]))

    async def drop_response(self, owner: str, response_id: str) -> bool:
        """Forget an answer; whether there was one."""

        def work(connection: apsw.Connection) -> bool:
            connection.execute("DELETE FROM api_responses WHERE owner = ? AND id = ?", (owner, response_id))
            return connection.changes() > 0

        return await self._database.write(work)

    async def lost_responses(self) -> int:
        """Name the end of answers whose process died; how many."""

        def work(connection: apsw.Connection) -> int:
            connection.execute(
                "UPDATE api_responses SET state = 'failed', body = json_set(CAST(body AS TEXT), '$.status', 'failed')"
                " WHERE state IN ('queued', 'in_progress')"
            )
            return connection.changes()

        return await self._database.write(work)

    async def begin_run(self, run: NewRun) -> RunRow:
        """Store a run together with what it says to its session, which must be there; the run that was begun under the
        same `idem` before, where there is one. Raises BusyError where something else was asked under it."""
        now = self._clock.now()

        def work(connection: apsw.Connection) -> RunRow:
            known = _run(connection, "owner = ? AND idem = ?", run.owner, run.idem) if run.idem else None
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
            inbox.put(connection, run.session_id, InboxRow(run.letter_id, run.letter, now))
            made = _run(connection, "id = ?", run.id)
            assert made is not None
            return made

        return await self._database.write(work)

    async def run_of_key(self, owner: str, idem: str, digest: bytes) -> RunRow | None:
        """The run that was begun under a key of the caller's. Raises BusyError as `begin_run` does."""

        def work(connection: apsw.Connection) -> RunRow | None:
            known = _run(connection, "owner = ? AND idem = ?", owner, idem)
            if known is not None:
                asked = connection.execute("SELECT digest FROM api_runs WHERE id = ?", (known.id,)).get
                if asked != digest:
                    raise BusyError("Something else was asked under this Idempotency-Key.", "Use another one.")
            return known

        return await self._database.read(work)

    async def run(self, owner: str, run_id: str) -> RunRow | None:
        """A run of this owner."""
        return await self._database.read(lambda connection: _run(connection, "owner = ? AND id = ?", owner, run_id))

    async def open_runs(self) -> list[RunRow]:
        """Every run that has not ended, the oldest first."""
        return await self._database.read(
            lambda connection: _runs(connection, "ended_at IS NULL ORDER BY made_at LIMIT ?", _MOST_OPEN)
        )

    async def end_run(self, run_id: str, state: str, *, reason: str, error: str, usage: bytes | None) -> None:
        """Note how a run ended, once. Its words that were not said yet are not said any more."""
        now = self._clock.now()

        def work(connection: apsw.Connection) -> None:
            connection.execute(
                "UPDATE api_runs SET state = ?, reason = ?, error = ?, usage = ?, ended_at = ?"
                " WHERE id = ? AND ended_at IS NULL",
                (state, reason, error, usage, now, run_id),
            )
            connection.execute("DELETE FROM inbox WHERE id = (SELECT letter_id FROM api_runs WHERE id = ?)", (run_id,))

        await self._database.write(work)

    async def seen(self, platform: str, event_id: str) -> bool:
        """Whether something came in from an account before."""
        return await self._database.read(
            lambda connection: (
                connection.execute(
                    "SELECT 1 FROM arrivals WHERE platform = ? AND event_id = ?", (platform, event_id)
                ).get
                is not None
            )
        )

    async def forget_api(self, before: float, limit: int = 2_000) -> int:
        """Forget answers and ended runs of before a time; how many. What was said stays in the sessions."""

        def work(connection: apsw.Connection) -> int:
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

        return await self._database.write(work)


def _text(connection: apsw.Connection, query: str, *values: str) -> str | None:
    found = connection.execute(query, values).get
    return None if found is None else str(found)


def _run(connection: apsw.Connection, where: str, *values: object) -> RunRow | None:
    return next(iter(_runs(connection, where, *values)), None)


def _runs(connection: apsw.Connection, where: str, *values: object) -> list[RunRow]:
    rows: list[tuple[object, ...]] = connection.execute(f"SELECT {_RUN} FROM api_runs WHERE {where}", values).fetchall()
    names = RunRow.__struct_fields__
    return [convert(dict(zip(names, row, strict=True)), RunRow) for row in rows]
