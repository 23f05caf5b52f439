"""Webhooks: other programs report what has happened, signed, and the agent works on it, or it is passed on as it is."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from hermes.admin.webhooks import WebhookRoute
from hermes.core.chats import Batch, Outgoing
from hermes.core.errors import ConfigError
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
from hermes.i18n.messages import phrase

if TYPE_CHECKING:
    from hermes.gateway.platforms.webhook.server import Reports


class WebhookOptions(PlatformOptions, frozen=True, kw_only=True):
    """Where other programs report to: `http://HOST:PORT/webhooks/NAME`."""

    host: str = "127.0.0.1"
    """The address to listen on."""
    port: Annotated[int, Meta(ge=0, le=65535)] = 8644
    """The port to listen on."""
    routes: Mapping[str, WebhookRoute] = {}
    """What may be reported, by name; `hermes webhook add` adds more."""


class Webhook(Platform):
    """The listener of an account."""

    def __init__(self, reports: "Reports", around: PlatformContext) -> None:
        self._reports = reports
        self._around = around

    @property
    def port(self) -> int:
        """Where it listens."""
        return self._reports.listener.port

    async def receive(self) -> AsyncGenerator[Batch, None]:
        """Listen. What is reported is journaled as a run."""
        await self._reports.listener.open()
        try:
            await self._reports.worker.recover_account(self._around.name)
            yield Batch()
            await asyncio.Event().wait()
        finally:
            self._reports.worker.begin_shutdown()
            await self._reports.listener.stop_accepting()

    async def send(self, message: Outgoing) -> str:
        """Nobody listens here."""
        raise SendError(SendFault.FORBIDDEN, phrase("Webhooks report; nothing is sent to them."))

    async def close(self) -> None:
        """Close everything."""
        await self._reports.close()


async def _open(options: PlatformOptions, around: PlatformContext) -> Platform:
    from hermes.gateway.http.server import HttpServerLimits
    from hermes.gateway.platforms.webhook.server import Reports

    assert isinstance(options, WebhookOptions)
    if around.gateway is None:
        raise PlatformRefusedError(phrase("Webhooks are taken in a gateway only."))
    routes = {}
    for name, route in options.routes.items():
        try:
            route.check_route(name)
        except ConfigError as error:
            around.report(f"{around.name}: {error}")
        else:
            routes[name] = route
    bounds = HttpServerLimits(host=options.host, port=options.port, connections=1)
    return Webhook(Reports(around.gateway, around, routes, bounds), around)


PLATFORM = Descriptor(
    title="Webhooks",
    options=WebhookOptions,
    can=Capabilities(limit=1_000_000, redelivers=False, senders=False, dm_only=True, answers=False),
    open=_open,
    variables={"host": "WEBHOOK_HOST", "port": "WEBHOOK_PORT"},
    hint="A program reported something; nobody reads along.",
    example="webhook:\n  routes:\n    ci:\n      secret: ${CI_WEBHOOK_SECRET}\n      prompt: Build {build.id} failed.",
)
