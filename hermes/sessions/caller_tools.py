"""Tools of a program that talks with Hermes through an API: the model calls them, and the program runs them."""

import re
from collections.abc import Mapping, Sequence

from msgspec import structs

from hermes.core.encoding import to_json
from hermes.core.errors import ToolError, UsageError
from hermes.core.messages import Provenance, Source, ToolResultPart
from hermes.i18n.messages import N_
from hermes.safety.fencing import fence_untrusted_text
from hermes.tools.registry import BRIDGE_TOOLS, KnownTool
from hermes.tools.schema import Arguments, ExternalParameters
from hermes.tools.session import ToolContext
from hermes.tools.tool import Tool
from hermes.util.text import clean_surrogates

CallerTool = Tool
TOOLSET = "caller"
"""The tool set of these tools."""
MAX_TOOLS = 128
MAX_BYTES = 256 * 1024
"""The most bytes of all descriptions and schemas together."""
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)


def make_caller_tool(name: object, description: object, parameters: object) -> Tool:
    """Return a tool as a program has described it. Raises UsageError for what cannot be one."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise UsageError("A tool's name is made of 1 to 64 letters, digits, _ and -.")
    if name in BRIDGE_TOOLS:
        raise UsageError(N_("The name {name} is taken by a tool of Hermes that finds others.", name=name))
    schema = {"type": "object", "properties": {}} if parameters is None else parameters
    if not isinstance(schema, Mapping) or schema.get("type", "object") != "object":
        raise UsageError(N_("The parameters of {name} must be a JSON Schema of an object.", name=name))
    if description is not None and not isinstance(description, str):
        raise UsageError(N_("The description of {name} must be a text.", name=name))
    return Tool(
        name=name,
        toolset=TOOLSET,
        description=clean_surrogates(description or ""),
        parameters=ExternalParameters(to_json({"type": "object", **schema}), _read_required(name, schema)),
        function=_run_elsewhere,
        runs_at_caller=True,
    )


def _read_required(name: str, schema: Mapping[str, object]) -> list[str]:
    required = schema.get("required", [])
    if not isinstance(required, list) or not all(isinstance(one, str) for one in required):
        raise UsageError(N_("`required` of {name} must be a list of names.", name=name))
    return required


def check_caller_tools(tools: Sequence[Tool]) -> tuple[Tool, ...]:
    """Return the tools. Raises UsageError where they are too many or too large, or two have one name."""
    if len(tools) > MAX_TOOLS:
        raise UsageError(N_("At most {most} tools.", most=MAX_TOOLS))
    if len({one.name for one in tools}) < len(tools):
        raise UsageError("Two tools have the same name.")
    if sum(len(one.description.encode()) + len(one.parameters.schema()) for one in tools) > MAX_BYTES:
        raise UsageError(N_("The tools are larger than {most} bytes.", most=MAX_BYTES))
    return tuple(tools)


def has_same_tools(some: Sequence[KnownTool], others: Sequence[KnownTool]) -> bool:
    """Return whether both hold the same tools of the program, by everything that a model is shown of them."""
    shown, other = ([one.schema for one in tools if one.runs_at_caller] for tools in (some, others))
    return shown == other


def mark_untrusted(result: ToolResultPart) -> ToolResultPart:
    """Return what a program has got from a call as untrusted content: nobody here has seen where it comes from."""
    provenance = Provenance(source=Source.OTHER, label="the program's tools")
    return structs.replace(result, text=fence_untrusted_text(result.text, provenance), provenance=provenance)


async def _run_elsewhere(_context: ToolContext, _arguments: Arguments) -> str:
    raise ToolError("This call is for the program that asks, and is never run here.")
