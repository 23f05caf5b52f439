"""Send a request to the gateway of a home over its socket."""

import asyncio

from hermes.config.home import Home
from hermes.core.errors import BusyError
from hermes.i18n.messages import phrase
from hermes.ipc import frames
from hermes.ipc.listener import GATEWAY_SOCKET
from hermes.ipc.remote_session import connect_socket

_TIMEOUT_SECONDS = 60.0


async def request_gateway(home: Home, request: frames.RequestFrame) -> frames.ResponseFrame | None:
    """Send a request and return the response; None when no gateway runs here.

    Raises the gateway's error, or BusyError when it does not answer.
    """
    wire = await connect_socket(home.locks / GATEWAY_SOCKET)
    if wire is None:
        return None
    try:
        wire.send(request)
        async with asyncio.timeout(_TIMEOUT_SECONDS):
            said = await wire.next_frame()
    except TimeoutError:
        raise BusyError(phrase("The gateway does not answer."), phrase("`hermes gateway restart` helps.")) from None
    finally:
        await wire.close()
    if isinstance(said, frames.ErrorFrame):
        raise frames.error_from_frame(said)
    return said
