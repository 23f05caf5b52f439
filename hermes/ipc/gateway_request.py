"""Asks the gateway of a home something over its socket."""

import asyncio

from hermes.config.home import Home
from hermes.core.errors import BusyError
from hermes.i18n.messages import phrase
from hermes.ipc import frames
from hermes.ipc.listener import GATEWAY
from hermes.ipc.remote_session import connected

_SECONDS = 60.0


async def ask_gateway(home: Home, ask: frames.Ask) -> frames.Tell | None:
    """Its answer; None when no gateway runs here. Raises what went wrong there, BusyError when it does not answer."""
    wire = await connected(home.locks / GATEWAY)
    if wire is None:
        return None
    try:
        wire.send(ask)
        async with asyncio.timeout(_SECONDS):
            said = await wire.next()
    except TimeoutError:
        raise BusyError(phrase("The gateway does not answer."), phrase("`hermes gateway restart` helps.")) from None
    finally:
        await wire.close()
    if isinstance(said, frames.Trouble):
        raise frames.error_of(said)
    return said
