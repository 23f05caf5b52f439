"""Questions that stand in the store alone: their turns are still to be resumed after a restart. An answer that is left
there is taken by whoever asks again.
"""

from collections.abc import Callable

from msgspec import Struct

from hermes.core.outcomes import AnswerScope
from hermes.store.approvals import StoredApprovalAnswer
from hermes.store.store import Store


class StoredQuestion(Struct, frozen=True):
    """A question that waits, and the answers that it has."""

    approval_id: str
    scopes: frozenset[AnswerScope]


async def find_stored_question(store: Store, session_id: str, is_meant: Callable[[str], bool]) -> StoredQuestion | None:
    """Return the meant question of a session, or of sub-agents below it; None where none of that id waits."""
    for row in await store.approvals.list_pending():
        if not is_meant(row.id):
            continue
        sub_agent = await store.sub_agents.get(row.session_id)
        if session_id not in (row.session_id, sub_agent.root_id if sub_agent is not None else ""):
            continue
        scopes = {AnswerScope.ONCE, AnswerScope.DENY}
        scopes |= {AnswerScope.SESSION} if row.session_covers else set()
        scopes |= {AnswerScope.ALWAYS} if row.always_covers else set()
        return StoredQuestion(row.id, frozenset(scopes))
    return None


async def answer_stored_question(store: Store, question: StoredQuestion, scope: AnswerScope, by: str) -> bool:
    """Leave an answer in the store, once; return False where the question has one, or waits no more."""
    return await store.approvals.answer(question.approval_id, StoredApprovalAnswer(scope, by))
