"""Remembers what MCP tools said of themselves when they were last called, so that a change can be shown.

It decides nothing: what needs no question is set by the person's patterns, which hold a digest of a
tool's definition.
"""

import contextlib
import logging
from pathlib import Path

import msgspec
from msgspec import Struct

from hermes.mcp.definitions import McpToolDefinition
from hermes.util.atomic_write import write_atomic
from hermes.util.text import escape_confusable_characters, to_one_line

_LOG = logging.getLogger(__name__)
_MAX_FILE_BYTES = 16 * 1024 * 1024
_CONTEXT_CHARS, _MAX_SHOWN = 20, 160


class RememberedTool(Struct, frozen=True):
    """A tool as it was when it was called."""

    digest: str
    description: str


class KnownMcpTools:
    """The file of the tools that were called, by server and tool; private to its owner."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._tools: dict[str, dict[str, RememberedTool]] = {}
        self._is_loaded = False

    def load(self) -> None:
        """Read the file, once. An unreadable file counts as empty."""
        if self._is_loaded:
            return
        self._is_loaded = True
        with contextlib.suppress(OSError, msgspec.MsgspecError):
            raw = self._file.read_bytes()[:_MAX_FILE_BYTES]
            self._tools = msgspec.json.decode(raw, type=dict[str, dict[str, RememberedTool]])

    def find_changed(self, server: str, tool: McpToolDefinition) -> RememberedTool | None:
        """Return the tool as it was when it was last called, if it was different then."""
        found = self._tools.get(server, {}).get(tool.name)
        return found if found is not None and found.digest != tool.digest else None

    def remember_call(self, server: str, tool: McpToolDefinition) -> None:
        """Remember the tool as it is at this call. Writes the file if that is new."""
        seen = self._tools
        now = RememberedTool(tool.digest, tool.description)
        if seen.get(server, {}).get(tool.name) == now:
            return
        seen.setdefault(server, {})[tool.name] = now
        try:
            self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_atomic(self._file, msgspec.json.encode(seen), mode=0o600, sync=False)
        except OSError as error:
            _LOG.warning("%s could not be written: %s", self._file, error)


def describe_change(before: RememberedTool, after: McpToolDefinition) -> str:
    """Describe what has changed, in a line for the person."""
    old, new = (
        to_one_line(escape_confusable_characters(before.description), 4_000),
        to_one_line(escape_confusable_characters(after.description), 4_000),
    )
    if old == new:
        return "its parameters or hints changed, its description did not"
    same = next((at for at, (one, other) in enumerate(zip(old, new, strict=False)) if one != other), None)
    start = max((min(len(old), len(new)) if same is None else same) - _CONTEXT_CHARS, 0)
    return f"it said {_quote_excerpt(old, start)}, now {_quote_excerpt(new, start)}"


def _quote_excerpt(text: str, start: int) -> str:
    """Return a piece of a text, in quotation marks."""
    cut = text[start : start + _MAX_SHOWN]
    return f'"{"…" if start else ""}{cut}{"…" if start + _MAX_SHOWN < len(text) else ""}"'
