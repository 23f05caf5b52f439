"""The gateway's private control socket: other processes of this person join its sessions, and send it requests."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Protocol

from hermes.core.errors import HermesError, NotFoundError
from hermes.gateway.oneshot import OneshotRunner
from hermes.gateway.session_pool import SessionPool
from hermes.gateway.telemetry import Telemetry
from hermes.i18n.messages import N_
from hermes.ipc import frames
from hermes.ipc.connection import IpcConnection
from hermes.ipc.listener import GATEWAY_SOCKET, IpcListener
from hermes.ipc.session_host import serve_session
from hermes.runtime.actor import SessionActor
from hermes.sessions.app import App


class ControlledGateway(Protocol):
    """The gateway as the control socket uses it."""

    @property
    def app(self) -> App:
        """Its App."""
        ...

    @property
    def pool(self) -> SessionPool:
        """Its live sessions."""
        ...

    telemetry: Telemetry

    async def measure_backlog(self) -> None:
        """Refresh the store's part of the health report."""
        ...

    def health_report(self) -> Mapping[str, object]:
        """Return the gateway's state."""
        ...

    async def send_message(self, to: str, text: str, file: str) -> str:
        """Queue a message for a chat; return where it goes."""
        ...


class ControlSocket:
    """Listens from `start` to `close`. `reload` reads the settings again and returns a summary."""

    def __init__(self, gateway: ControlledGateway, reload: Callable[[], Awaitable[str]]) -> None:
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
            yield entry.local

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
                    said = await self._gateway.send_message(frame.to, frame.text, frame.file)
                    wire.send(frames.DoneFrame(id=frame.id, said=said))
                case frames.ReloadFrame():
                    wire.send(frames.DoneFrame(id=frame.id, said=await self._reload()))
                case _:
                    pass
        except HermesError as error:
            number = frame.id if isinstance(frame, frames.SendFrame | frames.ReloadFrame) else 0
            wire.send(frames.error_frame(error, number))


async def _refuse_opening() -> SessionActor:
    raise NotFoundError(N_("This session has just been closed."))
