"""Let another process of this home attach to a session that lives in this one."""

import asyncio
import contextlib
import itertools
import os
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from hermes.admin.people.identity import OWNER_IDENTITY, PersonIdentity
from hermes.commands.context import MenuOption, PostMode, PromptScope, Surface
from hermes.commands.registry import builtin_command_names, command_registry
from hermes.core.errors import HermesError, UsageError
from hermes.core.events import Event, Level, TurnEnded
from hermes.core.outcomes import AnswerScope
from hermes.i18n.messages import N_, set_language
from hermes.ipc import frames
from hermes.ipc.frames import IpcConnection
from hermes.runtime.actor import SessionActor
from hermes.runtime.mailbox import InboundMessage
from hermes.sessions.app import App, find_sub_agents
from hermes.sessions.port import SessionPort

SessionHolder = Callable[[str], AbstractAsyncContextManager[SessionActor]]
"""Opens a live session of this process for as long as the context lasts. Raises NotFoundError where it is not here."""


class RemotePrompter:
    """Sends prompts over a connection, and matches each reply to its prompt."""

    def __init__(self, connection: IpcConnection[frames.RequestFrame]) -> None:
        self._connection = connection
        self._numbers = itertools.count(1)
        self._open_prompts: dict[int, asyncio.Future[int | str | None]] = {}

    async def send_prompt(
        self, kind: str, title: str, options: Sequence[MenuOption] = (), *, chosen: int = 0, default: str = ""
    ) -> int | str | None:
        """Send a prompt and return the answer; None when the user cancels or is gone."""
        number = next(self._numbers)
        answer: asyncio.Future[int | str | None] = asyncio.get_running_loop().create_future()
        self._open_prompts[number] = answer
        rows = tuple((one.label, one.detail) for one in options)
        self._connection.send(
            frames.PromptFrame(id=number, title=title, options=rows, chosen=chosen, kind=kind, default=default)
        )
        try:
            return await answer
        finally:
            self._open_prompts.pop(number, None)

    def resolve_reply(self, reply: frames.PromptReplyFrame) -> None:
        """Resolve the prompt of a reply."""
        answer = self._open_prompts.get(reply.id)
        if answer is not None and not answer.done():
            answer.set_result(reply.value)

    def cancel_prompts(self) -> None:
        """Resolve every open prompt with None, because no more answers will come."""
        for answer in self._open_prompts.values():
            if not answer.done():
                answer.set_result(None)

    async def ask(self, question: str, choices: Sequence[str]) -> str | None:
        """Put the model's question to the user; this implements the `Asker` of a session's tools."""
        picked = await self.send_prompt("model", question, [MenuOption(one) for one in choices])
        return choices[picked] if isinstance(picked, int) and 0 <= picked < len(choices) else _text_or_none(picked)


def _text_or_none(value: int | str | None) -> str | None:
    return value if isinstance(value, str) else None


class RemoteCommandContext:
    """A command context whose user is at another process."""

    surface = Surface.CHAT
    chat = None
    session_person = ""
    terminal = None

    def __init__(
        self, app: App, actor: SessionActor, connection: IpcConnection[frames.RequestFrame], prompter: RemotePrompter
    ) -> None:
        self.app = app
        self.actor = actor
        self._connection = connection
        self._prompter = prompter

    @property
    def person(self) -> PersonIdentity:
        """The owner: only their own programs reach this socket, and only their own chats attach to it."""
        return OWNER_IDENTITY

    @property
    def prompt_scope(self) -> PromptScope:
        """The skills and own commands of the session's folder."""
        return PromptScope(folder=self.app.options.cwd, taken=builtin_command_names())

    @property
    def port(self) -> SessionPort:
        """The session, wherever it lives."""
        return self.actor

    def tell(self, text: str, level: Level = Level.INFO) -> None:
        """Send lines to show."""
        self._connection.send(frames.OutputFrame(text=text, level=level.value))

    def show(self, markdown: str) -> None:
        """Send a text to show."""
        self._connection.send(frames.OutputFrame(text=markdown, markdown=True))

    async def choose(self, title: str, options: Sequence[MenuOption], *, chosen: int = 0) -> int | None:
        """Let the user choose one of the rows."""
        picked = await self._prompter.send_prompt("choose", title, options, chosen=chosen)
        return picked if isinstance(picked, int) and 0 <= picked < len(options) else None

    async def confirm(self, question: str) -> bool:
        """Ask for yes or no."""
        return await self._prompter.send_prompt("confirm", question) == 1

    async def ask(self, question: str, *, default: str = "") -> str | None:
        """Ask for a line of text."""
        return _text_or_none(await self._prompter.send_prompt("line", question, default=default))

    async def open_session(self, name: str | None = None, *, greet: bool = True) -> SessionPort:
        """Raise UsageError: another session is opened by the user's own process."""
        del name, greet
        raise UsageError(N_("This session lives in another process; /new and /resume leave it first."))

    async def hand_off(self, target: str) -> str:
        """Raise UsageError: the user's own process hands the session over."""
        del target
        raise UsageError(N_("That works in a chat on a platform only."))

    def post_message(self, inbound: InboundMessage, delivery: PostMode = PostMode.USUAL) -> None:
        """Send a message to the session."""
        _post_message(self.actor, inbound, delivery.value, in_order=False)

    def prefill_input(self, text: str) -> None:
        """Show the text, because the input line is in another process."""
        self.tell(f"> {text}")

    async def refresh_view(self) -> None:
        """Do nothing: the session's events update what is shown."""

    def leave_chat(self, *, delete: bool = False) -> None:
        """Do nothing: the user's own process leaves."""
        del delete


def _post_message(
    actor: SessionActor, inbound: InboundMessage, way: str, *, in_order: bool
) -> "asyncio.Future[TurnEnded]":
    if way == PostMode.STEER.value:
        return actor.steer(inbound, in_order=in_order)
    return actor.interrupt(inbound) if way == PostMode.INTERRUPT.value else actor.post(inbound)


class SessionHost(Protocol):
    """A process that holds sessions."""

    @property
    def app(self) -> App:
        """Its application object."""
        ...

    def hold(self, session_id: str) -> AbstractAsyncContextManager[SessionActor]:
        """Hold a live session while the context lasts. Raises NotFoundError where it is not here."""
        ...


async def serve_session(
    session_host: SessionHost, connection: IpcConnection[frames.RequestFrame], attach: frames.AttachFrame
) -> None:
    """Let a peer take part in a session until it disconnects, or the session is closed."""
    set_language(attach.language)
    try:
        async with session_host.hold(attach.session_id) as actor:
            await _AttachedPeer(session_host.app, actor, connection).serve_peer(attach)
    except HermesError as error:
        connection.send(frames.error_frame(error))


class _AttachedPeer:
    """One peer that is attached to one session."""

    def __init__(self, app: App, actor: SessionActor, connection: IpcConnection[frames.RequestFrame]) -> None:
        self._app = app
        self._actor = actor
        self._connection = connection
        self._prompter = RemotePrompter(connection)
        self._tasks: set[asyncio.Task[None]] = set()

    async def serve_peer(self, attach: frames.AttachFrame) -> None:
        actor = self._actor
        here = asyncio.current_task()
        assert here is not None
        ended = here.cancel  # the session is closed under the guest: then it ends, too
        actor.on_close.append(ended)
        try:
            title = str((await self._app.session_row(actor))["title"])
            await self._exchange_frames(attach, title)
        finally:
            with contextlib.suppress(ValueError):
                actor.on_close.remove(ended)
            self._prompter.cancel_prompts()
            for task in tuple(self._tasks):
                task.cancel()

    async def _exchange_frames(self, attach: frames.AttachFrame, title: str) -> None:
        actor = self._actor
        # Nothing is waited for before the first frame: it says where the session stands, and every event comes after.
        self._connection.send(self._attached_frame(title))
        unsubscribe = actor.subscribe(self._send_event)
        if (team := find_sub_agents(self._app, actor.session_id)) is not None:
            from hermes.sessions.sub_agents.team import describe_team

            for event in describe_team(team):
                self._send_event(event)
        actor.approvals.guests += attach.asks
        try:
            async for frame in self._connection.iterate_frames():
                self._handle_frame(frame)
        finally:
            unsubscribe()
            actor.approvals.guests -= attach.asks

    def _attached_frame(self, title: str) -> frames.AttachedFrame:
        actor, app = self._actor, self._app
        endpoint = actor.conversation.client.endpoint
        return frames.AttachedFrame(
            session_id=actor.session_id,
            pid=os.getpid(),
            busy=actor.busy,
            model=endpoint.model,
            window=endpoint.context_length,
            place=app.live_session(actor).tools.context.backend_handle.name,
            title=title,
            yolo=app.is_yolo(actor),
        )

    def _send_event(self, event: Event) -> None:
        self._connection.send(frames.EventFrame(event))

    def _handle_frame(self, frame: frames.RequestFrame) -> None:
        actor = self._actor
        match frame:
            case frames.PostFrame():
                way, ordered = frame.way, frame.in_order
                self._answer_turn(frame.id, lambda: _post_message(actor, frame.inbound, way, in_order=ordered))
            case frames.ForwardFrame():
                joins, first = frame.joins, frame.first
                self._answer_turn(
                    frame.id, lambda: actor.forward(frame.letter_id, frame.inbound, joins=joins, first=first)
                )
            case frames.StopFrame():
                pursuit = self._app.background_work.find_pursuit(actor)
                _ = pursuit.stop() if pursuit is not None else actor.stop()
            case frames.ApprovalAnswerFrame():
                scope = AnswerScope(frame.scope) if frame.scope in set(AnswerScope) else AnswerScope.DENY
                actor.approvals.answer(frame.approval_id, scope=scope, by="person")
            case frames.CommandFrame():
                self._start_task(self._run_command(frame))
            case frames.PromptReplyFrame():
                self._prompter.resolve_reply(frame)
            case _:
                pass

    def _answer_turn(self, number: int, say: "Callable[[], asyncio.Future[TurnEnded]]") -> None:
        try:
            ended = say()
        except HermesError as error:
            self._connection.send(frames.TurnEndedFrame(id=number, error=frames.error_frame(error)))
            return
        ended.add_done_callback(lambda done: self._connection.send(_turn_ended_frame(number, done)))

    async def _run_command(self, frame: frames.CommandFrame) -> None:
        context = RemoteCommandContext(self._app, self._actor, self._connection, self._prompter)
        try:
            await command_registry(Surface.CHAT).run_command(context, frame.name, frame.text)
        except HermesError as error:
            self._connection.send(frames.error_frame(error, frame.id))
        else:
            self._connection.send(frames.DoneFrame(id=frame.id))

    def _start_task(self, work: Coroutine[object, object, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _turn_ended_frame(number: int, done: "asyncio.Future[TurnEnded]") -> frames.TurnEndedFrame:
    if done.cancelled():
        return frames.TurnEndedFrame(id=number)
    error = done.exception()
    if error is None:
        return frames.TurnEndedFrame(id=number, ended=done.result())
    known = (
        error
        if isinstance(error, HermesError)
        else HermesError(N_("{name}: {error}", name=type(error).__name__, error=error))
    )
    return frames.TurnEndedFrame(id=number, error=frames.error_frame(known))
