"""Sessions that work beside the one that is talked with, in the same process; each is told of when it is done."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable

from msgspec import Struct

from hermes.core.errors import HermesError, NotFoundError
from hermes.core.events import TurnEnded
from hermes.i18n.messages import phrase
from hermes.runtime.actor import SessionActor
from hermes.runtime.mailbox import Inbound

MOST = 8
"""Sessions that work at the same time."""
_LOG = logging.getLogger(__name__)


class Task(Struct, eq=False):
    """One of them. `ended` is None while it works."""

    number: int
    prompt: str
    began: float
    actor: SessionActor | None = None
    session_id: str = ""
    ended: TurnEnded | None = None
    failed: str = ""
    done: bool = False


Told = Callable[[Task], None]


class Background:
    """All of a process's. `close` is awaited before sessions are closed; it ends those that work."""

    def __init__(self, close_session: Callable[[SessionActor], Awaitable[None]]) -> None:
        self._close_session = close_session
        self.tasks: list[Task] = []
        self._running: set[asyncio.Task[None]] = set()

    def working(self) -> list[Task]:
        """Those that work now."""
        return [one for one in self.tasks if not one.done]

    def begin(self, prompt: str, opened: Callable[[], Awaitable[SessionActor]], cwd: str, told: Told) -> Task:
        """Let a fresh session answer; `told` hears of its end. Raises HermesError when there are too many."""
        from hermes.core.errors import BusyError

        if len(self.working()) >= MOST:
            raise BusyError(
                phrase("{n} background sessions work already.", n=MOST), phrase("/background stop N ends one of them.")
            )
        task = Task(number=len(self.tasks) + 1, prompt=prompt, began=time.monotonic())
        self.tasks.append(task)
        running = asyncio.create_task(self._run(task, opened, cwd, told), name=f"background {task.number}")
        self._running.add(running)
        running.add_done_callback(self._running.discard)
        return task

    def stop(self, number: int) -> Task:
        """Stop one. Raises NotFoundError when none of that number works."""
        found = next((one for one in self.working() if one.number == number), None)
        if found is None:
            raise NotFoundError(phrase("No background session {n} works.", n=number), phrase("/background lists them."))
        if found.actor is not None:
            found.actor.stop()
        return found

    async def close(self) -> None:
        """End all that work."""
        running = list(self._running)
        for one in running:
            one.cancel()
        if running:
            await asyncio.wait(running)

    async def _run(self, task: Task, opened: Callable[[], Awaitable[SessionActor]], cwd: str, told: Told) -> None:
        try:
            task.actor = await opened()
            task.session_id = task.actor.session_id
            task.ended = await task.actor.post(Inbound(text=task.prompt, cwd=cwd))
        except HermesError as error:
            task.failed = str(error)
        finally:
            task.done = True
            actor, task.actor = task.actor, None
            if actor is not None:
                await self._close_session(actor)
        told(task)
