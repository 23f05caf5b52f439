"""Ask questions by menus that arrows and Enter answer, one at a time. Nothing that is typed answers them.

A menu takes keys only once it has been on the screen for a moment in which no key was pressed. Letters
always go into the input line; while there is something in it, Enter sends that, unless an arrow has just
moved in the menu. Approvals and the model's questions are asked by such menus.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from msgspec import Struct

from hermes.cli.approval_questions import ApprovalAsker, format_question, list_answers
from hermes.cli.tui.terminal_style import TerminalStyle
from hermes.commands.context import MenuOption
from hermes.core.events import ApprovalAsked
from hermes.core.outcomes import AnswerScope
from hermes.i18n.messages import N_, tr
from hermes.util.text import escape_confusable_characters, escape_unseen_characters, to_one_line

QUIET_SECONDS = 0.6
"""Seconds without a key after which a menu listens."""
HEARTBEAT_SECONDS = 0.2
"""Seconds between two checks whether this process, and with it the screen, stood still."""
MAX_SHOWN = 10
"""Options shown at once."""
_LINES_BELOW = 4
"""Lines below a menu: the input line, the status line, and what is next to them."""

PaintText = Callable[[str, str], str]
WrapText = Callable[[str, str], list[str]]
_ANSWER_LABELS = {
    AnswerScope.DENY: N_("No"),
    AnswerScope.ONCE: N_("Yes, this once"),
    AnswerScope.SESSION: N_("Yes, for this session:"),
    AnswerScope.ALWAYS: N_("Yes, always:"),
}
_ANSWER_RESULTS = {
    AnswerScope.DENY: N_("refused"),
    AnswerScope.ONCE: N_("allowed once"),
    AnswerScope.SESSION: N_("allowed until the session is closed"),
    AnswerScope.ALWAYS: N_("allowed from now on"),
}
AskText = Callable[[Sequence[str]], Awaitable[str | None]]
"""Lets the person type an answer below these lines."""


class ChoiceMenu(Struct, eq=False):
    """One question. `chosen` is where Enter would go; `answer` is set in the end."""

    options: Sequence[MenuOption]
    answer: "asyncio.Future[int | None]"
    chosen: int = 0
    lines: Sequence[str] = ()
    """The lines above the options, which are removed with them."""
    asked: int = 0
    """The number of lines of the question that stay above the menu."""
    filter: str = ""
    typing: bool = False
    """Whether letters narrow the options down, as in long lists that the person has asked for."""
    touched: bool = False
    """Whether an arrow has moved in it since a key was pressed for something else."""
    quiet_since: float = 0.0

    def list_matches(self) -> list[int]:
        """Return the numbers of the options that match the filter."""
        words = self.filter.lower().split()
        return [
            number
            for number, option in enumerate(self.options)
            if all(word in f"{option.label} {option.detail}".lower() for word in words)
        ]

    def move_choice(self, steps: int) -> None:
        """Go up or down, and stop at the ends."""
        shown = self.list_matches()
        if shown:
            at = shown.index(self.chosen) if self.chosen in shown else 0
            self.chosen = shown[max(0, min(at + steps, len(shown) - 1))]
        self.touched = True

    def add_letters(self, letters: str) -> None:
        """Narrow the options down by letters."""
        self.filter += letters
        shown = self.list_matches()
        if self.chosen not in shown and shown:
            self.chosen = shown[0]

    def erase_letter(self) -> None:
        """Take the last letter back."""
        self.filter = self.filter[:-1]

    def accept_choice(self) -> None:
        """Answer with the chosen option."""
        if not self.answer.done() and self.chosen in self.list_matches():
            self.answer.set_result(self.chosen)

    def dismiss(self) -> None:
        """Answer with nothing."""
        if not self.answer.done():
            self.answer.set_result(None)

    def compute_window(self) -> tuple[list[int], int, int]:
        """Return the options to draw, and how many are hidden above and below them."""
        shown = self.list_matches()
        at = shown.index(self.chosen) if self.chosen in shown else 0
        first = max(0, min(at - MAX_SHOWN // 2, len(shown) - MAX_SHOWN))
        part = shown[first : first + MAX_SHOWN]
        return part, first, len(shown) - first - len(part)


class MenuQueue:
    """The menus of a chat: one is shown, the others wait in order. `tell` puts a question's lines above it for good."""

    def __init__(self, changed: Callable[[], None], tell: Callable[[Sequence[str]], None]) -> None:
        self._changed = changed
        self._tell = tell
        self._turn = asyncio.Lock()
        self._heartbeat_at = 0.0
        self._heartbeat_timer: asyncio.TimerHandle | None = None
        self._hidden = False
        self.menu: ChoiceMenu | None = None

    async def ask(
        self,
        lines: Sequence[str],
        options: Sequence[MenuOption],
        *,
        chosen: int = 0,
        typing: bool = False,
        stays: bool = False,
    ) -> int | None:
        """Show a menu when the one before has its answer. Return the number of the option taken, or None when it was
        dismissed.

        With `stays` the question's lines are put into the scrollback, where all of them can be read.
        """
        loop = asyncio.get_running_loop()
        async with self._turn:
            if stays:
                self._tell(lines)
            self.menu = menu = ChoiceMenu(options, loop.create_future(), chosen, typing=typing)
            menu.lines, menu.asked = ((), len(lines)) if stays else (lines, 0)
            menu.quiet_since = self._heartbeat_at = loop.time()
            self._check_heartbeat()
            self._changed()
            try:
                return await menu.answer
            finally:
                if self._heartbeat_timer is not None:
                    self._heartbeat_timer.cancel()
                self.menu = None
                self._changed()

    def is_listening(self) -> bool:
        """Return whether arrows and Enter go to the menu."""
        menu = self.menu
        if menu is None or self._hidden:
            return False
        now = asyncio.get_running_loop().time()
        return now - menu.quiet_since >= QUIET_SECONDS and now - self._heartbeat_at < QUIET_SECONDS

    def is_filtering(self) -> bool:
        """Return whether letters go to the menu, too."""
        return self.menu is not None and self.menu.typing and self.is_listening()

    def should_take_enter(self, line: str) -> bool:
        """Return whether Enter goes to the menu, with this text in the input line."""
        return self.is_listening() and self.menu is not None and (not line or self.menu.touched)

    def note_other_key(self) -> None:
        """Wait for quiet again after a key that is not for the menu."""
        if self.menu is not None:
            self.menu.quiet_since = asyncio.get_running_loop().time()
            self.menu.touched = False

    def note_any_key(self) -> None:
        """Note that some key is about to be handled: one that comes before the menu listens is for something else."""
        if not self.is_listening():
            self.note_other_key()

    def set_hidden(self, hidden: bool) -> None:
        """Note whether another program has the screen: a menu that nobody can see takes no keys."""
        self._hidden = hidden
        self.note_other_key()

    def _check_heartbeat(self) -> None:
        """Notice that the process stood still, as after Ctrl-Z: then nobody could see the menu, either."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        if now - self._heartbeat_at >= QUIET_SECONDS:
            self.note_other_key()
        self._heartbeat_at = now
        self._heartbeat_timer = loop.call_later(HEARTBEAT_SECONDS, self._check_heartbeat)
        self._changed()

    def change_menu(self, change: Callable[[ChoiceMenu], None]) -> None:
        """Change or answer the shown menu, where there is one."""
        if self.menu is not None:
            change(self.menu)

    def render_menu(self, paint: PaintText, wrap: WrapText, rows: int) -> list[str]:
        """Render the menu as lines, whole options where `rows` of the terminal leave room; empty when there is none."""
        menu = self.menu
        if menu is None:
            return []
        listens = self.is_listening()
        lines = list(menu.lines)
        if menu.typing:
            lines.append(paint("menu.hint", tr("filter: {letters}", letters=menu.filter)))
        lines += self._render_options(menu, paint, wrap, rows - len(lines), listens=listens)
        hidden = menu.asked + len(lines) + _LINES_BELOW - rows
        if hidden > 0:
            lines.append(paint("warning", tr("{n} lines of the question are not shown: scroll up", n=hidden)))
        hint = tr("↑ ↓ choose, Enter takes it, Esc cancels") if listens else tr("… waiting until you stop typing")
        return [*lines, paint("menu.hint", hint)]

    def _render_options(
        self, menu: ChoiceMenu, paint: PaintText, wrap: WrapText, rows: int, *, listens: bool
    ) -> list[str]:
        """Render the options; where there is too little room only the chosen one is shown whole."""
        part, above, below = menu.compute_window()
        if not part:
            return [paint("menu.hint", "    " + tr("nothing fits"))]
        blocks = [self._render_option(menu, number, wrap, listens=listens) for number in part]
        tight = sum(len(block) for block in blocks) > rows - _LINES_BELOW - 3
        lines = [paint("menu.hint", "    " + tr("{n} more above", n=above))] if above else []
        for number, block in zip(part, blocks, strict=True):
            lines += block if not tight or number == menu.chosen else block[:1]
        return [*lines, paint("menu.hint", "    " + tr("{n} more below", n=below))] if below else lines

    def _render_option(self, menu: ChoiceMenu, number: int, wrap: WrapText, *, listens: bool) -> list[str]:
        option, chosen = menu.options[number], number == menu.chosen
        style = "menu.chosen" if chosen and listens else "menu.option" if listens else "menu.hint"
        return wrap(style, f"{'❯' if chosen else ' '} {option.label}  {option.detail}".rstrip())


class QuestionMenus(ApprovalAsker):
    """Asks the approvals of one chat's sessions by menus. Enter on what is first chosen means no."""

    def __init__(
        self, menus: MenuQueue, terminal_style: TerminalStyle, tell: Callable[[str, str], None], ask_text: AskText
    ) -> None:
        super().__init__()
        self._menus = menus
        self._terminal_style = terminal_style
        self._tell = tell
        self._ask_text = ask_text

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

    async def ask_approval(self, event: ApprovalAsked, background_id: str) -> AnswerScope:
        """Ask an approval by a menu; leaving it means no. What was answered stays as a line."""
        answers = list_answers(event)
        lines = [
            line
            for style, text in format_question(event, background_id)
            for line in self._terminal_style.wrap_paragraphs(
                style, text, indent=4 if style == "question.subject" else 2
            )
        ]
        options = [MenuOption(tr(_ANSWER_LABELS[scope]), covers) for scope, covers in answers.items()]
        taken = await self._menus.ask(lines, options, stays=True)
        scope = [*answers][taken or 0]
        subject = to_one_line(escape_confusable_characters(event.subject), 300)
        said = tr("{tool}: {subject} → {answer}", tool=event.tool, subject=subject, answer=tr(_ANSWER_RESULTS[scope]))
        self._tell("warning" if scope is AnswerScope.DENY else "notice", said)
        return scope

    def show_closed(self, style: str, text: str) -> None:
        """Show why a question was closed; the end of its turn needs no word."""
        if text:
            self._tell(style, text)
