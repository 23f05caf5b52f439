"""What keys do to parts of the chat: show the newest result, the last reasoning, the plan; begin a new line."""

from collections.abc import Callable

from hermes.cli.tui.composer import Composer
from hermes.cli.tui.event_view import EventView
from hermes.cli.tui.menu import MenuQueue
from hermes.i18n.messages import tr


class ViewActions:
    """Does what keys are for. `tell` shows a line of Hermes' own in a style."""

    def __init__(self, view: EventView, composer: Composer, menus: MenuQueue, tell: Callable[[str, str], None]) -> None:
        self._view = view
        self._composer = composer
        self._menus = menus
        self._tell = tell

    def insert_newline(self) -> None:
        """Begin a new line of the message; a menu waits for quiet again."""
        self._menus.note_other_key()
        self._composer.insert_newline()

    def send_later(self, send: Callable[[str], None]) -> None:
        """Send the line for a turn of its own while one runs; else begin a new line."""
        line = self._composer.buffer.text
        if self._view.busy and line.strip() and not line.startswith(("/", "!")):
            self._menus.note_other_key()
            self._composer.take_line(send)
        else:
            self.insert_newline()

    def show_results(self) -> None:
        """Show the newest result in full, and the next time the one before it."""
        if lines := self._view.calls.format_results():
            self._view.tell_lines(lines)
        else:
            self._tell("notice", tr("There is nothing to unfold."))

    def show_reasoning(self) -> None:
        """Show the model's last reasoning."""
        if lines := self._view.answer.format_reasoning():
            self._view.tell_lines(lines)
        else:
            self._tell("notice", tr("The model has shown no reasoning yet."))

    def toggle_plan(self) -> None:
        """Hide the plan, or show it: among the live lines while a turn works on it, else printed."""
        plan = self._view.plan
        if not plan.steps:
            self._tell("notice", tr("There is no plan yet."))
            return
        plan.hidden = not plan.hidden
        is_live = self._view.busy and plan.is_open
        self._view.tell_lines([] if plan.hidden or is_live else ["", *plan.format_plan()])
