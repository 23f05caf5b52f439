"""Storage of the API server: sessions of API keys, responses by id, and runs."""

import msgspec

from hermes.core.api import NewRun, RunRow, StoredResponse
from hermes.core.errors import BusyError
from hermes.store import sessions
from hermes.store.records import SessionRow
from hermes.store.repository import Repository, Transaction, reads, writes
from hermes.store.turns import enqueue_message

_RUN = "id, owner, session_id, letter_id, turn_id, state, reason, error, wish, usage, made_at, ended_at"
_MAX_OPEN_RUNS = 10_000


class ApiRepository(Repository):
    """Store operations of the API server. One owner never finds what belongs to another."""

    @reads
    def find_session(self, tx: Transaction, owner: str, name: str) -> str | None:
        """Return the id of the session to which an owner gave this name, or None."""
        return _query_text(tx, "SELECT session_id FROM api_sessions WHERE owner = ? AND name = ?", owner, name)

    @writes
    def bind_session(self, tx: Transaction, owner: str, name: str, session_id: str) -> str:
        """Give an existing session a name of an owner's; return the id of the session that has the name, another
        one where a concurrent call was faster.
        """
        tx.execute(
            "INSERT INTO api_sessions (owner, name, session_id, used_at) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
            (owner, name, session_id, tx.now),
        )
        found = _query_text(tx, "SELECT session_id FROM api_sessions WHERE owner = ? AND name = ?", owner, name)
        assert found is not None
        return found

    @writes
    def take_session(
        self, tx: Transaction, owner: str, *, mark: bytes = b"", answer: str = ""
    ) -> tuple[str, str] | None:
        """Take the session whose last mark or answer is this one, and return its name and id, or None.

        Nobody else can take it until it is marked again.
        """
        column, value = ("mark", mark) if mark else ("answer", answer)
        row = tx.execute(
            "UPDATE api_sessions SET mark = NULL, answer = NULL WHERE owner = ?1 AND name ="
            f" (SELECT name FROM api_sessions WHERE owner = ?1 AND {column} = ?2 ORDER BY used_at DESC LIMIT 1)"
            " RETURNING name, session_id",
            (owner, value),
        ).fetchone()
        return None if row is None else (str(row[0]), str(row[1]))

    @writes
    def mark_session(
        self, tx: Transaction, owner: str, name: str, *, mark: bytes | None, answer: str | None = None
    ) -> None:
        """Store the state in which a session is now."""
        tx.execute(
            "UPDATE api_sessions SET mark = ?, answer = ?, used_at = ? WHERE owner = ? AND name = ?",
            (mark, answer, tx.now, owner, name),
        )

    @reads
    def list_sessions(
        self, tx: Transaction, owner: str, limit: int, *, offset: int = 0
    ) -> list[tuple[str, SessionRow]]:
        """Return an owner's sessions with their names, the one used last first."""
        rows = tx.execute(
            "SELECT api_sessions.name, sessions.id FROM api_sessions JOIN sessions"
            " ON sessions.id = api_sessions.session_id WHERE owner = ? ORDER BY sessions.updated_at DESC, name"
            " LIMIT ? OFFSET ?",
            (owner, limit, offset),
        ).fetchall()
        found = [(str(name), sessions.get_session(tx, str(session_id))) for name, session_id in rows]
        return [(name, row) for name, row in found if row is not None]

    @writes
    def store_response(self, tx: Transaction, owner: str, response: StoredResponse) -> None:
        """Store a response, or its newer state."""
        tx.execute(
            "INSERT INTO api_responses (id, owner, session_id, turn_id, state, body, at)"
            " VALUES (:id, :owner, :session_id, :turn_id, :state, :body, :at) ON CONFLICT (id) DO UPDATE"
            " SET turn_id = excluded.turn_id, state = excluded.state, body = excluded.body",
            msgspec.structs.asdict(response) | {"owner": owner, "at": tx.now},
        )

    @reads
    def get_response(self, tx: Transaction, owner: str, response_id: str) -> StoredResponse | None:
        """Return a response of this owner, or None."""
        return tx.select_one(
            StoredResponse,
            "SELECT id, session_id, turn_id, state, body FROM api_responses WHERE owner = ? AND id = ?",
            (owner, response_id),
        )

    @writes
    def delete_response(self, tx: Transaction, owner: str, response_id: str) -> bool:
        """Delete a response; return whether there was one."""
        return tx.change_any("DELETE FROM api_responses WHERE owner = ? AND id = ?", (owner, response_id))

    @writes
    def fail_lost_responses(self, tx: Transaction) -> int:
        """Mark responses whose process died as failed; return how many there were."""
        return tx.change_rows(
            "UPDATE api_responses SET state = 'failed', body = json_set(CAST(body AS TEXT), '$.status', 'failed')"
            " WHERE state IN ('queued', 'in_progress')"
        )

    @writes
    def begin_run(self, tx: Transaction, run: NewRun) -> RunRow:
        """Store a run together with its message to an existing session, or return the run that was begun under the same
        `idem`.

        Raises BusyError when the key was used for a different request.
        """
        known = _find_run(tx, "owner = ? AND idem = ?", run.owner, run.idem) if run.idem else None
        if known is not None:
            _check_digest(tx, known, run.digest)
            return known
        tx.execute(
            "INSERT INTO api_runs (id, owner, idem, digest, session_id, letter_id, state, wish, made_at)"
            " VALUES (?, ?, ?, ?, ?, ?, 'queued', ?, ?)",
            (run.id, run.owner, run.idem, run.digest, run.session_id, run.letter_id, run.wish, tx.now),
        )
        enqueue_message(tx, run.session_id, run.letter_id, run.letter)
        made = _find_run(tx, "id = ?", run.id)
        assert made is not None
        return made

    @reads
    def find_run_by_key(self, tx: Transaction, owner: str, idem: str, digest: bytes) -> RunRow | None:
        """Return the run that was begun under an idempotency key, or None. Raises BusyError as `begin_run` does."""
        known = _find_run(tx, "owner = ? AND idem = ?", owner, idem)
        _check_digest(tx, known, digest)
        return known

    @reads
    def get_run(self, tx: Transaction, owner: str, run_id: str) -> RunRow | None:
        """Return a run of this owner, or None."""
        return _find_run(tx, "owner = ? AND id = ?", owner, run_id)

    @reads
    def list_open_runs(self, tx: Transaction) -> list[RunRow]:
        """Return every run that has not ended, the oldest first."""
        return _select_runs(tx, "ended_at IS NULL ORDER BY made_at LIMIT ?", _MAX_OPEN_RUNS)

    @writes
    def end_run(
        self, tx: Transaction, run_id: str, state: str, *, reason: str, error: str, usage: bytes | None
    ) -> None:
        """Store how a run ended, once, and remove its message from the inbox if it still waits there."""
        tx.execute(
            "UPDATE api_runs SET state = ?, reason = ?, error = ?, usage = ?, ended_at = ?"
            " WHERE id = ? AND ended_at IS NULL",
            (state, reason, error, usage, tx.now, run_id),
        )
        tx.execute("DELETE FROM inbox WHERE id = (SELECT letter_id FROM api_runs WHERE id = ?)", (run_id,))

    @writes
    def prune(self, tx: Transaction, before: float, limit: int = 2_000) -> int:
        """Delete responses and ended runs from before a time; return how many. What was said stays in the sessions."""
        gone = tx.change_rows(
            "DELETE FROM api_responses WHERE id IN (SELECT id FROM api_responses WHERE at < ? LIMIT ?)",
            (before, limit),
        )
        tx.execute(
            "DELETE FROM api_runs WHERE id IN"
            " (SELECT id FROM api_runs WHERE ended_at IS NOT NULL AND ended_at < ? LIMIT ?)",
            (before, limit),
        )
        return gone + tx.changes()


def _check_digest(tx: Transaction, known: RunRow | None, digest: bytes) -> None:
    if known is not None and tx.execute("SELECT digest FROM api_runs WHERE id = ?", (known.id,)).get != digest:
        raise BusyError("Another request was made with this Idempotency-Key.", "Use another one.")


def _query_text(tx: Transaction, query: str, *values: str) -> str | None:
    found = tx.execute(query, values).get
    return None if found is None else str(found)


def _find_run(tx: Transaction, where: str, *values: object) -> RunRow | None:
    return next(iter(_select_runs(tx, where, *values)), None)


def _select_runs(tx: Transaction, where: str, *values: object) -> list[RunRow]:
    return tx.select_all(RunRow, f"SELECT {_RUN} FROM api_runs WHERE {where}", values)
