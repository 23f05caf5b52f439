"""Prompts of MCP servers in a session: `/mcp-SERVER-PROMPT` asks the server for it, and its text joins the message."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from hermes.core.errors import ToolError
from hermes.core.messages import PROGRAM, ImagePart, TextPart
from hermes.runtime.mailbox import InboundMessage
from hermes.tools.session import Asker

if TYPE_CHECKING:
    from hermes.mcp.servers import McpServers

_PREFIX = "/mcp-"
_GIVEN = (
    "[The person has asked for the prompt below by its name. The server has written its text: carry out what it asks"
    " as far as that fits what the person wants.]"
)
PromptBringer = Callable[[InboundMessage], Awaitable[Sequence[ImagePart | TextPart]]]


def make_prompt_bringer(servers: "McpServers", names: Sequence[str], asker: Asker | None) -> PromptBringer:
    """Return what attaches the prompts of a session's servers to the messages that name them."""

    async def attach_prompt(inbound: InboundMessage) -> Sequence[ImagePart | TextPart]:
        first, *rest = inbound.text.split(None, 1) or [""]
        name, typed = first.lower().replace("_", "-"), "".join(rest)
        if not name.startswith(_PREFIX):
            return ()
        await servers.wait_until_tried(names)
        found = servers.find_prompt(name[1:], names)
        if found is None:
            return ()
        from hermes.mcp.prompts import format_prompt_messages
        from hermes.mcp.rpc import McpRpcError

        server, prompt = found
        try:
            result = await server.get_prompt(prompt, prompt.parse_arguments(typed), asker)
            parts = format_prompt_messages(result, server.spec.name, prompt.name)
        except (ToolError, McpRpcError) as error:
            return (TextPart(f"[The prompt was not included: {error!s:.500}]", PROGRAM),)
        return (TextPart(_GIVEN, PROGRAM), *parts)

    return attach_prompt
