"""Commands without a warden, where there can be none: found by session, group and descent, as far as that goes."""

import asyncio
import contextlib
import os
import signal
import subprocess
from collections.abc import Callable

from hermes.execution import process_tree

_POLL = 0.02


class Direct:
    """A child of ours and what it started. `code` is how it ended, negative for a signal; None while it runs."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.pid = process.pid
        self.code: int | None = None
        self._process = process
        self._tracked: set[process_tree.Entry] = set()
        self._changed: Callable[[], None] = lambda: None
        self._loop = asyncio.get_running_loop()
        self._watch_exit()

    def watch(self, changed: Callable[[], None]) -> None:
        """Have `changed` called when the shell has ended."""
        self._changed = changed

    def left(self) -> bool:
        """Whether the shell, or anything that stayed in its group, still lives."""
        return self.code is None or process_tree.group_exists(self.pid)

    async def signal(self, signum: signal.Signals) -> None:
        """Signal everything that can be found. The process table is read in a thread: that takes milliseconds."""
        self._tracked |= await asyncio.to_thread(process_tree.members, self.pid)
        await asyncio.to_thread(process_tree.send, self.pid, self._tracked, signum)

    def kill(self) -> None:
        """Kill everything that can be found, at once."""
        process_tree.send(self.pid, self._tracked | process_tree.members(self.pid), signal.SIGKILL)

    async def gone(self, seconds: float) -> bool:
        """Wait until nothing is left, at most so many seconds."""
        deadline = self._loop.time() + seconds
        while self.code is None or await asyncio.to_thread(process_tree.any_left, self.pid, self._tracked):
            if self._loop.time() >= deadline:
                return False
            await asyncio.sleep(_POLL)
        return True

    def release(self) -> None:
        """Nothing holds what is left."""

    def _watch_exit(self) -> None:
        with contextlib.suppress(AttributeError, OSError):
            handle = os.pidfd_open(self.pid)
            self._loop.add_reader(handle, self._ready, handle)
            return
        # Not Linux, or too old a kernel: a thread waits.
        waiting = self._loop.run_in_executor(None, self._process.wait)
        waiting.add_done_callback(lambda _: self._ended())

    def _ready(self, handle: int) -> None:
        self._loop.remove_reader(handle)
        os.close(handle)
        self._ended()

    def _ended(self) -> None:
        self.code = self._process.wait()
        self._changed()
