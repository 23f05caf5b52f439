"""Guards a session's folders against files that other programs would obey: what is there before a command is fixed, and
what commands leave is looked at.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from hermes.execution.layout import AccessLayout, PathAccess
from hermes.execution.sandbox.baseline import BaselineFile
from hermes.execution.sandbox.planted_files import PlantedFiles
from hermes.execution.sandbox.policy import SandboxPolicy, find_fixed_paths
from hermes.i18n.messages import N_
from hermes.safety.paths import is_or_below
from hermes.safety.start_links import find_start_links

_TOO_MANY_FOLDERS = N_(
    "The workspace has too many folders to look through all of them: a command may have left something in the others"
    " that git, an editor or an agent runs."
)


class PlantedGuard:
    """The baseline and the looks of one session. What they find is added to `notices`, for the person."""

    def __init__(self, policy: SandboxPolicy, workspace: str, notices: list[str]) -> None:
        self._policy = policy
        own = (workspace, *policy.writable, *policy.git_folders)
        stored = BaselineFile(f"{policy.places.hermes}/baselines", workspace)
        self._files = PlantedFiles(stored, own, policy.places.home)
        self._lock = asyncio.Lock()
        self._starting = 0
        """The commands that have a layout already and do not run yet."""
        self.fixed_paths: tuple[str, ...] = ()
        """What commands may not change inside what they may write."""
        self._notices = notices
        self.is_alone = True
        """Whether no other session's commands ran in the workspace when the first of those that run now began."""

    @contextmanager
    def count_start(self) -> Iterator[None]:
        """Keep the baseline while a command is prepared and started."""
        self._starting += 1
        try:
            yield
        finally:
            self._starting -= 1

    def note_unseen_folder(self, folder: str) -> None:
        """Note a folder that commands may write and that is not looked at: nothing of theirs may lead there."""
        self._files.unseen_folder = folder

    def is_kept(self, path: str) -> bool:
        """Return whether a path (resolved) is, or lies in, what was found to be obeyed by programs."""
        return any(is_or_below(path, one) for one in self.fixed_paths)

    def note_enforcement(self, *, is_enforced: bool) -> None:
        """Note whether the kernel keeps commands from changing what is fixed, inside of what they may write."""
        self._files.is_enforced = is_enforced

    async def prepare_command(
        self,
        build_layout: Callable[[], AccessLayout],
        build_fixed: Callable[[tuple[str, ...], Sequence[str]], AccessLayout],
        *,
        is_alone: bool,
    ) -> AccessLayout:
        """Take what is there as the person's own: all of it while no command runs, else what was opened since. Return
        the layout in which that is fixed. All of it is done by one thread, since each way there costs as much as it.
        """

        def prepare() -> AccessLayout:
            self._record_baseline(build_layout(), is_alone=is_alone)
            return build_fixed(self.fixed_paths, self._files.sockets)

        async with self._lock:
            return await asyncio.to_thread(prepare)

    async def look(
        self, layout: AccessLayout, fixed: Callable[[str], bool], is_over: Callable[[], bool] = lambda: False
    ) -> list[str]:
        """Move aside what commands have left for programs to obey; return a line for each thing.

        `is_over` tells whether nothing runs any more: then there is nothing that a crash could leave.
        """
        async with self._lock:
            # What begins meanwhile waits for the lock, and makes a baseline of its own.
            is_last = not self._starting and is_over()

            def look() -> list[str]:
                notes = self._files.quarantine_new(layout.paths_with(PathAccess.WRITE), fixed)
                if is_last:
                    self._files.forget_baseline()
                return notes

            notes = await asyncio.to_thread(look)
        self._notices += notes
        return notes

    def describe_size(self) -> list[str]:
        """Return a line when the last look did not see every folder."""
        lines = [] if self._files.is_complete else [_TOO_MANY_FOLDERS]
        self._notices += lines
        return lines

    async def close(self) -> None:
        """Drop the baseline on disk: no command runs any more."""
        async with self._lock:
            await asyncio.to_thread(self._files.forget_baseline)

    def _record_baseline(self, layout: AccessLayout, *, is_alone: bool) -> None:
        roots, files = layout.paths_with(PathAccess.WRITE), self._files
        opened: Sequence[str] = ()
        kept = dict(find_start_links(self._policy.places))
        if is_alone:
            self._notices += files.record_baseline(roots, kept)
            self.is_alone = files.is_alone
        else:
            opened = files.record_opened(roots, kept)
        if is_alone or opened:
            found = find_fixed_paths(layout, files.list_obeyed())
            new = (one for one in found if any(is_or_below(one, root) for root in opened))
            self.fixed_paths = found if is_alone else tuple(dict.fromkeys([*self.fixed_paths, *new]))
        if not files.is_complete and _TOO_MANY_FOLDERS not in self._notices:
            self._notices.append(_TOO_MANY_FOLDERS)
