"""Serves the program that has started this one: JSON-RPC on the streams that were its standard input and output."""

import asyncio
import contextlib
import os
import signal
from typing import Protocol

from hermes.ipc.rpc_peer import MAX_MESSAGE_BYTES, RpcDialect, RpcHandler, RpcPeer, read_lines
from hermes.util.pipes import PipeReader, PipeWriter


class StdioHandler(RpcHandler, Protocol):
    """What answers the program. `peer` is set before anything is asked."""

    peer: RpcPeer

    async def close(self) -> None:
        """End what was opened for the program."""
        ...


async def serve_streams(
    handler: StdioHandler,
    incoming: int,
    outgoing: int,
    dialect: RpcDialect,
    *,
    received: bytes = b"",
    limit: int = MAX_MESSAGE_BYTES,
) -> None:
    """Serve the program until it goes away, or a signal ends this one; both descriptors are closed then.

    `received` is what was read of the stream before; a message has at most `limit` bytes.
    """
    reading: asyncio.Task[None] | None = None
    loop = asyncio.get_running_loop()

    def end() -> None:
        if reading is not None:
            reading.cancel()

    peer = handler.peer = RpcPeer(handler, PipeWriter(outgoing), end, dialect)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, end)
    work = read_lines(PipeReader(incoming).read, peer.receive_message, received, limit=limit)
    reading = asyncio.create_task(work, name="served program")
    try:
        with contextlib.suppress(asyncio.CancelledError, ConnectionError):
            await reading
    finally:
        # What was asked is cancelled before the handler is closed, so that nothing new begins.
        await peer.close()
        await handler.close()
        os.close(incoming)
