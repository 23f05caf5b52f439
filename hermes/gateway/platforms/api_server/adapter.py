"""The API server: programs use Hermes over OpenAI's API format, and manage runs, sessions and jobs.

Requests do not pass through the journal: the caller waits for the answer. What must outlive a connection is a run.
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
from hermes.gateway.platforms.api_server.keys import ApiOptions
from hermes.i18n.messages import N_

if TYPE_CHECKING:
    from aiohttp import web

    from hermes.gateway.platforms.api_server.server import ApiHttpServer


class ApiServerPlatform(Platform):
    """One API server as a platform."""

    def __init__(self, server: "ApiHttpServer", context: PlatformContext) -> None:
        self._server = server
        self._context = context
        self._recovered = False

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return self._server.http_server.port

    @property
    def application(self) -> "web.Application":
        """The application with all its routes."""
        return self._server.application

    async def receive(self) -> AsyncGenerator[Batch, None]:
        """Serve requests; no inbound events come this way."""
        assert self._context.gateway is not None
        store = self._context.gateway.app.services.store
        if not self._recovered:
            await store.api.fail_lost_responses()
            self._recovered = True
        await self._server.http_server.open()
        try:
            await self._server.runs.worker.recover_account(self._context.name)
            yield Batch()
            await asyncio.Event().wait()
        finally:
            self._server.runs.worker.begin_shutdown()
            await self._server.http_server.stop_accepting()

    async def send(self, message: Outgoing) -> str:
        """Raise SendError: nothing can be sent to a program that did not ask."""
        raise SendError(SendFault.FORBIDDEN, N_("Programs that use the API ask; nothing is sent to them."))

    async def close(self) -> None:
        """Close every connection; runs go on at the next start."""
        await self._server.close()


async def _open_platform(options: PlatformOptions, context: PlatformContext) -> Platform:
    from hermes.gateway.people import Quotas
    from hermes.gateway.platforms.api_server.deps import ApiDeps
    from hermes.gateway.platforms.api_server.keys import ApiKeyring, TurnSlots
    from hermes.gateway.platforms.api_server.requests import RequestReader
    from hermes.gateway.platforms.api_server.server import ApiHttpServer
    from hermes.gateway.platforms.api_server.session_lookup import ApiSessions
    from hermes.gateway.platforms.api_server.turns import ApiTurns

    assert isinstance(options, ApiOptions)
    if context.gateway is None:
        raise PlatformRefusedError(N_("The API server runs in a gateway only."))
    keys = ApiKeyring(options, context.name)
    for one in options.keys:
        context.gateway.app.services.redactor.add_secret(f"{context.name}_{one.name}", one.key)
    base = ApiDeps(
        options=options,
        gateway=context.gateway,
        keyring=keys,
        slots=TurnSlots(options.turns),
        reader=RequestReader(options.body_limit),
        sessions=ApiSessions(context.gateway, context.name, options.models),
        turns=ApiTurns(context.gateway),
        quotas=Quotas(context.gateway.app),
        media=context.media,
        began_at=context.clock.now(),
    )
    return ApiServerPlatform(ApiHttpServer(base), context)


PLATFORM = Descriptor(
    title="API server",
    options=ApiOptions,
    can=Capabilities(limit=1_000_000, redelivers=False, senders=False, dm_only=True, answers=False),
    open=_open_platform,
    variables={"key": "API_SERVER_KEY", "host": "API_SERVER_HOST", "port": "API_SERVER_PORT"},
    secrets=("key",),
    hint="A program asks; answer in markdown.",
    example="api_server:\n  key: ${API_SERVER_KEY}",
)
