"""Approval prompts that outlive their process, and the answers to them. Each answer is taken once."""

from msgspec import Struct

from hermes.store.repository import Repository, Transaction, reads, writes

_FIELDS = "id, session_id, turn_id, call_id, tool, subject, rule, reason, cwd, seal, session_covers, always_covers"


class ApprovalRow(Struct, frozen=True, kw_only=True):
    """A stored approval prompt. `seal` is the hash of what it is about; `expires_at` is in seconds since the epoch."""

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


class StoredApprovalAnswer(Struct, frozen=True):
    """An answer: its scope (`deny` for no) and who gave it."""

    scope: str
    by: str


class ApprovalRepository(Repository):
    """Store operations for approvals. Those that change one return whether they did: of several at once
    only one does.
    """

    @writes
    def create(self, tx: Transaction, row: ApprovalRow) -> None:
        """Store an approval prompt; it is on disk when this returns."""
        values = tuple(getattr(row, name) for name in ApprovalRow.__struct_fields__)
        marks = ", ".join("?" * len(values))
        tx.execute(f"INSERT INTO approvals ({_FIELDS}, asked_at, expires_at) VALUES ({marks})", values)

    @reads
    def find_open(self, tx: Transaction, turn_id: str, call_id: str, fingerprint: str) -> str:
        """Return the id of the prompt that this very call showed before its process died, answered or not; empty
        when there is none.
        """
        found = tx.execute(
            "SELECT id FROM approvals WHERE turn_id = ? AND call_id = ? AND seal = ? AND state <> 'taken'"
            " AND expires_at > ? ORDER BY asked_at DESC LIMIT 1",
            (turn_id, call_id, fingerprint, tx.now),
        ).get
        return str(found or "")

    @writes
    def answer(
        self, tx: Transaction, approval_id: str, answer: StoredApprovalAnswer, *, session_id: str | None = None
    ) -> bool:
        """Answer a pending prompt of the session (None: of any); return False when it is not pending any more."""
        return tx.change_any(
            "UPDATE approvals SET state = 'answered', scope = ?, answered_by = ?, answered_at = ?"
            " WHERE id = ? AND state = 'pending' AND expires_at > ? AND (?6 IS NULL OR session_id = ?6)",
            (answer.scope, answer.by, tx.now, approval_id, tx.now, session_id),
        )

    @writes
    def take_answer(self, tx: Transaction, approval_id: str) -> StoredApprovalAnswer | None:
        """Take the answer, once; return None when there is none yet or it was taken. The prompt's text is deleted."""
        row = tx.execute(
            "UPDATE approvals SET state = 'taken', subject = '', reason = '', session_covers = '',"
            " always_covers = '' WHERE id = ? AND state = 'answered' RETURNING scope, answered_by",
            (approval_id,),
        ).fetchone()
        return None if row is None else StoredApprovalAnswer(str(row[0]), str(row[1]))

    @reads
    def has_answer(self, tx: Transaction, approval_id: str) -> bool:
        """Return whether there is an answer that was not taken yet."""
        state = tx.execute("SELECT state FROM approvals WHERE id = ?", (approval_id,)).get
        return bool(state == "answered")

    @writes
    def close(self, tx: Transaction, approval_id: str, why: str) -> None:
        """Close an unanswered prompt as denied; `why` is stored in place of who answered."""
        tx.execute(
            "UPDATE approvals SET state = 'taken', scope = 'deny', answered_by = ?, subject = '', reason = '',"
            " session_covers = '', always_covers = '' WHERE id = ? AND state <> 'taken'",
            (why, approval_id),
        )

    @reads
    def list_pending(self, tx: Transaction, session_id: str | None = None) -> list[ApprovalRow]:
        """Return prompts that wait for an answer, the oldest first."""
        return tx.select_all(
            ApprovalRow,
            f"SELECT {_FIELDS}, asked_at, expires_at FROM approvals WHERE state = 'pending' AND expires_at > ?"
            " AND (?2 IS NULL OR session_id = ?2) ORDER BY asked_at, id",
            (tx.now, session_id),
        )
