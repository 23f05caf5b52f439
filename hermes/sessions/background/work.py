"""The background work of a process's sessions: goals they pursue by themselves, and background sessions."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from hermes.core.errors import HermesError, NotFoundError
from hermes.core.events import TurnEnded
from hermes.core.outcomes import ExitReason
from hermes.i18n.messages import N_
from hermes.runtime.actor import SessionActor
from hermes.runtime.mailbox import InboundMessage
from hermes.util.cancellation import cancel_tasks

if TYPE_CHECKING:
    from hermes.sessions.background.goals import GoalPursuit
    from hermes.sessions.services import Services
    from hermes.sessions.session_builder import LiveSession
    from hermes.sessions.sub_agents.team import SubAgentTeam


MAX_BACKGROUND_SESSIONS = 8
"""The most background sessions of one person that run at the same time."""
MAX_ALL_BACKGROUND_SESSIONS = 32
"""The most background sessions of all people that run at the same time."""
_LOG = logging.getLogger(__name__)


class BackgroundTask(Struct, eq=False):
    """One background session with its prompt. `ended` is None while it works."""

    number: int
    prompt: str
    began: float
    actor: SessionActor | None = None
    session_id: str = ""
    ended: TurnEnded | None = None
    failed: str = ""
    done: bool = False
    stopping: bool = False
    """Whether somebody has asked for its end, perhaps before its session was open."""
    person: str = ""
    """Whom it works for, as sessions name them; the owner is empty."""

    @property
    def is_stopped(self) -> bool:
        """Whether it ended because somebody wanted that."""
        if self.ended is None:
            return self.stopping and not self.failed
        return self.ended.reason is ExitReason.INTERRUPTED


class BackgroundOpener(Protocol):
    """Opens and closes the sessions that work beside another one."""

    @property
    def session_person(self) -> str:
        """Whom the sessions work for."""
        ...

    async def open_background_session(self, prompt: str) -> SessionActor:
        """Open a fresh session for a prompt."""
        ...

    async def close_background_session(self, actor: SessionActor) -> None:
        """Close such a session once its output is shown."""
        ...


TaskCallback = Callable[[BackgroundTask], Awaitable[None]]


class BackgroundSessions:
    """The background sessions of a process. `close` is awaited before sessions are closed and ends them."""

    def __init__(self) -> None:
        self._tasks: list[BackgroundTask] = []
        self._running: set[asyncio.Task[None]] = set()

    def list_tasks(self, person: str, *, running: bool = False) -> list[BackgroundTask]:
        """List the tasks of a person; with `running` only those that work."""
        return [one for one in self._tasks if one.person == person and not (running and one.done)]

    def start_task(self, prompt: str, opener: BackgroundOpener, cwd: str, on_end: TaskCallback) -> BackgroundTask:
        """Start a fresh session that answers the prompt; `on_end` is called at its end.

        Raises BusyError when too many run.
        """
        self._check_limits(opener.session_person)
        task = BackgroundTask(
            number=len(self._tasks) + 1, prompt=prompt, began=time.monotonic(), person=opener.session_person
        )
        self._tasks.append(task)
        running = asyncio.create_task(self._run_task(task, opener, cwd, on_end), name=f"background {task.number}")
        self._running.add(running)
        running.add_done_callback(self._running.discard)
        return task

    def _check_limits(self, person: str) -> None:
        """Raise BusyError when too many sessions run: of the person, so that nobody takes the places of all others, or
        of everybody.
        """
        from hermes.core.errors import BusyError

        if len(self.list_tasks(person, running=True)) >= MAX_BACKGROUND_SESSIONS:
            raise BusyError(
                N_("{n} background sessions work already.", n=MAX_BACKGROUND_SESSIONS),
                N_("/background stop N ends one of them."),
            )
        if sum(not one.done for one in self._tasks) >= MAX_ALL_BACKGROUND_SESSIONS:
            raise BusyError(
                N_("{n} background sessions of several people work already.", n=MAX_ALL_BACKGROUND_SESSIONS),
                N_("Try it again when some of them are done."),
            )

    def stop_task(self, number: int, person: str) -> BackgroundTask:
        """Stop a task of a person. Raises NotFoundError when no running task of theirs has that number."""
        found = next((one for one in self.list_tasks(person, running=True) if one.number == number), None)
        if found is None:
            raise NotFoundError(N_("No background session {n} works.", n=number), N_("/background lists them."))
        found.stopping = True
        if found.actor is not None:
            found.actor.stop()
        return found

    async def close(self) -> None:
        """Cancel all running tasks and wait for them."""
        await cancel_tasks(self._running)

    async def _run_task(self, task: BackgroundTask, opener: BackgroundOpener, cwd: str, on_end: TaskCallback) -> None:
        try:
            task.actor = await opener.open_background_session(task.prompt)
            task.session_id = task.actor.session_id
            if not task.stopping:
                task.ended = await task.actor.post(InboundMessage(text=task.prompt, cwd=cwd))
        except HermesError as error:
            task.failed = str(error)
        finally:
            task.done = True
            actor, task.actor = task.actor, None
            if actor is not None:
                await opener.close_background_session(actor)
        await on_end(task)


FindTeam = Callable[[str], "SubAgentTeam | None"]
"""Returns the sub-agents of a live session; None where it has had none."""
FindLiveSession = Callable[[SessionActor], "LiveSession"]
AttachCloser = Callable[[SessionActor, Callable[[], Awaitable[None]]], None]


class BackgroundWork:
    """The background sessions and goal pursuits of an App, created on first use and closed before its sessions.

    `attach_closer` has something closed before a session is.
    """

    def __init__(
        self, services: "Services", find_live: FindLiveSession, attach_closer: AttachCloser, find_team: FindTeam
    ) -> None:
        self._services = services
        self._find_team = find_team
        self._find_live = find_live
        self._attach_closer = attach_closer
        self._background: BackgroundSessions | None = None
        self._pursuits: dict[object, GoalPursuit] = {}

    @property
    def background(self) -> "BackgroundSessions":
        """The background sessions."""
        if self._background is None:
            self._background = BackgroundSessions()
        return self._background

    def find_pursuit(self, actor: object) -> "GoalPursuit | None":
        """Return the goal pursuit of a session, or None."""
        return self._pursuits.get(actor)

    async def open_pursuit(self, actor: SessionActor) -> "GoalPursuit":
        """Return the goal pursuit of a session, opened when there is none yet."""
        found = self._pursuits.get(actor)
        if found is None:
            from hermes.sessions.background.goals import open_pursuit

            found = self._pursuits[actor] = await open_pursuit(self._services, self._find_live(actor), self._find_team)

            async def close() -> None:
                del self._pursuits[actor]
                await found.close()

            self._attach_closer(actor, close)
        return found

    async def close(self) -> None:
        """Close the background sessions."""
        if self._background is not None:
            await self._background.close()
