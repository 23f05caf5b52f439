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
    Platform,
    PlatformContext,
    PlatformOptions,
    PlatformRefusedError,
    SendError,
    SendFault,
)
from hermes.gateway.platforms.api_server.options import ApiOptions
from hermes.i18n.messages import phrase

if TYPE_CHECKING:
    from hermes.gateway.platforms.api_server.server import ApiHttpServer


class ApiServer(Platform):
    """One API server."""

    def __init__(self, server: "ApiHttpServer", around: PlatformContext) -> None:
        self._server = server
        self._around = around
        self._recovered = False

    @property
    def port(self) -> int:
        """Where it listens."""
        return self._server.http_server.port

    async def receive(self) -> AsyncGenerator[Batch, None]:
        """Listen. Nothing comes in by this way."""
        assert self._around.gateway is not None
        store = self._around.gateway.app.services.store
        if not self._recovered:
            await store.chats.lost_responses()
            self._recovered = True
        await self._server.http_server.open()
        try:
            await self._server.runs.worker.recover_account(self._around.name)
            yield Batch()
            await asyncio.Event().wait()
        finally:
            self._server.runs.worker.begin_shutdown()
            await self._server.http_server.stop_accepting()

    async def send(self, message: Outgoing) -> str:
        """Nobody can be written to who does not ask."""
        raise SendError(SendFault.FORBIDDEN, phrase("Programs that use the API ask; nothing is sent to them."))

    async def close(self) -> None:
        """Close every connection; runs go on at the next start."""
        await self._server.close()


async def _open(options: PlatformOptions, around: PlatformContext) -> Platform:
    from hermes.gateway.people.quotas import Quotas
    from hermes.gateway.platforms.api_server.context import ApiDeps
    from hermes.gateway.platforms.api_server.keys import ApiKeyring, TurnSlots
    from hermes.gateway.platforms.api_server.request_body import RequestReader
    from hermes.gateway.platforms.api_server.server import ApiHttpServer
    from hermes.gateway.platforms.api_server.session_lookup import ApiSessions
    from hermes.gateway.platforms.api_server.turns import ApiTurns

    assert isinstance(options, ApiOptions)
    if around.gateway is None:
        raise PlatformRefusedError(phrase("The API server runs in a gateway only."))
    keys = ApiKeyring(options, around.name)
    for one in options.keys:
        around.gateway.app.services.redactor.learn(f"{around.name}_{one.name}", one.key)
    base = ApiDeps(
        options=options,
        gateway=around.gateway,
        keyring=keys,
        slots=TurnSlots(options.turns),
        reader=RequestReader(options.body_limit),
        sessions=ApiSessions(around.gateway, around.name, options.models),
        turns=ApiTurns(around.gateway),
        quotas=Quotas(around.gateway.app),
        media=around.media,
        began_at=around.clock.now(),
    )
    return ApiServer(ApiHttpServer(base), around)


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
