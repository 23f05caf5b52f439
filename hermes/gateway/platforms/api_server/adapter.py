"""The API server: programs that speak OpenAI's wire talk with Hermes, and look after runs, sessions and jobs.

It takes nothing in by the journal: who asks waits for the answer. What must outlive a connection is a run.
"""

import asyncio
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING

from hermes.core.chats import Batch, Outgoing
from hermes.gateway.platform import (
    Capabilities,
    Descriptor,
    Fault,
    Options,
    Platform,
    PlatformRefusedError,
    SendError,
    Surroundings,
)
from hermes.gateway.platforms.api_server.options import ApiOptions
from hermes.i18n.messages import phrase

if TYPE_CHECKING:
    from hermes.gateway.platforms.api_server.server import Server


class ApiServer(Platform):
    """One API server."""

    def __init__(self, server: "Server", around: Surroundings) -> None:
        self._server = server
        self._around = around
        self._recovered = False

    @property
    def port(self) -> int:
        """Where it listens."""
        return self._server.listener.port

    async def receive(self) -> AsyncGenerator[Batch, None]:
        """Listen. Nothing comes in by this way."""
        assert self._around.front is not None
        store = self._around.front.app.premises.store
        if not self._recovered:
            await store.chats.lost_responses()
            self._recovered = True
        await self._server.listener.open()
        try:
            await self._server.runs.worker.recover(self._around.name)
            yield Batch()
            await asyncio.Event().wait()
        finally:
            self._server.runs.worker.end()
            await self._server.listener.shut()

    async def send(self, message: Outgoing) -> str:
        """Nobody can be written to who does not ask."""
        raise SendError(Fault.FORBIDDEN, phrase("Programs that use the API ask; nothing is sent to them."))

    async def close(self) -> None:
        """Close every connection; runs go on at the next start."""
        await self._server.close()


async def _open(options: Options, around: Surroundings) -> Platform:
    from hermes.gateway.people.quotas import Quotas
    from hermes.gateway.platforms.api_server.context import Base
    from hermes.gateway.platforms.api_server.keys import Keyring, Seats
    from hermes.gateway.platforms.api_server.request_body import Reader
    from hermes.gateway.platforms.api_server.server import Server
    from hermes.gateway.platforms.api_server.session_lookup import Rooms
    from hermes.gateway.platforms.api_server.turns import Turns

    assert isinstance(options, ApiOptions)
    if around.front is None:
        raise PlatformRefusedError(phrase("The API server runs in a gateway only."))
    keys = Keyring(options, around.name)
    for one in options.keys:
        around.front.app.premises.redactor.learn(f"{around.name}_{one.name}", one.key)
    base = Base(
        options=options,
        front=around.front,
        keys=keys,
        seats=Seats(options.turns),
        reader=Reader(options.body_limit),
        rooms=Rooms(around.front, around.name, options.models),
        turns=Turns(around.front),
        quotas=Quotas(around.front.app),
        media=around.media,
        began_at=around.clock.now(),
    )
    return ApiServer(Server(base), around)


PLATFORM = Descriptor(
    title="API server",
    options=ApiOptions,
    can=Capabilities(limit=1_000_000, redelivers=False, senders=False, dm_only=True, answers=False),
    open=_open,
    variables={"key": "API_SERVER_KEY", "host": "API_SERVER_HOST", "port": "API_SERVER_PORT"},
    secrets=("key",),
    hint="A program asks; answer in markdown.",
    example="api_server:\n  key: ${API_SERVER_KEY}",
)
