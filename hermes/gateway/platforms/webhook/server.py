"""The listener for reports: proved, counted, written down, and only then acknowledged."""

import hashlib
import logging
import os
from collections import deque

import msgspec
from aiohttp import web
from msgspec import Struct, structs

from hermes.admin.webhooks import Route, Routes, Subscriptions, read_later
from hermes.core.api import NewRun, RunRow
from hermes.core.chats import Arrival, Batch, Place, Sender
from hermes.core.errors import ConfigError, HermesError, NotFoundError
from hermes.core.ids import new_letter_id
from hermes.gateway.http.server import Bounds, Listener
from hermes.gateway.people.identity import OWNER_ID, Person, Role
from hermes.gateway.platform import Surroundings
from hermes.gateway.platforms.api_server.errors import ApiError, as_api
from hermes.gateway.platforms.api_server.keys import Caller, Seats
from hermes.gateway.platforms.api_server.request_body import Reader, answer, check_depth
from hermes.gateway.platforms.api_server.run_worker import End, Plan, Worker
from hermes.gateway.platforms.api_server.session_lookup import Extra, Rooms
from hermes.gateway.platforms.api_server.turns import Turns
from hermes.gateway.platforms.webhook.signature import proved
from hermes.gateway.platforms.webhook.template import Filled, event_of, filled, wanted
from hermes.gateway.request_sessions import Front
from hermes.gateway.text.links import harmless
from hermes.runtime.mailbox import Inbound
from hermes.sessions.features.skills import skills_of, told
from hermes.sessions.untrusted_text import others_words
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

    def __init__(self, front: Front, around: Surroundings, routes: Routes, bounds: Bounds) -> None:
        self._front = front
        self._around = around
        self._fixed = routes
        self._added = Subscriptions(front.app.premises.home)
        self._reader = Reader(LARGEST)
        self._rooms = Rooms(front, around.name, ())
        self._turns = Turns(front)
        self._seats = Seats(_MOST_TURNS)
        self._chats = front.app.premises.store.chats
        self._taken: dict[str, deque[float]] = {}
        """By route, when reports were taken, by the gateway's clock."""
        self.worker = Worker(front, self._turns, self._plan, self._settled)
        application = web.Application(client_max_size=LARGEST)
        application.add_routes([web.post("/webhooks/{route}", self._take), web.get("/health", self._health)])
        self.listener = Listener(application, structs.replace(bounds, connections=_CONNECTIONS))

    async def close(self) -> None:
        """Close everything; what was taken is worked on at the next start."""
        await self.listener.close()
        await self.worker.close()
        await self._turns.close()

    async def _health(self, request: web.Request) -> web.Response:
        del request
        return answer({"status": "ok"})

    async def _take(self, request: web.Request) -> web.Response:
        try:
            return await self._taken_in(request)
        except HermesError as error:
            said = as_api(error)
            return answer(said.body, said.status, said.headers)

    async def _taken_in(self, request: web.Request) -> web.Response:
        """Take a report. It is on disk when this answers 202."""
        if request.content_type != "application/json" or "Origin" in request.headers:
            raise ApiError(415, "A report is JSON, with the type application/json, and comes from no page.")
        name = request.match_info["route"]
        body = await self._reader.raw(request)
        route = await self._route(name)
        secret = route.secret if route is not None else _SECRET_OF_NOBODY
        now = self._around.clock.now()
        scheme = route.scheme if route is not None else Route(secret=secret).scheme
        proof = proved(scheme, secret, request.headers, body, now)
        if proof is None or route is None:
            raise ApiError(401, "The report is not signed with the secret of such a route, or too long ago.")
        payload = _parsed(body)
        why = wanted(route, event_of(request.headers, payload), payload)
        if why:
            return answer({"status": "ignored", "why": why})
        return await self._kept(name, route, payload, proof.digest)

    async def _kept(self, name: str, route: Route, payload: object, digest: str) -> web.Response:
        owner, idem = f"{self._around.name}:{name}", digest
        known = await self._chats.run_of_key(owner, idem, bytes.fromhex(digest))
        if known is not None or await self._chats.seen(self._around.name, digest):
            return answer({"status": "known"})
        self._count(name, route)
        what = filled(route.prompt, payload)
        if route.deliver_only:
            await self._deliver(route, self._front.app.redact(what.plain), key=f"webhook:{owner}:{digest}")
            place, sender = Place(self._around.name, name), Sender(name)
            arrival = Arrival(event_id=digest, place=place, sender=sender)
            noted = await self._chats.take_in(self._around.name, Batch((arrival,)))
            await self._chats.dismiss([one.id for one in noted], "delivered")
            return answer({"status": "delivered"}, 202)
        run_id = f"hook_{hashlib.sha256(f'{owner}:{digest}'.encode()).hexdigest()[:32]}"
        caller = self._worker_of(owner, route)
        letter = await self._letter(name, route, caller, what)
        room = self._rooms.room(caller, run_id, self._rooms.fresh_id(), create=True)
        run = NewRun(
            id=run_id,
            owner=owner,
            idem=idem,
            digest=bytes.fromhex(digest),
            session_id=room.wish.session_id,
            letter_id=new_letter_id(),
            letter=letter.encode(),
            wish=msgspec.json.encode(Marked(name)),
        )
        async with self._front.session(room.wish):
            row = await whole(self._begun(run))
        return answer({"status": "taken" if row.session_id == run.session_id else "known", "id": row.id}, 202)

    async def _letter(self, name: str, route: Route, caller: Caller, what: Filled) -> Inbound:
        """What the session is told: the prompt is the owner's, what was reported is a stranger's."""
        on = self._front.app.premises
        skills = await told(skills_of(on.home, on.settings, on.environ, on.store), route.skills) if route.skills else []
        reported = [others_words(what.reported, f"webhook {name}")] if what.reported else []
        prompt = self._front.app.redact(what.prompt)
        return Inbound(text=prompt, cwd=self._rooms.cwd(caller.person), quoted=(*skills, *reported))

    async def _begun(self, run: NewRun) -> RunRow:
        row = await self._chats.begin_run(run)
        if row.session_id == run.session_id:
            self.worker.start(row)
        return row

    def _plan(self, row: RunRow) -> Plan | None:
        """How a report is worked on; None where its route is not there any more."""
        name = msgspec.json.decode(row.wish, type=Marked).route
        route = self._known(name)
        if route is None:
            return None
        caller = self._worker_of(row.owner, route)
        room = self._rooms.room(caller, row.id, row.session_id, Extra(model=route.model))
        return Plan(room.wish, self._seats.seat(caller, promised=True))

    async def _settled(self, row: RunRow, end: End) -> None:
        """Owe what came of a report."""
        name = msgspec.json.decode(row.wish, type=Marked).route
        route = self._known(name)
        text = await self._chats.last_answer(row.turn_id) if row.turn_id else ""
        if end.state != "completed":
            text = f"{text}\n\n(The webhook {name} did not come to its end: {end.error or end.reason})".strip()
        if await self._front.app.premises.store.strangers([row.session_id]):
            text = harmless(text)
        if route is not None and text and text != "[SILENT]":
            try:
                await self._deliver(route, text, key=f"webhook:{row.id}")
            except NotFoundError as error:
                self._around.report(f"{self._around.name}: {name}: {error}")

    async def _deliver(self, route: Route, text: str, *, key: str) -> None:
        if route.deliver == "log":
            self._around.report(f"{self._around.name}: {one_line(inert(text), _LOGGED)}")
        else:
            await self._front.deliver(route.deliver, text, key=key)

    def _worker_of(self, owner: str, route: Route) -> Caller:
        """In whose name a report is worked on."""
        role = Role(route.role)
        return Caller(owner, owner, frozenset(), Person(OWNER_ID if role is Role.OWNER else owner, role))

    async def _route(self, name: str) -> Route | None:
        try:
            added = await read_later(self._added)
        except ConfigError as error:
            self._around.report(f"{self._around.name}: {error}")
            added = {}
        return self._learned(name, self._fixed.get(name) or added.get(name))

    def _known(self, name: str) -> Route | None:
        """A route, without a look whether the file has changed where it is known."""
        try:
            return self._fixed.get(name) or self._learned(name, self._added.read().get(name))
        except ConfigError:
            return None

    def _learned(self, name: str, route: Route | None) -> Route | None:
        if route is not None:
            self._front.app.premises.redactor.learn(f"webhook_{name}", route.secret)
        return route

    def _count(self, name: str, route: Route) -> None:
        """Raise ApiError when too much was reported within a minute."""
        now = self._around.clock.now()
        taken = self._taken.setdefault(name, deque())
        while taken and not now - 60 < taken[0] <= now:
            taken.popleft()
        if len(taken) >= route.per_minute:
            wait = str(max(1, int(taken[0] + 61 - now)))
            raise ApiError(429, "Too much was reported within a minute.", headers={"Retry-After": wait})
        taken.append(now)


def _parsed(body: bytes) -> object:
    try:
        payload: object = msgspec.json.decode(body)
    except (msgspec.MsgspecError, RecursionError, ValueError) as error:
        raise ApiError(400, f"The report is no JSON: {error}") from None
    check_depth(payload)
    return payload
