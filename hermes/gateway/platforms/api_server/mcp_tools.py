"""What keys with the scope `mcp` may do over the Model Context Protocol: read, and ask where the settings allow it."""

from functools import partial

from aiohttp import web
from msgspec import Raw, structs

from hermes import __version__
from hermes.admin.mcp_tools import AskQuestion, ReadTools, ServedHome, build_ask_tool, serve_home_of_app
from hermes.core.events import ToolStarted
from hermes.gateway.platforms.api_server.deps import ApiDeps
from hermes.gateway.platforms.api_server.errors import turn_failure
from hermes.gateway.platforms.api_server.keys import ApiCaller, ApiScope
from hermes.gateway.platforms.api_server.requests import KEEP_ALIVE_SECONDS, caller_of
from hermes.gateway.platforms.api_server.session_lookup import ApiSession
from hermes.gateway.platforms.api_server.turns import stop_when_abandoned
from hermes.mcp.serving.calls import McpCall, Result
from hermes.mcp.serving.served_tools import ToolMethods, decode_arguments, make_result
from hermes.mcp.serving.service import McpResponder, make_tool_service
from hermes.runtime.mailbox import InboundMessage


class McpToolAccess:
    """Finds what answers a caller: each key has its own, since not every key may ask."""

    def __init__(self, deps: ApiDeps) -> None:
        self._deps = deps
        self._home: ServedHome | None = None
        self._responders: dict[str, McpResponder] = {}

    def find_responder(self, request: web.Request) -> McpResponder:
        """Return what answers a request. Raises ApiRequestError for a key that is not for that."""
        caller = caller_of(request)
        caller.require_owner(ApiScope.MCP)
        if caller.name not in self._responders:
            self._responders[caller.name] = self._build_responder(caller)
        return self._responders[caller.name]

    def name_owner(self, request: web.Request) -> str:
        """Return whose sessions the caller's are."""
        return caller_of(request).owner

    def _build_responder(self, caller: ApiCaller) -> McpResponder:
        tools = ReadTools(self._open_home).list_tools()
        if self._deps.options.mcp_ask and ApiScope.CHAT in caller.scopes:
            tools.append(build_ask_tool(partial(self._ask, caller), asks_person=False))
        methods = ToolMethods(tools)
        service = make_tool_service(__version__, {"tools/list": methods.list_tools, "tools/call": methods.call_tool})
        return McpResponder(service)

    async def _open_home(self) -> ServedHome:
        if self._home is None:
            self._home = serve_home_of_app(self._deps.app)
        return self._home

    async def _ask(self, caller: ApiCaller, arguments: Raw, call: McpCall) -> Result:
        """Have a session of its own answer; a client that goes away, or takes the request back, stops its turn."""
        given = decode_arguments(arguments, AskQuestion)
        with self._deps.slots.take_slot(caller):
            await self._deps.admit_turn(caller)
            session = self._make_session(caller)
            turn = await self._deps.post_message(session, InboundMessage(text=given.question))
            with stop_when_abandoned(turn):
                steps = 0
                async for event in turn.iter_events(KEEP_ALIVE_SECONDS):
                    if isinstance(event, ToolStarted):
                        steps += 1
                        call.report_progress(steps, None, event.name)
                ended = await turn.wait_result()
            failure = turn_failure(ended)
            if failure is not None:
                raise failure
            text = turn.make_text_filter().filter_whole(self._deps.app.redact_text(ended.text))
            return make_result({"answer": text, "conversation_id": session.name, "reason": ended.reason.value})

    def _make_session(self, caller: ApiCaller) -> ApiSession:
        """Return a fresh session with a cap on money and steps, and without memory."""
        name = self._deps.sessions.fresh_session_id()
        session = self._deps.sessions.make_session(caller, name, name, create=True)
        limits = self._deps.options
        options = structs.replace(
            session.request.options,
            max_session_cost=limits.mcp_max_cost,
            max_turns=limits.mcp_max_steps,
            remembers=False,
        )
        return structs.replace(session, request=structs.replace(session.request, options=options))
