"""`hermes approvals`: the questions that wait for an answer, in whichever process they were asked."""

import asyncio
import json

from hermes.app.sessions import open_store
from hermes.cli.arguments import Parser
from hermes.cli.report import complain, failed
from hermes.config.environment import process_environment
from hermes.config.home import locate_home
from hermes.core.errors import HermesError
from hermes.store.approvals import ApprovalRow, Given
from hermes.tools.gate import Scope
from hermes.util.text import visible


def run(arguments: list[str]) -> int:
    """List what waits, or answer it."""
    parser = Parser(
        prog="hermes approvals",
        description="Questions that wait for your answer. What is not answered in time is a no.",
        epilog="example: hermes approvals approve approval_3f2a --session",
    )
    parser.add_argument("action", nargs="?", choices=["list", "approve", "deny"], default="list")
    parser.add_argument("id", nargs="?", default="", help="the question's id, or its beginning")
    parser.add_argument("--session", action="store_true", help="also allow what the question shows for the session")
    parser.add_argument("--always", action="store_true", help="also allow what the question shows from now on")
    parser.add_argument("--json", action="store_true", dest="as_json", help="list as JSON, one object a line")
    given = parser.read(arguments)
    if given.action == "list" and (given.session or given.always):
        parser.error("--session and --always belong to approve")
    if given.action != "list" and not given.id:
        parser.error(f"{given.action} needs the id of a question; `hermes approvals` lists them")
    scope = Scope.DENY if given.action == "deny" else _scope(given.session, given.always)
    try:
        if given.action == "list":
            return asyncio.run(_list(as_json=given.as_json))
        return asyncio.run(_answer(given.id, scope))
    except HermesError as error:
        return failed(error)


def _scope(session: bool, always: bool) -> Scope:
    return Scope.ALWAYS if always else Scope.SESSION if session else Scope.ONCE


async def _list(*, as_json: bool) -> int:
    async with open_store(locate_home(process_environment())) as store:
        for row in await store.pending_approvals() if store is not None else ():
            print(json.dumps(_plain(row), ensure_ascii=False) if as_json else _shown(row))
    return 0


async def _answer(named: str, scope: Scope) -> int:
    async with open_store(locate_home(process_environment())) as store:
        rows = await store.pending_approvals() if store is not None else []
        found = [row for row in rows if row.id == named] or [row for row in rows if row.id.startswith(named)]
        if len(found) != 1 or store is None:
            complain(f"{len(found) or 'No'} questions of this id wait for an answer. `hermes approvals` lists them.")
            return 1
        covered = {Scope.SESSION: found[0].session_covers, Scope.ALWAYS: found[0].always_covers}
        if not covered.get(scope, "this call"):
            complain(f"This question has no answer `{scope}`.")
            return 2
        if not await store.answer_approval(found[0].id, Given(scope, "person")):
            complain("It was answered, or ran out of time, just now.")
            return 1
    print("Denied." if scope is Scope.DENY else "Allowed.")
    return 0


def _plain(row: ApprovalRow) -> dict[str, object]:
    return {name: getattr(row, name) for name in ApprovalRow.__struct_fields__}


def _shown(row: ApprovalRow) -> str:
    lines = [f"{row.id}  session {row.session_id}", f"  {row.tool}: {visible(row.subject)}", f"  {visible(row.reason)}"]
    lines += [f"  in {visible(row.cwd)}"] if row.cwd else []
    lines += [f"  --session also allows: {visible(row.session_covers)}"] if row.session_covers else []
    lines += [f"  --always also allows: {visible(row.always_covers)}"] if row.always_covers else []
    return "\n".join(lines)
