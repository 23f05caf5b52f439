"""An account on a fake platform, and what it hears: for tests of single platforms."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import msgspec

from hermes.core.chats import InboundEvent, Outgoing, Place
from hermes.gateway.platform import Descriptor, Platform, PlatformContext
from hermes.testing.fake_platform import FakeChat
from hermes.util.clock import SystemClock


class Hurried(SystemClock):
    """The machine's clock, on which nobody sleeps for long."""

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(min(seconds, 0.02))


class Account:
    """One account: `heard` is on disk, as far as the platform knows."""

    def __init__(self, descriptor: Descriptor, fake: FakeChat, http: aiohttp.ClientSession, media: Path) -> None:
        self._descriptor = descriptor
        self._fake = fake
        self._http = http
        self._media = media
        self.cursors: dict[str, str] = {}
        self.heard: list[InboundEvent] = []
        self.stood = 0
        self.lines: list[str] = []
        self.failed: list[BaseException] = []
        self._news = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.platform: Platform

    async def open(self, **changes: object) -> Platform:
        options = msgspec.convert(self._fake.options() | changes, self._descriptor.options)
        around = PlatformContext(
            name="here",
            http=self._http,
            clock=Hurried(),
            media=self._media,
            cursors=dict(self.cursors),
            report=self.lines.append,
        )
        self.platform = await self._descriptor.open(options, around)
        return self.platform

    def listen(self) -> None:
        """Take in what comes, and connect again when the connection ends."""
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Stop as a process does that is ended: nothing more is taken in."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        await self.platform.close()

    async def again(self) -> None:
        """Start anew, with what was stored."""
        await self.stop()
        await self.open()
        self.listen()

    async def until(self, count: int) -> list[InboundEvent]:
        """Wait until so much was heard."""
        async with asyncio.timeout(60):
            while len(self.heard) < count:
                self._news.clear()
                await self._news.wait()
        return self.heard

    async def standing(self, times: int = 1) -> None:
        """Wait until the connection has stood so often."""
        async with asyncio.timeout(60):
            while self.stood < times:
                self._news.clear()
                await self._news.wait()

    async def changed(self) -> None:
        """Wait until something has happened."""
        self._news.clear()
        await self._news.wait()

    async def _run(self) -> None:
        while True:
            try:
                batches = self.platform.receive()
                try:
                    async for batch in batches:
                        self.cursors.update(batch.cursors)
                        self.heard += batch.arrivals
                        self.stood += not batch.arrivals
                        self._news.set()
                finally:
                    await batches.aclose()
            except OSError as error:
                raise AssertionError(f"a raw error came out: {error!r}") from error
            except Exception as error:  # noqa: BLE001 - the test looks at it
                self.failed.append(error)
                self._news.set()
            await asyncio.sleep(0.01)


@asynccontextmanager
async def account(descriptor: Descriptor, fake: FakeChat, media: Path) -> AsyncIterator[Account]:
    """An account that listens on a fake that runs."""
    async with fake, aiohttp.ClientSession() as http:
        found = Account(descriptor, fake, http, media)
        await found.open()
        found.listen()
        try:
            await found.standing()
            yield found
        finally:
            await found.stop()


def to(place: Place, text: str, key: str = "", **more: object) -> Outgoing:
    return Outgoing(place=place, text=text, key=key, **more)  # type: ignore[arg-type]
