"""The questions that wait for a person, whichever process asked them."""

from collections.abc import Mapping, Sequence

from hermes.admin.sessions import open_store
from hermes.config.home import locate_home
from hermes.core.errors import NotFoundError, UsageError
from hermes.core.outcomes import AnswerScope
from hermes.sessions.formats.openai_format import Plain
from hermes.sessions.session_lookup import to_plain
from hermes.store.approvals import ApprovalRow, Given
from hermes.tools.permissions.gate import once_covers


async def pending_approvals(environ: Mapping[str, str]) -> list[Plain]:
    """What waits for an answer, the oldest first."""
    async with open_store(locate_home(environ)) as store:
        rows = await store.pending_approvals() if store is not None else []
        return [{**to_plain(row), "once_covers": once_covers(row.rule, row.subject)} for row in rows]


async def pending_approval(environ: Mapping[str, str], named: str) -> Plain:
    """The one question whose id begins with `named`. Raises NotFoundError."""
    rows = await pending_approvals(environ)
    name = _found([str(one["id"]) for one in rows], named)
    return next(row for row in rows if row["id"] == name)


async def answer_approval(environ: Mapping[str, str], named: str, scope: AnswerScope) -> None:
    """Answer the one question whose id begins with `named`. Raises NotFoundError or UsageError with what is wrong."""
    async with open_store(locate_home(environ)) as store:
        rows = await store.pending_approvals() if store is not None else []
        name = _found([row.id for row in rows], named)
        assert store is not None  # a question was found in it
        if not _has(next(row for row in rows if row.id == name), scope):
            raise UsageError(f"This question has no answer `{scope}`.", "`hermes approvals` shows which it has.")
        if not await store.answer_approval(name, Given(scope, "person")):
            raise NotFoundError("It was answered, withdrawn, or ran out of time, just now.")


def _found(names: Sequence[str], named: str) -> str:
    """The one id that is meant. Raises NotFoundError."""
    found = [one for one in names if one == named] or [one for one in names if one.startswith(named)]
    if len(found) != 1:
        none, many = (
            "No question of this id waits for an answer.",
            f"{len(found)} questions of this id wait for an answer.",
        )
        raise NotFoundError(many if found else none, "`hermes approvals` lists them.")
    return found[0]


def _has(row: ApprovalRow, scope: AnswerScope) -> bool:
    wider = {AnswerScope.SESSION: row.session_covers, AnswerScope.ALWAYS: row.always_covers}
    return bool(wider.get(scope, "this call"))
