"""`hermes approvals`: the questions that wait for an answer, in whichever process they were asked."""

import asyncio
import json
from collections.abc import Callable, Mapping

from hermes.admin.approvals import answer_approval, find_pending_approval, list_pending_approvals
from hermes.cli.arguments import Parser
from hermes.cli.errors import failed
from hermes.config.environment import process_environment
from hermes.core.errors import HermesError
from hermes.core.outcomes import AnswerScope
from hermes.i18n.messages import say, translated
from hermes.sessions.formats.openai_format import Plain
from hermes.util.text import excerpt, visible


def run(arguments: list[str]) -> int:
    """List what waits, show it as a whole, or answer it."""
    parser = Parser(
        prog="hermes approvals",
        description="Questions that wait for your answer. What is not answered in time is a no.",
        epilog="example: hermes approvals approve approval_3f2a --session",
    )
    parser.add_argument("action", nargs="?", choices=["list", "show", "approve", "deny"], default="list")
    parser.add_argument("id", nargs="?", default="", help="the question's id, or its beginning")
    parser.add_argument("--session", action="store_true", help="also allow what the question shows for the session")
    parser.add_argument("--always", action="store_true", help="also allow what the question shows from now on")
    parser.add_argument("--json", action="store_true", dest="as_json", help="list as JSON, one object a line")
    given = parser.read(arguments)
    if given.action in ("list", "show") and (given.session or given.always):
        parser.error("--session and --always belong to approve")
    if given.action == "list" and given.id:
        parser.error("list takes no id; one question as a whole: hermes approvals show ID")
    if given.action != "list" and not given.id:
        parser.error(f"{given.action} needs the id of a question; `hermes approvals` lists them")
    scope = AnswerScope.DENY if given.action == "deny" else _scope(session=given.session, always=given.always)
    environ = process_environment()
    try:
        if given.action in ("list", "show"):
            return _show(environ, given.id, as_json=given.as_json)
        asyncio.run(answer_approval(environ, given.id, scope))
        print(say("Denied.") if scope is AnswerScope.DENY else say("Allowed."))
        return 0
    except HermesError as error:
        return failed(error)


def _show(environ: Mapping[str, str], named: str, *, as_json: bool) -> int:
    """All that waits, or one question as a whole."""
    rows = (
        asyncio.run(list_pending_approvals(environ))
        if not named
        else [asyncio.run(find_pending_approval(environ, named))]
    )
    for row in rows:
        print(json.dumps(row, ensure_ascii=False) if as_json else _shown(row, str if named else excerpt))
    if not rows and not as_json:
        print(say("No question waits for an answer."))
    return 0


def _scope(*, session: bool, always: bool) -> AnswerScope:
    return AnswerScope.ALWAYS if always else AnswerScope.SESSION if session else AnswerScope.ONCE


def _shown(row: Plain, shortened: Callable[[str], str]) -> str:
    told = {name: visible(str(value)) for name, value in row.items()}
    subject = shortened(told["subject"])
    lines = [
        say("{id}  session {session_id}", id=told["id"], session_id=told["session_id"]),
        f"  {told['tool']}: {subject}",
        f"  {translated(told['reason'])}",
    ]
    lines += [("  " + say("in {cwd}", cwd=told["cwd"]))] if told["cwd"] else []
    lines += (
        [("  " + say("approve allows: {once_covers}", once_covers=told["once_covers"]))] if told["once_covers"] else []
    )
    lines += (
        [("  " + say("--session also allows: {session_covers}", session_covers=told["session_covers"]))]
        if told["session_covers"]
        else []
    )
    lines += (
        [("  " + say("--always also allows: {always_covers}", always_covers=told["always_covers"]))]
        if told["always_covers"]
        else []
    )
    lines += (
        [("  " + say("all of it: hermes approvals show {id}", id=told["id"]))] if subject != told["subject"] else []
    )
    return "\n".join(lines)
