"""The HTTP application of the API server: authentication, error responses, the routes of the catalogue and of jobs."""

import logging
from collections.abc import Awaitable, Callable

from aiohttp import web

from hermes import __version__
from hermes.admin import toolsets
from hermes.admin.cron import cron_admin_of_app
from hermes.admin.skills import skill_admin
from hermes.core.encoding import Plain
from hermes.core.errors import ConfigError, HermesError
from hermes.gateway.http.server import HttpServer, HttpServerLimits
from hermes.gateway.platforms.api_server.audio import AudioRoutes
from hermes.gateway.platforms.api_server.chat_completions import ChatCompletionsHandler
from hermes.gateway.platforms.api_server.deps import ApiDeps
from hermes.gateway.platforms.api_server.errors import ApiRequestError, to_api_error
from hermes.gateway.platforms.api_server.keys import ApiScope
from hermes.gateway.platforms.api_server.listings import (
    CapabilityLimits,
    DeletedJob,
    Health,
    KeyCapabilities,
    ModelObject,
    ModelPage,
    StoppedJob,
)
from hermes.gateway.platforms.api_server.mcp_endpoint import McpEndpoint
from hermes.gateway.platforms.api_server.mcp_tools import McpToolAccess
from hermes.gateway.platforms.api_server.openapi import document_route
from hermes.gateway.platforms.api_server.requests import CALLER, caller_of, json_response, query_number
from hermes.gateway.platforms.api_server.responses import ResponseRoutes
from hermes.gateway.platforms.api_server.runs import EVENT_VERSION_HEADER, RunRoutes
from hermes.gateway.platforms.api_server.sessions import SessionRoutes
from hermes.util.hosts import is_loopback

_MOST = 500
_LOG = logging.getLogger(__name__)
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
_PUBLIC_PATHS = frozenset({"/health", "/v1/health"})
"""Paths that are answered without a key; they only tell that a server is here."""
_SECURITY_HEADERS = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store", "Referrer-Policy": "no-referrer"}
_REQUEST_HEADERS = (
    "Authorization, Content-Type, Idempotency-Key, Last-Event-ID, X-Hermes-Session-Id, X-Hermes-Events, "
    "MCP-Protocol-Version, Mcp-Method, Mcp-Name, Mcp-Session-Id"
)
_RESPONSE_HEADERS = f"X-Hermes-Session-Id, {EVENT_VERSION_HEADER}, Mcp-Session-Id, Retry-After"


class JobRoutes:
    """The handlers."""

    def __init__(self, deps: ApiDeps) -> None:
        self._deps = deps
        self._admin = cron_admin_of_app(deps.app)

    def routes(self) -> list[web.RouteDef]:
        """Return the routes and their handlers."""
        routes = [
            web.get("/api/jobs", self._list_jobs),
            web.post("/api/jobs", self._create_job),
            web.get("/api/jobs/{id}", self._get_job),
            web.patch("/api/jobs/{id}", self._edit_job),
            web.delete("/api/jobs/{id}", self._remove_job),
            web.get("/api/jobs/{id}/history", self._list_history),
            web.post("/api/jobs/{id}/run", self._run_job),
            web.post("/api/jobs/{id}/stop", self._stop_job),
        ]
        return [*routes, web.post("/api/jobs/{id}/{verb:pause|resume}", self._change_state)]

    async def _list_jobs(self, request: web.Request) -> web.Response:
        _authorized_job(request)
        return json_response({"object": "list", "data": await self._admin.list_jobs()})

    async def _create_job(self, request: web.Request) -> web.Response:
        _authorized_job(request)
        wish = self._admin.build_wish(**await self._read_fields(request))
        return json_response(await _apply_wish(self._admin.add_job(wish)), 201)

    async def _get_job(self, request: web.Request) -> web.Response:
        return json_response(await self._admin.get_job(_authorized_job(request)))

    async def _edit_job(self, request: web.Request) -> web.Response:
        name = _authorized_job(request)
        wish = self._admin.build_wish(**await self._read_fields(request))
        return json_response(await _apply_wish(self._admin.edit_job(name, wish)))

    async def _remove_job(self, request: web.Request) -> web.Response:
        await self._admin.change_state("remove", _authorized_job(request))
        return json_response(DeletedJob(request.match_info["id"]))

    async def _list_history(self, request: web.Request) -> web.Response:
        rows = await self._admin.list_history(_authorized_job(request), query_number(request, "limit", 30, _MOST))
        return json_response({"object": "list", "data": rows})

    async def _run_job(self, request: web.Request) -> web.Response:
        """Have the gateway's scheduler run the job now."""
        return json_response(await self._admin.request_run(_authorized_job(request)), 202)

    async def _stop_job(self, request: web.Request) -> web.Response:
        name = _authorized_job(request)
        return json_response(StoppedJob(name, await self._admin.stop_job(name)))

    async def _change_state(self, request: web.Request) -> web.Response:
        return json_response(await self._admin.change_state(request.match_info["verb"], _authorized_job(request)))

    async def _read_fields(self, request: web.Request) -> dict[str, object]:
        given = await self._deps.reader.read_object(request)
        if not all(name.isidentifier() for name in given):
            raise ApiRequestError(400, "A job has no field of such a name.")
        return given


def _authorized_job(request: web.Request) -> str:
    """Check that jobs are the caller's, and return the job's name."""
    caller_of(request).require_owner(ApiScope.JOBS)
    return request.match_info.get("id", "")


async def _apply_wish(change: Awaitable[Plain]) -> Plain:
    """Return the job as a wish has made it. Raises ApiRequestError for one that names what cannot be used: a script
    that is not there is a fault of who asks for it, not of the server's settings.
    """
    try:
        return await change
    except ConfigError as error:
        raise ApiRequestError(400, str(error)) from None


class CatalogRoutes:
    """The handlers. `count_connections` returns the number of open connections."""

    def __init__(self, deps: ApiDeps, count_connections: Callable[[], int]) -> None:
        self._deps = deps
        self._count_connections = count_connections

    def routes(self) -> list[web.RouteDef]:
        """Return the routes and their handlers."""
        return [
            web.get("/health", self._get_health),
            web.get("/v1/health", self._get_health),
            web.get("/health/detailed", self._get_detailed_health),
            web.get("/metrics", self._get_metrics),
            web.get("/v1/models", self._list_models),
            web.get("/v1/models/{id:.+}", self._get_model),
            web.get("/v1/capabilities", self._get_capabilities),
            web.get("/v1/skills", self._list_skills),
            web.get("/v1/toolsets", self._list_toolsets),
        ]

    async def _get_health(self, request: web.Request) -> web.Response:
        del request
        return json_response(Health())

    async def _get_detailed_health(self, request: web.Request) -> web.Response:
        caller_of(request).require_admin(ApiScope.ADMIN)
        api = {"connections": self._count_connections(), "turns": self._deps.slots.taken}
        return json_response({"status": "ok", "api": api, **self._deps.gateway.health_report()})

    async def _get_metrics(self, request: web.Request) -> web.Response:
        if CALLER in request:
            caller_of(request).require_admin(ApiScope.ADMIN)
        elif not is_loopback(self._deps.options.host):
            raise ApiRequestError(401, "A key is needed here.", code="invalid_api_key")
        own = (
            "# TYPE hermes_api_connections gauge\n"
            f"hermes_api_connections {self._count_connections()}\n"
            "# TYPE hermes_api_turns gauge\n"
            f"hermes_api_turns {self._deps.slots.taken}\n"
        )
        text = self._deps.gateway.metrics_text() + own
        return web.Response(text=text, content_type="text/plain", charset="utf-8")

    async def _list_models(self, request: web.Request) -> web.Response:
        del request
        return json_response(ModelPage(data=[self._model_object(name) for name in self._deps.sessions.models]))

    async def _get_model(self, request: web.Request) -> web.Response:
        name = request.match_info["id"]
        if name not in self._deps.sessions.models:
            said = f"The model {name[:80]!r} does not exist here."
            raise ApiRequestError(404, said, code="model_not_found", param="model")
        return json_response(self._model_object(name))

    async def _get_capabilities(self, request: web.Request) -> web.Response:
        caller = caller_of(request)
        features = {
            "chat_completions": True,
            "responses": True,
            "streaming": True,
            "images": True,
            "files": True,
            "runs": True,
            "run_events": True,
            "run_approval": ApiScope.APPROVE in caller.scopes and self._deps.sessions.can_approve(caller),
            "sessions": True,
            "jobs": ApiScope.JOBS in caller.scopes and caller.person.is_owner,
            "mcp": ApiScope.MCP in caller.scopes and caller.person.is_owner,
            "caller_tools": True,
        }
        return json_response(
            KeyCapabilities(
                scopes=sorted(scope.value for scope in caller.scopes),
                role=caller.person.role.value,
                models=list(self._deps.sessions.models),
                features=features,
                limits=CapabilityLimits(self._deps.options.body_limit, self._deps.options.turns),
            )
        )

    async def _list_skills(self, request: web.Request) -> web.Response:
        caller_of(request).require_admin(ApiScope.ADMIN)
        return json_response({"object": "list", "data": await skill_admin(self._deps.app).list_skills()})

    async def _list_toolsets(self, request: web.Request) -> web.Response:
        caller_of(request).require_admin(ApiScope.ADMIN)
        services = self._deps.app.services
        rows = toolsets.list_toolsets_of(services.settings, services.environ)
        return json_response({"object": "list", "data": rows})

    def _model_object(self, name: str) -> ModelObject:
        return ModelObject(id=name, created=int(self._deps.began_at))


class ApiHttpServer:
    """The application with all its routes."""

    def __init__(self, deps: ApiDeps) -> None:
        self._deps = deps
        self.runs = RunRoutes(deps)
        self.responses = ResponseRoutes(deps)
        access = McpToolAccess(deps)
        application = self.application = web.Application(
            middlewares=[self._handle_errors], client_max_size=deps.options.body_limit
        )
        application.on_response_prepare.append(self._set_headers)
        application.add_routes(
            [
                web.post("/v1/chat/completions", ChatCompletionsHandler(deps).handle_completion),
                *self.responses.routes(),
                *self.runs.routes(),
                *AudioRoutes(deps).routes(),
                *SessionRoutes(deps).routes(),
                *JobRoutes(deps).routes(),
                *McpEndpoint(deps.reader, access.find_responder, access.name_owner).routes(),
                *CatalogRoutes(deps, self._count_connections).routes(),
                document_route(__version__),
            ]
        )
        options = deps.options
        self.http_server = HttpServer(
            application,
            HttpServerLimits(
                host=options.host,
                port=options.port,
                connections=options.connections,
                allowed_hosts=options.allowed_hosts,
                origins=options.cors,
            ),
        )

    async def close(self) -> None:
        """Close the server, its responses, runs and turns."""
        await self.http_server.close()
        await self.responses.close()
        await self.runs.worker.close()
        await self._deps.turns.close()

    def _count_connections(self) -> int:
        return self.http_server.connections

    @web.middleware
    async def _handle_errors(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Check the request's origin and key before anything else; return errors in OpenAI's format."""
        try:
            self._authenticate(request)
            return self._answer_preflight(request) if request.method == "OPTIONS" else await handler(request)
        except HermesError as error:
            told = to_api_error(error)
        except web.HTTPException as error:
            told = ApiRequestError(error.status, f"{error.reason}: {request.method} {request.path[:200]}")
            if "Allow" in error.headers:
                told.headers["Allow"] = error.headers["Allow"]
        except ConnectionError:
            raise
        except Exception as error:  # noqa: BLE001 - one request must not end the others; the log has all of it
            _LOG.exception("a request failed")
            told = ApiRequestError(500, f"Hermes hit an internal error ({type(error).__name__}); its log has more.")
        return json_response(told.body, told.status, told.headers)

    def _authenticate(self, request: web.Request) -> None:
        """Raise ApiRequestError for a request that is not allowed."""
        why = self.http_server.refusal_reason(request)
        if why:
            raise ApiRequestError(403, why, code="foreign_origin")
        if request.method == "OPTIONS":  # asked by browsers before what has a key
            return
        caller = self._deps.keyring.find_caller(request.headers.get("Authorization"))
        if caller is not None:
            request[CALLER] = caller
        elif request.path not in _PUBLIC_PATHS and not (self._deps.options.open_metrics and request.path == "/metrics"):
            said = "A key is needed: send it as `Authorization: Bearer KEY`. In an address it does not count."
            if "Authorization" in request.headers:
                said = "This key is not valid here: keys are sent as `Authorization: Bearer KEY`."
            raise ApiRequestError(
                401,
                said,
                code="invalid_api_key",
                headers={"WWW-Authenticate": 'Bearer realm="hermes"'},
            )

    def _answer_preflight(self, request: web.Request) -> web.Response:
        """Return what a page of an allowed origin may send."""
        if "Origin" not in request.headers:
            raise ApiRequestError(405, "There is nothing to ask for by OPTIONS.")
        allowed = {
            "Access-Control-Allow-Methods": "GET, POST, PATCH, DELETE",
            "Access-Control-Allow-Headers": _REQUEST_HEADERS,
            "Access-Control-Max-Age": "600",
        }
        return web.Response(status=204, headers=allowed)

    async def _set_headers(self, request: web.Request, response: web.StreamResponse) -> None:
        response.headers.update(_SECURITY_HEADERS)
        response.headers.pop("Server", None)
        response.headers["Vary"] = "Origin"
        origin = request.headers.get("Origin")
        if origin is not None and origin in self._deps.options.cors:
            response.headers["Access-Control-Allow-Origin"] = origin
            response.headers["Access-Control-Expose-Headers"] = _RESPONSE_HEADERS
