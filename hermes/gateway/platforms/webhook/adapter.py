"""Webhooks: programs send signed reports of events; the agent works on them, or they are forwarded unchanged."""

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
)
from hermes.i18n.messages import N_

if TYPE_CHECKING:
    from hermes.gateway.platforms.webhook.server import WebhookServer


class WebhookOptions(PlatformOptions, frozen=True, kw_only=True):
    """Where other programs report to: `http://HOST:PORT/webhooks/NAME`."""

    host: str = "127.0.0.1"
    """The address to listen on."""
    port: Annotated[int, Meta(ge=0, le=65535)] = 8644
    """The port to listen on."""
    github_api: str = "https://api.github.com"
    """Where GitHub takes comments; for an enterprise server `https://HOST/api/v3`."""
    routes: Mapping[str, WebhookRoute] = {}
    """What may be reported, by name; `hermes webhook add` adds more."""


class WebhookPlatform(Platform):
    """The webhook server of an account, as a platform."""

    def __init__(self, server: "WebhookServer", context: PlatformContext, github_api: str) -> None:
        self._server = server
        self._context = context
        self._github_api = github_api

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return self._server.http_server.port

    async def receive(self) -> AsyncGenerator[Batch, None]:
        """Serve reports. Each one is journaled as a run."""
        await self._server.http_server.open()
        try:
            await self._server.worker.recover_account(self._context.name)
            yield Batch()
            await asyncio.Event().wait()
        finally:
            self._server.worker.begin_shutdown()
            await self._server.http_server.stop_accepting()

    async def send(self, message: Outgoing) -> str:
        """Post a comment on GitHub; nothing else is sent. Raises SendError."""
        from hermes.gateway.platforms.webhook.github_comments import TOKEN_VARIABLE, post_comment

        assert self._context.gateway is not None
        token = self._context.gateway.app.services.environ.get(TOKEN_VARIABLE, "")
        return await post_comment(self._context, self._github_api, token, message)

    async def close(self) -> None:
        """Close the server and its runs."""
        await self._server.close()


async def _open_platform(options: PlatformOptions, context: PlatformContext) -> Platform:
    from hermes.gateway.http.server import HttpServerLimits
    from hermes.gateway.platforms.webhook.github_comments import is_safe_address
    from hermes.gateway.platforms.webhook.server import WebhookServer

    assert isinstance(options, WebhookOptions)
    if context.gateway is None:
        raise PlatformRefusedError(N_("Webhooks are taken in a gateway only."))
    if not is_safe_address(options.github_api):
        raise PlatformRefusedError(N_("`github_api` must be an https address: the token goes there."))
    routes = {}
    for name, route in options.routes.items():
        try:
            route.check_route(name)
        except ConfigError as error:
            context.report(f"{context.name}: {error}")
        else:
            routes[name] = route
    bounds = HttpServerLimits(host=options.host, port=options.port, connections=1)
    return WebhookPlatform(WebhookServer(context.gateway, context, routes, bounds), context, options.github_api)


PLATFORM = Descriptor(
    title="Webhooks",
    options=WebhookOptions,
    can=Capabilities(limit=60_000, redelivers=False, senders=False, dm_only=True, answers=False),
    open=_open_platform,
    variables={"host": "WEBHOOK_HOST", "port": "WEBHOOK_PORT", "github_api": "GITHUB_API_URL"},
    hint="A program reported something; nobody reads along.",
    example="webhook:\n  routes:\n    ci:\n      secret: ${CI_WEBHOOK_SECRET}\n      prompt: Build {build.id} failed.",
)
