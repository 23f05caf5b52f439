"""`web_search`: asks a search engine."""

from typing import Annotated

from hermes.core.errors import ToolError
from hermes.core.messages import Provenance, Source
from hermes.tools.session import NO_WEB, ToolContext
from hermes.tools.tool import AvailabilityCheck, Parallel, ToolOutput, tool

DEFAULT_LIMIT = 5


@tool(
    "web",
    parallel=Parallel.SAFE,
    repeatable=True,
    summary=lambda args: f"search the web: {args['query']}",
    availability=AvailabilityCheck(
        function="hermes.web.search_engines:explain_missing", settings=("web.search_backend",)
    ),
)
async def web_search(
    ctx: ToolContext,
    query: Annotated[str, "What to look for."],
    limit: Annotated[int, "Results to give, at most 20."] = DEFAULT_LIMIT,
) -> ToolOutput:
    """Search the web. Gives titles, addresses and a few words of each; read a page with web_extract."""
    from hermes.web.fetch import find_host
    from hermes.web.search import MAX_RESULTS, WebSearch, choose_engine, run_search

    query = " ".join(query.split())
    if not query:
        raise ToolError("The query is empty.")
    web = ctx.web
    if web is None:
        raise ToolError(NO_WEB)
    engine = choose_engine(web.search_backend, web.search_url, web.environ)
    base = engine.base_url(web.search_url, web.environ)
    search = WebSearch(
        engine=engine, base=base, key=engine.find_key(web.environ), query=query, limit=max(1, min(limit, MAX_RESULTS))
    )
    # An engine of the person's own needs no leave: it may well stand in their own network.
    own = () if base == engine.base else (find_host(base),)
    async with web.make_fetcher(*own) as fetcher:
        found = await run_search(search, fetcher)
    lines = [
        f"{number}. {one.title or '(no title)'}\n   {one.url}" + (f"\n   {one.snippet}" if one.snippet else "")
        for number, one in enumerate(found, 1)
    ]
    return ToolOutput(
        text="\n".join(lines) or f"{engine.title} found nothing.",
        provenance=Provenance(source=Source.WEB, label=base),
    )
