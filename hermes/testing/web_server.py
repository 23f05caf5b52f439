"""A web server on loopback for fakes of platforms: it goes down and comes up again on the same port."""

import json
from contextlib import suppress

from aiohttp import WSMsgType, web


class Listener:
    """Serves an application that each start creates again, so that nothing of a connection outlives `down`."""

    def __init__(self, routes: list[web.AbstractRouteDef], *, largest: int = 64 * 1024 * 1024) -> None:
        self._routes = routes
        self._largest = largest
        self._runner: web.AppRunner | None = None
        self.port = 0

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def socket_url(self) -> str:
        """The same for WebSockets."""
        return f"ws://127.0.0.1:{self.port}"

    async def start(self) -> None:
        """Listen: at the port of last time, if there was one."""
        application = web.Application(client_max_size=self._largest)
        application.add_routes(self._routes)
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1, handler_cancellation=True)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self.port, reuse_address=True)
        await site.start()
        self.port = int(self._runner.addresses[0][1])

    async def down(self) -> None:
        """Stop listening and break every connection."""
        runner, self._runner = self._runner, None
        if runner is None:
            return
        for site in list(runner.sites):
            await site.stop()
        if runner.server is not None:
            for connection in runner.server.connections:
                if connection.transport is not None:
                    connection.transport.abort()
        await runner.cleanup()


def broken(request: web.Request) -> web.Response:
    """Break the connection of a request instead of answering; what is returned reaches nobody."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response(status=500)


async def send_frame(socket: web.WebSocketResponse, frame: object) -> None:
    """Send a frame: bytes and text as they are, all else as JSON. A client that hangs up meanwhile has not got it."""
    with suppress(ConnectionError):
        if isinstance(frame, bytes):
            await socket.send_frame(frame, WSMsgType.TEXT)
        else:
            await socket.send_str(frame if isinstance(frame, str) else json.dumps(frame))
