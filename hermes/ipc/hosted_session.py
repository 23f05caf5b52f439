"""Lets another process of this home take part in a session that lives in this one."""

import asyncio
import contextlib
import itertools
import os
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from hermes.admin.people.identity import THE_OWNER, Person
from hermes.commands.context import Delivery, Option, Surface
from hermes.commands.registry import registry
from hermes.core.errors import HermesError, UsageError
from hermes.core.events import Event, Level, TurnEnded
from hermes.core.outcomes import AnswerScope, ExitReason
from hermes.i18n.messages import phrase, speak
from hermes.ipc import frames
from hermes.ipc.connection import Wire
from hermes.runtime.actor import SessionActor
from hermes.runtime.mailbox import Inbound
from hermes.sessions.app import App
from hermes.sessions.port import SessionPort

Holding = Callable[[str], AbstractAsyncContextManager[SessionActor]]
"""A live session of this process, kept while the context lasts. Raises NotFoundError where it is not here."""


class Peer:
    """Asks somebody at the other end of a wire; each answer goes to its question."""

    def __init__(self, wire: Wire[frames.Ask]) -> None:
        self._wire = wire
        self._numbers = itertools.count(1)
        self._open: dict[int, asyncio.Future[int | str | None]] = {}

    async def asked(
        self, kind: str, title: str, options: Sequence[Option] = (), *, chosen: int = 0, default: str = ""
    ) -> int | str | None:
        """What they answer; None when they would rather not, or are gone."""
        number = next(self._numbers)
        answer: asyncio.Future[int | str | None] = asyncio.get_running_loop().create_future()
        self._open[number] = answer
        rows = tuple((one.label, one.detail) for one in options)
        self._wire.send(frames.Asked(id=number, title=title, options=rows, chosen=chosen, kind=kind, default=default))
        try:
            return await answer
        finally:
            self._open.pop(number, None)

    def replied(self, reply: frames.Reply) -> None:
        """They have answered."""
        answer = self._open.get(reply.id)
        if answer is not None and not answer.done():
            answer.set_result(reply.value)

    def gone(self) -> None:
        """They will answer nothing more."""
        for answer in self._open.values():
            if not answer.done():
                answer.set_result(None)

    async def ask(self, question: str, choices: Sequence[str]) -> str | None:
        """A question of the model's; so this is the `Asker` of a session's tools."""
        picked = await self.asked("model", question, [Option(one) for one in choices])
        return choices[picked] if isinstance(picked, int) and 0 <= picked < len(choices) else _text(picked)


def _text(value: int | str | None) -> str | None:
    return value if isinstance(value, str) else None


class WireDesk:
    """A `Desk` whose person sits at another process."""

    surface = Surface.CHAT
    terminal = None

    def __init__(self, app: App, actor: SessionActor, wire: Wire[frames.Ask], peer: Peer) -> None:
        self.app = app
        self.actor = actor
        self._wire = wire
        self._peer = peer

    @property
    def person(self) -> Person:
        """The owner: only their own programs reach this socket, and only their own chats attach to it."""
        return THE_OWNER

    @property
    def port(self) -> SessionPort:
        """The session, wherever it lives."""
        return self.actor

    def tell(self, text: str, level: Level = Level.INFO) -> None:
        """Show lines."""
        self._wire.send(frames.Told(text=text, level=level.value))

    def show(self, markdown: str) -> None:
        """Show a text."""
        self._wire.send(frames.Told(text=markdown, markdown=True))

    async def choose(self, title: str, options: Sequence[Option], *, chosen: int = 0) -> int | None:
        """One of the rows."""
        picked = await self._peer.asked("choose", title, options, chosen=chosen)
        return picked if isinstance(picked, int) and 0 <= picked < len(options) else None

    async def confirm(self, question: str) -> bool:
        """Yes or no."""
        return await self._peer.asked("confirm", question) == 1

    async def ask(self, question: str, *, default: str = "") -> str | None:
        """A line."""
        return _text(await self._peer.asked("line", question, default=default))

    async def open(self, name: str | None = None, *, greet: bool = True) -> SessionPort:
        """Another session is opened by the process in front of which the person sits."""
        del name, greet
        raise UsageError(phrase("This session lives in another process; /new and /resume leave it first."))

    async def beside(self) -> SessionActor:
        """A session beside this one would live in the other process, too."""
        raise UsageError(phrase("This session lives in another process; begin a new one with /new first."))

    def post(self, inbound: Inbound, delivery: Delivery = Delivery.USUAL) -> None:
        """Say something to the session."""
        _posted(self.actor, inbound, delivery.value, in_order=False)

    async def answered(self, inbound: Inbound) -> ExitReason:
        """Say something, and wait for the end of its turn."""
        return (await self.actor.post(inbound)).reason

    def prefill(self, text: str) -> None:
        """The line is in another process: it is shown."""
        self.tell(f"> {text}")

    async def refresh(self) -> None:
        """What is shown of the session is brought up to date by its events."""

    def leave(self, *, delete: bool = False) -> None:
        """The person leaves by themselves."""
        del delete


def _posted(actor: SessionActor, inbound: Inbound, way: str, *, in_order: bool) -> "asyncio.Future[TurnEnded]":
    if way == Delivery.STEER.value:
        return actor.steer(inbound, in_order=in_order)
    return actor.interrupt(inbound) if way == Delivery.INTERRUPT.value else actor.post(inbound)


class Host(Protocol):
    """A process that holds sessions."""

    @property
    def app(self) -> App:
        """Its Hermes."""
        ...

    def hold(self, session_id: str) -> AbstractAsyncContextManager[SessionActor]:
        """A live session of it, kept while the context lasts. Raises NotFoundError where it is not here."""
        ...


async def host(on: Host, wire: Wire[frames.Ask], attach: frames.Attach) -> None:
    """Let a peer take part in a session until it goes, or the session is closed."""
    speak(attach.language)
    try:
        async with on.hold(attach.session_id) as actor:
            await _Guest(on.app, actor, wire).run(attach)
    except HermesError as error:
        wire.send(frames.trouble(error))


class _Guest:
    """One peer at one session."""

    def __init__(self, app: App, actor: SessionActor, wire: Wire[frames.Ask]) -> None:
        self._app = app
        self._actor = actor
        self._wire = wire
        self._peer = Peer(wire)
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self, attach: frames.Attach) -> None:
        actor = self._actor
        here = asyncio.current_task()
        assert here is not None
        ended = here.cancel  # the session is closed under the guest: then it ends, too
        actor.on_close.append(ended)
        try:
            title = str((await self._app.about(actor))["title"])
            await self._listen(attach, title)
        finally:
            with contextlib.suppress(ValueError):
                actor.on_close.remove(ended)
            self._peer.gone()
            for task in tuple(self._tasks):
                task.cancel()

    async def _listen(self, attach: frames.Attach, title: str) -> None:
        actor = self._actor
        # Nothing is waited for before the first frame: it says where the session stands, and every event comes after.
        self._wire.send(self._attached(title))
        unsubscribe = actor.subscribe(self._hear)
        actor.approvals.guests += attach.asks
        try:
            async for frame in self._wire.frames():
                self._take(frame)
        finally:
            unsubscribe()
            actor.approvals.guests -= attach.asks

    def _attached(self, title: str) -> frames.Attached:
        actor, app = self._actor, self._app
        endpoint = actor.conversation.client.endpoint
        return frames.Attached(
            session_id=actor.session_id,
            pid=os.getpid(),
            busy=actor.busy,
            model=endpoint.model,
            window=endpoint.context_length,
            place=app.live(actor).tools.context.backend.name,
            title=title,
            yolo=app.unasked(actor),
        )

    def _hear(self, event: Event) -> None:
        self._wire.send(frames.Happened(event))

    def _take(self, frame: frames.Ask) -> None:
        actor = self._actor
        match frame:
            case frames.Post():
                way, ordered = frame.way, frame.in_order
                self._answer(frame.id, lambda: _posted(actor, frame.inbound, way, in_order=ordered))
            case frames.Forward():
                joins, first = frame.joins, frame.first
                self._answer(frame.id, lambda: actor.forward(frame.letter_id, frame.inbound, joins=joins, first=first))
            case frames.Stop():
                pursuit = self._app.beside.pursuing(actor)
                _ = pursuit.stop() if pursuit is not None else actor.stop()
            case frames.Answer():
                scope = AnswerScope(frame.scope) if frame.scope in set(AnswerScope) else AnswerScope.DENY
                actor.approvals.answer(frame.approval_id, scope=scope, by="person")
            case frames.Command():
                self._go(self._command(frame))
            case frames.Reply():
                self._peer.replied(frame)
            case _:
                pass

    def _answer(self, number: int, say: "Callable[[], asyncio.Future[TurnEnded]]") -> None:
        try:
            ended = say()
        except HermesError as error:
            self._wire.send(frames.Ended(id=number, error=frames.trouble(error)))
            return
        ended.add_done_callback(lambda done: self._wire.send(_ended(number, done)))

    async def _command(self, frame: frames.Command) -> None:
        desk = WireDesk(self._app, self._actor, self._wire, self._peer)
        try:
            await registry(Surface.CHAT).run(desk, frame.name, frame.text)
        except HermesError as error:
            self._wire.send(frames.trouble(error, frame.id))
        else:
            self._wire.send(frames.Done(id=frame.id))

    def _go(self, work: Coroutine[object, object, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _ended(number: int, done: "asyncio.Future[TurnEnded]") -> frames.Ended:
    if done.cancelled():
        return frames.Ended(id=number)
    error = done.exception()
    if error is None:
        return frames.Ended(id=number, ended=done.result())
    known = error if isinstance(error, HermesError) else HermesError(f"{type(error).__name__}: {error}")
    return frames.Ended(id=number, error=frames.trouble(known))
