"""Ask the person on the terminal that this process belongs to, wherever its input and output are redirected."""

import asyncio
import contextlib
import os
from collections.abc import Callable, Sequence

from hermes.cli import approval_questions
from hermes.cli.approval_questions import ApprovalAsker, list_answers
from hermes.cli.output import NO_ANSWERS, YES_ANSWERS, wrap_for_terminal
from hermes.cli.plain.terminal import DescriptorLineReader, preserve_terminal_modes, set_terminal_modes
from hermes.core.events import ApprovalAsked
from hermes.core.outcomes import AnswerScope
from hermes.i18n.messages import N_, tr
from hermes.util.text import escape_confusable_characters, find_choice, strip_control_characters, to_one_line

_ANSWERS = {
    AnswerScope.DENY: ("", *NO_ANSWERS),
    AnswerScope.ONCE: ("o", "once", *YES_ANSWERS),
    AnswerScope.SESSION: ("s", "session"),
    AnswerScope.ALWAYS: ("a", "always"),
}
"""What a person types for each answer; Enter alone means no."""
_COVERS = {
    AnswerScope.ONCE: N_("[o]nce allows: {what}"),
    AnswerScope.SESSION: N_("[s]ession also allows, until it is closed: {what}"),
    AnswerScope.ALWAYS: N_("[a]lways also allows, from now on: {what}"),
}
_HINTS = {
    AnswerScope.ONCE: N_("o (once) or yes"),
    AnswerScope.SESSION: N_("s (session)"),
    AnswerScope.ALWAYS: N_("a (always)"),
}


class TerminalAsker(ApprovalAsker):
    """Shows approvals and the model's questions on the terminal, one at a time; Enter alone means no."""

    asks_between_turns = False

    def __init__(self, descriptor: int) -> None:
        super().__init__()
        self.find_prompt: Callable[[], str] = str
        """Returns the prompt at which the person types a line of their own now; empty while they do not."""
        self._descriptor = descriptor
        self._lines = DescriptorLineReader(descriptor)
        self._turn = asyncio.Lock()
        self._closed = False

    def pop_closed_flag(self) -> bool:
        """Return whether a question was closed without an answer from here since the last call, and reset that."""
        closed, self._closed = self._closed, False
        return closed

    async def ask(self, question: str, choices: Sequence[str]) -> str | None:
        """Ask a question of the model's. Return the choice whose number or words were typed, or the text."""
        choice_lines = [f"  {number}. {strip_control_characters(choice)}\n" for number, choice in enumerate(choices, 1)]
        line = await self._ask_line("".join([f"\n? {strip_control_characters(question)}\n", *choice_lines, "> "]))
        if line is None:
            return None
        found = find_choice(line, choices)
        return line.strip() if found is None else choices[found]

    async def ask_approval(self, event: ApprovalAsked, background_id: str) -> AnswerScope:
        """Ask an approval; a line that is no answer is asked about once more, and then means no."""
        if self.find_prompt():  # the terminal belongs to what is typed there
            self.announce(event)
            await asyncio.get_running_loop().create_future()  # it is answered by a command, or withdrawn
        line = await self._ask_line(
            format_question(event, background_id, self.describe_repetition(event)),
            lambda said: "" if parse_answer(said, event) else _format_retry_hint(event),
        )
        return parse_answer(line, event) or AnswerScope.DENY

    def announce(self, event: ApprovalAsked) -> None:
        """Say above the prompt that something is asked, and how to answer it."""
        (_, title), *_ = approval_questions.format_question(event)
        subject = to_one_line(escape_confusable_characters(event.subject), 200)
        said = wrap_for_terminal(f"! {title} {subject}\n{tr('/approvals answers it.')}")
        self._write_terminal(f"\n{said}\n{self.find_prompt()}")

    def show_closed(self, style: str, text: str) -> None:
        """Show why a question was closed, and remember that a late answer to it is no message."""
        del style
        self._closed = True
        self._write_terminal(f"\n  {text}\n" if text else "\n")

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


def format_question(event: ApprovalAsked, background_id: str = "", changed: str = "") -> str:
    """Format an approval: what would run, why it is asked about, and what each answer covers."""
    (_, first), *others = approval_questions.format_question(event, background_id, changed)
    lines = [f"\n! {first}", *(text for _, text in others)]
    offered = {scope: covers for scope, covers in list_answers(event).items() if scope is not AnswerScope.DENY}
    lines += ["  " + tr(_COVERS[scope], what=covers) for scope, covers in offered.items() if covers]
    letters = "/".join(_ANSWERS[scope][0] for scope in offered)
    return "\n".join([*lines, "  " + tr("Allow it [o]nce (or yes)? [{letters}/N]", letters=letters) + " "])


def _format_retry_hint(event: ApprovalAsked) -> str:
    words = ", ".join(tr(_HINTS[scope]) for scope in list_answers(event) if scope is not AnswerScope.DENY)
    hint = tr("That is not an answer here. Type {words}, or n (no); anything else now means no:", words=words)
    return f"  {hint} "


def is_late_answer(line: str) -> bool:
    """Return whether a line looks like the answer to a question, and like nothing else that a person would say."""
    return line.strip().lower() in ("o", "s", "a", "y", "n")


def parse_answer(line: str | None, event: ApprovalAsked) -> AnswerScope | None:
    """Return the answer that a line stands for; None when it is not understood or was not offered."""
    word = (line or "").strip().lower()
    return next((scope for scope in list_answers(event) if word in _ANSWERS[scope]), None)
