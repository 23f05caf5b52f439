"""The server for the program that has started this one: it answers requests until its standard input ends."""

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from msgspec import Raw

from hermes.core.json_rpc import METHOD_NOT_FOUND, RpcError
from hermes.ipc.rpc_peer import RpcDialect, RpcPeer
from hermes.ipc.stdio_server import serve_streams
from hermes.mcp.serving.calls import McpCall, Result
from hermes.mcp.serving.service import McpResponder, McpSession, make_tool_service
from hermes.mcp_server.options import McpServeOptions

if TYPE_CHECKING:
    from hermes.admin.mcp_tools import ServedHome
    from hermes.mcp.serving.served_tools import ToolMethods
    from hermes.mcp_server.questions import AgentQuestions

MAX_MESSAGE_BYTES = 4 << 20
"""The most bytes of one message."""
MCP_DIALECT = RpcDialect(cancel_method="notifications/cancelled", answers_cancelled=False, allows_null_id=False)


class StdioServer:
    """Answers one program. `close` ends what was opened for it; what tools need is imported with the first of them."""

    def __init__(self, environ: Mapping[str, str], options: McpServeOptions, version: str) -> None:
        self.peer: RpcPeer
        self._environ = environ
        self._options = options
        self._session = McpSession()
        self._responder = McpResponder(
            make_tool_service(version, {"tools/list": self._list_tools, "tools/call": self._call_tool})
        )
        self._stack = AsyncExitStack()
        self._opening = asyncio.Lock()
        self._home: ServedHome | None = None
        self._questions: AgentQuestions | None = None
        self._tools: ToolMethods | None = None

    async def answer_request(self, method: str, params: Raw) -> object:
        """Return the result of a request."""
        return await self._responder.answer_request(method, params, self._session, self.peer)

    def take_notification(self, method: str, params: Raw) -> None:
        """Take a notification; none of them changes anything here."""
        del params
        if not method.startswith("notifications/"):
            raise RpcError(METHOD_NOT_FOUND, "There is no such notification.")

    async def close(self) -> None:
        """Stop the agent's turns, store what there is, and close the home."""
        if self._questions is not None:
            await self._questions.close()
        await self._stack.aclose()

    async def _list_tools(self, params: Raw, call: McpCall) -> Result:
        return await self._load_tools().list_tools(params, call)

    async def _call_tool(self, params: Raw, call: McpCall) -> Result:
        return await self._load_tools().call_tool(params, call)

    def _load_tools(self) -> "ToolMethods":
        if self._tools is None:
            from hermes.admin.mcp_tools import ReadTools
            from hermes.mcp.serving.served_tools import ToolMethods

            tools = ReadTools(self._open_home).list_tools()
            if self._options.asks:
                from hermes.mcp_server.questions import AgentQuestions

                self._questions = AgentQuestions(self._environ, self._options)
                tools += self._questions.list_tools()
            self._tools = ToolMethods(tools)
        return self._tools

    async def _open_home(self) -> "ServedHome | None":
        """Return the home, opened once; it is looked for again while there is nothing in it."""
        from hermes.admin.mcp_tools import open_served_home

        async with self._opening:
            if self._home is None:
                async with AsyncExitStack() as stack:
                    self._home = await stack.enter_async_context(open_served_home(self._environ))
                    if self._home is not None:
                        self._stack = stack.pop_all()
            return self._home


def run_server(environ: Mapping[str, str], options: McpServeOptions, version: str, incoming: int, outgoing: int) -> int:
    """Serve the program at two descriptors until it goes away; return the exit code. Both are closed then."""
    server = StdioServer(environ, options, version)
    asyncio.run(serve_streams(server, incoming, outgoing, MCP_DIALECT, limit=MAX_MESSAGE_BYTES))
    return 0
