"""A provider's own tools as tools of a session: what they give is a stranger's text until the person says otherwise."""

from collections.abc import Iterator, Sequence

import msgspec
from msgspec import Struct

from hermes.core.frame import ToolSchema
from hermes.core.parts import Provenance, Source
from hermes.mcp.definitions import MAX_DESCRIPTION, MAX_SCHEMA, Definition
from hermes.mcp.tools import Given
from hermes.memory.memory import Memory
from hermes.safety.fencing import inert, visible
from hermes.tools.registry import ToolRegistry
from hermes.tools.schema import Arguments
from hermes.tools.session import ToolContext
from hermes.tools.tool import Tool, ToolOutput
from hermes.tools.toolsets import TOOLSETS

_PREFIX = "mcp__"


class _Shape(Struct):
    """What is looked at of a tool's schema."""

    type: str
    required: list[str] = []


def provided_tools(memory: Memory) -> Sequence[Tool]:
    """The provider's tools, those left out whose names others have or whose schema is none."""
    return tuple(_tools(memory))


def _tools(memory: Memory) -> Iterator[Tool]:
    named = {name for toolset in TOOLSETS.values() for name in toolset.tools}
    files = ToolRegistry().list_builtin_files()

    def taken(name: str) -> bool:
        ours = any(name == file or name.startswith(f"{file}_") for file in files)
        return ours or name in named or name.startswith(_PREFIX)

    for schema in memory.tool_schemas(taken):
        shape = _shape(schema.parameters)
        if shape is None:
            memory.notice(f"Its tool {schema.name!r} is left out: its parameters are no JSON Schema of an object.")
        else:
            yield _tool(memory, schema, shape)


def _shape(parameters: object) -> _Shape | None:
    try:
        if not isinstance(parameters, bytes) or len(parameters) > MAX_SCHEMA:
            return None
        found = msgspec.json.decode(parameters, type=_Shape)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return found if found.type == "object" else None


def _tool(memory: Memory, schema: ToolSchema, shape: _Shape) -> Tool:
    name = schema.name
    origin = Provenance(Source.OTHER, f"memory {memory.name}")
    description = visible(inert(str(schema.description))).text[:MAX_DESCRIPTION]

    async def call(_context: ToolContext, arguments: Arguments) -> ToolOutput:
        return ToolOutput(text=await memory.run_tool(name, arguments), provenance=origin)

    return Tool(
        name=name,
        toolset="memory",
        description=f"[Memory {memory.name}] {description}",
        parameters=Given(
            Definition(
                sent_name=name,
                name=name,
                description=description,
                schema=schema.parameters,
                required=tuple(shape.required),
                reads_only=False,
                digest="",
            )
        ),
        function=call,
        keeps=lambda _: f"something in the memory {memory.name}",
        shown=lambda arguments: visible(msgspec.json.encode(dict(arguments)).decode()).text,
    )
