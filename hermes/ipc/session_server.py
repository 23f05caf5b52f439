"""Makes the sessions of a process in a terminal reachable for the others of this home."""

import contextlib
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from hermes.core.errors import BusyError, StoreError
from hermes.i18n.messages import phrase
from hermes.ipc import frames
from hermes.ipc.connection import Wire
from hermes.ipc.hosted_session import host
from hermes.ipc.listener import Listener, process_socket
from hermes.ipc.remote_session import RemoteSession, attached
from hermes.runtime.actor import SessionActor
from hermes.sessions.app import App, session_named
from hermes.sessions.port import SessionPort


class _Here:
    """The live sessions of an App."""

    def __init__(self, app: App) -> None:
        self.app = app

    @asynccontextmanager
    async def hold(self, session_id: str) -> AsyncIterator[SessionActor]:
        """A live session. Raises NotFoundError."""
        yield self.app.live(session_id).actor

    async def serve(self, wire: Wire[frames.Ask]) -> None:
        """Serve one peer."""
        frame = await wire.next()
        if isinstance(frame, frames.Attach):
            await host(self, wire, frame)


@asynccontextmanager
async def reachable(app: App) -> AsyncIterator[None]:
    """While the context lasts others can take part in this process's sessions. Where no socket can be made they cannot:
    then they hear that the session is open elsewhere."""
    folder = app.premises.home.locks
    _sweep(folder)
    listener = Listener(process_socket(folder, os.getpid()), _Here(app).serve)
    try:
        listener.start()
    except StoreError:
        yield
        return
    try:
        yield
    finally:
        await listener.close()


async def joined(app: App, name: str | None, *, latest: bool = False, asks: bool = False) -> RemoteSession | None:
    """Take part in the session that is meant, where another process holds it; None where that lets nobody."""
    session_id = await session_named(app, name, latest=latest)
    return await attached(app.premises.home, session_id, asks=asks)


def local(port: SessionPort) -> SessionActor:
    """The session itself. Raises BusyError where it lives in another process."""
    if isinstance(port, SessionActor):
        return port
    raise BusyError(
        phrase("This session lives in another process."), phrase("That works there only, or once it is closed there.")
    )


async def let_go(app: App, port: SessionPort) -> None:
    """Close a session; one that lives elsewhere goes on there."""
    if isinstance(port, SessionActor):
        await app.close_session(port)
    elif isinstance(port, RemoteSession):
        await port.close()


def said_something(port: SessionPort) -> bool:
    """Whether there is something in a session to go on with."""
    return not isinstance(port, SessionActor) or bool(port.conversation.messages)


def _sweep(folder: Path) -> None:
    """Remove the sockets of processes that died."""
    for file in folder.glob("*.sock") if folder.is_dir() else ():
        if not file.stem.isdecimal():
            continue
        try:
            os.kill(int(file.stem), 0)
        except ProcessLookupError:
            with contextlib.suppress(OSError):
                file.unlink()
        except (PermissionError, OverflowError):
            continue
