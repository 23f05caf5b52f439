"""`/api/jobs`: jobs on a clock, for keys of who looks after Hermes."""

from aiohttp import web

from hermes.admin.cron import desk_of
from hermes.gateway.platforms.api_server.context import Base
from hermes.gateway.platforms.api_server.errors import ApiError
from hermes.gateway.platforms.api_server.options import Scope
from hermes.gateway.platforms.api_server.request_body import answer, caller_of, number

_MOST = 500


class Jobs:
    """The handlers."""

    def __init__(self, base: Base) -> None:
        self._base = base
        self._desk = desk_of(base.app)

    def routes(self) -> list[web.RouteDef]:
        """What is answered where."""
        routes = [
            web.get("/api/jobs", self._list),
            web.post("/api/jobs", self._create),
            web.get("/api/jobs/{id}", self._get),
            web.patch("/api/jobs/{id}", self._edit),
            web.delete("/api/jobs/{id}", self._remove),
            web.get("/api/jobs/{id}/history", self._history),
            web.post("/api/jobs/{id}/run", self._run),
            web.post("/api/jobs/{id}/stop", self._stop),
        ]
        return [*routes, web.post("/api/jobs/{id}/{verb:pause|resume}", self._moved)]

    async def _list(self, request: web.Request) -> web.Response:
        _lead(request)
        return answer({"object": "list", "data": await self._desk.rows()})

    async def _create(self, request: web.Request) -> web.Response:
        _lead(request)
        return answer(await self._desk.add(self._desk.wish(**await self._fields(request))), 201)

    async def _get(self, request: web.Request) -> web.Response:
        return answer(await self._desk.row(_lead(request)))

    async def _edit(self, request: web.Request) -> web.Response:
        name = _lead(request)
        return answer(await self._desk.edit(name, self._desk.wish(**await self._fields(request))))

    async def _remove(self, request: web.Request) -> web.Response:
        await self._desk.moved("remove", _lead(request))
        return answer({"id": request.match_info["id"], "deleted": True})

    async def _history(self, request: web.Request) -> web.Response:
        rows = await self._desk.history(_lead(request), number(request, "limit", 30, _MOST))
        return answer({"object": "list", "data": rows})

    async def _run(self, request: web.Request) -> web.Response:
        """Have it run now, by the gateway's own clock-work."""
        return answer(await self._desk.run_elsewhere(_lead(request)), 202)

    async def _stop(self, request: web.Request) -> web.Response:
        return answer({"id": request.match_info["id"], "stopped": await self._desk.stop(_lead(request))})

    async def _moved(self, request: web.Request) -> web.Response:
        return answer(await self._desk.moved(request.match_info["verb"], _lead(request)))

    async def _fields(self, request: web.Request) -> dict[str, object]:
        given = await self._base.reader.fields(request)
        if not all(name.isidentifier() for name in given):
            raise ApiError(400, "A job has no field of such a name.")
        return given


def _lead(request: web.Request) -> str:
    """The name of the job, once it is known that the caller may look after jobs."""
    caller_of(request).lead(Scope.JOBS)
    return request.match_info.get("id", "")
