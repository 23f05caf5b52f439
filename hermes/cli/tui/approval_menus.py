"""Ask approvals and the model's questions as menus. Enter on what is first chosen means no; nothing typed before
counts.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from hermes.cli.tui.menu import MenuQueue
from hermes.cli.tui.terminal_style import TerminalStyle
from hermes.commands.context import MenuOption
from hermes.core.events import ApprovalAnswered, ApprovalAsked, Event, TurnEnded
from hermes.core.outcomes import AnswerScope
from hermes.i18n.messages import localize, tr
from hermes.util.text import (
    escape_confusable_characters,
    escape_unseen_characters,
    is_long,
    shorten_command,
    to_one_line,
)

if TYPE_CHECKING:
    from hermes.sessions.port import SessionPort

_THIS_CALL = "this call"
_WITHDRAWN = "withdrawn"


class QuestionMenus:
    """Asks the approvals of one chat's sessions, and is the `Asker` of its `clarify` tool. `close` ends its tasks."""

    def __init__(
        self, menus: MenuQueue, terminal_style: TerminalStyle, tell: Callable[[str, str], None], ask_text: "AskText"
    ) -> None:
        self._menus = menus
        self._terminal_style = terminal_style
        self._tell = tell
        self._ask_text = ask_text
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._shown_session_id = ""
        """The session on the screen; others run in the background."""
        self._session_ids: dict[str, str] = {}
        """The session of each approval, by the approval's id."""

    def attach_session(self, actor: "SessionPort", *, background: bool = False) -> None:
        """Answer this session's questions, too, from now on; `background`: it is not the one on the screen."""
        if not background:
            self._shown_session_id = actor.session_id
        actor.approvals.can_ask = True
        actor.subscribe(partial(self._handle_event, actor))

    async def ask(self, question: str, choices: Sequence[str]) -> str | None:
        """Ask a question of the model's. Return one of the choices, or the person's own words."""
        asked = self._terminal_style.wrap_paragraphs("question", f"? {escape_unseen_characters(question)}", indent=2)
        if not choices:
            return await self._ask_text(asked)
        options = [MenuOption(to_one_line(escape_unseen_characters(choice), 300)) for choice in choices]
        taken = await self._menus.ask(asked, [*options, MenuOption(tr("something else: I type it"))], stays=True)
        if taken is None:
            self._tell("notice", tr("The question was left unanswered."))
            return None
        answer = choices[taken] if taken < len(choices) else await self._ask_text(asked)
        self._tell(
            "notice",
            f"? {to_one_line(escape_unseen_characters(question), 200)} → "
            f"{to_one_line(escape_unseen_characters(answer or '-'), 200)}",
        )
        return answer

    async def close(self) -> None:
        """Cancel the questions that are shown or wait."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def _handle_event(self, actor: "SessionPort", event: Event) -> None:
        match event:
            case ApprovalAsked():
                task = asyncio.get_running_loop().create_task(self._ask_approval(actor, event))
                self._tasks[event.approval_id] = task
                self._session_ids[event.approval_id] = actor.session_id
                task.add_done_callback(lambda _: self._forget_question(event.approval_id))
            case ApprovalAnswered() if (shown := self._tasks.get(event.approval_id)) is not None and not shown.done():
                shown.cancel()
                if event.by == "person":
                    self._tell(
                        "notice", tr("It was answered elsewhere: {answer}.", answer=_format_verdict(event.allowed))
                    )
                elif event.by == _WITHDRAWN:
                    self._tell("notice", tr("The question is withdrawn: nobody waits for its answer any more."))
                else:
                    self._tell("warning", tr("The question had no answer in time, which means no."))
            case TurnEnded():
                for name, task in self._tasks.items():
                    if self._session_ids[name] == actor.session_id:
                        task.cancel()
            case _:
                pass

    def _forget_question(self, name: str) -> None:
        self._tasks.pop(name, None)
        self._session_ids.pop(name, None)

    async def _ask_approval(self, actor: "SessionPort", event: ApprovalAsked) -> None:
        options, scopes = _build_options(event)
        lines = [
            line
            for style, text in format_question(
                event, background_id=actor.session_id if actor.session_id != self._shown_session_id else ""
            )
            for line in self._terminal_style.wrap_paragraphs(
                style, text, indent=4 if style == "question.subject" else 2
            )
        ]
        taken = await self._menus.ask(lines, options, stays=True)
        scope = scopes[taken] if taken is not None else AnswerScope.DENY
        subject = to_one_line(escape_confusable_characters(event.subject), 300)
        said = tr("{tool}: {subject} → {answer}", tool=event.tool, subject=subject, answer=_format_scope(scope))
        self._tell("warning" if scope is AnswerScope.DENY else "notice", said)
        actor.approvals.answer(event.approval_id, scope=scope, by="person")


AskText = Callable[[Sequence[str]], Awaitable[str | None]]
"""Lets the person type an answer below these lines."""


def format_question(event: ApprovalAsked, *, background_id: str = "") -> list[tuple[str, str]]:
    """Return styles and texts of an approval: what would run, where, and why it is asked about.

    `background_id` names the session that asks where it is not the one on the screen.

    Of a very long command only the beginning and the end are shown; then the reason names the words that it is about.
    """
    shown = escape_confusable_characters(event.subject)
    message = tr("{tool} wants to run:", tool=event.tool)
    if background_id:
        message = tr(
            "The session {id}, which works in the background, asks. {question}", id=background_id, question=message
        )
    lines = [("question", message)]
    lines += [("question.subject", f"    {line}") for line in shorten_command(shown).split("\n")]
    if event.cwd:
        lines.append(("question.detail", "  " + tr("in {folder}", folder=escape_confusable_characters(event.cwd))))
    lines.append(("question.reason", f"  {localize(escape_confusable_characters(event.reason))}"))
    if is_long(shown):
        message = tr("All of it, from another terminal: hermes approvals show {id}", id=event.approval_id)
        lines.append(("question.detail", f"  {message}"))
    if event.no_covers:
        message = tr(
            "A no holds until the session is closed, for: {what}", what=escape_confusable_characters(event.no_covers)
        )
        lines.append(("question.detail", f"  {message}"))
    return lines


def _build_options(event: ApprovalAsked) -> tuple[list[MenuOption], list[AnswerScope]]:
    """Return the answers to choose from; no is first, and where Enter goes."""
    once = escape_confusable_characters(event.once_covers) if event.once_covers not in ("", _THIS_CALL) else ""
    rows = [(MenuOption(tr("No")), AnswerScope.DENY), (MenuOption(tr("Yes, this once"), once), AnswerScope.ONCE)]
    if event.session_covers:
        label = tr("Yes, and until the session is closed:")
        rows.append((MenuOption(label, escape_confusable_characters(event.session_covers)), AnswerScope.SESSION))
    if event.always_covers:
        rows.append(
            (
                MenuOption(tr("Yes, and from now on:"), escape_confusable_characters(event.always_covers)),
                AnswerScope.ALWAYS,
            )
        )
    return [option for option, _ in rows], [scope for _, scope in rows]


def _format_verdict(allowed: bool) -> str:
    return tr("allowed") if allowed else tr("refused")


def _format_scope(scope: AnswerScope) -> str:
    return {
        AnswerScope.DENY: tr("refused"),
        AnswerScope.ONCE: tr("allowed once"),
        AnswerScope.SESSION: tr("allowed until the session is closed"),
        AnswerScope.ALWAYS: tr("allowed from now on"),
    }[scope]
