"""How a Telegram on loopback hands out news: by long polls, or to a webhook; each stays until it is confirmed."""

import asyncio
import contextlib
import itertools
from collections.abc import Callable

import aiohttp
from aiohttp import web

from hermes.testing.web_server import broken
from tests.vendors.telegram_api import ApiError, Body, Params

_PAUSE = 0.02
"""Seconds between two attempts to hand an update to a webhook; the real server takes its time."""


class News:
    """What has happened and is not confirmed yet."""

    def __init__(self, changed: Callable[[], None]) -> None:
        self.updates: dict[int, Body] = {}
        """By their numbers."""
        self.polls = 0
        self.webhook: Body = {}
        self.numbers = itertools.count(900_001)
        self.again: list[Body] = []
        """What is delivered once more although it is confirmed."""
        self.arrived = asyncio.Event()
        self._changed = changed
        self._poller: asyncio.Future[ApiError] | None = None
        self._requests: list[web.Request] = []
        self._posting: asyncio.Task[None] | None = None

    def add(self, kind: str, body: Body) -> Body:
        """Something happened; its update."""
        number = next(self.numbers)
        update: Body = {"update_id": number, kind: body}
        self.updates[number] = update
        self.arrived.set()
        return update

    def repeat(self, update: Body) -> None:
        """Hand out an update once more."""
        self.again.append(update)
        self.arrived.set()

    def drop(self) -> None:
        """Break the long polls."""
        for request in self._requests:
            broken(request)

    async def poll(self, request: web.Request, params: Params) -> object:
        """Wait for news. Raises ApiError."""
        if self.webhook:
            raise ApiError(
                409,
                "Conflict: can't use getUpdates method while webhook is active; use deleteWebhook to delete it first",
            )
        self.polls += 1
        offset, timeout = params.number("offset"), params.number("timeout")
        if self._poller is not None and not self._poller.done():
            words = "Conflict: terminated by other getUpdates request; make sure that only one bot instance is running"
            self._poller.set_result(ApiError(409, words))
            self.arrived.set()
        mine = self._poller = asyncio.get_running_loop().create_future()
        for number in [number for number in self.updates if offset > 0 and number < offset]:
            del self.updates[number]
        self._requests.append(request)
        self._changed()
        try:
            async with asyncio.timeout(timeout):
                return await self._next(params, mine)
        except TimeoutError:
            return []
        finally:
            self._requests.remove(request)
            mine.cancel()

    async def _next(self, params: Params, mine: "asyncio.Future[ApiError]") -> list[Body]:
        allowed = params.value("allowed_updates")
        limit = min(max(params.number("limit", 100), 1), 100)
        while True:
            self.arrived.clear()
            found, self.again = [*self.again, *self.updates.values()], []
            found = [one for one in found if not allowed or (isinstance(allowed, list) and list(one)[1] in allowed)]
            if found:
                return found[:limit]
            await self.arrived.wait()
            if mine.done():
                raise mine.result()

    async def hook(self, params: Params) -> bool:
        """Hand out news to an address from now on."""
        if not params.text("url"):
            await self.unhook()
            return True
        await self.unhook()
        self.webhook = {"url": params.text("url"), "secret": params.text("secret_token")}
        self._posting = asyncio.create_task(self._post(), name="webhook of the fake Telegram")
        return True

    async def unhook(self) -> None:
        """Hand out news to nobody's address."""
        self.webhook = {}
        posting, self._posting = self._posting, None
        if posting is not None:
            posting.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await posting

    async def _post(self) -> None:
        """Hand updates to the webhook, one after the other, each until it is taken."""
        headers = {"X-Telegram-Bot-Api-Secret-Token": str(self.webhook["secret"])}
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=60)) as session:
            while True:
                self.arrived.clear()
                waiting, self.again = [*self.again, *self.updates.values()], []
                for update in waiting:
                    await self._hand_over(session, update, headers)
                    self.updates.pop(int(str(update["update_id"])), None)
                    self._changed()
                await self.arrived.wait()

    async def _hand_over(self, session: aiohttp.ClientSession, update: Body, headers: dict[str, str]) -> None:
        for number in itertools.count():
            await asyncio.sleep(_PAUSE if number else 0)
            if await self._posted(session, update, headers):
                return

    async def _posted(self, session: aiohttp.ClientSession, update: Body, headers: dict[str, str]) -> bool:
        try:
            async with session.post(str(self.webhook["url"]), json=update, headers=headers) as answer:
                return answer.status == 200
        except (aiohttp.ClientError, OSError, TimeoutError):
            return False
