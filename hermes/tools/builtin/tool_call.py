"""`tool_call`: runs a deferred tool. The executor puts the tool itself in this call's place."""

from typing import Annotated

import msgspec
from msgspec import Meta, Raw

from hermes.core.errors import ToolError
from hermes.tools.schema import Arguments
from hermes.tools.session import ToolContext
from hermes.tools.tool import Redirect, tool


def _redirect_call(args: Arguments) -> Redirect:
    given = args["arguments"]
    assert isinstance(given, Raw)
    raw = bytes(given).decode()
    # Some models write the object as a string.
    return Redirect(name=str(args["name"]), arguments=msgspec.json.decode(raw, type=str) if raw[:1] == '"' else raw)


@tool("tools", redirect=_redirect_call, summary=lambda args: str(args["name"]))
async def tool_call(
    ctx: ToolContext,
    name: Annotated[str, "The tool's name, as tool_search gave it."],
    arguments: Annotated[Raw, Meta(description="Its arguments.", extra_json_schema={"type": "object"})],
) -> str:
    """Run a tool that tool_search has found."""
    raise ToolError(f"{name} was not run: nothing takes this call's place here.")
