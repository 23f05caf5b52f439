"""Commands without a supervisor, for systems that have none: found by session, group and
descent, as far as possible.
"""

import asyncio
import contextlib
import os
import signal
import subprocess
from collections.abc import Callable

from hermes.execution import process_tree

_POLL_SECONDS = 0.02


class UnsupervisedProcess:
    """A child process of Hermes and what it started.

    `code` is how it ended, negative for a signal; None while it runs.
    """

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.pid = process.pid
        self.code: int | None = None
        self._process = process
        self._known_processes: set[process_tree.ProcessIdentity] = set()
        self._on_change: Callable[[], None] = lambda: None
        self._loop = asyncio.get_running_loop()
        self._watch_exit()

    def set_change_callback(self, callback: Callable[[], None]) -> None:
        """Set the callback that is called when the shell has ended."""
        self._on_change = callback

    def is_alive(self) -> bool:
        """Return whether the shell, or anything that stayed in its group, still lives."""
        return self.code is None or process_tree.has_group_members(self.pid)

    async def send_signal(self, signum: signal.Signals) -> None:
        """Signal everything that can be found. The process table is read in a thread, since that takes milliseconds."""
        self._known_processes |= await asyncio.to_thread(process_tree.find_processes, self.pid)
        await asyncio.to_thread(process_tree.signal_processes, self.pid, self._known_processes, signum)

    def kill(self) -> None:
        """Kill everything that can be found, at once."""
        process_tree.signal_processes(
            self.pid, self._known_processes | process_tree.find_processes(self.pid), signal.SIGKILL
        )

    async def wait_until_gone(self, seconds: float) -> bool:
        """Wait until nothing is left, at most this many seconds; return whether that was reached."""
        deadline = self._loop.time() + seconds
        while self.code is None or await asyncio.to_thread(process_tree.is_any_left, self.pid, self._known_processes):
            if self._loop.time() >= deadline:
                return False
            await asyncio.sleep(_POLL_SECONDS)
        return True

    def release(self) -> None:
        """Do nothing: no process holds what is left."""

    def _watch_exit(self) -> None:
        with contextlib.suppress(AttributeError, OSError):
            handle = os.pidfd_open(self.pid)
            self._loop.add_reader(handle, self._on_exit_ready, handle)
            return
        # Not Linux, or too old a kernel: a thread waits.
        exit_wait = self._loop.run_in_executor(None, self._process.wait)
        exit_wait.add_done_callback(lambda _: self._record_exit())

    def _on_exit_ready(self, handle: int) -> None:
        self._loop.remove_reader(handle)
        os.close(handle)
        self._record_exit()

    def _record_exit(self) -> None:
        self.code = self._process.wait()
        self._on_change()
