"""Ask the person on the terminal that this process belongs to, wherever its input and output are redirected."""

import asyncio
import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING

from hermes.cli.output import YES_ANSWERS
from hermes.cli.plain.terminal import DescriptorLineReader, preserve_terminal_modes, set_terminal_modes
from hermes.core.events import ApprovalAnswered, ApprovalAsked, Event, TurnEnded
from hermes.core.outcomes import AnswerScope
from hermes.i18n.messages import localize, tr
from hermes.util.text import escape_confusable_characters, is_long, shorten_command, strip_control_characters

if TYPE_CHECKING:
    from hermes.sessions.port import SessionPort


_THIS_CALL = "this call"
_WITHDRAWN = "withdrawn"


@contextlib.contextmanager
def open_controlling_terminal() -> Iterator[int | None]:
    """Open /dev/tty while the context lasts; None when this process has no terminal."""
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

    It subscribes to a session's events to hear of approvals, and is the `Asker` of the `clarify` tool. Its
    tasks end with its context.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lines = DescriptorLineReader(descriptor)
        self._turn = asyncio.Lock()
        self._tasks: dict[str, asyncio.Task[None]] = {}
        """The approvals that are shown or wait to be shown, by their ids."""
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

    def pop_closed_flag(self) -> bool:
        """Return whether a question was closed without an answer from here since the last call, and reset that."""
        closed, self._closed = self._closed, False
        return closed

    def attach_session(self, actor: "SessionPort") -> None:
        """Answer this session's questions from now on."""
        self._actor = actor
        actor.approvals.can_ask = True
        actor.subscribe(self._handle_event)

    async def ask(self, question: str, choices: Sequence[str]) -> str | None:
        """Ask a question of the model's. Return the text, or the choice whose number was typed."""
        choice_lines = [f"  {number}. {strip_control_characters(choice)}\n" for number, choice in enumerate(choices, 1)]
        line = await self._ask_line("".join([f"\n? {strip_control_characters(question)}\n", *choice_lines, "> "]))
        if line is None:
            return None
        if line.strip().isdigit() and 0 < int(line) <= len(choices):
            return choices[int(line) - 1]
        return line

    def _handle_event(self, event: Event) -> None:
        match event:
            case ApprovalAsked():
                task = asyncio.get_running_loop().create_task(self._ask_approval(event))
                self._tasks[event.approval_id] = task
                task.add_done_callback(lambda _: self._tasks.pop(event.approval_id, None))
            case ApprovalAnswered():
                said = tr("allowed") if event.allowed else tr("refused")
                gone = "  " + tr("(The question is withdrawn: nobody waits for its answer any more.)") + "\n"
                elsewhere = (
                    ("  " + tr("(Answered elsewhere: {said}.)", said=said) + "\n") if event.by == "person" else ""
                )
                self._withdraw_question(
                    self._tasks.get(event.approval_id), gone if event.by == _WITHDRAWN else elsewhere
                )
            case TurnEnded():
                for task in self._tasks.values():
                    self._withdraw_question(task)
            case _:
                pass

    def _withdraw_question(self, task: "asyncio.Task[None] | None", why: str = "") -> None:
        """Close a question that nobody waits for any more, so that it does not read what is typed next."""
        if task is not None and not task.done():
            self._write_terminal(f"\n{why}")
            self._closed = True
            task.cancel()

    async def _ask_approval(self, event: ApprovalAsked) -> None:
        line = await self._ask_line(
            format_question(event), lambda said: "" if parse_answer(said, event) else _format_retry_hint(event)
        )
        scope = parse_answer(line, event)
        if self._actor is not None:
            self._actor.approvals.answer(event.approval_id, scope=scope or AnswerScope.DENY, by="person")

    async def _ask_line(self, question: str, again: Callable[[str | None], str] | None = None) -> str | None:
        """Show a question when the one before has its answer, and wait for a line that is typed after it.

        `again` returns what to ask once more where the line is no answer, and an empty text when it is one.
        """
        async with self._turn:
            with preserve_terminal_modes(self._descriptor):
                set_terminal_modes(self._descriptor, lines=True, echo=True)
                self._lines.discard_input()
                self._write_terminal(question)
                line = await self._lines.read_line()
                if again is None or not (more := again(line)):
                    return line
                self._write_terminal(more)
                return await self._lines.read_line()

    def _write_terminal(self, text: str) -> None:
        with contextlib.suppress(OSError):
            os.write(self._descriptor, text.encode())


def format_question(event: ApprovalAsked) -> str:
    """Format an approval: what would run, why it is asked about, and what each answer covers.

    Of a very long command only the beginning and the end are shown; then the reason names the words that it is about.
    """
    where = ("  " + tr("in {cwd}", cwd=escape_confusable_characters(event.cwd)) + "\n") if event.cwd else ""
    shown = escape_confusable_characters(event.subject)
    lines = [
        (
            "\n"
            + tr(
                "! {tool} wants to run:\n    {excerpt}\n{where}  {reason}",
                tool=event.tool,
                excerpt=shorten_command(shown),
                where=where,
                reason=localize(escape_confusable_characters(event.reason)),
            )
            + "\n"
        )
    ]
    if is_long(shown):
        lines.append(
            _format_line(tr("All of it, from another terminal: hermes approvals show {id}", id=event.approval_id))
        )
    letters = "o"
    if event.once_covers not in ("", _THIS_CALL):
        lines.append(_format_line(tr("[o]nce allows: {what}", what=escape_confusable_characters(event.once_covers))))
    if event.session_covers:
        lines.append(
            _format_line(
                tr(
                    "[s]ession also allows, until it is closed: {what}",
                    what=escape_confusable_characters(event.session_covers),
                )
            )
        )
        letters += "/s"
    if event.always_covers:
        lines.append(
            _format_line(
                tr("[a]lways also allows, from now on: {what}", what=escape_confusable_characters(event.always_covers))
            )
        )
        letters += "/a"
    if event.no_covers:
        lines.append(
            _format_line(
                tr(
                    "No holds until the session is closed, for: {what}",
                    what=escape_confusable_characters(event.no_covers),
                )
            )
        )
    return "".join([*lines, ("  " + tr("Allow it [o]nce (or yes)? [{letters}/N]", letters=letters) + " ")])


def _format_line(text: str) -> str:
    return f"  {text}\n"


def _format_retry_hint(event: ApprovalAsked) -> str:
    words = [tr("o (once) or yes"), *([tr("s (session)")] if event.session_covers else [])]
    words += [tr("a (always)")] if event.always_covers else []
    return (
        "  "
        + tr("That is no answer here. It is {words}, or n (no); anything else now is no:", words=", ".join(words))
        + " "
    )


def is_late_answer(line: str) -> bool:
    """Return whether a line looks like the answer to a question, and like nothing else that a person would say."""
    return line.strip().lower() in ("o", "s", "a", "y", "n")


def parse_answer(line: str | None, event: ApprovalAsked) -> AnswerScope | None:
    """Return the answer that a line stands for; None when it is not understood or was not offered. Enter alone means
    no.
    """
    word = (line or "").strip().lower()
    if word in ("o", "once", *YES_ANSWERS):
        return AnswerScope.ONCE
    if word in ("s", "session") and event.session_covers:
        return AnswerScope.SESSION
    if word in ("a", "always") and event.always_covers:
        return AnswerScope.ALWAYS
    return AnswerScope.DENY if word in ("", "n", "no", "否", "不") else None
