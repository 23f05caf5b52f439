"""`/v1/runs`: work that goes on whoever listens, over restarts, and over sessions that break.

A run is on disk before it is acknowledged. Its events are numbered, for programs that come late or reconnect.
"""

import asyncio
import hashlib
import logging
import os
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractContextManager
from itertools import islice

import msgspec
from aiohttp import web
from msgspec import Struct, structs

from hermes.client.objects import (
    EVENT_SCHEMA_VERSION,
    RUN_ENDED,
    RUN_RESUMED,
    ApprovalDecision,
    ApprovalReceipt,
    EventGap,
    Run,
    RunEventBody,
    RunRequest,
    TextPiece,
    TokenCounts,
)
from hermes.core.api import NewRun, RunRow
from hermes.core.encoding import to_json
from hermes.core.errors import HermesError, NotFoundError, StoreError
from hermes.core.events import (
    ApprovalAnswered,
    ApprovalAsked,
    Event,
    Notice,
    Queued,
    Refused,
    ToolEnded,
    ToolStarted,
    TurnEnded,
)
from hermes.core.ids import new_queued_message_id
from hermes.core.outcomes import AnswerScope, ExitReason
from hermes.core.usage import Usage
from hermes.gateway.platform import GatewayFacade, SessionRequest
from hermes.gateway.platforms.api_server.deps import ApiDeps
from hermes.gateway.platforms.api_server.errors import ApiRequestError
from hermes.gateway.platforms.api_server.keys import ApiCaller, ApiScope
from hermes.gateway.platforms.api_server.messages import parse_input
from hermes.gateway.platforms.api_server.requests import (
    KEEP_ALIVE,
    KEEP_ALIVE_SECONDS,
    EventStreamResponse,
    caller_of,
    encode_event,
    json_response,
)
from hermes.gateway.platforms.api_server.session_lookup import SessionExtras
from hermes.gateway.platforms.api_server.turns import TEXT_SEPARATOR, ApiTurn, ApiTurns, TurnStream
from hermes.markup.links import defuse_links
from hermes.runtime.actor import SessionActor
from hermes.runtime.mailbox import InboundMessage
from hermes.runtime.turn_answers import load_answer, load_told_text
from hermes.util.cancellation import cancel_tasks, run_to_completion

MAX_EVENTS = 4_096
"""Events of a run that are kept; clients are told how many older ones they missed."""
MAX_BYTES = 4_000_000
"""Bytes of a run's events that are kept."""
MAX_ENDED_BYTES = 64_000_000
"""Bytes of all ended runs' events that are still kept."""
_BATCH_BYTES = 64 * 1024
"""Bytes after which events are sent before more are joined: each listener holds a copy of what it is sent."""
_PROCESS_ID = os.urandom(4).hex()
"""Marks the ids of this process's events, as each process numbers them from 1."""
_LOG = logging.getLogger(__name__)
_MAX_ENDED = 256
"""Ended runs whose events are still kept."""
_LISTEN_SECONDS = 3_600.0
_RETRY_PAUSES = (0.5, 2.0, 10.0, 0.0)
"""Seconds before each attempt to continue a run whose session broke."""
_LOGGED_EVENTS = ToolStarted | ToolEnded | Refused | ApprovalAsked | ApprovalAnswered | Notice | Queued
_LONGEST_KEY = 255
EVENT_VERSION_HEADER = "X-Hermes-Event-Schema"


class RunEventLog:
    """The events of one run. `closed`: nothing more will happen."""

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id
        self._events: deque[tuple[int, bytes]] = deque()
        self._bytes = 0
        self._last_number = 0
        self._changed = asyncio.Event()
        self.closed = False

    def add_event(self, kind: str, body: object) -> None:
        """Append an event."""
        self._last_number += 1
        data = to_json(RunEventBody(kind, self._run_id, body))
        event = b"id: %b-%d\nevent: %b\ndata: %b\n\n" % (_PROCESS_ID.encode(), self._last_number, kind.encode(), data)
        self._events.append((self._last_number, event))
        self._bytes += len(event)
        while len(self._events) > MAX_EVENTS or (self._bytes > MAX_BYTES and len(self._events) > 1):
            self._bytes -= len(self._events.popleft()[1])
        self._wake_listeners()

    @property
    def size(self) -> int:
        """The bytes of the events that are kept."""
        return self._bytes

    def close(self) -> None:
        """Append nothing more."""
        self.closed = True
        self._wake_listeners()

    async def follow_events(self, last_id: str, pause: float) -> AsyncGenerator[bytes | None, None]:
        """Yield every event after that id, to the end; None whenever nothing happened for so many seconds."""
        at = _parse_event_id(last_id)
        at = at if at <= self._last_number else 0
        while True:
            first = self._events[0][0] if self._events else self._last_number + 1
            if at + 1 < first:
                yield encode_event("run.gap", RunEventBody("run.gap", self._run_id, EventGap(first - at - 1)))
                at = first - 1
            ready, size = list[bytes](), 0
            for number, event in islice(self._events, at + 1 - first, None):
                ready.append(event)
                at, size = number, size + len(event)
                if size >= _BATCH_BYTES:
                    break
            if ready:
                yield b"".join(ready)
                continue
            if self.closed:
                return
            news = self._changed
            try:
                async with asyncio.timeout(pause):
                    await news.wait()
            except TimeoutError:
                yield None

    def _wake_listeners(self) -> None:
        """Wake every listener; later ones wait for the next event."""
        news, self._changed = self._changed, asyncio.Event()
        news.set()


def _parse_event_id(event_id: str) -> int:
    """Return the number of an event of this process; 0 for any other id."""
    boot, _, number = event_id.partition("-")
    return int(number) if boot == _PROCESS_ID and number.isascii() and number.isdigit() and len(number) < 12 else 0


class RunOutcome(Struct, frozen=True):
    """The outcome of a run: completed, stopped or failed, and the turn's reason."""

    state: str
    reason: str
    error: str = ""
    usage: Usage | None = None


class RunPlan(Struct, frozen=True):
    """How a run is carried out: its session, its slot, and whether questions can be asked."""

    session_request: SessionRequest
    slot: AbstractContextManager[None]
    can_ask: bool = False


class LiveRun:
    """A run at work, and for a while after its end."""

    def __init__(self, run_id: str) -> None:
        self.event_log = RunEventLog(run_id)
        self.turn: ApiTurn | None = None
        self.open_approvals: dict[str, ApprovalAsked] = {}
        """The approval questions that nobody has answered."""
        self.stopped = False

    @property
    def has_begun(self) -> bool:
        """Whether its turn has begun."""
        return self.turn is not None and bool(self.turn.turn_id)

    def stop(self) -> None:
        """Stop the run, now or as soon as it begins."""
        self.stopped = True
        if self.turn is not None:
            self.turn.stop()

    def handle_event(self, event: Event) -> None:
        """Log an event, and note open approval questions."""
        if isinstance(event, ApprovalAsked):
            self.open_approvals[event.approval_id] = event
        elif isinstance(event, ApprovalAnswered):
            self.open_approvals.pop(event.approval_id, None)
        if isinstance(event, _LOGGED_EVENTS):
            self.event_log.add_event(f"run.{event.__struct_config__.tag}", event)


class RunWorker:
    """The runs at work. `plan` returns how one is carried out, None where that is not allowed any more;
    `settle` is called with each outcome before it is stored, again after a kill between the two.
    """

    def __init__(
        self,
        gateway: GatewayFacade,
        turns: ApiTurns,
        plan: Callable[[RunRow], RunPlan | None],
        settle: Callable[[RunRow, RunOutcome], Awaitable[None]],
    ) -> None:
        self._gateway = gateway
        self._turns = turns
        self._plan = plan
        self._settle = settle
        self._store = gateway.app.services.store
        self._live: dict[str, LiveRun] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._ended_ids: deque[str] = deque()
        self._ended_bytes = 0
        self._ending = False

    def find_live(self, run_id: str) -> LiveRun | None:
        """Return a run at work, or one that has ended recently."""
        return self._live.get(run_id)

    async def recover_account(self, account: str) -> None:
        """Continue the runs of an account that the process before left."""
        self._ending = False
        for row in await self._store.api.list_open_runs():
            if row.owner.startswith(f"{account}:") and row.id not in self._live:
                self.start_run(row)

    def start_run(self, row: RunRow) -> None:
        """Carry out a run from now on."""
        live = self._live[row.id] = LiveRun(row.id)
        task = asyncio.create_task(self._carry_out(live, row), name=f"run {row.id}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def begin_shutdown(self) -> None:
        """Retry nothing from now on: the gateway ends."""
        self._ending = True

    async def close(self) -> None:
        """Stop waiting for runs: they continue at the next start."""
        self._ending = True
        await cancel_tasks(self._tasks)

    async def _carry_out(self, live: LiveRun, row: RunRow) -> None:
        """Carry out a run, and store its outcome."""
        end = await self._reach_end(live, row)
        if end is None:
            return  # it goes on at the next start
        live.open_approvals.clear()
        usage = to_json(end.usage) if end.usage is not None else None
        now = self._gateway.app.services.clock.now()
        ended = structs.replace(
            await self._store.api.get_run(row.owner, row.id) or row,
            state=end.state,
            reason=end.reason,
            error=end.error,
            usage=usage,
            ended_at=now,
        )
        for pause in _RETRY_PAUSES:
            try:
                await self._settle(ended, end)
                await self._store.api.end_run(row.id, end.state, reason=end.reason, error=end.error, usage=usage)
                break
            except StoreError as error:
                _LOG.warning("the end of the run %s could not be noted: %s", row.id, error)
            await asyncio.sleep(pause)
        live.event_log.close()
        live.turn = None  # it holds its whole session
        self._keep_ended(row.id)

    async def _reach_end(self, live: LiveRun, row: RunRow) -> RunOutcome | None:
        """Carry out a run, in a slot that is taken before anything is waited for; None where it has to wait for the
        next start. A session that broke is reopened.
        """
        end = RunOutcome("failed", ExitReason.LOCAL_ERROR.value, "The run could not go on.")
        try:
            plan = self._plan(row)
        except HermesError as error:
            return structs.replace(end, error=str(error))
        if plan is None:
            return structs.replace(end, error="Whose run it is, or its session, is not there any more.")
        with plan.slot:
            for pause in _RETRY_PAUSES:
                try:
                    return await self._attempt_run(live, row, plan)
                except (_RetryRunError, StoreError, OSError) as error:
                    end = structs.replace(end, error=str(error))
                except HermesError as error:
                    return structs.replace(end, error=str(error))
                if self._ending:
                    return None
                await asyncio.sleep(pause)
        return end

    def _keep_ended(self, run_id: str) -> None:
        """Keep the events of a run that has ended for who comes late, and forget the oldest such runs."""
        self._ended_ids.append(run_id)
        self._ended_bytes += self._live[run_id].event_log.size
        while len(self._ended_ids) > _MAX_ENDED or self._ended_bytes > MAX_ENDED_BYTES:
            self._ended_bytes -= self._live.pop(self._ended_ids.popleft()).event_log.size

    async def _attempt_run(self, live: LiveRun, row: RunRow, plan: RunPlan) -> RunOutcome:
        fresh = await self._store.api.get_run(row.owner, row.id)
        if fresh is None:
            raise NotFoundError("Whose run it is, or its session, is not there any more.")
        if fresh.ended_at is not None:
            return RunOutcome(fresh.state, fresh.reason, fresh.error)
        known = await self._store.turns.get(fresh.turn_id) if fresh.turn_id else None
        if known is not None and known.ended_at is not None:
            return _outcome_from_turn(ExitReason(known.reason), known.error, known.usage)

        async def post_message(actor: SessionActor) -> "asyncio.Future[TurnEnded]":
            return await self._find_turn(actor, row, begun=known is not None)

        told = await load_told_text(self._store, fresh.turn_id, TEXT_SEPARATOR) if known is not None else ""
        live.turn = await self._turns.begin_turn(plan.session_request, post_message, can_ask=plan.can_ask)
        if known is not None:
            live.event_log.add_event(RUN_RESUMED, TextPiece(live.turn.make_text_filter().filter_whole(told)))
        if live.stopped:
            live.turn.stop()
        ended = await _log_turn(live, live.turn)
        return _outcome_from_turn(ended.reason, ended.error, ended.usage)

    async def _find_turn(self, actor: SessionActor, row: RunRow, *, begun: bool) -> "asyncio.Future[TurnEnded]":
        """Return the future of the turn that answers a run's message: one that a process left, one that waits, or a
        fresh one.
        """
        known = actor.resume("" if begun else row.letter_id)
        if known is not None:
            return known
        if begun:
            raise _RetryRunError("The turn of this run is gone on with elsewhere.")
        for message in await self._store.inbox.list_waiting(row.session_id):
            if message.id == row.letter_id:
                return actor.forward(row.letter_id, InboundMessage.decode(message.body))
        raise _RetryRunError("What this run says to its session is not there any more.")


class _RetryRunError(HermesError):
    """The run is to be attempted again."""


async def _log_turn(live: LiveRun, turn: ApiTurn) -> TurnEnded:
    """Log the events of a turn to its end, and return it."""
    turn_stream = TurnStream(turn)
    async for piece in turn_stream.iter_pieces(_LISTEN_SECONDS):
        if isinstance(piece, str):
            live.event_log.add_event("run.text_delta", TextPiece(piece))
        elif piece is not None:
            live.handle_event(piece)
    assert turn_stream.ended is not None
    return turn_stream.ended


def _outcome_from_turn(reason: ExitReason, error: str, usage: Usage | None) -> RunOutcome:
    state = "completed" if reason.is_completed else "stopped" if reason is ExitReason.INTERRUPTED else "failed"
    return RunOutcome(state, reason.value, error, usage)


class StoredRunRequest(Struct, frozen=True):
    """The part of a run's request that is needed to continue it after a restart."""

    name: str
    system: str = ""
    model: str = ""


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
        if idem is not None and not (0 < len(idem) <= _LONGEST_KEY and idem.isascii() and idem.isprintable()):
            raise ApiRequestError(400, f"An Idempotency-Key has 1 to {_LONGEST_KEY} printable ASCII characters.")
        digest = hashlib.sha256(to_json(asked)).digest()
        known = await self._store.api.find_run_by_key(caller.owner, idem, digest) if idem else None
        if known is not None:
            return json_response(await self._run_object(known), 202)
        await self._deps.admit_turn(caller)
        with self._deps.slots.take_slot(caller):  # until the run has its own
            row = await self._begin_run(caller, asked, idem, digest)
        return json_response(await self._run_object(row), 202)

    async def _begin_run(self, caller: ApiCaller, asked: RunRequest, idem: str | None, digest: bytes) -> RunRow:
        """Store a run and begin it; return the one that is known by the same key where there is one."""
        said, files = parse_input(asked.input, asked.instructions)
        extra = SessionExtras(said.system, self._deps.sessions.resolve_model(asked.model))
        name = asked.session_id or self._deps.sessions.fresh_session_id()
        room = await self._deps.sessions.find_or_create(caller, name, extra, history=said.before)
        message = await self._deps.build_message(caller, said, files)
        message = structs.replace(message, text=self._deps.app.redact_text(message.text))
        run = NewRun(
            id=f"run_{os.urandom(16).hex()}",
            owner=caller.owner,
            idem=idem,
            digest=digest,
            session_id=room.request.session_id,
            letter_id=new_queued_message_id(),
            letter=message.encode(),
            wish=to_json(StoredRunRequest(name, said.system, extra.model)),
        )
        async with self._deps.gateway.hold_session(
            room.request
        ) as actor:  # it does not leave before its first words are there
            await self._deps.sessions.bind_name(room, actor)
            await self._deps.write_audit(caller, "message", actor.session_id)
            return await run_to_completion(self._store_run(run))

    async def _get_run(self, request: web.Request) -> web.Response:
        return json_response(await self._run_object(await self._find_row(request)))

    async def _stream_events(self, request: web.Request) -> web.StreamResponse:
        """Stream the events that follow the one that the program has seen last."""
        row = await self._find_row(request)
        live = self.worker.find_live(row.id)
        async with EventStreamResponse(request, {EVENT_VERSION_HEADER: str(EVENT_SCHEMA_VERSION)}) as stream:
            if live is not None:
                async for event in live.event_log.follow_events(
                    request.headers.get("Last-Event-ID", ""), KEEP_ALIVE_SECONDS
                ):
                    await stream.send(KEEP_ALIVE if event is None else event)
            else:
                late = RunEventLog(row.id)
                late.add_event(RUN_ENDED, await self._run_object(row))
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
        await self._deps.write_audit(caller, "approval", row.id)
        return json_response(ApprovalReceipt(given.approval_id, given.decision))

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

    async def _run_object(self, row: RunRow) -> Run:
        """Return a run as programs read it."""
        live, wish = self.worker.find_live(row.id), msgspec.json.decode(row.wish, type=StoredRunRequest)
        text = ""
        if row.ended_at is not None and row.turn_id:
            text = await load_answer(self._store, row.turn_id)
            if await self._store.messages.list_untrusted_sources([row.session_id]):
                text = defuse_links(text)
        state = (
            row.state if row.ended_at is not None or live is None or not live.open_approvals else "waiting_for_approval"
        )
        return Run(
            id=row.id,
            status=state,
            session_id=wish.name,
            created_at=row.made_at,
            ended_at=row.ended_at,
            output=text if row.ended_at is not None else None,
            reason=row.reason or None,
            error=row.error or None,
            usage=TokenCounts.from_usage(msgspec.json.decode(row.usage, type=Usage)) if row.usage is not None else None,
            approvals=list(live.open_approvals.values()) if live is not None else [],
        )

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
            live.event_log.add_event(RUN_ENDED, await self._run_object(row))
