"""`tool_search`: find a deferred tool."""

from typing import Annotated

from hermes.tools.session import Found, ToolContext
from hermes.tools.taint import derived, sources_of
from hermes.tools.tool import Parallel, ToolOutput, tool

LISTED = 100
"""Names that are listed when nothing matches."""


@tool(
    "tools",
    parallel=Parallel.SAFE,
    repeatable=True,
    summary=lambda args: f"look for a tool: {args['query']}",
)
async def tool_search(
    ctx: ToolContext, query: Annotated[str, "What you want to do, in a few words, or a tool's name."]
) -> ToolOutput:
    """Find further tools, which are not listed here. Gives their parameters; run one with tool_call."""
    if ctx.catalogue is None:
        return ToolOutput(text="There are no further tools.")
    missing = await ctx.catalogue.settled()
    found = ctx.catalogue.search(query, 5)
    text = "\n\n".join(_shown(one) for one in found)
    if not found:
        found = ctx.catalogue.search("", LISTED)
        text = f"Nothing matches. Further tools: {', '.join(one.schema.name for one in found) or 'none'}."
    strangers = dict.fromkeys(source for one in found if one.origin is not None for source in sources_of(one.origin))
    return ToolOutput(text=f"{text}\n\n{missing}".rstrip(), provenance=derived(strangers))


def _shown(found: Found) -> str:
    """Only a tool's own entry begins at the left edge."""
    schema = found.schema
    described = schema.description.replace("\n", "\n    ")
    return f"{schema.name}: {described}\nparameters: {schema.parameters.decode()}"
