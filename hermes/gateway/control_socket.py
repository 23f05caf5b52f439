"""The gateway's private socket: other processes of this person take part in its sessions, and ask it things."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Protocol

from hermes.core.errors import HermesError, NotFoundError
from hermes.gateway.oneshot import Oneshots
from hermes.gateway.session_pool import Sessions
from hermes.gateway.telemetry import Watch
from hermes.i18n.messages import phrase
from hermes.ipc import frames
from hermes.ipc.connection import Wire
from hermes.ipc.hosted_session import host
from hermes.ipc.listener import GATEWAY, Listener
from hermes.runtime.actor import SessionActor
from hermes.sessions.app import App


class Serving(Protocol):
    """The gateway, as it is asked over the socket."""

    @property
    def app(self) -> App:
        """Its Hermes."""
        ...

    @property
    def sessions(self) -> Sessions:
        """Its live sessions."""
        ...

    watch: Watch

    async def measure(self) -> None:
        """Ask the store how things stand."""
        ...

    def health(self) -> Mapping[str, object]:
        """How things stand."""
        ...

    async def send(self, to: str, text: str, file: str) -> str:
        """Owe a message to a chat; where it goes."""
        ...


class LocalSocket:
    """Listens from `start` to `close`. `reload` reads the settings anew and says what came of it."""

    def __init__(self, gateway: Serving, reload: Callable[[], Awaitable[str]]) -> None:
        self._gateway = gateway
        self._reload = reload
        on = gateway.app.premises
        self.oneshots = Oneshots(on.home, on.environ, gateway.watch)
        self._listener = Listener(on.home.locks / GATEWAY, self._serve)

    @property
    def app(self) -> App:
        """The process's Hermes."""
        return self._gateway.app

    @asynccontextmanager
    async def hold(self, session_id: str) -> AsyncIterator[SessionActor]:
        """A live session, kept in memory while the context lasts."""
        if not self._gateway.sessions.has(session_id):
            raise NotFoundError(phrase("The session {id} is not open here.", id=session_id))
        async with self._gateway.sessions.hold(session_id, _never) as entry:
            yield entry.local

    def start(self) -> None:
        """Listen. Raises StoreError."""
        self._listener.start()

    async def close(self) -> None:
        """Let everybody go."""
        await self._listener.close()

    async def _serve(self, wire: Wire[frames.Ask]) -> None:
        async for frame in wire.frames():
            match frame:
                case frames.Attach():
                    await host(self, wire, frame)
                    return
                case frames.Oneshot():
                    await self.oneshots.run(wire, frame)
                    return
                case _:
                    await self._asked(wire, frame)

    async def _asked(self, wire: Wire[frames.Ask], frame: frames.Ask) -> None:
        try:
            match frame:
                case frames.Status():
                    await self._gateway.measure()
                    wire.send(frames.Standing(health=dict(self._gateway.health())))
                case frames.Send():
                    said = await self._gateway.send(frame.to, frame.text, frame.file)
                    wire.send(frames.Done(id=frame.id, said=said))
                case frames.Reload():
                    wire.send(frames.Done(id=frame.id, said=await self._reload()))
                case _:
                    pass
        except HermesError as error:
            number = frame.id if isinstance(frame, frames.Send | frames.Reload) else 0
            wire.send(frames.trouble(error, number))


async def _never() -> SessionActor:
    raise NotFoundError(phrase("This session has just been closed."))
