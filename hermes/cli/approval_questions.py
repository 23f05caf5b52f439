"""The questions of a session that a person answers in a terminal: their words, and their life from asked to answered.

How a question is shown and answered (by a letter, by a menu) is what the two chats add.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from hermes.core.events import ApprovalAnswered, ApprovalAsked, Event, TurnEnded
from hermes.core.outcomes import AnswerScope
from hermes.i18n.messages import localize, tr
from hermes.util.text import escape_confusable_characters, is_long, shorten_command

if TYPE_CHECKING:
    from hermes.sessions.port import SessionPort

_THIS_CALL = "this call"
_WITHDRAWN = "withdrawn"


class ApprovalAsker(ABC):
    """Asks the approvals of the sessions of one chat, and is the `Asker` of their `clarify` tools. `close` ends its
    tasks.
    """

    def __init__(self) -> None:
        self._questions: dict[str, tuple[str, asyncio.Task[None]]] = {}
        """The approvals that are shown or wait to be shown, by their ids: the session that asks, and the task."""
        self._shown_session_id = ""
        """The session on the screen; others run in the background."""

    def attach_session(self, port: "SessionPort", *, background: bool = False) -> None:
        """Ask this session's questions, too, from now on; `background`: it is not the one on the screen."""
        if not background:
            self._shown_session_id = port.session_id
        port.approvals.can_ask = True
        port.subscribe(partial(self._handle_event, port))

    @abstractmethod
    async def ask(self, question: str, choices: Sequence[str]) -> str | None:
        """Ask a question of the model's. Return one of the choices, or the person's own words."""

    @abstractmethod
    async def ask_approval(self, event: ApprovalAsked, background_id: str) -> AnswerScope:
        """Ask an approval when the questions before it have their answers. `background_id` names the session that asks
        where it is not the one on the screen.
        """

    @abstractmethod
    def show_closed(self, style: str, text: str) -> None:
        """Show why a question was closed without an answer from here; empty where its turn has just ended."""

    async def close(self) -> None:
        """Cancel the questions that are shown or wait."""
        tasks = [task for _, task in self._questions.values()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def _handle_event(self, port: "SessionPort", event: Event) -> None:
        match event:
            case ApprovalAsked():
                task = asyncio.get_running_loop().create_task(self._answer_approval(port, event))
                self._questions[event.approval_id] = port.session_id, task
                task.add_done_callback(lambda _: self._questions.pop(event.approval_id, None))
            case ApprovalAnswered() if event.approval_id in self._questions:
                self._close_question(self._questions[event.approval_id][1], *_describe_closing(event))
            case TurnEnded():
                for session_id, task in self._questions.values():
                    if session_id == port.session_id:
                        self._close_question(task, "", "")
            case _:
                pass

    def _close_question(self, task: "asyncio.Task[None]", style: str, text: str) -> None:
        """Close a question that nobody waits for any more, so that it does not take what is typed next."""
        if not task.done():
            task.cancel()
            self.show_closed(style, text)

    async def _answer_approval(self, port: "SessionPort", event: ApprovalAsked) -> None:
        background_id = port.session_id if port.session_id != self._shown_session_id else ""
        scope = await self.ask_approval(event, background_id)
        port.approvals.answer(event.approval_id, scope=scope, by="person")


def format_question(event: ApprovalAsked, background_id: str = "") -> list[tuple[str, str]]:
    """Return styles and texts of an approval: what would run, where, and why it is asked about.

    Of a very long command only the beginning and the end are shown; then the reason names the words that it is about.
    """
    shown = escape_confusable_characters(event.subject)
    message = tr("Allow {tool}?", tool=event.tool)
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


def list_answers(event: ApprovalAsked) -> dict[AnswerScope, str]:
    """Return the answers that can be given, no first, each with what it covers beyond this call."""
    once = event.once_covers if event.once_covers != _THIS_CALL else ""
    answers = {AnswerScope.DENY: "", AnswerScope.ONCE: once}
    wider = {AnswerScope.SESSION: event.session_covers, AnswerScope.ALWAYS: event.always_covers}
    answers |= {scope: covers for scope, covers in wider.items() if covers}
    return {scope: escape_confusable_characters(covers) for scope, covers in answers.items()}


def _describe_closing(event: ApprovalAnswered) -> tuple[str, str]:
    """Return the style and the words that say by whom a question was closed."""
    if event.by == "person":
        answer = tr("allowed") if event.allowed else tr("refused")
        return "notice", tr("It was answered elsewhere: {answer}.", answer=answer)
    if event.by == _WITHDRAWN:
        return "notice", tr("The question was withdrawn.")
    return "warning", tr("The question had no answer in time, which means no.")
