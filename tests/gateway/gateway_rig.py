"""A gateway in this process, with a fake platform and a scripted model, for tests."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from msgspec import Struct

from hermes.gateway.gateway import Gateway
from hermes.sessions.app import App
from hermes.sessions.options import SessionOptions
from hermes.testing.fake_platform import FakeChat
from hermes.testing.home import TempHome
from hermes.testing.server import ScriptedServer
from hermes.util.clock import Clock


class Running(Struct):
    """A gateway at work, and what it said to whoever looks after it."""

    gateway: Gateway
    app: App
    lines: list[str]


@asynccontextmanager
async def running(home: TempHome, clock: Clock | None = None) -> AsyncIterator[Running]:
    """Run a gateway on a home."""
    lines: list[str] = []
    options = SessionOptions(platform="gateway", cwd=str(home.cwd))
    async with App(home.environ, options, clock=clock) as app, Gateway(app, lines.append) as gateway:
        await gateway.start()
        for account in gateway.accounts.values():
            await account.wait_connected(60)
        yield Running(gateway, app, lines)


def home_for(
    server: ScriptedServer, chats: Mapping[str, FakeChat], more: Mapping[str, object] | None = None, **common: object
) -> TempHome:
    """A home whose accounts talk with these fakes."""
    accounts = {name: {"batch_seconds": 0.05, **fake.options(), **common} for name, fake in chats.items()}
    return TempHome.for_server(server.url, more_config={"platforms": accounts, **(more or {})})


def said(server: ScriptedServer, number: int) -> str:
    """What the person said in a request, without the note about the hour and the folder."""
    return server.requests[number].last_user_text.split("\n\n[Now:")[0]
