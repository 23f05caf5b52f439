"""The gateway's private control socket: other processes of this person join its sessions, and send it requests.

Answers one message of a caller that waits at a terminal or in a script (`hermes -z`).

Each runs in an App of its own, with the current settings and the caller's environment and folder. What would
not behave as in a process of the caller's own is refused, and the caller starts that process.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Protocol

from hermes.admin.people.identity import OWNER_ID
from hermes.config.home import HermesHome, locate_home
from hermes.config.language import detect_language
from hermes.core.errors import BusyError, HermesError, NotFoundError
from hermes.core.events import (
    ApprovalAnswered,
    ApprovalAsked,
    Event,
    FellBack,
    Level,
    MessageAppended,
    Notice,
    Refused,
    Retrying,
    TurnEnded,
)
from hermes.core.outcomes import AnswerScope, ExitReason
from hermes.gateway.handoff import hand_off_session
from hermes.gateway.outbox import SendOutcome, SendState
from hermes.gateway.platform import GatewayFacade
from hermes.gateway.reload import ReloadOutcome
from hermes.gateway.session_pool import SessionPool, require_local
from hermes.gateway.telemetry import Telemetry
from hermes.i18n.messages import N_, set_language
from hermes.ipc import frames
from hermes.ipc.frames import IpcConnection
from hermes.ipc.listener import GATEWAY_SOCKET, IpcListener
from hermes.ipc.session_host import RemotePrompter, serve_session
from hermes.runtime.actor import SessionActor
from hermes.runtime.mailbox import InboundMessage, attach_piped_text
from hermes.sessions.app import App, list_changed_files
from hermes.sessions.options import SessionOptions
from hermes.util.cancellation import cancel_tasks

_REFUSED, _STOPPED = 3, 130
_FORWARDED_EVENTS = (ApprovalAnswered, ApprovalAsked, FellBack, Refused, Retrying)
"""Events that the caller is sent while it waits."""


class OneshotRunner:
    """Runs one-shot messages. `environ` is the gateway's own."""

    def __init__(self, home: HermesHome, environ: Mapping[str, str], watch: Telemetry) -> None:
        self._home = home
        self._watch = watch
        self._environ = environ
        self._idle = asyncio.Event()
        self._idle.set()
        self._closed = False
        self.running = 0

    async def drain(self) -> None:
        """Accept no more, and wait until none runs."""
        self._closed = True
        await self._idle.wait()

    async def run(self, wire: IpcConnection[frames.RequestFrame], wanted: frames.OneshotFrame) -> None:
        """Answer one message; its turn is stopped when the caller goes away."""
        if self._closed or self._needs_own_process(wanted):
            wire.send(frames.RunLocallyFrame())
            return
        self.running += 1
        self._idle.clear()
        set_language(detect_language(wanted.environ))
        try:
            await self._answer_message(wire, wanted)
        except BusyError as error:
            wire.send(frames.RunLocallyFrame(why=error.message))
        except HermesError as error:
            wire.send(frames.TurnEndedFrame(error=frames.error_frame(error), code=error.exit_code))
        finally:
            self.running -= 1
            if not self.running:
                self._idle.set()

    def _needs_own_process(self, wanted: frames.OneshotFrame) -> bool:
        """Return whether the caller has another Hermes home, or another user's home."""
        same_home = locate_home(wanted.environ).root == self._home.root
        return not same_home or wanted.environ.get("HOME") != self._environ.get("HOME")

    async def _answer_message(self, wire: IpcConnection[frames.RequestFrame], wanted: frames.OneshotFrame) -> None:
        options = SessionOptions(
            model=wanted.model,
            provider=wanted.provider,
            max_turns=wanted.max_turns,
            max_cost=wanted.max_cost,
            enabled_toolsets=wanted.toolsets,
            allow=wanted.allow,
            unattended=True,
            cwd=wanted.cwd,
        )
        peer = RemotePrompter(wire)
        async with App(wanted.environ, options) as app:
            try:
                actor = await app.open_session(wanted.resume, latest=wanted.latest, asker=peer if wanted.asks else None)
            finally:
                for line in app.notices:
                    wire.send(frames.OutputFrame(text=line, level=Level.WARNING.value))
            wire.send(_accept_message(wanted, actor))
            if not isinstance(await wire.next_frame(), frames.OneshotConfirmFrame):
                return
            actor.approvals.can_ask = wanted.asks
            self._watch.log_event("oneshot", session=actor.session_id)
            actor.subscribe(self._watch.session_listener(actor.session_id))
            unsubscribe = actor.subscribe(_make_event_sender(wire, sends_all=wanted.report == "stream"))
            hearing = asyncio.create_task(_handle_frames(wire, actor, peer), name="caller")
            try:
                inbound = InboundMessage(text=wanted.text, cwd=wanted.cwd)
                ended = await actor.post(attach_piped_text(inbound, wanted.piped))
            finally:
                await cancel_tasks([hearing])
                unsubscribe()
            code = _exit_code(ended, actor.approvals.unasked)
            files = None
            if wanted.report and app.services.settings.checkpoints.enabled:
                files = await list_changed_files(app, actor.session_id, [ended.turn_id])
        # The answer is given once the session is closed: who has it may open the session at once.
        wire.send(frames.TurnEndedFrame(ended=ended, code=code, files_changed=files))


def _accept_message(wanted: frames.OneshotFrame, actor: SessionActor) -> frames.OneshotAcceptedFrame:
    """Return the frame that accepts a message: a caller that needs them is told the model, and that its report and its
    piped text are known here.
    """
    if not (wanted.piped or wanted.report):
        return frames.OneshotAcceptedFrame(actor.session_id)
    endpoint = actor.conversation.client.endpoint
    return frames.OneshotAcceptedFrame(actor.session_id, endpoint.model, endpoint.record.name, reports=True)


def _make_event_sender(wire: IpcConnection[frames.RequestFrame], *, sends_all: bool) -> Callable[[Event], None]:
    """Return what sends the caller the events that it shows; with `sends_all` all but the transcript's messages."""

    def send_event(event: Event) -> None:
        if sends_all:
            is_sent = not isinstance(event, MessageAppended)
        else:
            is_sent = isinstance(event, _FORWARDED_EVENTS) or (
                isinstance(event, Notice) and event.level is not Level.INFO
            )
        if is_sent:
            wire.send(frames.EventFrame(event))

    return send_event


async def _handle_frames(wire: IpcConnection[frames.RequestFrame], actor: SessionActor, peer: RemotePrompter) -> None:
    async for frame in wire.iterate_frames():
        match frame:
            case frames.StopFrame():
                actor.stop()
            case frames.ApprovalAnswerFrame():
                scope = AnswerScope(frame.scope) if frame.scope in set(AnswerScope) else AnswerScope.DENY
                actor.approvals.answer(frame.approval_id, scope=scope, by="person")
            case frames.PromptReplyFrame():
                peer.resolve_reply(frame)
            case _:
                pass
    peer.cancel_prompts()
    actor.approvals.can_ask = False
    with contextlib.suppress(HermesError):
        actor.stop()  # nobody waits for the answer any more


def _exit_code(ended: TurnEnded, unasked: int) -> int:
    if ended.reason is ExitReason.INTERRUPTED:
        return _STOPPED
    if not ended.reason.is_completed:
        return 1
    return _REFUSED if unasked else 0


class ControlledGateway(GatewayFacade, Protocol):
    """The gateway as the control socket uses it."""

    telemetry: Telemetry
    pool: SessionPool
    deliver_jobs: Callable[[], None]
    """Has the output of jobs that another process ran delivered now."""

    async def send_message(self, to: str, text: str, file: str) -> tuple[str, SendOutcome]:
        """Send a message to a target; return where it goes, and what is known of it after some seconds."""
        ...


class ControlSocket:
    """Listens from `start` to `close`. `reload` reads the settings again."""

    def __init__(self, gateway: ControlledGateway, reload: Callable[[], Awaitable[ReloadOutcome]]) -> None:
        self._gateway = gateway
        self._reload = reload
        services = gateway.app.services
        self.oneshots = OneshotRunner(services.home, services.environ, gateway.telemetry)
        self._listener = IpcListener(services.home.locks / GATEWAY_SOCKET, self._serve_connection)

    @property
    def app(self) -> App:
        """The process's App."""
        return self._gateway.app

    @asynccontextmanager
    async def hold(self, session_id: str) -> AsyncIterator[SessionActor]:
        """Keep a live session in memory while the context lasts. Raises NotFoundError where it is not open here."""
        if not self._gateway.pool.has_session(session_id):
            raise NotFoundError(N_("The session {id} is not open here.", id=session_id))
        async with self._gateway.pool.hold(session_id, _refuse_opening) as entry:
            yield require_local(entry.actor)

    def start(self) -> None:
        """Start listening. Raises StoreError."""
        self._listener.start()

    async def close(self) -> None:
        """Close every connection and stop listening."""
        await self._listener.close()

    async def _serve_connection(self, wire: IpcConnection[frames.RequestFrame]) -> None:
        async for frame in wire.iterate_frames():
            match frame:
                case frames.AttachFrame():
                    await serve_session(self, wire, frame)
                    return
                case frames.OneshotFrame():
                    await self.oneshots.run(wire, frame)
                    return
                case _:
                    await self._answer_frame(wire, frame)

    async def _answer_frame(self, wire: IpcConnection[frames.RequestFrame], frame: frames.RequestFrame) -> None:
        try:
            match frame:
                case frames.StatusRequestFrame():
                    await self._gateway.measure_backlog()
                    wire.send(frames.StatusFrame(health=dict(self._gateway.health_report())))
                case frames.SendFrame():
                    where, outcome = await self._gateway.send_message(frame.to, frame.text, frame.file)
                    wire.send(_describe_send(frame.id, where, outcome))
                case frames.HandOffFrame():
                    moved = await hand_off_session(self._gateway.pool, frame.session_id, frame.to, person=OWNER_ID)
                    wire.send(frames.DoneFrame(id=frame.id, said=moved))
                case frames.DeliverJobsFrame():
                    self._gateway.deliver_jobs()
                    wire.send(frames.DoneFrame(id=frame.id))
                case frames.ReloadFrame():
                    done = await self._reload()
                    notices = tuple(done.notices)
                    wire.send(frames.DoneFrame(id=frame.id, said=done.said, code=done.code, notices=notices))
                case _:
                    pass
        except HermesError as error:
            numbered = frames.SendFrame | frames.ReloadFrame | frames.HandOffFrame | frames.DeliverJobsFrame
            number = frame.id if isinstance(frame, numbered) else 0
            wire.send(frames.error_frame(error, number))


def _describe_send(request_id: int, where: str, outcome: SendOutcome) -> frames.DoneFrame:
    match outcome.state:
        case SendState.DELIVERED:
            return frames.DoneFrame(id=request_id, said=N_("Delivered: {where}", where=where))
        case SendState.STORED:
            said = N_("Stored, and tried until it is delivered: {where} {why}", where=where, why=outcome.why)
            return frames.DoneFrame(id=request_id, said=said, code=BusyError.exit_code)
        case SendState.REFUSED:
            said = N_("The platform refused it: {where} {why}", where=where, why=outcome.why)
            return frames.DoneFrame(id=request_id, said=said, code=1)


async def _refuse_opening() -> tuple[SessionActor, None]:
    raise NotFoundError(N_("This session has just been closed."))
