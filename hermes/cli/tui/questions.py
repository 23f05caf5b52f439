"""Approvals and the model's questions as menus. Enter on what is first chosen means no; nothing typed before counts."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from hermes.cli.tui.menu import Menus
from hermes.cli.tui.style import Look
from hermes.commands.context import MenuOption
from hermes.core.events import ApprovalAnswered, ApprovalAsked, Event, TurnEnded
from hermes.core.outcomes import AnswerScope
from hermes.i18n.messages import say, translated
from hermes.util.text import escaped, excerpt, is_long, one_line, visible

if TYPE_CHECKING:
    from hermes.sessions.port import SessionPort

_THIS = "this call"
_WITHDRAWN = "withdrawn"


class Questions:
    """Answers the questions of one chat's sessions; the `Asker` of its `clarify` tool. `close` ends its tasks."""

    def __init__(self, menus: Menus, look: Look, tell: Callable[[str, str], None], typed: "Typed") -> None:
        self._menus = menus
        self._look = look
        self._tell = tell
        self._typed = typed
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._here = ""
        """The session on the screen; others work beside it."""
        self._of: dict[str, str] = {}
        """Whose question it is: the session, by the question's id."""

    def attach(self, actor: "SessionPort", *, beside: bool = False) -> None:
        """Answer this session's questions, too, from now on; `beside`: it is not the one on the screen."""
        if not beside:
            self._here = actor.session_id
        actor.approvals.can_ask = True
        actor.subscribe(partial(self._hear, actor))

    async def ask(self, question: str, choices: Sequence[str]) -> str | None:
        """The person's answer to a question of the model's: one of the choices, or their own words."""
        asked = self._look.wrapped("question", f"? {escaped(question)}", indent=2)
        if not choices:
            return await self._typed(asked)
        options = [MenuOption(one_line(escaped(choice), 300)) for choice in choices]
        taken = await self._menus.ask(asked, [*options, MenuOption(say("something else: I type it"))], stays=True)
        if taken is None:
            self._tell("notice", say("The question was left unanswered."))
            return None
        answer = choices[taken] if taken < len(choices) else await self._typed(asked)
        self._tell("notice", f"? {one_line(escaped(question), 200)} → {one_line(escaped(answer or '-'), 200)}")
        return answer

    async def close(self) -> None:
        """End what is being asked."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def _hear(self, actor: "SessionPort", event: Event) -> None:
        match event:
            case ApprovalAsked():
                task = asyncio.get_running_loop().create_task(self._approve(actor, event))
                self._tasks[event.approval_id] = task
                self._of[event.approval_id] = actor.session_id
                task.add_done_callback(lambda _: self._forget(event.approval_id))
            case ApprovalAnswered() if (shown := self._tasks.get(event.approval_id)) is not None and not shown.done():
                shown.cancel()
                if event.by == "person":
                    self._tell("notice", say("It was answered elsewhere: {answer}.", answer=_word(event.allowed)))
                elif event.by == _WITHDRAWN:
                    self._tell("notice", say("The question is withdrawn: nobody waits for its answer any more."))
                else:
                    self._tell("warning", say("The question had no answer in time, which means no."))
            case TurnEnded():
                for name, task in self._tasks.items():
                    if self._of[name] == actor.session_id:
                        task.cancel()
            case _:
                pass

    def _forget(self, name: str) -> None:
        self._tasks.pop(name, None)
        self._of.pop(name, None)

    async def _approve(self, actor: "SessionPort", event: ApprovalAsked) -> None:
        options, scopes = _options(event)
        lines = [
            line
            for style, text in question(event, beside=actor.session_id if actor.session_id != self._here else "")
            for line in self._look.wrapped(style, text, indent=4 if style == "question.subject" else 2)
        ]
        taken = await self._menus.ask(lines, options, stays=True)
        scope = scopes[taken] if taken is not None else AnswerScope.DENY
        subject = one_line(visible(event.subject), 300)
        said = say("{tool}: {subject} → {answer}", tool=event.tool, subject=subject, answer=_scoped(scope))
        self._tell("warning" if scope is AnswerScope.DENY else "notice", said)
        actor.approvals.answer(event.approval_id, scope=scope, by="person")


Typed = Callable[[Sequence[str]], Awaitable[str | None]]
"""Lets the person type an answer below these lines."""


def question(event: ApprovalAsked, *, beside: str = "") -> list[tuple[str, str]]:
    """Styles and texts of what is asked: what would run, where, and why it is asked about.

    `beside` names the session that asks where it is not the one on the screen.

    Of a very long command only the beginning and the end; then the reason names the words that it is about.
    """
    shown = visible(event.subject)
    told = say("{tool} wants to run:", tool=event.tool)
    if beside:
        told = say("The session {id}, which works in the background, asks. {question}", id=beside, question=told)
    lines = [("question", told)]
    lines += [("question.subject", f"    {line}") for line in excerpt(shown).split("\n")]
    if event.cwd:
        lines.append(("question.detail", "  " + say("in {folder}", folder=visible(event.cwd))))
    lines.append(("question.reason", f"  {translated(visible(event.reason))}"))
    if is_long(shown):
        told = say("All of it, from another terminal: hermes approvals show {id}", id=event.approval_id)
        lines.append(("question.detail", f"  {told}"))
    if event.no_covers:
        told = say("A no holds until the session is closed, for: {what}", what=visible(event.no_covers))
        lines.append(("question.detail", f"  {told}"))
    return lines


def _options(event: ApprovalAsked) -> tuple[list[MenuOption], list[AnswerScope]]:
    """What can be answered; no is first, and where Enter goes."""
    once = visible(event.once_covers) if event.once_covers not in ("", _THIS) else ""
    rows = [(MenuOption(say("No")), AnswerScope.DENY), (MenuOption(say("Yes, this once"), once), AnswerScope.ONCE)]
    if event.session_covers:
        label = say("Yes, and until the session is closed:")
        rows.append((MenuOption(label, visible(event.session_covers)), AnswerScope.SESSION))
    if event.always_covers:
        rows.append((MenuOption(say("Yes, and from now on:"), visible(event.always_covers)), AnswerScope.ALWAYS))
    return [option for option, _ in rows], [scope for _, scope in rows]


def _word(allowed: bool) -> str:
    return say("allowed") if allowed else say("refused")


def _scoped(scope: AnswerScope) -> str:
    return {
        AnswerScope.DENY: say("refused"),
        AnswerScope.ONCE: say("allowed once"),
        AnswerScope.SESSION: say("allowed until the session is closed"),
        AnswerScope.ALWAYS: say("allowed from now on"),
    }[scope]
