"""A platform beside its fake, and somebody who takes what comes in as the gateway does: for tests of a platform."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path

import aiohttp
import msgspec

from hermes.core.chats import InboundEvent, Place
from hermes.gateway.accounts import load_descriptor
from hermes.gateway.platform import Descriptor, Platform, PlatformContext, PlatformError, PlatformOptions
from hermes.testing.fake_platform import FakeChat
from hermes.util.clock import Clock, SystemClock


class AccountRig:
    """One account, `here`. What it hears is in `arrivals`; cursors are kept as the gateway keeps them."""

    def __init__(
        self,
        descriptor: Descriptor,
        given: Callable[[], Mapping[str, object]],
        http: aiohttp.ClientSession,
        folder: Path,
        clock: Clock,
    ) -> None:
        self._given = given
        self.descriptor = descriptor
        self.can = descriptor.can
        self.arrivals: list[InboundEvent] = []
        self.cursors: dict[str, str] = {}
        self.connections = 0
        self.lines: list[str] = []
        """What was reported."""
        self.errors: list[Exception] = []
        """What connections ended with."""
        self.around = PlatformContext(
            name="here",
            http=http,
            clock=clock,
            media=folder,
            cursors=self.cursors,
            report=self.lines.append,
        )
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._platform: Platform | None = None

    def options(self, **changed: object) -> PlatformOptions:
        """The account's options, some of them changed."""
        return msgspec.convert({**self._given(), **changed}, self.descriptor.options, strict=False)

    async def open(self, **changed: object) -> Platform:
        """A fresh platform, in the place of the one before."""
        await self.shut()
        self._platform = await self.descriptor.open(self.options(**changed), self.around)
        return self._platform

    async def listening(self, **changed: object) -> Platform:
        """A fresh platform whose news are taken; it is connected. Lost connections are made again at once."""
        platform = await self.open(**changed)
        self._task = asyncio.create_task(self._listen(platform))
        self._task.add_done_callback(lambda task: self._changed.set())
        known = self.connections
        await self.until(lambda: self.connections > known)
        return platform

    async def _listen(self, platform: Platform) -> None:
        while True:
            fresh = True
            try:
                async with contextlib.aclosing(platform.receive()) as batches:
                    async for batch in batches:
                        self.connections += fresh
                        fresh = False
                        self.arrivals += batch.arrivals
                        self.cursors.update(batch.cursors)
                        self._changed.set()
            except (PlatformError, aiohttp.ClientError, OSError, TimeoutError) as error:
                self.errors.append(error)
                self._changed.set()
            await asyncio.sleep(0.02)

    async def until(self, seen: Callable[[], object], seconds: float = 60.0) -> None:
        """Wait until something is so; looks again whenever something came in. Raises `TimeoutError`."""
        async with asyncio.timeout(seconds):
            while not seen():
                if self._task is not None and self._task.done():
                    self._task.result()
                self._changed.clear()
                await self._changed.wait()

    async def hear(self, message_id: str) -> InboundEvent:
        """The arrival of that message."""
        await self.until(lambda: any(one.message_id == message_id for one in self.arrivals))
        return next(one for one in self.arrivals if one.message_id == message_id)

    async def shut(self) -> None:
        """Stop listening, and close the platform."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})
            self._task = None
        if self._platform is not None:
            await self._platform.close()
            self._platform = None


class Rig(AccountRig):
    """An account of the platform called `name`, beside its fake."""

    def __init__(self, name: str, fake: FakeChat, http: aiohttp.ClientSession, folder: Path, clock: Clock) -> None:
        super().__init__(load_descriptor(name), fake.options, http, folder, clock)
        self.name = name
        self.fake = fake

    async def place(self) -> Place:
        """The first person's direct chat."""
        return (await self.hear(await self.fake.say("hello"))).place


@contextlib.asynccontextmanager
async def open_account(
    descriptor: Descriptor, options: Mapping[str, object], folder: Path, clock: Clock | None = None
) -> AsyncIterator[AccountRig]:
    """Open an account of a platform with these options, for whoever has no fake of the class `FakeChat`; files that
    come in are put into `folder`.
    """
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None)) as http:
        rig = AccountRig(descriptor, lambda: options, http, folder, clock or SystemClock())
        try:
            yield rig
        finally:
            await rig.shut()


@contextlib.asynccontextmanager
async def rigged(name: str, fake: FakeChat, folder: Path, clock: Clock | None = None) -> AsyncIterator[Rig]:
    """Open the platform called `name` beside its fake server; files that come in are put into `folder`."""
    timeout = aiohttp.ClientTimeout(total=None)
    async with fake, aiohttp.ClientSession(timeout=timeout) as http:
        rig = Rig(name, fake, http, folder, clock or SystemClock())
        try:
            yield rig
        finally:
            await rig.shut()
