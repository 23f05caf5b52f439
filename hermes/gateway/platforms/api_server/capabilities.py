"""Routes for models, capabilities, skills, tool sets, health and metrics."""

from collections.abc import Callable

from aiohttp import web

from hermes.admin import toolsets
from hermes.admin.skills import skill_admin
from hermes.gateway.http.server import is_loopback
from hermes.gateway.platforms.api_server.deps import ApiDeps
from hermes.gateway.platforms.api_server.errors import ApiRequestError
from hermes.gateway.platforms.api_server.options import ApiScope
from hermes.gateway.platforms.api_server.requests import CALLER, caller_of, json_response


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
        return json_response({"status": "ok"})

    async def _get_detailed_health(self, request: web.Request) -> web.Response:
        caller_of(request).require_scope(ApiScope.ADMIN)
        api = {"connections": self._count_connections(), "turns": self._deps.slots.taken}
        return json_response({"status": "ok", "api": api, **self._deps.gateway.health_report()})

    async def _get_metrics(self, request: web.Request) -> web.Response:
        if CALLER in request:
            caller_of(request).require_scope(ApiScope.ADMIN)
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
        return json_response(
            {"object": "list", "data": [self._model_object(name) for name in self._deps.sessions.models]}
        )

    async def _get_model(self, request: web.Request) -> web.Response:
        name = request.match_info["id"]
        if name not in self._deps.sessions.models:
            said = f"The model {name[:80]!r} does not exist here."
            raise ApiRequestError(404, said, code="model_not_found", param="model")
        return json_response(self._model_object(name))

    async def _get_capabilities(self, request: web.Request) -> web.Response:
        caller = caller_of(request)
        return json_response(
            {
                "object": "capabilities",
                "scopes": sorted(scope.value for scope in caller.scopes),
                "role": caller.person.role.value,
                "models": self._deps.sessions.models,
                "features": {
                    "chat_completions": True,
                    "responses": True,
                    "streaming": True,
                    "images": True,
                    "files": True,
                    "runs": True,
                    "run_events": True,
                    "run_approval": ApiScope.APPROVE in caller.scopes and self._deps.sessions.can_approve(caller),
                    "sessions": True,
                    "jobs": ApiScope.JOBS in caller.scopes and caller.person.can_administer,
                    "caller_tools": False,
                },
                "limits": {"body_bytes": self._deps.options.body_limit, "turns": self._deps.options.turns},
            }
        )

    async def _list_skills(self, request: web.Request) -> web.Response:
        caller_of(request).require_scope(ApiScope.ADMIN)
        return json_response({"object": "list", "data": await skill_admin(self._deps.app).list_skills()})

    async def _list_toolsets(self, request: web.Request) -> web.Response:
        caller_of(request).require_scope(ApiScope.ADMIN)
        return json_response({"object": "list", "data": toolsets.list_toolsets_of(self._deps.app.services.settings)})

    def _model_object(self, name: str) -> dict[str, object]:
        return {"id": name, "object": "model", "created": int(self._deps.began_at), "owned_by": "hermes"}
