"""Reads what a server offers, a page at a time."""

import asyncio
import logging

from msgspec import Raw

from hermes.core.errors import ToolError
from hermes.mcp.definitions import MAX_TOOLS, McpToolDefinition, build_definitions, parse_tool_page
from hermes.mcp.handshake import ServerOffer
from hermes.mcp.prompts import MAX_PROMPTS, McpPrompt, parse_prompt_page
from hermes.mcp.rpc import METHOD_NOT_FOUND, McpConnection, McpRpcError
from hermes.mcp.server_spec import McpServerSpec

_MAX_PAGES = 100
_LOG = logging.getLogger(__name__)


async def list_tools(
    connection: McpConnection, spec: McpServerSpec, offer: ServerOffer
) -> tuple[McpToolDefinition, ...]:
    """Return the tools. Raises `ToolError`, `McpRpcError`."""
    sent: list[Raw] = []
    cursor: str | None = None
    for _ in range(_MAX_PAGES):
        params = {"cursor": cursor} if cursor is not None else {}
        try:
            page = parse_tool_page(await connection.request("tools/list", params, spec.connect_timeout))
        except McpRpcError as error:
            if error.code == METHOD_NOT_FOUND and not offer.has_tools:
                break
            raise
        sent += page.tools
        if not page.cursor or page.cursor == cursor or len(sent) >= MAX_TOOLS:
            break
        cursor = page.cursor
    uses_headers = offer.is_stateless and bool(spec.url)
    # In a thread: a server may send many large definitions again and again, which takes a second each time.
    return tuple(
        await asyncio.to_thread(
            build_definitions, spec.name, sent[:MAX_TOOLS], spec.include, spec.exclude, uses_headers=uses_headers
        )
    )


async def list_prompts(connection: McpConnection, spec: McpServerSpec, offer: ServerOffer) -> tuple[McpPrompt, ...]:
    """Return the prompts; none where they cannot be read, since the tools work all the same."""
    found: dict[str, McpPrompt] = {}
    cursor = ""
    for _ in range(_MAX_PAGES if offer.has_prompts else 0):
        try:
            params = {"cursor": cursor} if cursor else {}
            page, following = parse_prompt_page(
                spec.name, await connection.request("prompts/list", params, spec.connect_timeout)
            )
        except (ToolError, McpRpcError) as error:
            _LOG.info("the prompts of %s were not read: %s", spec.name, error)
            break
        for one in page:
            found.setdefault(one.name, one)
        if not following or following == cursor or len(found) >= MAX_PROMPTS:
            break
        cursor = following
    return tuple(list(found.values())[:MAX_PROMPTS])
