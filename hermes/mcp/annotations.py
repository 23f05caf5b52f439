"""What tools of servers said of themselves when they were last called, so that a change can be shown.

It decides nothing: what needs no question is told by the person's patterns, which hold a digest of a tool's definition.
"""

import contextlib
import logging
from pathlib import Path

import msgspec
from msgspec import Struct

from hermes.mcp.definitions import Definition
from hermes.util.atomic import write_atomic
from hermes.util.text import one_line, visible

_LOG = logging.getLogger(__name__)
_LARGEST = 16 * 1024 * 1024
_AROUND, _SHOWN = 20, 160


class Remembered(Struct, frozen=True):
    """A tool as it was when it was called."""

    digest: str
    description: str


class Known:
    """The file of what was called, by server and tool; private to its owner."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._seen: dict[str, dict[str, Remembered]] = {}
        self._loaded = False

    def load(self) -> None:
        """Read the file, once. One that cannot be read says nothing of what was."""
        if self._loaded:
            return
        self._loaded = True
        with contextlib.suppress(OSError, msgspec.MsgspecError):
            raw = self._file.read_bytes()[:_LARGEST]
            self._seen = msgspec.json.decode(raw, type=dict[str, dict[str, Remembered]])

    def before(self, server: str, tool: Definition) -> Remembered | None:
        """The tool as it was when it was last called, if it was another one then."""
        found = self._seen.get(server, {}).get(tool.name)
        return found if found is not None and found.digest != tool.digest else None

    def note(self, server: str, tool: Definition) -> None:
        """It is called as it is now. Writes a file where that is news."""
        seen = self._seen
        now = Remembered(tool.digest, tool.description)
        if seen.get(server, {}).get(tool.name) == now:
            return
        seen.setdefault(server, {})[tool.name] = now
        try:
            self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_atomic(self._file, msgspec.json.encode(seen), mode=0o600, sync=False)
        except OSError as error:
            _LOG.warning("%s could not be written: %s", self._file, error)


def difference(before: Remembered, now: Definition) -> str:
    """What has changed, in a line for the person."""
    old, new = one_line(visible(before.description), 4_000), one_line(visible(now.description), 4_000)
    if old == new:
        return "its parameters or hints changed, its description did not"
    same = next((at for at, (one, other) in enumerate(zip(old, new, strict=False)) if one != other), None)
    start = max((min(len(old), len(new)) if same is None else same) - _AROUND, 0)
    return f"it said {_window(old, start)}, now {_window(new, start)}"


def _window(text: str, start: int) -> str:
    """A piece of a text, in quotation marks."""
    cut = text[start : start + _SHOWN]
    return f'"{"…" if start else ""}{cut}{"…" if start + _SHOWN < len(text) else ""}"'
