"""The listener for reports: proved, counted, written down, and only then acknowledged."""

import hashlib
import logging
import os
from collections import deque

import msgspec
from aiohttp import web
from msgspec import Struct, structs

from hermes.admin.people.identity import OWNER_ID, PersonIdentity, PersonRole
from hermes.admin.webhooks import WebhookRoute, WebhookRouteFile, WebhookRoutes, read_routes_in_thread
from hermes.core.api import NewRun, RunRow
from hermes.core.chats import Batch, InboundEvent, Place, Sender
from hermes.core.errors import ConfigError, HermesError, NotFoundError
from hermes.core.ids import new_letter_id
from hermes.gateway.http.server import HttpServer, HttpServerLimits
from hermes.gateway.platform import PlatformContext
from hermes.gateway.platforms.api_server.errors import ApiRequestError, to_api_error
from hermes.gateway.platforms.api_server.keys import ApiCaller, TurnSlots
from hermes.gateway.platforms.api_server.request_body import RequestReader, check_depth, json_response
from hermes.gateway.platforms.api_server.run_worker import RunOutcome, RunPlan, RunWorker
from hermes.gateway.platforms.api_server.session_lookup import ApiSessions, SessionExtras
from hermes.gateway.platforms.api_server.turns import ApiTurns
from hermes.gateway.platforms.webhook.signature import proved
from hermes.gateway.platforms.webhook.template import Filled, event_of, filled, wanted
from hermes.gateway.request_sessions import GatewayFacade
from hermes.gateway.text.links import defuse_links
from hermes.runtime.mailbox import Inbound
from hermes.sessions.features.skills import build_skills, told
from hermes.sessions.untrusted_text import untrusted_part
from hermes.util.cancellation import whole
from hermes.util.text import inert, one_line

_LOG = logging.getLogger(__name__)
LARGEST = 1_000_000
"""Bytes of the largest report."""
_CONNECTIONS = 256
_MOST_TURNS = 64
"""Reports that are worked on at once; more wait."""
_LOGGED = 2_000
_SECRET_OF_NOBODY = os.urandom(32).hex()


class Marked(Struct, frozen=True):
    """What is needed to work on a report after a restart."""

    route: str
    system: str = ""


class Reports:
    """Takes reports and works on them."""

    def __init__(
        self, front: GatewayFacade, around: PlatformContext, routes: WebhookRoutes, bounds: HttpServerLimits
    ) -> None:
        self._front = front
        self._around = around
        self._fixed = routes
        self._added = WebhookRouteFile(front.app.services.home)
        self._reader = RequestReader(LARGEST)
        self._rooms = ApiSessions(front, around.name, ())
        self._turns = ApiTurns(front)
        self._seats = TurnSlots(_MOST_TURNS)
        self._chats = front.app.services.store.chats
        self._taken: dict[str, deque[float]] = {}
        """By route, when reports were taken, by the gateway's clock."""
        self.worker = RunWorker(front, self._turns, self._plan, self._settled)
        application = web.Application(client_max_size=LARGEST)
        application.add_routes([web.post("/webhooks/{route}", self._take), web.get("/health", self._health)])
        self.listener = HttpServer(application, structs.replace(bounds, connections=_CONNECTIONS))

    async def close(self) -> None:
        """Close everything; what was taken is worked on at the next start."""
        await self.listener.close()
        await self.worker.close()
        await self._turns.close()

    async def _health(self, request: web.Request) -> web.Response:
        del request
        return json_response({"status": "ok"})

    async def _take(self, request: web.Request) -> web.Response:
        try:
            return await self._taken_in(request)
        except HermesError as error:
            said = to_api_error(error)
            return json_response(said.body, said.status, said.headers)

    async def _taken_in(self, request: web.Request) -> web.Response:
        """Take a report. It is on disk when this answers 202."""
        if request.content_type != "application/json" or "Origin" in request.headers:
            raise ApiRequestError(415, "A report is JSON, with the type application/json, and comes from no page.")
        name = request.match_info["route"]
        body = await self._reader.read_bytes(request)
        route = await self._route(name)
        secret = route.secret if route is not None else _SECRET_OF_NOBODY
        now = self._around.clock.now()
        scheme = route.scheme if route is not None else WebhookRoute(secret=secret).scheme
        proof = proved(scheme, secret, request.headers, body, now)
        if proof is None or route is None:
            raise ApiRequestError(401, "The report is not signed with the secret of such a route, or too long ago.")
        payload = _parsed(body)
        why = wanted(route, event_of(request.headers, payload), payload)
        if why:
            return json_response({"status": "ignored", "why": why})
        return await self._kept(name, route, payload, proof.digest)

    async def _kept(self, name: str, route: WebhookRoute, payload: object, digest: str) -> web.Response:
        owner, idem = f"{self._around.name}:{name}", digest
        known = await self._chats.run_of_key(owner, idem, bytes.fromhex(digest))
        if known is not None or await self._chats.seen(self._around.name, digest):
            return json_response({"status": "known"})
        self._count(name, route)
        what = filled(route.prompt, payload)
        if route.deliver_only:
            await self._deliver(route, self._front.app.redact_text(what.plain), key=f"webhook:{owner}:{digest}")
            place, sender = Place(self._around.name, name), Sender(name)
            arrival = InboundEvent(event_id=digest, place=place, sender=sender)
            noted = await self._chats.take_in(self._around.name, Batch((arrival,)))
            await self._chats.dismiss([one.id for one in noted], "delivered")
            return json_response({"status": "delivered"}, 202)
        run_id = f"hook_{hashlib.sha256(f'{owner}:{digest}'.encode()).hexdigest()[:32]}"
        caller = self._worker_of(owner, route)
        letter = await self._letter(name, route, caller, what)
        room = self._rooms.make_session(caller, run_id, self._rooms.fresh_session_id(), create=True)
        run = NewRun(
            id=run_id,
            owner=owner,
            idem=idem,
            digest=bytes.fromhex(digest),
            session_id=room.request.session_id,
            letter_id=new_letter_id(),
            letter=letter.encode(),
            wish=msgspec.json.encode(Marked(name)),
        )
        async with self._front.hold_session(room.request):
            row = await whole(self._begun(run))
        return json_response({"status": "taken" if row.session_id == run.session_id else "known", "id": row.id}, 202)

    async def _letter(self, name: str, route: WebhookRoute, caller: ApiCaller, what: Filled) -> Inbound:
        """What the session is told: the prompt is the owner's, what was reported is a stranger's."""
        on = self._front.app.services
        skills = (
            await told(build_skills(on.home, on.settings, on.environ, on.store), route.skills) if route.skills else []
        )
        reported = [untrusted_part(what.reported, f"webhook {name}")] if what.reported else []
        prompt = self._front.app.redact_text(what.prompt)
        return Inbound(text=prompt, cwd=self._rooms.working_folder(caller.person), quoted=(*skills, *reported))

    async def _begun(self, run: NewRun) -> RunRow:
        row = await self._chats.begin_run(run)
        if row.session_id == run.session_id:
            self.worker.start_run(row)
        return row

    def _plan(self, row: RunRow) -> RunPlan | None:
        """How a report is worked on; None where its route is not there any more."""
        name = msgspec.json.decode(row.wish, type=Marked).route
        route = self._known(name)
        if route is None:
            return None
        caller = self._worker_of(row.owner, route)
        room = self._rooms.make_session(caller, row.id, row.session_id, SessionExtras(model=route.model))
        return RunPlan(room.request, self._seats.take_slot(caller, promised=True))

    async def _settled(self, row: RunRow, end: RunOutcome) -> None:
        """Owe what came of a report."""
        name = msgspec.json.decode(row.wish, type=Marked).route
        route = self._known(name)
        text = await self._chats.last_answer(row.turn_id) if row.turn_id else ""
        if end.state != "completed":
            text = f"{text}\n\n(The webhook {name} did not come to its end: {end.error or end.reason})".strip()
        if await self._front.app.services.store.strangers([row.session_id]):
            text = defuse_links(text)
        if route is not None and text and text != "[SILENT]":
            try:
                await self._deliver(route, text, key=f"webhook:{row.id}")
            except NotFoundError as error:
                self._around.report(f"{self._around.name}: {name}: {error}")

    async def _deliver(self, route: WebhookRoute, text: str, *, key: str) -> None:
        if route.deliver == "log":
            self._around.report(f"{self._around.name}: {one_line(inert(text), _LOGGED)}")
        else:
            await self._front.deliver_text(route.deliver, text, key=key)

    def _worker_of(self, owner: str, route: WebhookRoute) -> ApiCaller:
        """In whose name a report is worked on."""
        role = PersonRole(route.role)
        return ApiCaller(
            owner, owner, frozenset(), PersonIdentity(OWNER_ID if role is PersonRole.OWNER else owner, role)
        )

    async def _route(self, name: str) -> WebhookRoute | None:
        try:
            added = await read_routes_in_thread(self._added)
        except ConfigError as error:
            self._around.report(f"{self._around.name}: {error}")
            added = {}
        return self._learned(name, self._fixed.get(name) or added.get(name))

    def _known(self, name: str) -> WebhookRoute | None:
        """A route, without a look whether the file has changed where it is known."""
        try:
            return self._fixed.get(name) or self._learned(name, self._added.read_routes().get(name))
        except ConfigError:
            return None

    def _learned(self, name: str, route: WebhookRoute | None) -> WebhookRoute | None:
        if route is not None:
            self._front.app.services.redactor.learn(f"webhook_{name}", route.secret)
        return route

    def _count(self, name: str, route: WebhookRoute) -> None:
        """Raise ApiError when too much was reported within a minute."""
        now = self._around.clock.now()
        taken = self._taken.setdefault(name, deque())
        while taken and not now - 60 < taken[0] <= now:
            taken.popleft()
        if len(taken) >= route.per_minute:
            wait = str(max(1, int(taken[0] + 61 - now)))
            raise ApiRequestError(429, "Too much was reported within a minute.", headers={"Retry-After": wait})
        taken.append(now)


def _parsed(body: bytes) -> object:
    try:
        payload: object = msgspec.json.decode(body)
    except (msgspec.MsgspecError, RecursionError, ValueError) as error:
        raise ApiRequestError(400, f"The report is no JSON: {error}") from None
    check_depth(payload)
    return payload
