"""Questions to the person that outlive their process, and the answers to them. An answer is taken once."""

import apsw
import msgspec
from msgspec import Struct

from hermes.store.access import Access

_FIELDS = "id, session_id, turn_id, call_id, tool, subject, rule, reason, cwd, seal, session_covers, always_covers"


class ApprovalRow(Struct, frozen=True, kw_only=True):
    """A stored question. `seal` is the hash of what it is about; `expires_at` is in seconds since the epoch."""

    id: str
    session_id: str
    turn_id: str
    call_id: str
    tool: str
    subject: str
    rule: str
    reason: str
    cwd: str
    seal: str
    session_covers: str
    always_covers: str
    asked_at: float
    expires_at: float


class Given(Struct, frozen=True):
    """An answer: its scope (`deny` for no) and whose it is."""

    scope: str
    by: str


class ApprovalAccess(Access):
    """The verbs about approvals. All that change one say whether they did: of several at once only one does."""

    async def ask_approval(self, row: ApprovalRow) -> None:
        """Store a question; on disk when this returns."""
        values = tuple(getattr(row, name) for name in ApprovalRow.__struct_fields__)
        marks = ", ".join("?" * len(values))
        await self._database.write(
            lambda connection: connection.execute(
                f"INSERT INTO approvals ({_FIELDS}, asked_at, expires_at) VALUES ({marks})", values
            ).fetchall()
        )

    async def waiting_approval(self, turn_id: str, call_id: str, seal: str) -> str:
        """The id of the question that this very call asked before its process died, answered or not; empty: none."""
        found = await self._database.read(
            lambda connection: (
                connection.execute(
                    "SELECT id FROM approvals WHERE turn_id = ? AND call_id = ? AND seal = ? AND state <> 'taken'"
                    " AND expires_at > ? ORDER BY asked_at DESC LIMIT 1",
                    (turn_id, call_id, seal, self._clock.now()),
                ).get
            )
        )
        return str(found or "")

    async def answer_approval(self, approval_id: str, given: Given, *, session_id: str | None = None) -> bool:
        """Answer a pending question of the session (None: of any); False when it is not pending (any more)."""
        now = self._clock.now()

        def work(connection: apsw.Connection) -> bool:
            connection.execute(
                "UPDATE approvals SET state = 'answered', scope = ?, answered_by = ?, answered_at = ?"
                " WHERE id = ? AND state = 'pending' AND expires_at > ? AND (?6 IS NULL OR session_id = ?6)",
                (given.scope, given.by, now, approval_id, now, session_id),
            ).fetchall()
            return connection.changes() > 0

        return await self._database.write(work)

    async def take_answer(self, approval_id: str) -> Given | None:
        """The answer, once; None when there is none yet, or it was taken. The words of the question go."""

        def work(connection: apsw.Connection) -> Given | None:
            row = connection.execute(
                "UPDATE approvals SET state = 'taken', subject = '', reason = '', session_covers = '',"
                " always_covers = '' WHERE id = ? AND state = 'answered' RETURNING scope, answered_by",
                (approval_id,),
            ).fetchone()
            return None if row is None else Given(str(row[0]), str(row[1]))

        return await self._database.write(work)

    async def answered(self, approval_id: str) -> bool:
        """Whether there is an answer to be taken."""
        state = await self._database.read(
            lambda connection: connection.execute("SELECT state FROM approvals WHERE id = ?", (approval_id,)).get
        )
        return bool(state == "answered")

    async def drop_approval(self, approval_id: str, why: str) -> None:
        """Let a question that nobody answered end as no; `why` stands for who answered."""
        await self._database.write(
            lambda connection: connection.execute(
                "UPDATE approvals SET state = 'taken', scope = 'deny', answered_by = ?, subject = '', reason = '',"
                " session_covers = '', always_covers = '' WHERE id = ? AND state <> 'taken'",
                (why, approval_id),
            ).fetchall()
        )

    async def pending_approvals(self, session_id: str | None = None) -> list[ApprovalRow]:
        """Questions that wait for an answer, the oldest first."""
        now = self._clock.now()
        rows = await self._database.read(
            lambda connection: connection.execute(
                f"SELECT {_FIELDS}, asked_at, expires_at FROM approvals WHERE state = 'pending' AND expires_at > ?"
                " AND (?2 IS NULL OR session_id = ?2) ORDER BY asked_at, id",
                (now, session_id),
            ).fetchall()
        )
        names = ApprovalRow.__struct_fields__
        return [msgspec.convert(dict(zip(names, row, strict=True)), ApprovalRow) for row in rows]
