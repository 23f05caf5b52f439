"""`/v1/runs`: work that goes on whoever listens, over restarts too. Its words are on disk before it is acknowledged."""

import hashlib
import os

import msgspec
from aiohttp import web
from msgspec import Struct, structs

from hermes.core.api import NewRun, RunRow
from hermes.core.chats import Deed
from hermes.core.ids import new_letter_id
from hermes.core.outcomes import AnswerScope, ExitReason
from hermes.core.usage import Usage
from hermes.gateway.platforms.api_server.context import Base
from hermes.gateway.platforms.api_server.errors import ApiError
from hermes.gateway.platforms.api_server.event_stream import KEEP, KEEP_SECONDS, Stream
from hermes.gateway.platforms.api_server.message_input import conversation, inbound
from hermes.gateway.platforms.api_server.options import Scope
from hermes.gateway.platforms.api_server.request_body import answer, caller_of
from hermes.gateway.platforms.api_server.responses_format import usage_of
from hermes.gateway.platforms.api_server.run_events import Log
from hermes.gateway.platforms.api_server.run_worker import End, Plan, Worker
from hermes.gateway.platforms.api_server.session_lookup import Extra
from hermes.gateway.text.links import harmless
from hermes.util.cancellation import whole

_LONGEST_KEY = 255


class RunRequest(Struct, frozen=True):
    """What a run is asked for."""

    input: str | list[object]
    session_id: str | None = ""
    model: str = ""
    instructions: str | None = ""


class RunWish(Struct, frozen=True):
    """What is needed to go on with a run after a restart."""

    name: str
    system: str = ""
    model: str = ""


class Decision(Struct, frozen=True):
    """The answer to a question."""

    approval_id: str
    decision: AnswerScope


class Runs:
    """The handlers, and the runs at work."""

    def __init__(self, base: Base) -> None:
        self._base = base
        self._store = base.app.premises.store
        self._chats = self._store.chats
        self.worker = Worker(base.front, base.turns, self._plan, self._settled)

    def routes(self) -> list[web.RouteDef]:
        """What is answered where."""
        return [
            web.post("/v1/runs", self._create),
            web.get("/v1/runs/{id}", self._get),
            web.get("/v1/runs/{id}/events", self._events),
            web.post("/v1/runs/{id}/approval", self._approval),
            web.post("/v1/runs/{id}/stop", self._stop),
        ]

    # What is asked for.

    async def _create(self, request: web.Request) -> web.Response:
        caller = caller_of(request)
        caller.need(Scope.RUNS)
        asked = await self._base.reader.body(request, RunRequest)
        idem = request.headers.get("Idempotency-Key")
        if idem is not None and not 0 < len(idem) <= _LONGEST_KEY:
            raise ApiError(400, f"An Idempotency-Key has 1 to {_LONGEST_KEY} characters.")
        digest = hashlib.sha256(msgspec.json.encode(asked)).digest()
        known = await self._chats.run_of_key(caller.owner, idem, digest) if idem else None
        if known is not None:
            return answer(await self._shown(known), 202)
        await self._base.admit(caller)
        given: list[object] = (
            asked.input if isinstance(asked.input, list) else [{"role": "user", "content": asked.input}]
        )
        said, files = conversation(given, asked.instructions or "")
        extra = Extra(said.system, self._base.rooms.model(asked.model))
        name = asked.session_id or self._base.rooms.fresh_id()
        room = await self._base.rooms.named(caller, name, extra, history=said.before)
        folder = self._base.rooms.received(caller.person, self._base.media)
        letter = await inbound(said, files, folder, self._base.rooms.cwd(caller.person))
        letter = structs.replace(letter, text=self._base.app.redact(letter.text))
        run = NewRun(
            id=f"run_{os.urandom(16).hex()}",
            owner=caller.owner,
            idem=idem,
            digest=digest,
            session_id=room.wish.session_id,
            letter_id=new_letter_id(),
            letter=letter.encode(),
            wish=msgspec.json.encode(RunWish(name, said.system, extra.model)),
        )
        async with self._base.front.session(room.wish) as actor:  # it does not leave before its first words are there
            await self._base.rooms.bind(room, actor)
            await self._base.note(caller, actor.session_id)
            row = await whole(self._begun(run))
        return answer(await self._shown(row), 202)

    async def _get(self, request: web.Request) -> web.Response:
        return answer(await self._shown(await self._row(request)))

    async def _events(self, request: web.Request) -> web.StreamResponse:
        """What happens, from behind the event that the program has seen last."""
        row = await self._row(request)
        live = self.worker.live(row.id)
        async with Stream(request) as stream:
            if live is not None:
                async for event in live.log.follow(request.headers.get("Last-Event-ID", ""), KEEP_SECONDS):
                    await stream.send(KEEP if event is None else event)
            else:
                late = Log(row.id)
                late.add("run.ended", await self._shown(row))
                late.close()
                async for event in late.follow("", KEEP_SECONDS):
                    await stream.send(event or KEEP)
            return stream.response

    async def _approval(self, request: web.Request) -> web.Response:
        """Answer a question of the run's."""
        row = await self._row(request)
        caller = caller_of(request)
        caller.need(Scope.APPROVE)
        if not self._base.rooms.approves(caller):
            raise ApiError(403, "The role of this key may not answer questions.", code="missing_role")
        given = await self._base.reader.body(request, Decision)
        live = self.worker.live(row.id)
        asked = live.asked.get(given.approval_id) if live is not None else None
        if live is None or asked is None or live.turn is None:
            raise ApiError(409, "This run asks no such question, or does not any more.", code="not_pending")
        covers = {AnswerScope.SESSION: asked.session_covers, AnswerScope.ALWAYS: asked.always_covers}
        if not covers.get(given.decision, "once"):
            raise ApiError(400, f"There is no answer {given.decision.value!r} to this question.", param="decision")
        if given.decision is AnswerScope.ALWAYS and not caller.person.leads:
            raise ApiError(403, "What holds for good is for keys of the role owner or admin.", code="missing_role")
        live.asked.pop(given.approval_id, None)
        by = f"API key {caller.name}"
        if not live.turn.actor.approvals.answer(given.approval_id, scope=given.decision, by=by):
            raise ApiError(409, "The question is answered already.", code="not_pending")
        deed = Deed(platform="api_server", account=caller.name, person=caller.person.id, what="approval", detail=row.id)
        await self._chats.note(deed)
        return answer({"approval_id": given.approval_id, "decision": given.decision.value})

    async def _stop(self, request: web.Request) -> web.Response:
        """Stop it: within 0.2 s nothing more of it is begun."""
        row = await self._row(request)
        live = self.worker.live(row.id)
        if row.ended_at is None and live is not None:
            live.stop()
            if not row.turn_id and not live.begun:
                await self._chats.end_run(row.id, "stopped", reason=ExitReason.INTERRUPTED.value, error="", usage=None)
        return answer(await self._shown(await self._row(request)), 202)

    async def _row(self, request: web.Request) -> RunRow:
        caller = caller_of(request)
        caller.need(Scope.RUNS)
        row = await self._chats.run(caller.owner, request.match_info["id"])
        if row is None:
            raise ApiError(404, f"There is no run {request.match_info['id'][:80]!r}.", code="run_not_found")
        return row

    async def _shown(self, row: RunRow) -> dict[str, object]:
        """A run as it is now."""
        live, wish = self.worker.live(row.id), msgspec.json.decode(row.wish, type=RunWish)
        text = ""
        if row.ended_at is not None and row.turn_id:
            text = await self._chats.last_answer(row.turn_id)
            if await self._store.strangers([row.session_id]):
                text = harmless(text)
        state = row.state if row.ended_at is not None or live is None or not live.asked else "waiting_for_approval"
        return {
            "id": row.id,
            "object": "run",
            "status": state,
            "session_id": wish.name,
            "created_at": row.made_at,
            "ended_at": row.ended_at,
            "output": text if row.ended_at is not None else None,
            "reason": row.reason or None,
            "error": row.error or None,
            "usage": usage_of(msgspec.json.decode(row.usage, type=Usage)) if row.usage is not None else None,
            "approvals": list(live.asked.values()) if live is not None else [],
        }

    async def _begun(self, run: NewRun) -> RunRow:
        row = await self._chats.begin_run(run)
        if row.id == run.id:
            self.worker.start(row)
        return row

    def _plan(self, row: RunRow) -> Plan | None:
        """How a run's session is opened; None where its key is not there any more."""
        caller = self._base.keys.owning(row.owner)
        if caller is None:
            return None
        wish = msgspec.json.decode(row.wish, type=RunWish)
        room = self._base.rooms.room(caller, wish.name, row.session_id, Extra(wish.system, wish.model))
        asks = Scope.APPROVE in caller.scopes and self._base.rooms.approves(caller)
        return Plan(room.wish, self._base.seats.seat(caller, promised=True), asks)

    async def _settled(self, row: RunRow, _end: End) -> None:
        """Tell who listens that it has ended."""
        live = self.worker.live(row.id)
        if live is not None:
            live.log.add("run.ended", await self._shown(row))
