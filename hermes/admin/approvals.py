"""The approval requests that wait for a person, whichever process asked them."""

from collections.abc import Mapping, Sequence

from hermes.admin.home_services import open_existing_store
from hermes.config.home import locate_home
from hermes.core.errors import NotFoundError, UsageError
from hermes.core.outcomes import AnswerScope
from hermes.sessions.formats.openai_format import Plain
from hermes.sessions.session_lookup import row_to_dict
from hermes.store.approvals import ApprovalRow, StoredApprovalAnswer
from hermes.tools.permissions.gate import describe_once


async def list_pending_approvals(environ: Mapping[str, str]) -> list[Plain]:
    """List the pending approval requests, the oldest first."""
    async with open_existing_store(locate_home(environ)) as store:
        rows = await store.approvals.list_pending() if store is not None else []
        return [{**row_to_dict(row), "once_covers": describe_once(row.rule, row.subject)} for row in rows]


async def find_pending_approval(environ: Mapping[str, str], id_prefix: str) -> Plain:
    """Return the one pending approval whose id begins with `id_prefix`. Raises NotFoundError."""
    rows = await list_pending_approvals(environ)
    name = _match_id([str(one["id"]) for one in rows], id_prefix)
    return next(row for row in rows if row["id"] == name)


async def answer_approval(environ: Mapping[str, str], id_prefix: str, scope: AnswerScope) -> None:
    """Answer the one pending approval whose id begins with `id_prefix`.

    Raises NotFoundError or UsageError with what is wrong.
    """
    async with open_existing_store(locate_home(environ)) as store:
        rows = await store.approvals.list_pending() if store is not None else []
        name = _match_id([row.id for row in rows], id_prefix)
        assert store is not None  # a question was found in it
        if not _offers_scope(next(row for row in rows if row.id == name), scope):
            raise UsageError(f"This question has no answer `{scope}`.", "`hermes approvals` shows which it has.")
        if not await store.approvals.answer(name, StoredApprovalAnswer(scope, "person")):
            raise NotFoundError("It was answered, withdrawn, or ran out of time, just now.")


def _match_id(ids: Sequence[str], id_prefix: str) -> str:
    """Return the one id that equals or begins with `id_prefix`. Raises NotFoundError."""
    found = [one for one in ids if one == id_prefix] or [one for one in ids if one.startswith(id_prefix)]
    if len(found) != 1:
        none, many = (
            "No question of this id waits for an answer.",
            f"{len(found)} questions of this id wait for an answer.",
        )
        raise NotFoundError(many if found else none, "`hermes approvals` lists them.")
    return found[0]


def _offers_scope(row: ApprovalRow, scope: AnswerScope) -> bool:
    wider = {AnswerScope.SESSION: row.session_covers, AnswerScope.ALWAYS: row.always_covers}
    return bool(wider.get(scope, "this call"))
