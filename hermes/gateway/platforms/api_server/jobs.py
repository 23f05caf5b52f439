"""`/api/jobs`: scheduled jobs, for keys of owners and admins."""

from aiohttp import web

from hermes.admin.cron import cron_admin_of_app
from hermes.gateway.platforms.api_server.deps import ApiDeps
from hermes.gateway.platforms.api_server.errors import ApiRequestError
from hermes.gateway.platforms.api_server.options import ApiScope
from hermes.gateway.platforms.api_server.requests import caller_of, json_response, query_number

_MOST = 500


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
        return json_response(await self._admin.add_job(self._admin.build_wish(**await self._read_fields(request))), 201)

    async def _get_job(self, request: web.Request) -> web.Response:
        return json_response(await self._admin.get_job(_authorized_job(request)))

    async def _edit_job(self, request: web.Request) -> web.Response:
        name = _authorized_job(request)
        return json_response(
            await self._admin.edit_job(name, self._admin.build_wish(**await self._read_fields(request)))
        )

    async def _remove_job(self, request: web.Request) -> web.Response:
        await self._admin.change_state("remove", _authorized_job(request))
        return json_response({"id": request.match_info["id"], "deleted": True})

    async def _list_history(self, request: web.Request) -> web.Response:
        rows = await self._admin.list_history(_authorized_job(request), query_number(request, "limit", 30, _MOST))
        return json_response({"object": "list", "data": rows})

    async def _run_job(self, request: web.Request) -> web.Response:
        """Have the gateway's scheduler run the job now."""
        return json_response(await self._admin.request_run(_authorized_job(request)), 202)

    async def _stop_job(self, request: web.Request) -> web.Response:
        return json_response(
            {"id": request.match_info["id"], "stopped": await self._admin.stop_job(_authorized_job(request))}
        )

    async def _change_state(self, request: web.Request) -> web.Response:
        return json_response(await self._admin.change_state(request.match_info["verb"], _authorized_job(request)))

    async def _read_fields(self, request: web.Request) -> dict[str, object]:
        given = await self._deps.reader.read_object(request)
        if not all(name.isidentifier() for name in given):
            raise ApiRequestError(400, "A job has no field of such a name.")
        return given


def _authorized_job(request: web.Request) -> str:
    """Check that the caller may administer jobs, and return the job's name."""
    caller_of(request).require_admin(ApiScope.JOBS)
    return request.match_info.get("id", "")
