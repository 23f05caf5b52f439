"""`tool_call`: run a deferred tool. The executor puts the tool itself in this call's place."""

from typing import Annotated

import msgspec

from hermes.core.errors import ToolError
from hermes.tools.schema import Arguments
from hermes.tools.session import ToolContext
from hermes.tools.tool import Redirect, tool


def _redirect(args: Arguments) -> Redirect:
    given = args["arguments"]
    raw = given if isinstance(given, str) else msgspec.json.encode(given).decode()
    return Redirect(name=str(args["name"]), arguments=raw)


@tool("tools", redirect=_redirect, summary=lambda args: str(args["name"]))
async def tool_call(
    ctx: ToolContext,
    name: Annotated[str, "The tool's name, as tool_search gave it."],
    arguments: Annotated[dict[str, object] | str, "Its arguments, as one JSON object."] = "{}",
) -> str:
    """Run a tool that tool_search has found."""
    raise ToolError(f"{name} was not run: nothing takes this call's place here.")
