"""`hermes approvals`: list and answer the approvals that wait, in whichever process they were asked."""

import asyncio
import json
from collections.abc import Callable, Mapping

from hermes.admin.approvals import answer_approval, find_pending_approval, list_pending_approvals
from hermes.cli.output import report_failure
from hermes.cli.parser import CommandParser
from hermes.config.environment import copy_environment
from hermes.core.errors import HermesError
from hermes.core.outcomes import AnswerScope
from hermes.i18n.messages import localize, tr
from hermes.sessions.formats.openai_format import Plain
from hermes.util.text import escape_confusable_characters, shorten_command


def run(arguments: list[str]) -> int:
    """List what waits, show one question in full, or answer it."""
    parser = CommandParser(
        prog="hermes approvals",
        description="Questions that wait for your answer. What is not answered in time is a no.",
        epilog="example: hermes approvals approve approval_3f2a --session",
    )
    parser.add_argument("action", nargs="?", choices=["list", "show", "approve", "deny"], default="list")
    parser.add_argument("id", nargs="?", default="", help="the question's id, or its beginning")
    parser.add_argument("--session", action="store_true", help="also allow what the question shows for the session")
    parser.add_argument("--always", action="store_true", help="also allow what the question shows from now on")
    parser.add_argument("--json", action="store_true", dest="as_json", help="list as JSON, one object a line")
    args = parser.parse_arguments(arguments)
    if args.action in ("list", "show") and (args.session or args.always):
        parser.error("--session and --always belong to approve")
    if args.action == "list" and args.id:
        parser.error("list takes no id; one question as a whole: hermes approvals show ID")
    if args.action != "list" and not args.id:
        parser.error(f"{args.action} needs the id of a question; `hermes approvals` lists them")
    scope = AnswerScope.DENY if args.action == "deny" else _choose_scope(session=args.session, always=args.always)
    environ = copy_environment()
    try:
        if args.action in ("list", "show"):
            return _show_questions(environ, args.id, as_json=args.as_json)
        asyncio.run(answer_approval(environ, args.id, scope))
        print(tr("Denied.") if scope is AnswerScope.DENY else tr("Allowed."))
        return 0
    except HermesError as error:
        return report_failure(error)


def _show_questions(environ: Mapping[str, str], approval_id: str, *, as_json: bool) -> int:
    """Print all that waits, or one question in full."""
    rows = (
        asyncio.run(list_pending_approvals(environ))
        if not approval_id
        else [asyncio.run(find_pending_approval(environ, approval_id))]
    )
    for row in rows:
        print(
            json.dumps(row, ensure_ascii=False)
            if as_json
            else _format_question(row, str if approval_id else shorten_command)
        )
    if not rows and not as_json:
        print(tr("No question waits for an answer."))
    return 0


def _choose_scope(*, session: bool, always: bool) -> AnswerScope:
    return AnswerScope.ALWAYS if always else AnswerScope.SESSION if session else AnswerScope.ONCE


def _format_question(row: Plain, shorten: Callable[[str], str]) -> str:
    fields = {name: escape_confusable_characters(str(value)) for name, value in row.items()}
    subject = shorten(fields["subject"])
    lines = [
        tr("{id}  session {session_id}", id=fields["id"], session_id=fields["session_id"]),
        f"  {fields['tool']}: {subject}",
        f"  {localize(fields['reason'])}",
    ]
    lines += [("  " + tr("in {cwd}", cwd=fields["cwd"]))] if fields["cwd"] else []
    lines += (
        [("  " + tr("approve allows: {once_covers}", once_covers=fields["once_covers"]))]
        if fields["once_covers"]
        else []
    )
    lines += (
        [("  " + tr("--session also allows: {session_covers}", session_covers=fields["session_covers"]))]
        if fields["session_covers"]
        else []
    )
    lines += (
        [("  " + tr("--always also allows: {always_covers}", always_covers=fields["always_covers"]))]
        if fields["always_covers"]
        else []
    )
    lines += (
        [("  " + tr("all of it: hermes approvals show {id}", id=fields["id"]))] if subject != fields["subject"] else []
    )
    return "\n".join(lines)
