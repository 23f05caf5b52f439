"""Checks and bounds the definitions that a server sends of its tools, and gives the tools their names here."""

import hashlib
import logging
import re
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

import msgspec
from msgspec import Raw, Struct, field

from hermes.core.encoding import to_json
from hermes.core.errors import ToolError
from hermes.mcp.header_parameters import HeaderParameter, find_header_parameters
from hermes.safety.fencing import reveal_hidden_text, show_control_characters

MCP_TOOL_PREFIX = "mcp__"
MAX_TOOLS = 1_000
MAX_DESCRIPTION = 2_000
MAX_SCHEMA = 16_000
"""The most characters of a schema that a model is shown; `MAX_DESCRIPTION` is the limit of a description."""
_MAX_DEFINITION_BYTES = 64 * 1024
"""The most bytes of a whole definition."""
_MAX_NAME, _MAX_SERVER_NAME = 64, 24
_DIGEST_LENGTH = 24
_UNUSABLE_CHARACTERS = re.compile(r"[^A-Za-z0-9_-]+")
_LOG = logging.getLogger(__name__)
_EMPTY_SCHEMA = Raw(b'{"type":"object"}')


class McpToolDefinition(Struct, frozen=True, kw_only=True):
    """A server's tool. `sent_name` is the server's name for it, `digest` identifies the whole definition."""

    sent_name: str
    name: str
    description: str
    schema: bytes
    required: tuple[str, ...]
    reads_only: bool
    digest: str
    needs_task: bool = False
    """Whether the server carries it out as a task only, of which the result is asked for (revision 2025-11-25)."""
    header_parameters: tuple[HeaderParameter, ...] = ()
    """The parameters that a server of the stateless revision wants as header fields, too."""


class ToolListPage(Struct, frozen=True):
    """One page of a list of tools."""

    tools: list[Raw] = []
    cursor: str | None = field(default=None, name="nextCursor")


class _Hints(Struct):
    reads_only: bool | None = field(default=None, name="readOnlyHint")


class _Execution(Struct):
    task_support: str = field(default="", name="taskSupport")


class _SentTool(Struct):
    name: str
    description: str | None = None
    schema: Raw = field(default=_EMPTY_SCHEMA, name="inputSchema")
    annotations: _Hints | None = None
    execution: _Execution | None = None


class _Schema(Struct):
    type: str = "object"
    required: list[str] = []


def to_server_name(name: str) -> str:
    """Return a server's name as it is used in tool names, empty when nothing is left of it.

    It holds no `__`, so that no two servers' tools can be confused.
    """
    return re.sub("__+", "_", _UNUSABLE_CHARACTERS.sub("_", name)).strip("_-")[:_MAX_SERVER_NAME].strip("_-")


def build_definitions(
    server: str, sent: Iterable[Raw], include: Sequence[str], exclude: Sequence[str], *, uses_headers: bool = False
) -> list[McpToolDefinition]:
    """Return the usable tools of a server, sorted by name, without those that the settings leave out.

    `uses_headers` says that parameters are header fields, too: tools that break the rules for those are left out.
    """
    found: dict[str, McpToolDefinition] = {}
    for one in sent:
        made = _parse_definition(server, bytes(one), uses_headers=uses_headers)
        if made is None or made.name in found or len(found) >= MAX_TOOLS:
            continue
        if include and not any(fnmatchcase(made.sent_name, pattern) for pattern in include):
            continue
        if not any(fnmatchcase(made.sent_name, pattern) for pattern in exclude):
            found[made.name] = made
    return sorted(found.values(), key=lambda one: one.name)


def parse_tool_page(result: Raw) -> ToolListPage:
    """Parse a page of a list of tools. Raises `ToolError` for something else."""
    try:
        return msgspec.json.decode(result, type=ToolListPage)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        raise ToolError("its list of tools cannot be read") from None


class _Task(Struct):
    id: str = field(default="", name="taskId")


class _TaskResult(Struct):
    task: _Task


def parse_task_id(result: Raw) -> str:
    """Return the id of a task that a server has begun. Raises `ToolError` for another result."""
    try:
        return msgspec.json.decode(result, type=_TaskResult).task.id
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        raise ToolError("it has begun no task, as it has to for this tool") from None


def _parse_definition(server: str, sent: bytes, *, uses_headers: bool) -> McpToolDefinition | None:
    """Parse a tool's JSON text; None when it is no tool, too large, or breaks the rules for header fields."""
    if len(sent) > _MAX_DEFINITION_BYTES:
        return None
    try:
        sent_tool = msgspec.json.decode(sent, type=_SentTool)
        schema = msgspec.json.decode(sent_tool.schema, type=_Schema)
        # In a fixed order, so that the same words have the same digest; everything counts, known to us or not.
        whole = to_json(msgspec.json.decode(sent), is_sorted=True)
        headers = find_header_parameters(msgspec.json.decode(sent_tool.schema)) if uses_headers else ()
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None
    if schema.type != "object" or not sent_tool.name:
        return None
    if headers is None:
        _LOG.warning(
            "the tool %r of %s is left out: it breaks the rules for header fields", sent_tool.name[:80], server
        )
        return None
    return McpToolDefinition(
        sent_name=sent_tool.name,
        name=_build_tool_name(server, sent_tool.name),
        description=clean_text(sent_tool.description or "", MAX_DESCRIPTION),
        schema=_clean_schema(bytes(sent_tool.schema)),
        required=tuple(schema.required),
        reads_only=bool(sent_tool.annotations and sent_tool.annotations.reads_only),
        digest=hashlib.sha256(whole).hexdigest()[:_DIGEST_LENGTH],
        needs_task=sent_tool.execution is not None and sent_tool.execution.task_support == "required",
        header_parameters=headers,
    )


def _clean_schema(schema: bytes) -> bytes:
    """Return a schema as a model may see it: on one line, everything in it visible. One
    that is too long is left out.
    """
    text = msgspec.json.format(schema, indent=-1).decode("utf-8", "replace")
    if len(text) > MAX_SCHEMA:
        text = '{"type":"object","description":"The schema is too long to be shown."}'
    return reveal_hidden_text(show_control_characters(text)).text.encode()


def _build_tool_name(server: str, sent: str) -> str:
    """Return the tool's name here. A changed name ends in a hash, so that it stays unique."""
    plain = _UNUSABLE_CHARACTERS.sub("_", sent)
    name = f"{MCP_TOOL_PREFIX}{server}__{plain}"
    if plain == sent and len(name) <= _MAX_NAME:
        return name
    mark = hashlib.sha256(sent.encode("utf-8", "replace")).hexdigest()[:6]
    return f"{name[: _MAX_NAME - 7]}_{mark}"


def clean_text(text: str, limit: int) -> str:
    """Return a server's text as it may be shown: everything in it visible, and cut at a limit of characters."""
    text = reveal_hidden_text(show_control_characters(text)).text.strip()
    return text if len(text) <= limit else f"{text[:limit]} [... {len(text) - limit} characters left out]"
