"""`tool_search`: find a deferred tool."""

from typing import Annotated

from hermes.tools.session import ToolContext
from hermes.tools.tool import Parallel, tool


@tool(
    "tools",
    parallel=Parallel.SAFE,
    repeatable=True,
    summary=lambda args: f"look for a tool: {args['query']}",
)
async def tool_search(
    ctx: ToolContext, query: Annotated[str, "What you want to do, in a few words, or a tool's name."]
) -> str:
    """Find further tools, which are not listed here. Gives their parameters; run one with tool_call."""
    if ctx.catalogue is None:
        return "There are no further tools."
    found = ctx.catalogue.search(query, 5)
    if not found:
        return "Nothing matches. Further tools: " + (", ".join(ctx.catalogue.deferred_names()[:100]) or "none") + "."
    return "\n\n".join(
        f"{schema.name}: {schema.description}\nparameters: {schema.parameters.decode()}" for schema in found
    )
