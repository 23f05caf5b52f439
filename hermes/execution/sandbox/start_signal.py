"""Tells a command that began in its sandbox from a sandbox that could not be made."""

import asyncio
import os

from hermes.execution.base import OutputSink


class StartSignal:
    """A pipe on which the shell in the sandbox writes before it runs the command.

    The shell exits when it cannot write there. So an end without a byte proves that nothing of the command ran,
    whatever was printed, and the command may be started once more.
    """

    def __init__(self) -> None:
        self._read_end, self.write_end = os.pipe()
        os.set_blocking(self._read_end, False)
        self._is_open = True

    def build_report(self, handle: int, shell: str) -> str:
        """Build the first commands of a shell that finds the pipe at `handle`. Only bash closes handles above 9."""
        is_closed = handle < 10 or os.path.basename(shell) == "bash"
        return f"echo >/dev/fd/{handle} || exit 126; " + (f"exec {handle}>&-; " if is_closed else "")

    async def wait_for_start(self, seconds: float) -> bool:
        """Wait until the shell reports; return False when it ended without that. True, too, when it takes too long."""
        loop = asyncio.get_running_loop()
        ready = asyncio.Event()
        loop.add_reader(self._read_end, ready.set)
        try:
            async with asyncio.timeout(seconds):
                await ready.wait()
        except TimeoutError:
            return True
        finally:
            loop.remove_reader(self._read_end)
        has_begun = bool(os.read(self._read_end, 1))
        self.close()
        return has_begun

    def close(self) -> None:
        """Close the end that is read, once the shell is over: it would end if it wrote on a pipe without a reader."""
        if self._is_open:
            self._is_open = False
            os.close(self._read_end)


class HeldOutput:
    """Keeps what is printed until it is known whether the command began: a failed start's words are not its output."""

    def __init__(self, sink: OutputSink) -> None:
        self._sink = sink
        self._held: list[bytes] | None = []

    def write(self, data: bytes) -> None:
        """Take output."""
        if self._held is None:
            self._sink(data)
        else:
            self._held.append(data)

    def release(self) -> None:
        """Pass on what was kept, and from now on everything at once."""
        held, self._held = self._held or [], None
        for data in held:
            self._sink(data)
