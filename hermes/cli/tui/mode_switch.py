"""The mode of the chat's session: changed by a key, shown below the line, and left when a plan is approved."""

import asyncio
import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import structs

from hermes.cli.tui.menu import QuestionStyle
from hermes.cli.tui.screen import Screen
from hermes.commands.context import MenuOption
from hermes.core.errors import UsageError
from hermes.core.events import Event, TurnEnded, TurnStarted
from hermes.core.work_mode import WorkMode
from hermes.i18n.messages import tr

if TYPE_CHECKING:
    from hermes.runtime.actor import SessionActor
    from hermes.sessions.app import App

_STEP = re.compile(r"^\s*(?:\*\*)?(?:\d{1,2}[.)]|[-*•])\s+\S", re.MULTILINE)
"""A line by which a plan is told from an answer without one."""


class ModeSwitch:
    """Changes the mode of the current session, and asks whether a plan is to be carried out. A message of the person's
    takes the question back.

    `find_actor` raises BusyError where the session lives in another process; `post` sends a message.
    """

    def __init__(
        self,
        screen: Screen,
        app: "App",
        find_actor: "Callable[[], SessionActor]",
        post: Callable[[str], None],
        *,
        can_ask: bool,
    ) -> None:
        self._screen = screen
        self._app = app
        self._find_actor = find_actor
        self._post = post
        self._can_ask = can_ask
        self._task: asyncio.Task[None] | None = None
        screen.view.listeners.append(self._note_event)

    def set_mode(self, mode: WorkMode) -> None:
        """Set the session's mode, and show it. Raises UsageError where it is not safe."""
        from hermes.sessions.app import set_mode

        set_mode(self._app, self._find_actor(), mode)
        self._screen.status = structs.replace(self._screen.status, mode=mode)
        self._screen.request_redraw()

    async def change_mode(self) -> None:
        """Change to the next mode; from plan back to ask where auto is not safe, and say why. An open question about a
        plan is answered with no.
        """
        from hermes.sessions.app import find_mode

        self.close()
        modes = list(WorkMode)
        mode = modes[(modes.index(find_mode(self._app, self._find_actor())) + 1) % len(modes)]
        try:
            self.set_mode(mode)
        except UsageError:
            self.set_mode(WorkMode.ASK)
            raise

    def close(self) -> None:
        """Take the question back, if there is one."""
        if self._task is not None:
            self._task.cancel()
            self._task = None

    def _note_event(self, event: Event) -> None:
        if isinstance(event, TurnStarted):
            self.close()
        elif isinstance(event, TurnEnded) and event.reason.is_completed:
            is_plan = self._screen.status.mode is WorkMode.PLAN and _STEP.search(event.text)
            if is_plan and self._can_ask and not self._screen.view.queued:
                self.close()
                self._task = asyncio.create_task(self._ask_about_plan(), name="ask")

    async def _ask_about_plan(self) -> None:
        from hermes.sessions.app import is_mode_safe

        modes = [one for one in (WorkMode.ASK, WorkMode.AUTO) if is_mode_safe(self._app, self._find_actor(), one)]
        labels = {WorkMode.ASK: tr("Yes, in ask mode"), WorkMode.AUTO: tr("Yes, in auto mode")}
        options = [*(MenuOption(labels[mode]) for mode in modes), MenuOption(tr("No, keep planning"))]
        question = ["", self._screen.terminal_style.paint("question", tr("Carry out this plan?")), ""]
        keys = (*("y", "a")[: len(modes)], "n")
        self._screen.menus.mode_options = options
        taken = await self._screen.menus.ask(
            question, options, chosen=len(modes), keys=keys, style=QuestionStyle("question.asks")
        )
        self._task = None  # what is posted here must not take the question back
        if taken is not None and taken < len(modes):
            self.set_mode(modes[taken])
            self._post(tr("Carry out this plan."))
