"""The questions that wait for a person, whichever process asked them."""

from collections.abc import Mapping

from hermes.app.openai_form import Plain
from hermes.app.sessions import open_store, to_plain
from hermes.config.home import locate_home
from hermes.core.errors import NotFoundError, UsageError
from hermes.core.outcomes import AnswerScope
from hermes.store.approvals import ApprovalRow, Given


async def pending_approvals(environ: Mapping[str, str]) -> list[Plain]:
    """What waits for an answer, the oldest first."""
    async with open_store(locate_home(environ)) as store:
        return [to_plain(row) for row in (await store.pending_approvals() if store is not None else ())]


async def answer_approval(environ: Mapping[str, str], named: str, scope: AnswerScope) -> None:
    """Answer the one question whose id begins with `named`. Raises NotFoundError or UsageError with what is wrong."""
    async with open_store(locate_home(environ)) as store:
        rows = await store.pending_approvals() if store is not None else []
        found = [row for row in rows if row.id == named] or [row for row in rows if row.id.startswith(named)]
        if store is None or len(found) != 1:
            how_many = "No question" if not found else f"{len(found)} questions"
            raise NotFoundError(f"{how_many} of this id wait for an answer.", "`hermes approvals` lists them.")
        if not _has(found[0], scope):
            raise UsageError(f"This question has no answer `{scope}`.", "`hermes approvals` shows which it has.")
        if not await store.answer_approval(found[0].id, Given(scope, "person")):
            raise NotFoundError("It was answered, or ran out of time, just now.")


def _has(row: ApprovalRow, scope: AnswerScope) -> bool:
    wider = {AnswerScope.SESSION: row.session_covers, AnswerScope.ALWAYS: row.always_covers}
    return bool(wider.get(scope, "this call"))
