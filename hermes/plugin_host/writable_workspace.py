"""A workspace that a call of a plug-in may write: what programs obey in it is fixed before, and looked at after.

The same is done for commands in the sandbox. Such a call has a process of its own, which is gone when its end is told.
"""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from msgspec import Struct, field

from hermes.execution.layout import AccessLayout, PathAccess
from hermes.execution.sandbox.mounted_files import MountedFiles
from hermes.execution.sandbox.planted_guard import PlantedGuard
from hermes.execution.sandbox.policy import SandboxPolicy, add_fixed_paths
from hermes.safety.paths import Places
from hermes.util.cancellation import run_to_completion


class WritableWorkspace(Struct, frozen=True):
    """How the workspace appears to the call. `notes` are filled at its end: what was moved aside, or put back."""

    layout: AccessLayout
    notes: list[str] = field(default_factory=list)


@asynccontextmanager
async def open_writable_workspace(places: Places) -> AsyncIterator[WritableWorkspace]:
    """Yield the workspace; nothing of the call may be left when the block ends. Cancelling it does not cut the look
    short.
    """
    notes: list[str] = []
    guard = PlantedGuard(SandboxPolicy(places=places), places.workspace, notes)
    base = AccessLayout(access_by_path={places.workspace: PathAccess.WRITE})
    async with AsyncExitStack() as held:
        with guard.count_start():
            layout = await guard.prepare_command(
                lambda: base, lambda fixed, _sockets: add_fixed_paths(base, fixed), is_alone=True
            )
        mounted = MountedFiles(layout, (), held, by_mounts=True)
        try:
            yield WritableWorkspace(layout, notes)
        finally:
            await run_to_completion(_look_after(guard, layout, mounted))


async def _look_after(guard: PlantedGuard, layout: AccessLayout, mounted: MountedFiles) -> None:
    await guard.look(layout, mounted.is_fixed, lambda: True)
    guard.describe_size()
    await guard.close()
