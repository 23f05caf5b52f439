"""Serve the sessions of a terminal process to the other processes of this home."""

import contextlib
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from hermes.core.errors import BusyError, StoreError
from hermes.i18n.messages import N_
from hermes.ipc import frames
from hermes.ipc.frames import IpcConnection
from hermes.ipc.listener import IpcListener, process_socket_path
from hermes.ipc.remote_session import RemoteSession, attach_session
from hermes.ipc.session_host import serve_session
from hermes.runtime.actor import SessionActor
from hermes.sessions.app import App, resolve_session_id
from hermes.sessions.port import SessionPort
from hermes.tools.session import Asker


class _AppSessionHost:
    """Holds the live sessions of an App."""

    def __init__(self, app: App) -> None:
        self.app = app

    @asynccontextmanager
    async def hold(self, session_id: str) -> AsyncIterator[SessionActor]:
        """Hold a live session. Raises NotFoundError."""
        yield self.app.live_session(session_id).actor

    async def serve_peer(self, connection: IpcConnection[frames.RequestFrame]) -> None:
        """Serve one peer."""
        frame = await connection.next_frame()
        if isinstance(frame, frames.AttachFrame):
            await serve_session(self, connection, frame)


@asynccontextmanager
async def serve_sessions(app: App) -> AsyncIterator[None]:
    """Serve this process's sessions to other processes while the context lasts.

    Where no socket can be created, the others are told that the session is open elsewhere.
    """
    folder = app.services.home.locks
    _remove_stale_sockets(folder)
    listener = IpcListener(process_socket_path(folder, os.getpid()), _AppSessionHost(app).serve_peer)
    try:
        listener.start()
    except StoreError:
        yield
        return
    try:
        yield
    finally:
        await listener.close()


async def attach_named_session(
    app: App, name: str | None, *, latest: bool = False, asks: bool = False
) -> RemoteSession | None:
    """Attach to the session that is meant, where another process holds it; return None where that serves nobody."""
    session_id = await resolve_session_id(app, name, latest=latest)
    return await attach_session(app.services.home, session_id, asks=asks)


async def open_or_join(app: App, name: str | None, *, latest: bool = False, asker: Asker | None) -> SessionPort:
    """Open a session, or join it where another process holds it. Raises BusyError where that one serves nobody."""
    try:
        return await app.open_session(name, latest=latest, asker=asker)
    except BusyError:
        remote = await attach_named_session(app, name, latest=latest, asks=asker is not None)
        if remote is None:
            raise
        remote.asker = asker
        return remote


def require_local(port: SessionPort) -> SessionActor:
    """Return the session itself. Raises BusyError where it lives in another process."""
    if isinstance(port, SessionActor):
        return port
    raise BusyError(
        N_("This session lives in another process."), N_("That works there only, or once it is closed there.")
    )


async def close_port(app: App, port: SessionPort) -> None:
    """Close a session, or detach from one that lives in another process."""
    if isinstance(port, SessionActor):
        await app.close_session(port)
    elif isinstance(port, RemoteSession):
        await port.close()


def has_messages(port: SessionPort) -> bool:
    """Return whether a session has messages to continue from."""
    return not isinstance(port, SessionActor) or bool(port.conversation.messages)


def _remove_stale_sockets(folder: Path) -> None:
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
