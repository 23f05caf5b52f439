"""Ask questions by menus that arrows and Enter answer, one at a time. What is typed answers only the model's questions:
a number, or other words.

A menu takes keys only once it has been on the screen for a moment in which no key was pressed. A letter answers an
approval when it stays alone for a moment; letters of words go into the input line. While there is something in it,
Enter sends that, unless an arrow has just moved in the menu. Approvals and the model's questions are asked by such
menus. One that a command of the person's has opened takes keys at once, and letters narrow it down.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence

from msgspec import Struct
from prompt_toolkit.application.current import get_app

from hermes.cli.approval_questions import ApprovalAsker, format_question, list_answers, list_risky_parts
from hermes.cli.tui.terminal_style import TerminalStyle
from hermes.commands.context import MenuOption
from hermes.core.events import ApprovalAsked
from hermes.core.outcomes import AnswerScope
from hermes.i18n.messages import N_, tr
from hermes.markup.cells import measure_width
from hermes.util.text import escape_unseen_characters, find_choice, to_one_line

QUIET_SECONDS = 0.6
"""Seconds without a key after which a menu listens."""
LETTER_SECONDS = 0.5
"""Seconds for which a letter must stay alone to be an answer: one that others follow begins a word."""
HEARTBEAT_SECONDS = 0.2
"""Seconds between two checks whether this process, and with it the screen, stood still."""
MAX_SHOWN = 10
"""Options shown at once."""
_MAX_FILTER = 80
"""Characters of what narrows a menu down."""
_PAGE_LINES = 4
"""Lines by which PgUp and PgDn scroll a question."""
_LINES_BELOW = 4
"""Lines below a menu: the input line, the status line, and what is next to them."""

_ANSWER_KEYS = {AnswerScope.DENY: "n", AnswerScope.ONCE: "y", AnswerScope.SESSION: "s", AnswerScope.ALWAYS: "a"}
_ANSWER_LABELS = {
    AnswerScope.DENY: N_("No"),
    AnswerScope.ONCE: N_("Yes, this once"),
    AnswerScope.SESSION: N_("Yes, for this session"),
    AnswerScope.ALWAYS: N_("Yes, always"),
}
_ANSWER_RESULTS = {
    AnswerScope.DENY: N_("refused"),
    AnswerScope.ONCE: N_("allowed once"),
    AnswerScope.SESSION: N_("allowed until the session is closed"),
    AnswerScope.ALWAYS: N_("allowed from now on; kept in config.yaml (command_allowlist): /permissions removes it"),
}
_ASKS = "question.asks"
_REASON_STYLES = frozenset({"failed", "question.reason"})
AskText = Callable[[Sequence[str]], Awaitable[str | None]]
"""Lets the person type an answer below these lines."""


class ChoiceMenu(Struct, eq=False):
    """One question. `chosen` is where Enter would go; `answer` is set in the end."""

    options: Sequence[MenuOption]
    answer: "asyncio.Future[int | None]"
    chosen: int = 0
    lines: Sequence[str] = ()
    """The lines above the options, which are removed with them."""
    question: Sequence[str] = ()
    """The lines of the question, which stay above the menu."""
    title_lines: int = 1
    """How many of those are its title."""
    above: int = 0
    """How many of the others are scrolled away, where not all fit."""
    filter: str = ""
    typing: bool = False
    """Whether letters narrow the options down, as in lists that the person has asked for."""
    keys: Sequence[str] = ()
    """The letters that answer it, in the order of the options."""
    letter: str = ""
    """The letter that answers in a moment."""
    rule: str = ""
    """The style of the rule to its left; empty for one without."""
    takes_words: bool = False
    """Whether what is typed into the line answers it, too."""
    touched: bool = False
    """Whether an arrow has moved in it since a key was pressed for something else."""
    quiet_since: float = 0.0

    def list_matches(self) -> list[int]:
        """Return the numbers of the options that match the filter."""
        words = self.filter.lower().split()
        return [
            number
            for number, option in enumerate(self.options)
            if all(word in f"{option.label} {option.detail} {option.note}".lower() for word in words)
        ]

    def move_choice(self, steps: int) -> None:
        """Go up or down, and stop at the ends."""
        shown = self.list_matches()
        if shown:
            at = shown.index(self.chosen) if self.chosen in shown else 0
            self.chosen = shown[max(0, min(at + steps, len(shown) - 1))]
        self.touched = True

    def add_letters(self, typed: str) -> None:
        """Narrow the options down by what was typed or pasted; control keys do nothing."""
        letters = "".join(one for one in typed if one.isprintable())
        self.filter = (self.filter + letters)[:_MAX_FILTER]
        self.touched = self.touched or bool(letters)
        shown = self.list_matches()
        if self.chosen not in shown and shown:
            self.chosen = shown[0]

    def erase_letter(self) -> None:
        """Take the last letter back."""
        self.filter = self.filter[:-1]

    def clear_filter(self) -> None:
        """Show all options again."""
        self.filter = ""

    def scroll_question(self, pages: int) -> None:
        """Scroll the question by pages; the drawing stops at its ends."""
        self.above = max(0, self.above + pages * _PAGE_LINES)

    def accept_choice(self) -> None:
        """Answer with the chosen option."""
        if not self.answer.done() and self.chosen in self.list_matches():
            self.answer.set_result(self.chosen)

    def dismiss(self) -> None:
        """Answer with nothing."""
        if not self.answer.done():
            self.answer.set_result(None)

    def compute_window(self, room: int) -> tuple[list[int], int, int]:
        """Return the options to draw in so many lines, and how many are hidden above and below them. Where letters
        answer, all are drawn.
        """
        shown = self.list_matches()
        at = shown.index(self.chosen) if self.chosen in shown else 0
        most = MAX_SHOWN if self.keys else self._count_fitting(shown, room)
        first = max(0, min(at - most // 2, len(shown) - most))
        part = shown[first : first + most]
        return part, first, len(shown) - first - len(part)

    def _count_fitting(self, shown: Sequence[int], room: int) -> int:
        height = 2 if any(self.options[one].is_title and self.options[one].note for one in shown) else 1
        if len(shown) <= MAX_SHOWN and len(shown) * height <= room:
            return MAX_SHOWN
        # Two lines say how many are hidden.
        return max(1, min((room - 2) // height, MAX_SHOWN))


class QuestionStyle(Struct, frozen=True):
    """How a question is shown: the style of the rule to its left (empty: none), and the lines of its title. One with a
    title is put into the scrollback, where all of it can be read.
    """

    rule: str = ""
    title_lines: int = 0


_BARE = QuestionStyle()


class MenuQueue:
    """The menus of a chat: one is shown, the others wait in order. `tell` puts a question's lines above it for good."""

    def __init__(self, changed: Callable[[], None], tell: Callable[[Sequence[str]], None]) -> None:
        self._changed = changed
        self.tell_lines = tell
        self._turn = asyncio.Lock()
        self._heartbeat_at = 0.0
        self._heartbeat_timer: asyncio.TimerHandle | None = None
        self._letter_timer: asyncio.TimerHandle | None = None
        self._hidden = False
        self.menu: ChoiceMenu | None = None
        self.moved: Callable[[int], None] | None = None
        """Is told where in a menu the choice is moved to."""
        self.mode_options: Sequence[MenuOption] | None = None
        """The options of a question that a change of the mode answers with no."""
        self.mark: Callable[[int], MenuOption] | None = None
        """Marks an option, and returns it as it is shown then."""

    async def ask(
        self,
        lines: Sequence[str],
        options: Sequence[MenuOption],
        *,
        chosen: int = 0,
        typing: bool = False,
        keys: Sequence[str] = (),
        style: QuestionStyle = _BARE,
        take_words: Callable[[], Coroutine[object, object, None]] | None = None,
    ) -> int | None:
        """Show a menu when the one before has its answer. Return the number of the option taken, or None when it was
        dismissed.

        `keys` are letters that answer it. `take_words` runs as long as the menu is shown, which its end dismisses.
        """
        loop = asyncio.get_running_loop()
        async with self._turn:
            if style.title_lines:
                self.tell_lines(lines)
            self.menu = menu = ChoiceMenu(options, loop.create_future(), chosen, typing=typing)
            menu.keys, menu.rule, menu.takes_words = keys, style.rule, take_words is not None
            menu.lines, menu.question = ((), lines[lines[:1] == [""] :]) if style.title_lines else (lines, ())
            menu.title_lines = style.title_lines
            menu.quiet_since = self._heartbeat_at = loop.time()
            self._check_heartbeat()
            self._changed()
            typing_task = loop.create_task(take_words()) if take_words is not None else None
            if typing_task is not None:
                typing_task.add_done_callback(lambda _: menu.dismiss())
            try:
                return await menu.answer
            finally:
                if typing_task is not None:
                    typing_task.cancel()
                if self._heartbeat_timer is not None:
                    self._heartbeat_timer.cancel()
                self.take_waiting_letter()
                self.menu = None
                self._changed()

    def is_listening(self) -> bool:
        """Return whether arrows and Enter go to the menu."""
        menu = self.menu
        if menu is None or self._hidden or menu.answer.done():  # what follows an answer at once is for the line
            return False
        now = asyncio.get_running_loop().time()
        is_quiet = menu.typing or now - menu.quiet_since >= QUIET_SECONDS
        return is_quiet and now - self._heartbeat_at < QUIET_SECONDS

    def is_filtering(self) -> bool:
        """Return whether letters go to the menu, too."""
        return self.menu is not None and self.menu.typing and self.is_listening()

    def should_take_enter(self, line: str) -> bool:
        """Return whether Enter goes to the menu, with this text in the input line."""
        return self.is_listening() and self.menu is not None and (not line or self.menu.touched)

    def has_waiting_letter(self) -> bool:
        """Return whether a letter answers in a moment."""
        return self.menu is not None and bool(self.menu.letter)

    def drop_letter(self) -> None:
        """Take the letter back that would have answered in a moment."""
        self.take_waiting_letter()
        self.note_other_key()
        self._changed()

    def is_mode_question(self) -> bool:
        """Return whether the shown menu gives way to a change of the mode."""
        return self.menu is not None and self.menu.options is self.mode_options and self.is_listening()

    def take_letter(self, letter: str, line: str) -> str:
        """Take a letter that was typed with this text in the input line; return what of it belongs into the line."""
        menu = self.menu
        if menu is None:
            return letter
        begun = self.take_waiting_letter()
        if begun or line or letter not in menu.keys:
            self.note_other_key()
            return begun + letter
        menu.letter, menu.chosen = letter, menu.keys.index(letter)
        self._letter_timer = asyncio.get_running_loop().call_later(LETTER_SECONDS, menu.accept_choice)
        self._changed()
        return ""

    def take_waiting_letter(self) -> str:
        """Return the letter that would have answered in a moment, and have it answer nothing."""
        menu = self.menu
        if self._letter_timer is not None:
            self._letter_timer.cancel()
            self._letter_timer = None
        if menu is None or not menu.letter:
            return ""
        letter, menu.letter, menu.chosen = menu.letter, "", 0
        return letter

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

    def can_mark(self) -> bool:
        """Return whether options of the shown menu can be marked."""
        return self.mark is not None and self.is_listening()

    def mark_choice(self) -> None:
        """Mark the chosen option, or take its mark away."""
        menu = self.menu
        if menu is not None and self.mark is not None and menu.chosen in menu.list_matches():
            options = list(menu.options)
            options[menu.chosen] = self.mark(menu.chosen)
            menu.options = options
            self._changed()

    def change_menu(self, change: Callable[[ChoiceMenu], None]) -> None:
        """Change or answer the shown menu, where there is one."""
        menu = self.menu
        if menu is None:
            return
        before = menu.chosen
        change(menu)
        if menu.chosen != before and self.moved is not None:
            self.moved(menu.chosen)

    def render_menu(self, terminal_style: TerminalStyle, rows: int) -> list[str]:
        """Render the menu as lines; empty when there is none. An option takes one line, but the chosen one is shown
        whole.
        """
        menu = self.menu
        if menu is None:
            return []
        listens = self.is_listening()
        lines = list(menu.lines)
        lines += self._render_options(menu, terminal_style, rows - len(lines) - _LINES_BELOW + 1, listens=listens)
        question = _render_question(menu, terminal_style, rows - len(lines) - _LINES_BELOW + 1)
        if not listens:
            waits = tr("… waiting until you stop typing")
            hint = tr("type an answer, or wait a moment to choose") if menu.takes_words else waits
        elif menu.takes_words:
            hint = tr("↑ ↓ or a number, Enter takes it; or type an answer; Esc gives none")
        elif menu.keys:
            hint = tr("A letter answers; ↑ ↓, Enter takes it; Esc means no")
        else:
            hint = tr("↑ ↓ choose, Enter takes it, Esc cancels")
            hint += tr("; letters narrow it down") if menu.typing else ""
            hint += tr("; Ctrl-F marks a favourite") if self.mark is not None else ""
        room = terminal_style.width - (2 if menu.rule else 0)
        lines.append(terminal_style.paint("menu.hint", terminal_style.cut_text(hint, room)))
        return [*question, *(terminal_style.add_rule(menu.rule, lines) if menu.rule else lines)]

    def _render_options(
        self, menu: ChoiceMenu, terminal_style: TerminalStyle, room: int, *, listens: bool
    ) -> list[str]:
        wrapped = self._render_option(menu, menu.chosen, terminal_style, listens=listens)[1:] if menu.options else []
        is_title = any(one.is_title for one in menu.options)
        part, above, below = menu.compute_window(room if is_title else room - len(wrapped))
        if not part:
            return [terminal_style.paint("menu.hint", "    " + tr("nothing fits"))]
        lines = [terminal_style.paint("menu.hint", "    " + tr("{n} more above", n=above))] if above else []
        for number in part:
            lines += self._render_option(menu, number, terminal_style, listens=listens)
        return [*lines, terminal_style.paint("menu.hint", "    " + tr("{n} more below", n=below))] if below else lines

    def _render_option(
        self, menu: ChoiceMenu, number: int, terminal_style: TerminalStyle, *, listens: bool
    ) -> list[str]:
        option, chosen = menu.options[number], number == menu.chosen
        style = ("menu.chosen" if chosen else "menu.option") if listens else "menu.hint"
        mark = ("❯" if terminal_style.unicode else ">") if chosen else " "
        key = f"{menu.keys[number]}  " if number < len(menu.keys) else ""
        text = f"{mark} {key}{option.label}  {option.detail}".rstrip()
        room = terminal_style.line_width - (2 if menu.rule else 0)
        if option.is_title:
            return _render_title(option, terminal_style, f"{mark} ", style if style == "menu.chosen" else "")
        if chosen or menu.keys:
            return terminal_style.wrap_paragraphs(style, text, indent=4, width=room)
        return [terminal_style.paint(style, terminal_style.cut_text(text, room))]


def _render_question(menu: ChoiceMenu, terminal_style: TerminalStyle, room: int) -> list[str]:
    """Render the question once more where it does not fit above its menu: its title, a part of the rest, and which
    keys show more. Empty where all of it stands above.
    """
    title, rest = menu.question[: menu.title_lines], menu.question[menu.title_lines :]
    if len(menu.question) <= room:
        return []
    shown = max(room - len(title) - 1, 0)
    menu.above = max(0, min(menu.above, len(rest) - shown))
    hidden = tr("… {n} more lines: PgUp, PgDn", n=len(rest) - shown)
    return [
        *title,
        *rest[menu.above : menu.above + shown],
        *terminal_style.add_rule(menu.rule, [terminal_style.paint("warning", hidden)]),
    ]


def _render_title(option: MenuOption, terminal_style: TerminalStyle, lead: str, style: str) -> list[str]:
    """Render an option with a title on one line, and below it its note with the marked words in it."""
    room = terminal_style.prose_width
    detail = terminal_style.cut_text(option.detail, room // 2)
    title = terminal_style.cut_text(option.label, max(room - measure_width(detail) - len(lead) - 2, 8))
    paint = terminal_style.paint
    head = (
        paint(style, f"{lead}{title}  {detail}")
        if style
        else (lead + paint("strong", title) + "  " + paint("menu.hint", detail))
    )
    if not option.note:
        return [head]
    note = terminal_style.cut_text(option.note, room - 4)
    if not option.marked:
        return [head, paint("menu.hint", f"    {note}")]
    pieces = re.split(f"({'|'.join(map(re.escape, option.marked))})", note, flags=re.IGNORECASE)
    return [
        head,
        "    " + "".join(paint("question.asks" if at % 2 else "menu.hint", one) for at, one in enumerate(pieces)),
    ]


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
        terminal_style = self._terminal_style
        room = terminal_style.line_width - 2
        words = terminal_style.wrap_paragraphs("question", f"? {escape_unseen_characters(question)}", 2, width=room)
        asked = ["", *terminal_style.add_rule(_ASKS, words)]
        answer = await (self._ask_choice(asked, choices) if choices else self._ask_text(asked))
        if not answer:
            self._tell("notice", tr("The question was left unanswered."))
        elif choices:
            self._show_answer(_ASKS, "notice", to_one_line(escape_unseen_characters(answer), 200))
        return answer or ""

    async def _ask_choice(self, asked: Sequence[str], choices: Sequence[str]) -> str | None:
        """Show the choices with their numbers; what is typed into the line meanwhile answers as well."""
        typed: str | None = None

        async def take_words() -> None:
            nonlocal typed
            typed = await self._ask_text([])

        shown = [to_one_line(escape_unseen_characters(choice), 300) for choice in choices]
        options = [MenuOption(f"{number}. {choice}") for number, choice in enumerate(shown, 1)]
        lines = [*asked, *self._terminal_style.add_rule(_ASKS, [""])]
        taken = await self._menus.ask(lines, options, style=QuestionStyle(_ASKS, 1), take_words=take_words)
        if taken is None and typed is not None:
            taken = find_choice(typed, choices)
        return choices[taken] if taken is not None else typed

    async def ask_approval(self, event: ApprovalAsked, background_id: str) -> AnswerScope:
        """Ask an approval by a menu; leaving it means no. What was answered stays as a line."""
        answers = list_answers(event)
        question = format_question(event, background_id, self.describe_repetition(event))
        rule, keys = question[0][0], [_ANSWER_KEYS[scope] for scope in answers]
        options, notes = self._list_options(answers)
        lines = self._wrap_question([*question, *notes], self._count_lines(options), list_risky_parts(event))
        title = self._terminal_style.wrap_paragraphs(*question[0], width=self._terminal_style.line_width - 2)
        taken = await self._menus.ask(["", *lines], options, keys=keys, style=QuestionStyle(rule, len(title)))
        scope = [*answers][taken or 0]
        self._show_answer(rule, "warning" if scope is AnswerScope.DENY else "notice", tr(_ANSWER_RESULTS[scope]))
        return scope

    def _list_options(self, answers: Mapping[AnswerScope, str]) -> tuple[list[MenuOption], list[tuple[str, str]]]:
        """Return an option for each answer, with what it covers, and lines of the question for what would take too many
        beside one: a letter may answer it without that it was ever shown whole.
        """
        most = max(get_app().output.get_size().rows // 3 - 1, 1)
        options, notes = [], []
        for scope, covers in answers.items():
            label, detail = tr(_ANSWER_LABELS[scope]), covers
            if covers and self._count_lines([MenuOption(label, covers)]) > most:
                notes.append(
                    (
                        "question.reason",
                        "  " + tr("{key} also allows: {covers}", key=_ANSWER_KEYS[scope], covers=covers),
                    )
                )
                label, detail = tr("{answer}: what is named above", answer=label), ""
            options.append(MenuOption(label, detail))
        return options, notes

    def _count_lines(self, options: Sequence[MenuOption]) -> int:
        """Return how many lines the options of an approval take."""
        wrap, width = self._terminal_style.wrap_paragraphs, self._terminal_style.line_width - 2
        return sum(len(wrap("", f"❯ n  {one.label}  {one.detail}".rstrip(), 4, width=width)) for one in options)

    def _wrap_question(self, question: Sequence[tuple[str, str]], options: int, risky: Sequence[str] = ()) -> list[str]:
        """Return the lines of a question, what would run between two empty lines, with a rule to their left. Where
        they do not fit the screen with so many lines of options, without empty lines, and with the reasons first: what
        is dangerous must not be what is scrolled away. `risky` parts of what would run stand out.
        """
        lines = self._wrap_parts(question, risky)
        if len(lines) + options + _LINES_BELOW > get_app().output.get_size().rows:
            title, *rest = question
            ordered = [title, *sorted(rest, key=lambda one: one[0] not in _REASON_STYLES)]
            lines = [line for line in self._wrap_parts(ordered, risky) if line]
        return self._terminal_style.add_rule(question[0][0], lines)

    def _wrap_parts(self, question: Sequence[tuple[str, str]], risky: Sequence[str]) -> list[str]:
        """Wrap the parts of a question, what would run between two empty lines."""
        terminal_style = self._terminal_style
        lines: list[str] = []
        before = ""
        for style, text in question:
            if (style == "question.subject") != (before == "question.subject") and before:
                lines.append("")
            shown = text.removeprefix("  ")
            indent = 2 if shown.startswith(("• ", "  ")) else 0
            width = terminal_style.line_width - 2
            if style == "question.subject" and risky:
                lines += terminal_style.wrap_marked(style, shown, risky, "failed", width=width)
            else:
                lines += terminal_style.wrap_paragraphs(style, shown, indent, width=width)
            before = style
        return [*lines, ""]

    def _show_answer(self, rule: str, style: str, answer: str) -> None:
        terminal_style = self._terminal_style
        arrow = "→" if terminal_style.unicode else "->"
        words = terminal_style.wrap_paragraphs(style, f"{arrow} {answer}", 2, width=terminal_style.line_width - 2)
        self._menus.tell_lines(terminal_style.add_rule(rule, words))

    def show_closed(self, style: str, text: str) -> None:
        """Show why a question was closed; the end of its turn needs no word."""
        if text:
            self._tell(style, text)
