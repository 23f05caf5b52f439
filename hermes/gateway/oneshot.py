"""One message of somebody who waits for its answer at a terminal or in a script (`hermes -z`), answered here.

It has a Hermes of its own: the settings as they are now, the caller's environment and folder. What would not be the
same as in a process of the caller's own is left to one.
"""

import asyncio
import contextlib
from collections.abc import Callable, Mapping

from hermes.config.home import Home, locate_home
from hermes.config.language import wanted_language
from hermes.core.errors import BusyError, HermesError
from hermes.core.events import (
    ApprovalAnswered,
    ApprovalAsked,
    Event,
    FellBack,
    Level,
    Notice,
    Refused,
    Retrying,
    TurnEnded,
)
from hermes.core.outcomes import AnswerScope, ExitReason
from hermes.gateway.telemetry import Watch
from hermes.i18n.messages import speak
from hermes.ipc import frames
from hermes.ipc.connection import Wire
from hermes.ipc.hosted_session import Peer
from hermes.runtime.actor import SessionActor
from hermes.runtime.mailbox import Inbound
from hermes.sessions.app import App
from hermes.sessions.options import Options

_REFUSED, _STOPPED = 3, 130
_SHOWN = (ApprovalAnswered, ApprovalAsked, FellBack, Refused, Retrying)
"""Events of which the caller is told while it waits."""


class Oneshots:
    """Those that run. `environ` is the gateway's own."""

    def __init__(self, home: Home, environ: Mapping[str, str], watch: Watch) -> None:
        self._home = home
        self._watch = watch
        self._environ = environ
        self._idle = asyncio.Event()
        self._idle.set()
        self._closed = False
        self.running = 0

    async def idle(self) -> None:
        """Take none any more, and wait until none runs."""
        self._closed = True
        await self._idle.wait()

    async def run(self, wire: Wire[frames.Ask], wanted: frames.Oneshot) -> None:
        """Answer one; when the caller goes away its turn is stopped."""
        if self._closed or self._different(wanted):
            wire.send(frames.Alone())
            return
        self.running += 1
        self._idle.clear()
        speak(wanted_language(wanted.environ))
        try:
            await self._answer(wire, wanted)
        except BusyError as error:
            wire.send(frames.Alone(why=error.message))
        except HermesError as error:
            wire.send(frames.Ended(error=frames.trouble(error), code=error.exit_code))
        finally:
            self.running -= 1
            if not self.running:
                self._idle.set()

    def _different(self, wanted: frames.Oneshot) -> bool:
        """Whether the caller lives in another world: another home, or another person's."""
        same_home = locate_home(wanted.environ).root == self._home.root
        return not same_home or wanted.environ.get("HOME") != self._environ.get("HOME")

    async def _answer(self, wire: Wire[frames.Ask], wanted: frames.Oneshot) -> None:
        options = Options(
            model=wanted.model,
            provider=wanted.provider,
            max_turns=wanted.max_turns,
            max_cost=wanted.max_cost,
            enabled_toolsets=wanted.toolsets,
            allow=wanted.allow,
            cwd=wanted.cwd,
        )
        peer = Peer(wire)
        async with App(wanted.environ, options) as app:
            try:
                actor = await app.open_session(wanted.resume, latest=wanted.latest, asker=peer if wanted.asks else None)
            finally:
                for line in app.notices:
                    wire.send(frames.Told(text=line, level=Level.WARNING.value))
            wire.send(frames.Taken(actor.session_id))
            if not isinstance(await wire.next(), frames.Go):
                return
            actor.approvals.can_ask = wanted.asks
            self._watch.note("oneshot", session=actor.session_id)
            actor.subscribe(self._watch.hearing(actor.session_id))
            unsubscribe = actor.subscribe(_teller(wire))
            hearing = asyncio.create_task(_hear(wire, actor, peer), name="caller")
            try:
                ended = await actor.post(Inbound(text=wanted.text, cwd=wanted.cwd))
            finally:
                hearing.cancel()
                await asyncio.wait({hearing})
                unsubscribe()
            code = _code(ended, actor.approvals.unasked)
        # The answer is given once the session is closed: who has it may open the session at once.
        wire.send(frames.Ended(ended=ended, code=code))


def _teller(wire: Wire[frames.Ask]) -> Callable[[Event], None]:
    def tell(event: Event) -> None:
        if isinstance(event, _SHOWN) or (isinstance(event, Notice) and event.level is not Level.INFO):
            wire.send(frames.Happened(event))

    return tell


async def _hear(wire: Wire[frames.Ask], actor: SessionActor, peer: Peer) -> None:
    async for frame in wire.frames():
        match frame:
            case frames.Stop():
                actor.stop()
            case frames.Answer():
                scope = AnswerScope(frame.scope) if frame.scope in set(AnswerScope) else AnswerScope.DENY
                actor.approvals.answer(frame.approval_id, scope=scope, by="person")
            case frames.Reply():
                peer.replied(frame)
            case _:
                pass
    peer.gone()
    actor.approvals.can_ask = False
    with contextlib.suppress(HermesError):
        actor.stop()  # nobody waits for the answer any more


def _code(ended: TurnEnded, unasked: int) -> int:
    if ended.reason is ExitReason.INTERRUPTED:
        return _STOPPED
    if not ended.reason.completed:
        return 1
    return _REFUSED if unasked else 0
