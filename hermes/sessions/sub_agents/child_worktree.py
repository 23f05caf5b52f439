"""The git worktree in which a sub-agent works; it is found again by the name of its session."""

import asyncio
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from hermes.core.errors import HermesError, ToolError
from hermes.core.work_mode import WorkMode
from hermes.execution.worktrees import KeptWorktree, Worktree, Worktrees
from hermes.util.cancellation import run_to_completion

if TYPE_CHECKING:
    from hermes.sessions.services import Services
    from hermes.sessions.session_builder import LiveSession

T = TypeVar("T")
_BACKENDS = ("local", "sandbox")
"""The back ends whose workspace is a folder of this machine with its repository beside it."""


async def check_worktree(parent: "LiveSession", services: "Services") -> None:
    """Raise ToolError where no worktree can be made of the folder that a session works in."""
    context = parent.tools.context
    if parent.tools.state.mode is WorkMode.PLAN:
        raise ToolError("While a plan is made nothing is changed, so no worktree is made either: leave `worktree` out.")
    if context.backend_handle.name not in _BACKENDS or context.places.foreign:
        raise ToolError("A worktree can be made only where commands run on this machine, for its owner.")
    try:
        await _run_in_thread(lambda: _open_worktrees(parent, services).check_repository(Path(context.places.workspace)))
    except HermesError as error:
        raise ToolError(f"No worktree can be made: {error}") from None


class ChildWorktree:
    """The worktree of one sub-agent, held while that works. Methods raise HermesError; git runs in threads."""

    def __init__(self, parent: "LiveSession", services: "Services", session_id: str) -> None:
        self._worktrees = _open_worktrees(parent, services)
        self._folder = Path(parent.tools.context.places.workspace)
        self._name = session_id
        self._held = ExitStack()
        self.worktree: Worktree | None = None

    async def open(self) -> Worktree:
        """Make it, or take up the one that an earlier process has made."""
        held = self._worktrees.hold_worktree(self._folder, self._name)
        self.worktree = await _run_in_thread(lambda: self._held.enter_context(held))
        return self.worktree

    async def settle(self) -> KeptWorktree | None:
        """Remove it where it holds no work; return it where it stays."""
        return await _run_in_thread(lambda: self._worktrees.settle_worktree(self._name))

    async def close(self) -> None:
        """Let go of it; whoever opens it next finds it as it is."""
        await _run_in_thread(self._held.close)


def _open_worktrees(parent: "LiveSession", services: "Services") -> Worktrees:
    return Worktrees(services.environ, parent.options.trusted_folders)


async def _run_in_thread(work: Callable[[], T]) -> T:
    """Run work in a thread to its end, so that no lock is taken behind the back of who was cancelled."""
    return await run_to_completion(asyncio.to_thread(work))
