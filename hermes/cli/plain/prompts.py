"""Asks the person on the terminal that this process belongs to, wherever its input and output go."""

import asyncio
import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING

from hermes.cli.plain.offer_model import YES
from hermes.cli.plain.terminal import Lines, set_modes, terminal_kept
from hermes.core.events import ApprovalAnswered, ApprovalAsked, Event, TurnEnded
from hermes.core.outcomes import AnswerScope
from hermes.i18n.messages import say, translated
from hermes.util.text import excerpt, inert, is_long, visible

if TYPE_CHECKING:
    from hermes.sessions.port import SessionPort

_THIS = "this call"
_WITHDRAWN = "withdrawn"


@contextlib.contextmanager
def controlling_terminal() -> Iterator[int | None]:
    """The descriptor of /dev/tty while the context lasts; None when this process has no terminal."""
    try:
        descriptor = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        yield None
        return
    try:
        yield descriptor
    finally:
        os.close(descriptor)


class TerminalAsker:
    """Shows approvals and the model's questions on the terminal, one at a time; Enter alone means no.

    It is the subscriber that hears of questions and the `Asker` of the `clarify` tool. Its tasks end with its context.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lines = Lines(descriptor)
        self._turn = asyncio.Lock()
        self._tasks: dict[str, asyncio.Task[None]] = {}
        """The approvals that are shown or wait to be, by their ids."""
        self._actor: SessionPort | None = None
        self._closed = False

    async def __aenter__(self) -> "TerminalAsker":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def took_away(self) -> bool:
        """Whether a question was closed without an answer from here since this was asked last."""
        closed, self._closed = self._closed, False
        return closed

    def attach(self, actor: "SessionPort") -> None:
        """Answer this session's questions from now on."""
        self._actor = actor
        actor.approvals.can_ask = True
        actor.subscribe(self._hear)

    async def ask(self, question: str, choices: Sequence[str]) -> str | None:
        """The answer to a question of the model's: the text, or the choice whose number was typed."""
        choice_lines = [f"  {number}. {inert(choice)}\n" for number, choice in enumerate(choices, 1)]
        line = await self._answer("".join([f"\n? {inert(question)}\n", *choice_lines, "> "]))
        if line is None:
            return None
        if line.strip().isdigit() and 0 < int(line) <= len(choices):
            return choices[int(line) - 1]
        return line

    def _hear(self, event: Event) -> None:
        match event:
            case ApprovalAsked():
                task = asyncio.get_running_loop().create_task(self._approve(event))
                self._tasks[event.approval_id] = task
                task.add_done_callback(lambda _: self._tasks.pop(event.approval_id, None))
            case ApprovalAnswered():
                said = say("allowed") if event.allowed else say("refused")
                gone = "  " + say("(The question is withdrawn: nobody waits for its answer any more.)") + "\n"
                elsewhere = (
                    ("  " + say("(Answered elsewhere: {said}.)", said=said) + "\n") if event.by == "person" else ""
                )
                self._withdraw(self._tasks.get(event.approval_id), gone if event.by == _WITHDRAWN else elsewhere)
            case TurnEnded():
                for task in self._tasks.values():
                    self._withdraw(task)
            case _:
                pass

    def _withdraw(self, task: "asyncio.Task[None] | None", why: str = "") -> None:
        """A question that nobody waits for any more must not go on reading what is typed next."""
        if task is not None and not task.done():
            self._show(f"\n{why}")
            self._closed = True
            task.cancel()

    async def _approve(self, event: ApprovalAsked) -> None:
        line = await self._answer(question_text(event), lambda said: "" if meant(said, event) else _again(event))
        scope = meant(line, event)
        if self._actor is not None:
            self._actor.approvals.answer(event.approval_id, scope=scope or AnswerScope.DENY, by="person")

    async def _answer(self, question: str, again: Callable[[str | None], str] | None = None) -> str | None:
        """Show a question when the one before has its answer, and wait for a line that is typed after it.

        `again` is what to ask once more where the line is no answer; empty when it is one.
        """
        async with self._turn:
            with terminal_kept(self._descriptor):
                set_modes(self._descriptor, lines=True, echo=True)
                self._lines.forget()
                self._show(question)
                line = await self._lines.next()
                if again is None or not (more := again(line)):
                    return line
                self._show(more)
                return await self._lines.next()

    def _show(self, text: str) -> None:
        with contextlib.suppress(OSError):
            os.write(self._descriptor, text.encode())


def question_text(event: ApprovalAsked) -> str:
    """The question as it is shown: what would run, why it is asked about, and what each answer covers.

    Of a very long command only the beginning and the end; then the reason names the words that it is about.
    """
    where = ("  " + say("in {cwd}", cwd=visible(event.cwd)) + "\n") if event.cwd else ""
    shown = visible(event.subject)
    lines = [
        (
            "\n"
            + say(
                "! {tool} wants to run:\n    {excerpt}\n{where}  {reason}",
                tool=event.tool,
                excerpt=excerpt(shown),
                where=where,
                reason=translated(visible(event.reason)),
            )
            + "\n"
        )
    ]
    if is_long(shown):
        lines.append(_line(say("All of it, from another terminal: hermes approvals show {id}", id=event.approval_id)))
    letters = "o"
    if event.once_covers not in ("", _THIS):
        lines.append(_line(say("[o]nce allows: {what}", what=visible(event.once_covers))))
    if event.session_covers:
        lines.append(
            _line(say("[s]ession also allows, until it is closed: {what}", what=visible(event.session_covers)))
        )
        letters += "/s"
    if event.always_covers:
        lines.append(_line(say("[a]lways also allows, from now on: {what}", what=visible(event.always_covers))))
        letters += "/a"
    if event.no_covers:
        lines.append(_line(say("No holds until the session is closed, for: {what}", what=visible(event.no_covers))))
    return "".join([*lines, ("  " + say("Allow it [o]nce (or yes)? [{letters}/N]", letters=letters) + " ")])


def _line(text: str) -> str:
    return f"  {text}\n"


def _again(event: ApprovalAsked) -> str:
    words = [say("o (once) or yes"), *([say("s (session)")] if event.session_covers else [])]
    words += [say("a (always)")] if event.always_covers else []
    return (
        "  "
        + say("That is no answer here. It is {words}, or n (no); anything else now is no:", words=", ".join(words))
        + " "
    )


def late_answer(line: str) -> bool:
    """Whether a line looks like the answer to a question, and like nothing else that a person would say."""
    return line.strip().lower() in ("o", "s", "a", "y", "n")


def meant(line: str | None, event: ApprovalAsked) -> AnswerScope | None:
    """The answer that a line stands for; None when it is not understood or was not offered. Enter alone means no."""
    word = (line or "").strip().lower()
    if word in ("o", "once", *YES):
        return AnswerScope.ONCE
    if word in ("s", "session") and event.session_covers:
        return AnswerScope.SESSION
    if word in ("a", "always") and event.always_covers:
        return AnswerScope.ALWAYS
    return AnswerScope.DENY if word in ("", "n", "no", "否", "不") else None
