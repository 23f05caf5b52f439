"""`/v1/runs`: work that continues whoever listens, and over restarts. It is on disk before it is acknowledged."""

import hashlib
import os

import msgspec
from aiohttp import web
from msgspec import Struct, structs

from hermes.core.api import NewRun, RunRow
from hermes.core.chats import AuditEntry
from hermes.core.ids import new_queued_message_id
from hermes.core.outcomes import AnswerScope, ExitReason
from hermes.core.usage import Usage
from hermes.gateway.platforms.api_server.deps import ApiDeps
from hermes.gateway.platforms.api_server.errors import ApiRequestError
from hermes.gateway.platforms.api_server.messages import build_inbound, parse_conversation
from hermes.gateway.platforms.api_server.options import ApiScope
from hermes.gateway.platforms.api_server.requests import (
    KEEP_ALIVE,
    KEEP_ALIVE_SECONDS,
    EventStreamResponse,
    caller_of,
    json_response,
)
from hermes.gateway.platforms.api_server.response_objects import format_usage
from hermes.gateway.platforms.api_server.run_worker import RunEventLog, RunOutcome, RunPlan, RunWorker
from hermes.gateway.platforms.api_server.session_lookup import SessionExtras
from hermes.gateway.text.links import defuse_links
from hermes.util.cancellation import run_to_completion

_LONGEST_KEY = 255


class RunRequest(Struct, frozen=True):
    """The body of a request for a run."""

    input: str | list[object]
    session_id: str | None = ""
    model: str = ""
    instructions: str | None = ""


class StoredRunRequest(Struct, frozen=True):
    """The part of a run's request that is needed to continue it after a restart."""

    name: str
    system: str = ""
    model: str = ""


class ApprovalDecision(Struct, frozen=True):
    """The answer to an approval question."""

    approval_id: str
    decision: AnswerScope


class RunRoutes:
    """The handlers, and the runs at work."""

    def __init__(self, deps: ApiDeps) -> None:
        self._deps = deps
        self._store = deps.app.services.store
        self.worker = RunWorker(deps.gateway, deps.turns, self._plan_run, self._announce_end)

    def routes(self) -> list[web.RouteDef]:
        """Return the routes and their handlers."""
        return [
            web.post("/v1/runs", self._create_run),
            web.get("/v1/runs/{id}", self._get_run),
            web.get("/v1/runs/{id}/events", self._stream_events),
            web.post("/v1/runs/{id}/approval", self._answer_approval),
            web.post("/v1/runs/{id}/stop", self._stop_run),
        ]

    # What is asked for.

    async def _create_run(self, request: web.Request) -> web.Response:
        caller = caller_of(request)
        caller.require_scope(ApiScope.RUNS)
        asked = await self._deps.reader.read_value(request, RunRequest)
        idem = request.headers.get("Idempotency-Key")
        if idem is not None and not 0 < len(idem) <= _LONGEST_KEY:
            raise ApiRequestError(400, f"An Idempotency-Key has 1 to {_LONGEST_KEY} characters.")
        digest = hashlib.sha256(msgspec.json.encode(asked)).digest()
        known = await self._store.api.find_run_by_key(caller.owner, idem, digest) if idem else None
        if known is not None:
            return json_response(await self._run_object(known), 202)
        await self._deps.admit_turn(caller)
        given: list[object] = (
            asked.input if isinstance(asked.input, list) else [{"role": "user", "content": asked.input}]
        )
        said, files = parse_conversation(given, asked.instructions or "")
        extra = SessionExtras(said.system, self._deps.sessions.resolve_model(asked.model))
        name = asked.session_id or self._deps.sessions.fresh_session_id()
        room = await self._deps.sessions.find_or_create(caller, name, extra, history=said.before)
        folder = self._deps.sessions.upload_folder(caller.person, self._deps.media)
        message = await build_inbound(said, files, folder, self._deps.sessions.working_folder(caller.person))
        message = structs.replace(message, text=self._deps.app.redact_text(message.text))
        run = NewRun(
            id=f"run_{os.urandom(16).hex()}",
            owner=caller.owner,
            idem=idem,
            digest=digest,
            session_id=room.request.session_id,
            letter_id=new_queued_message_id(),
            letter=message.encode(),
            wish=msgspec.json.encode(StoredRunRequest(name, said.system, extra.model)),
        )
        async with self._deps.gateway.hold_session(
            room.request
        ) as actor:  # it does not leave before its first words are there
            await self._deps.sessions.bind_name(room, actor)
            await self._deps.audit_message(caller, actor.session_id)
            row = await run_to_completion(self._store_run(run))
        return json_response(await self._run_object(row), 202)

    async def _get_run(self, request: web.Request) -> web.Response:
        return json_response(await self._run_object(await self._find_row(request)))

    async def _stream_events(self, request: web.Request) -> web.StreamResponse:
        """Stream the events that follow the one that the program has seen last."""
        row = await self._find_row(request)
        live = self.worker.find_live(row.id)
        async with EventStreamResponse(request) as stream:
            if live is not None:
                async for event in live.event_log.follow_events(
                    request.headers.get("Last-Event-ID", ""), KEEP_ALIVE_SECONDS
                ):
                    await stream.send(KEEP_ALIVE if event is None else event)
            else:
                late = RunEventLog(row.id)
                late.add_event("run.ended", await self._run_object(row))
                late.close()
                async for event in late.follow_events("", KEEP_ALIVE_SECONDS):
                    await stream.send(event or KEEP_ALIVE)
            return stream.response

    async def _answer_approval(self, request: web.Request) -> web.Response:
        """Answer an approval question of the run."""
        row = await self._find_row(request)
        caller = caller_of(request)
        caller.require_scope(ApiScope.APPROVE)
        if not self._deps.sessions.can_approve(caller):
            raise ApiRequestError(403, "The role of this key may not answer questions.", code="missing_role")
        given = await self._deps.reader.read_value(request, ApprovalDecision)
        live = self.worker.find_live(row.id)
        asked = live.open_approvals.get(given.approval_id) if live is not None else None
        if live is None or asked is None or live.turn is None:
            raise ApiRequestError(409, "This run asks no such question, or does not any more.", code="not_pending")
        covers = {AnswerScope.SESSION: asked.session_covers, AnswerScope.ALWAYS: asked.always_covers}
        if not covers.get(given.decision, "once"):
            raise ApiRequestError(
                400, f"There is no answer {given.decision.value!r} to this question.", param="decision"
            )
        if given.decision is AnswerScope.ALWAYS and not caller.person.can_administer:
            raise ApiRequestError(
                403, "What holds for good is for keys of the role owner or admin.", code="missing_role"
            )
        live.open_approvals.pop(given.approval_id, None)
        by = f"API key {caller.name}"
        if not live.turn.actor.approvals.answer(given.approval_id, scope=given.decision, by=by):
            raise ApiRequestError(409, "The question is answered already.", code="not_pending")
        entry = AuditEntry(
            platform="api_server", account=caller.name, person=caller.person.id, what="approval", detail=row.id
        )
        await self._store.people.add_audit_entry(entry)
        return json_response({"approval_id": given.approval_id, "decision": given.decision.value})

    async def _stop_run(self, request: web.Request) -> web.Response:
        """Stop a run: within 0.2 s nothing more of it is begun."""
        row = await self._find_row(request)
        live = self.worker.find_live(row.id)
        if row.ended_at is None and live is not None:
            live.stop()
            if not row.turn_id and not live.has_begun:
                await self._store.api.end_run(
                    row.id, "stopped", reason=ExitReason.INTERRUPTED.value, error="", usage=None
                )
        return json_response(await self._run_object(await self._find_row(request)), 202)

    async def _find_row(self, request: web.Request) -> RunRow:
        caller = caller_of(request)
        caller.require_scope(ApiScope.RUNS)
        row = await self._store.api.get_run(caller.owner, request.match_info["id"])
        if row is None:
            raise ApiRequestError(404, f"There is no run {request.match_info['id'][:80]!r}.", code="run_not_found")
        return row

    async def _run_object(self, row: RunRow) -> dict[str, object]:
        """Return a run as a JSON object."""
        live, wish = self.worker.find_live(row.id), msgspec.json.decode(row.wish, type=StoredRunRequest)
        text = ""
        if row.ended_at is not None and row.turn_id:
            text = await self._store.chats.get_last_answer(row.turn_id)
            if await self._store.messages.list_untrusted_sources([row.session_id]):
                text = defuse_links(text)
        state = (
            row.state if row.ended_at is not None or live is None or not live.open_approvals else "waiting_for_approval"
        )
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
            "usage": format_usage(msgspec.json.decode(row.usage, type=Usage)) if row.usage is not None else None,
            "approvals": list(live.open_approvals.values()) if live is not None else [],
        }

    async def _store_run(self, run: NewRun) -> RunRow:
        row = await self._store.api.begin_run(run)
        if row.id == run.id:
            self.worker.start_run(row)
        return row

    def _plan_run(self, row: RunRow) -> RunPlan | None:
        """Return how a run's session is opened; None where its key does not exist any more."""
        caller = self._deps.keyring.caller_by_owner(row.owner)
        if caller is None:
            return None
        wish = msgspec.json.decode(row.wish, type=StoredRunRequest)
        room = self._deps.sessions.make_session(
            caller, wish.name, row.session_id, SessionExtras(wish.system, wish.model)
        )
        asks = ApiScope.APPROVE in caller.scopes and self._deps.sessions.can_approve(caller)
        return RunPlan(room.request, self._deps.slots.take_slot(caller, promised=True), asks)

    async def _announce_end(self, row: RunRow, _end: RunOutcome) -> None:
        """Tell listeners that a run has ended."""
        live = self.worker.find_live(row.id)
        if live is not None:
            live.event_log.add_event("run.ended", await self._run_object(row))
