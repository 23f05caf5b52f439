"""The API server itself: who may ask, what is answered where, and how errors are told."""

import logging
from collections.abc import Awaitable, Callable

from aiohttp import web

from hermes.core.errors import HermesError
from hermes.gateway.http.server import Bounds, Listener
from hermes.gateway.platforms.api_server.capabilities import Catalogue
from hermes.gateway.platforms.api_server.chat_completions import Chat
from hermes.gateway.platforms.api_server.context import Base
from hermes.gateway.platforms.api_server.errors import ApiError, as_api
from hermes.gateway.platforms.api_server.jobs import Jobs
from hermes.gateway.platforms.api_server.request_body import CALLER, answer
from hermes.gateway.platforms.api_server.responses import Responses
from hermes.gateway.platforms.api_server.runs import Runs
from hermes.gateway.platforms.api_server.sessions import Sessions

_LOG = logging.getLogger(__name__)
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
_OPEN = frozenset({"/health", "/v1/health"})
"""What is answered without a key: that something is here."""
_HEADERS = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store", "Referrer-Policy": "no-referrer"}
_ASKED = "Authorization, Content-Type, Idempotency-Key, Last-Event-ID, X-Hermes-Session-Id, X-Hermes-Events"
_TOLD = "X-Hermes-Session-Id, Retry-After"


class Server:
    """Everything behind the listener."""

    def __init__(self, base: Base) -> None:
        self._base = base
        self.runs = Runs(base)
        self.responses = Responses(base)
        application = web.Application(middlewares=[self._guard], client_max_size=base.options.body_limit)
        application.on_response_prepare.append(self._dress)
        application.add_routes(
            [
                web.post("/v1/chat/completions", Chat(base).completions),
                *self.responses.routes(),
                *self.runs.routes(),
                *Sessions(base).routes(),
                *Jobs(base).routes(),
                *Catalogue(base, self._connections).routes(),
            ]
        )
        options = base.options
        self.listener = Listener(
            application,
            Bounds(
                host=options.host,
                port=options.port,
                connections=options.connections,
                allowed_hosts=options.allowed_hosts,
                origins=options.cors,
            ),
        )

    async def close(self) -> None:
        """Close everything."""
        await self.listener.close()
        await self.responses.close()
        await self.runs.worker.close()
        await self._base.turns.close()

    def _connections(self) -> int:
        return self.listener.connections

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Look at where it comes from and at its key before anything else; tell errors in OpenAI's form."""
        try:
            self._admit(request)
            return self._preflight(request) if request.method == "OPTIONS" else await handler(request)
        except HermesError as error:
            told = as_api(error)
        except web.HTTPException as error:
            told = ApiError(error.status, f"{error.reason}: {request.method} {request.path[:200]}")
            if "Allow" in error.headers:
                told.headers["Allow"] = error.headers["Allow"]
        except ConnectionError:
            raise
        except Exception as error:  # noqa: BLE001 - one request must not end the others; the log has all of it
            _LOG.exception("a request failed")
            told = ApiError(500, f"Hermes failed by an error of its own ({type(error).__name__}); its log has more.")
        return answer(told.body, told.status, told.headers)

    def _admit(self, request: web.Request) -> None:
        """Raise ApiError for who may not ask."""
        why = self.listener.refusal(request)
        if why:
            raise ApiError(403, why, code="foreign_origin")
        if request.method == "OPTIONS":  # asked by browsers before what has a key
            return
        caller = self._base.keys.find(request.headers.get("Authorization"))
        if caller is not None:
            request[CALLER] = caller
        elif request.path not in _OPEN and not (self._base.options.open_metrics and request.path == "/metrics"):
            raise ApiError(
                401,
                "A key is needed: send it as `Authorization: Bearer KEY`. In an address it does not count.",
                code="invalid_api_key",
                headers={"WWW-Authenticate": 'Bearer realm="hermes"'},
            )

    def _preflight(self, request: web.Request) -> web.Response:
        """What a page of an allowed origin may send."""
        if "Origin" not in request.headers:
            raise ApiError(405, "There is nothing to ask for by OPTIONS.")
        allowed = {
            "Access-Control-Allow-Methods": "GET, POST, PATCH, DELETE",
            "Access-Control-Allow-Headers": _ASKED,
            "Access-Control-Max-Age": "600",
        }
        return web.Response(status=204, headers=allowed)

    async def _dress(self, request: web.Request, response: web.StreamResponse) -> None:
        response.headers.update(_HEADERS)
        response.headers.pop("Server", None)
        response.headers["Vary"] = "Origin"
        origin = request.headers.get("Origin")
        if origin is not None and origin in self._base.options.cors:
            response.headers["Access-Control-Allow-Origin"] = origin
            response.headers["Access-Control-Expose-Headers"] = _TOLD
