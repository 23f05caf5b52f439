"""Show the plan that the model keeps with its `todo` tool: as a checklist that moves while a turn runs, and printed."""

import re
from collections.abc import Sequence

from msgspec import Struct

from hermes.cli.tui.terminal_style import TerminalStyle
from hermes.i18n.messages import tr
from hermes.util.text import strip_control_characters, to_one_line

_STEP = re.compile(r"\[(?P<mark>[ >x-])\] \S+: (?P<text>.*)")
_MARKS = {"x": "✔", "-": "✗", ">": "▸", " ": "☐"}
_ASCII_MARKS = {"x": "[x]", "-": "[-]", ">": "[>]", " ": "[ ]"}
_STYLES = {"x": "plan.done", "-": "plan.done", ">": "plan.now", " ": "plan.open"}


class PlanStep(Struct, frozen=True):
    """A step; `mark` is the one that the tool gives it: x, -, > or a space."""

    mark: str
    text: str


class PlanView:
    """Holds the plan of a session."""

    def __init__(self, terminal_style: TerminalStyle) -> None:
        self._terminal_style = terminal_style
        self.steps: Sequence[PlanStep] = ()
        self._printed: Sequence[PlanStep] = ()
        """The plan as it stands in the scrollback."""
        self._seen: Sequence[PlanStep] = ()
        """The plan when a change of it was told last."""
        self.hidden = False
        """Whether the person wants it out of sight."""

    def apply_result(self, preview: str) -> None:
        """Take the plan from a result of the tool."""
        found = [_STEP.fullmatch(line) for line in strip_control_characters(preview).splitlines()]
        self.steps = [PlanStep(match["mark"], match["text"]) for match in found if match]

    def clear(self) -> None:
        """Forget the plan: another session is shown."""
        self.steps = self._printed = self._seen = ()

    @property
    def is_open(self) -> bool:
        """Whether a step is left to do."""
        return any(step.mark in " >" for step in self.steps)

    def render_live(self, room: int) -> list[str]:
        """Render the checklist in at most `room` lines: around the step that is under way, where not all fit. That one
        is shown whole; steps whose end was told are left out, since they stand above.
        """
        if self.hidden or not self.is_open or room < 4:
            return []
        shown = [step for step in self.steps if step.mark in " >" or not self._was_told(step)]
        now = shown.index(min((step for step in shown if step.mark in " >"), key=lambda step: step.mark != ">"))
        whole = self._wrap_step(shown[now])
        before, after = ([self._format_step(step) for step in part] for part in (shown[:now], shown[now + 1 :]))
        lines, most = [*before, *whole, *after], room - 2
        start = max(min(now - 1, len(lines) - most), now + len(whole) - most, 0)
        part = self._name_hidden(lines[start:], most, now + len(whole) - start)
        return ["", self._format_head(), *(f"  {line}" for line in part)]

    def _name_hidden(self, lines: list[str], most: int, needed: int) -> list[str]:
        """Return at most so many lines; the last one counts those that are left out, unless it is needed itself."""
        part = lines[:most]
        if len(lines) > most > needed:
            part[-1] = self._terminal_style.paint("notice", tr("and {n} more", n=len(lines) - most + 1))
        return part

    def _was_told(self, step: PlanStep) -> bool:
        """Return whether the end of a step stands in the scrollback."""
        return any(one.text == step.text and one.mark in "x-" for one in self._seen)

    def format_plan(self) -> list[str]:
        """Return the whole plan."""
        self._printed = self.steps
        steps = [f"  {line}" for step in self.steps for line in self._wrap_step(step)]
        return [self._format_head(), *steps] if steps else []

    def format_change(self) -> list[str]:
        """Return the steps that are done now, to be printed: the others stand in the live lines meanwhile."""
        before, self._seen = {step.text: step.mark for step in self._seen}, self.steps
        return [
            line
            for step in self.steps
            if step.mark in "x-" and before.get(step.text) != step.mark
            for line in self._wrap_step(step)
        ]

    def format_end(self) -> list[str]:
        """Return the whole plan at the end of a turn that has changed it and left something to do."""
        return self.format_plan() if self.is_open and self.steps != self._printed else []

    def _format_head(self) -> str:
        done = sum(step.mark in "x-" for step in self.steps)
        head = tr("Plan: {done} of {all} done", done=done, all=len(self.steps))
        return self._terminal_style.paint("notice", head)

    def _format_step(self, step: PlanStep) -> str:
        """Format a step on one line, cut where it is too long."""
        terminal_style = self._terminal_style
        words = terminal_style.cut_text(self._mark_step(step), terminal_style.prose_width - 2)
        return terminal_style.paint(_STYLES[step.mark], words)

    def _wrap_step(self, step: PlanStep) -> list[str]:
        """Format a step on as many lines as it takes."""
        words = self._mark_step(step)
        indent = len(words) - len(words.partition(" ")[2])
        width = self._terminal_style.prose_width - 2
        return self._terminal_style.wrap_paragraphs(_STYLES[step.mark], words, indent, width=width)

    def _mark_step(self, step: PlanStep) -> str:
        mark = (_MARKS if self._terminal_style.unicode else _ASCII_MARKS)[step.mark]
        return f"{mark} {to_one_line(step.text, 400)}"
