"""What there is: models, capabilities, skills, tool sets; and how the gateway is."""

from collections.abc import Callable

from aiohttp import web

from hermes.admin import toolsets
from hermes.admin.skills import skill_admin
from hermes.gateway.http.server import is_loopback
from hermes.gateway.platforms.api_server.context import Base
from hermes.gateway.platforms.api_server.errors import ApiError
from hermes.gateway.platforms.api_server.options import Scope
from hermes.gateway.platforms.api_server.request_body import CALLER, answer, caller_of


class Catalogue:
    """The handlers. `connections` counts what is open."""

    def __init__(self, base: Base, connections: Callable[[], int]) -> None:
        self._base = base
        self._connections = connections

    def routes(self) -> list[web.RouteDef]:
        """What is answered where."""
        return [
            web.get("/health", self._health),
            web.get("/v1/health", self._health),
            web.get("/health/detailed", self._detailed),
            web.get("/metrics", self._metrics),
            web.get("/v1/models", self._models),
            web.get("/v1/models/{id:.+}", self._model),
            web.get("/v1/capabilities", self._capabilities),
            web.get("/v1/skills", self._skills),
            web.get("/v1/toolsets", self._toolsets),
        ]

    async def _health(self, request: web.Request) -> web.Response:
        del request
        return answer({"status": "ok"})

    async def _detailed(self, request: web.Request) -> web.Response:
        caller_of(request).need(Scope.ADMIN)
        api = {"connections": self._connections(), "turns": self._base.seats.taken}
        return answer({"status": "ok", "api": api, **self._base.front.health()})

    async def _metrics(self, request: web.Request) -> web.Response:
        if CALLER in request:
            caller_of(request).need(Scope.ADMIN)
        elif not is_loopback(self._base.options.host):
            raise ApiError(401, "A key is needed here.", code="invalid_api_key")
        own = (
            "# TYPE hermes_api_connections gauge\n"
            f"hermes_api_connections {self._connections()}\n"
            "# TYPE hermes_api_turns gauge\n"
            f"hermes_api_turns {self._base.seats.taken}\n"
        )
        text = self._base.front.metrics() + own
        return web.Response(text=text, content_type="text/plain", charset="utf-8")

    async def _models(self, request: web.Request) -> web.Response:
        del request
        return answer({"object": "list", "data": [self._shown(name) for name in self._base.rooms.models]})

    async def _model(self, request: web.Request) -> web.Response:
        name = request.match_info["id"]
        if name not in self._base.rooms.models:
            said = f"The model {name[:80]!r} does not exist here."
            raise ApiError(404, said, code="model_not_found", param="model")
        return answer(self._shown(name))

    async def _capabilities(self, request: web.Request) -> web.Response:
        caller = caller_of(request)
        return answer(
            {
                "object": "capabilities",
                "scopes": sorted(scope.value for scope in caller.scopes),
                "role": caller.person.role.value,
                "models": self._base.rooms.models,
                "features": {
                    "chat_completions": True,
                    "responses": True,
                    "streaming": True,
                    "images": True,
                    "files": True,
                    "runs": True,
                    "run_events": True,
                    "run_approval": Scope.APPROVE in caller.scopes and self._base.rooms.approves(caller),
                    "sessions": True,
                    "jobs": Scope.JOBS in caller.scopes and caller.person.leads,
                    "caller_tools": False,
                },
                "limits": {"body_bytes": self._base.options.body_limit, "turns": self._base.options.turns},
            }
        )

    async def _skills(self, request: web.Request) -> web.Response:
        caller_of(request).need(Scope.ADMIN)
        return answer({"object": "list", "data": await skill_admin(self._base.app).rows()})

    async def _toolsets(self, request: web.Request) -> web.Response:
        caller_of(request).need(Scope.ADMIN)
        return answer({"object": "list", "data": toolsets.standings(self._base.app.premises.settings)})

    def _shown(self, name: str) -> dict[str, object]:
        return {"id": name, "object": "model", "created": int(self._base.began_at), "owned_by": "hermes"}
