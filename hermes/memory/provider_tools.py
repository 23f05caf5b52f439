"""A memory provider's own tools as tools of a session: their results are untrusted until the user says otherwise."""

from collections.abc import Iterator, Sequence

import msgspec
from msgspec import Struct

from hermes.core.frame import ToolSchema
from hermes.core.parts import Provenance, Source
from hermes.mcp.definitions import MAX_DESCRIPTION, MAX_SCHEMA, McpToolDefinition
from hermes.mcp.tools import ExternalParameters
from hermes.memory.guarded_provider import GuardedMemoryProvider
from hermes.safety.fencing import reveal_hidden_text, show_control_characters
from hermes.tools.registry import ToolRegistry
from hermes.tools.schema import Arguments
from hermes.tools.session import ToolContext
from hermes.tools.tool import Tool, ToolOutput
from hermes.tools.toolsets import TOOLSETS

_PREFIX = "mcp__"


class _SchemaShape(Struct):
    """The members of a tool's schema that are looked at."""

    type: str
    required: list[str] = []


def build_provider_tools(memory: GuardedMemoryProvider) -> Sequence[Tool]:
    """Return the provider's tools, without those whose names others have or whose schema is none."""
    return tuple(_iter_tools(memory))


def _iter_tools(memory: GuardedMemoryProvider) -> Iterator[Tool]:
    named = {name for toolset in TOOLSETS.values() for name in toolset.tools}
    files = ToolRegistry().list_builtin_files()

    def is_taken(name: str) -> bool:
        ours = any(name == file or name.startswith(f"{file}_") for file in files)
        return ours or name in named or name.startswith(_PREFIX)

    for schema in memory.tool_schemas(is_taken):
        shape = _parse_shape(schema.parameters)
        if shape is None:
            memory.notify_user(f"Its tool {schema.name!r} is left out: its parameters are no JSON Schema of an object.")
        else:
            yield _build_tool(memory, schema, shape)


def _parse_shape(parameters: object) -> _SchemaShape | None:
    try:
        if not isinstance(parameters, bytes) or len(parameters) > MAX_SCHEMA:
            return None
        found = msgspec.json.decode(parameters, type=_SchemaShape)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return found if found.type == "object" else None


def _build_tool(memory: GuardedMemoryProvider, schema: ToolSchema, shape: _SchemaShape) -> Tool:
    name = schema.name
    origin = Provenance(Source.OTHER, f"memory {memory.name}")
    description = reveal_hidden_text(show_control_characters(str(schema.description))).text[:MAX_DESCRIPTION]

    async def call_tool(_context: ToolContext, arguments: Arguments) -> ToolOutput:
        return ToolOutput(text=await memory.run_tool(name, arguments), provenance=origin)

    return Tool(
        name=name,
        toolset="memory",
        description=f"[Memory {memory.name}] {description}",
        parameters=ExternalParameters(
            McpToolDefinition(
                sent_name=name,
                name=name,
                description=description,
                schema=schema.parameters,
                required=tuple(shape.required),
                reads_only=False,
                digest="",
            )
        ),
        function=call_tool,
        keeps=lambda _: f"something in the memory {memory.name}",
        shown=lambda arguments: reveal_hidden_text(msgspec.json.encode(dict(arguments)).decode()).text,
    )
