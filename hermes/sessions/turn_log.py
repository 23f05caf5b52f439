"""Writes one line for each turn that ends to `hermes.log` of the home, whichever front-end it was for.

A line says how the turn ended and what it took, never what was said.
"""

import contextlib
import logging
import os
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING

from hermes.core.events import TurnEnded
from hermes.core.outcomes import ExitReason
from hermes.util.clock import Clock
from hermes.util.text import to_one_line

if TYPE_CHECKING:
    from hermes.agent.turn import TurnState

FILE_NAME = "hermes.log"
OLD_FILE_NAME = "hermes.old.log"
MAX_BYTES = 4 << 20
"""Bytes after which the file is started again; the previous file is kept."""
_EXIT_INTERRUPTED = 130
_LOG = logging.getLogger("hermes.turns")


class TurnLog:
    """Appends to the log of a home. Errors of the disk are ignored: no turn fails because it cannot be counted."""

    def __init__(self, folder: Path, redact: Callable[[str], str], clock: Clock) -> None:
        self._file = folder / FILE_NAME
        self._redact = redact
        self._clock = clock

    def make_hook(self, platform: str) -> Callable[["TurnState", TurnEnded], Awaitable[None]]:
        """Return the hook that writes the line of a session's turns; `platform` is the front-end it is for."""

        async def log_turn(state: "TurnState", ended: TurnEnded) -> None:
            self.write_line(format_turn_line(state, ended, platform, self._clock.monotonic() - state.started_at))

        return log_turn

    def write_line(self, text: str) -> None:
        """Write a line to the home's log, and to the logger for programs that listen there."""
        line = "".join(one if one.isprintable() else f"\\x{ord(one):02x}" for one in self._redact(text))
        _LOG.info("%s", line)
        now = self._clock.now()
        at = f"{time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(now))},{int(now % 1 * 1000):03d}"
        self._append_line(f"{at} {os.getpid()} INFO {_LOG.name}: {line}\n")

    def _append_line(self, line: str) -> None:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        with contextlib.suppress(OSError):
            self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle = os.open(self._file, flags, 0o600)
            try:
                os.write(handle, line.encode("utf-8", "backslashreplace"))
                full = os.fstat(handle).st_size > MAX_BYTES
            finally:
                os.close(handle)
            if full:
                os.replace(self._file, self._file.with_name(OLD_FILE_NAME))


def format_turn_line(state: "TurnState", ended: TurnEnded, platform: str, seconds: float) -> str:
    """Return the line of one turn: `turn exit: reason=... last_role=... exit_code=...`, then what it took.

    `exit_code` is what `hermes -z` would end with: 0 for an answer, 130 for a stop, else 1.
    """
    usage, endpoint = ended.usage, state.model.endpoint
    last = state.messages[-1].role.value if state.messages else "none"
    dollars = ended.cost.usd
    cost = "unknown" if dollars is None else f"{dollars:.6f}"
    return to_one_line(
        f"turn exit: reason={ended.reason.value} last_role={last} exit_code={_exit_code(ended.reason)}"
        f" session={state.session_id} turn={state.turn_id} platform={platform}"
        f" model={endpoint.record.name}/{endpoint.model} calls={ended.calls} tokens={usage.total}"
        f" input={usage.input} output={usage.output} cached={usage.cache_read} seconds={seconds:.2f} cost_usd={cost}",
        1_000,
    )


def _exit_code(reason: ExitReason) -> int:
    if reason.is_completed:
        return 0
    return _EXIT_INTERRUPTED if reason is ExitReason.INTERRUPTED else 1
