"""`tool_search`: finds a deferred tool."""

from typing import Annotated

from hermes.tools.session import FoundTool, ToolContext
from hermes.tools.taint import provenance_from_sources, sources_from_provenance
from hermes.tools.tool import Parallel, ToolOutput, tool

MAX_LISTED = 100
"""The number of names that are listed when nothing matches."""


@tool(
    "tools",
    parallel=Parallel.SAFE,
    repeatable=True,
    summary=lambda args: f"look for a tool: {args['query']}",
)
async def tool_search(
    ctx: ToolContext, query: Annotated[str, "What you want to do, in a few words, or a tool's name."]
) -> ToolOutput:
    """Find further tools. Gives their parameters; run one with tool_call."""
    if ctx.deferred_tools is None:
        return ToolOutput(text="There are no further tools.")
    missing = await ctx.deferred_tools.wait_for_tools()
    found = ctx.deferred_tools.search(query, 5)
    notes = dict.fromkeys(one.note.replace("\n", "\n    ") for one in found if one.note)
    text = "\n\n".join((*(_format_tool(one) for one in found), *notes))
    if not found:
        found = ctx.deferred_tools.search("", MAX_LISTED)
        text = f"Nothing matches. Further tools: {', '.join(one.schema.name for one in found) or 'none'}."
    untrusted_sources = dict.fromkeys(
        source
        for one in found
        if one.origin is not None and one.origin.is_untrusted
        for source in sources_from_provenance(one.origin)
    )
    return ToolOutput(text=f"{text}\n\n{missing}".rstrip(), provenance=provenance_from_sources(untrusted_sources))


def _format_tool(found: FoundTool) -> str:
    """Return a tool's entry: only the entry itself begins at the left edge."""
    schema = found.schema
    described = schema.description.replace("\n", "\n    ")
    return f"{schema.name}: {described}\nparameters: {schema.parameters.decode()}"
