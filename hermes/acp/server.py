"""The server for one editor: its process, and the methods of the protocol.

What sessions and models need is imported with the first session.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING

from msgspec import Raw

from hermes.acp import protocol
from hermes.acp.greeting import SETUP_METHOD, EditorStreams, describe_agent
from hermes.acp.options import AcpOptions
from hermes.acp.protocol import ClientCapabilities, decode_params
from hermes.acp.rpc_errors import ACP_DIALECT, describe_error
from hermes.core.errors import ConfigError
from hermes.core.json_rpc import INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, RpcError
from hermes.i18n.messages import N_, join_sentences, localize
from hermes.ipc.rpc_peer import RpcPeer
from hermes.ipc.stdio_server import serve_streams

if TYPE_CHECKING:
    from hermes.acp.session_table import SessionTable

Handler = Callable[["SessionTable", Raw], Awaitable[object]]


class AcpServer:
    """Answers one editor. `opened` is what sessions need, once one was asked for."""

    def __init__(self, environ: Mapping[str, str], options: AcpOptions, version: str, streams: EditorStreams) -> None:
        self.environ = environ
        self.options = options
        self.capabilities = streams.capabilities or ClientCapabilities()
        self.peer: RpcPeer
        self._version = version
        self._is_initialized = streams.capabilities is not None
        self._table: SessionTable | None = None
        self._opening = asyncio.Lock()

    async def answer_request(self, method: str, params: Raw) -> object:
        """Return the result of a request."""
        if method == "initialize":
            given = decode_params(params, protocol.InitializeParams)
            self.capabilities, self._is_initialized = given.read_capabilities(), True
            return describe_agent(self.capabilities, self._version)
        if not self._is_initialized:
            raise RpcError(INVALID_REQUEST, "The first request must be initialize.")
        if method == "authenticate":
            return await self._authenticate(decode_params(params, protocol.AuthenticateParams))
        handlers = _load_handlers() if method.startswith("session/") else {}
        if method not in handlers:
            raise RpcError(METHOD_NOT_FOUND, f"There is no method {method[:80]!r}.")
        return await handlers[method](await self._open_table(), params)

    def take_notification(self, method: str, params: Raw) -> None:
        """Take a notification. Those that begin with `$/` may be ignored; the others are known or wrong."""
        if method == "session/cancel" and self._table is not None:
            self._table.cancel_prompts(decode_params(params, protocol.SessionParams).session_id)
        elif not method.startswith(("$/", "_")) and method != "session/cancel":
            raise RpcError(METHOD_NOT_FOUND, "There is no such notification.")

    async def close(self) -> None:
        """End all sessions: turns are stopped and stored, and whatever they ran is ended."""
        if self._table is not None:
            await self._table.close()

    async def _authenticate(self, params: protocol.AuthenticateParams) -> object:
        """Say plainly what is missing; nothing is signed in to, since keys are no editor's business."""
        if params.method_id != SETUP_METHOD:
            raise RpcError(INVALID_PARAMS, f"There is no way to sign in called {params.method_id[:80]!r}.")
        await self._open_table()
        return {}

    async def _open_table(self) -> "SessionTable":
        """Return what holds the sessions, opened once. Raises RpcError that says what is missing where there is no
        model.
        """
        async with self._opening:
            if self._table is None:
                from hermes.acp.session_table import SessionTable

                table = SessionTable(self.environ, self.options, self.peer, self.capabilities)
                try:
                    await table.open()
                except ConfigError as error:
                    hint = N_("`hermes setup` in a terminal sets up a model; `hermes doctor` says what is wrong.")
                    told = describe_error(error)
                    raise RpcError(told.code, join_sentences(told.message, localize(hint))) from None
                self._table = table
        return self._table


def _load_handlers() -> Mapping[str, Handler]:
    from hermes.acp.session_table import METHODS

    return METHODS


def run_server(environ: Mapping[str, str], options: AcpOptions, version: str, streams: EditorStreams) -> int:
    """Serve the editor until it goes away; return the exit code."""
    server = AcpServer(environ, options, version, streams)
    asyncio.run(serve_streams(server, streams.incoming, streams.outgoing, ACP_DIALECT, received=streams.received))
    return 0
