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
        """Render the checklist in at most `room` lines: around the step that is under way, where not all fit."""
        if self.hidden or not self.is_open or room < 4:
            return []
        lines = [self._format_step(step, indent=2) for step in self.steps]
        most = room - 2
        if len(lines) > most:
            now = next((at for at, step in enumerate(self.steps) if step.mark in " >"), 0)
            start = max(0, min(now - 1, len(lines) - most))
            lines = lines[start : start + most]
        return ["", self._format_head(), *lines]

    def format_plan(self) -> list[str]:
        """Return the whole plan."""
        self._printed = self.steps
        steps = [self._format_step(step, indent=2) for step in self.steps]
        return [self._format_head(), *steps] if steps else []

    def format_change(self) -> list[str]:
        """Return the steps that are done now, to be printed: all of the plan stands in the live lines meanwhile."""
        before, self._seen = {step.text: step.mark for step in self._seen}, self.steps
        return [
            self._format_step(step) for step in self.steps if step.mark in "x-" and before.get(step.text) != step.mark
        ]

    def format_end(self) -> list[str]:
        """Return the whole plan at the end of a turn that has changed it and left something to do."""
        return self.format_plan() if self.is_open and self.steps != self._printed else []

    def _format_head(self) -> str:
        done = sum(step.mark in "x-" for step in self.steps)
        head = tr("Plan: {done} of {all} done", done=done, all=len(self.steps))
        return self._terminal_style.paint("notice", head)

    def _format_step(self, step: PlanStep, *, indent: int = 0) -> str:
        terminal_style = self._terminal_style
        mark = (_MARKS if terminal_style.unicode else _ASCII_MARKS)[step.mark]
        text = to_one_line(step.text, 400)
        words = terminal_style.cut_text(f"{mark} {text}", terminal_style.prose_width - indent)
        return " " * indent + terminal_style.paint(_STYLES[step.mark], words)
