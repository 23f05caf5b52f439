"""Standing goals: what a session works towards until it is reached."""

import msgspec
from msgspec import Struct

from hermes.store.repository import Repository, Transaction, reads, writes


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
