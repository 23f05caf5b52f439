"""A gateway with an API server, and programs that use it: for tests."""

import asyncio
import contextlib
import secrets
import socket
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from typing import Self

import aiohttp
import openai
from msgspec import Struct

from hermes.gateway.gateway import Gateway
from hermes.gateway.platforms.api_server.adapter import ApiServerPlatform
from hermes.testing.home import TempHome
from hermes.testing.script import Reply, ReplyModel
from hermes.testing.server import ScriptedServer
from tests.gateway.gateway_rig import running


class Api(Struct):
    """An API server at work. `key` is for everything."""

    key: str
    port: int
    model: ScriptedServer
    home: TempHome
    http: aiohttp.ClientSession
    running: Gateway | None = None

    @property
    def gateway(self) -> Gateway:
        assert self.running is not None
        return self.running

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def openai(self, key: str = "") -> openai.AsyncOpenAI:
        """The official client."""
        return openai.AsyncOpenAI(api_key=key or self.key, base_url=f"{self.url}/v1", max_retries=0, timeout=20)

    async def ask(
        self, method: str, path: str, body: object = None, *, key: str | None = None, **headers: str
    ) -> tuple[int, Mapping[str, object]]:
        """A request, and the JSON of its answer."""
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        given = self.key if key is None else key
        if given:
            sent["Authorization"] = f"Bearer {given}"
        async with self.http.request(method, f"{self.url}{path}", json=body, headers=sent) as answer:
            return answer.status, await answer.json()

    async def stream(self, method: str, path: str, body: object = None, **headers: str) -> "Reading":
        """A request whose answer is read as it comes."""
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        sent.setdefault("Authorization", f"Bearer {self.key}")
        return Reading(await self.http.request(method, f"{self.url}{path}", json=body, headers=sent))

    async def until(self, seen: Callable[[], object]) -> None:
        """Wait until something is so."""
        async with asyncio.timeout(60):
            while not seen():  # noqa: ASYNC110 - it may be so anywhere
                await asyncio.sleep(0.005)


class Reading:
    """An answer of events that is being read; an async context."""

    def __init__(self, answer: aiohttp.ClientResponse) -> None:
        self.answer = answer

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.answer.close()

    async def until(self, part: str) -> str:
        """Everything up to where this stands."""
        found = ""
        async with asyncio.timeout(60):
            while part not in found:
                chunk = await self.answer.content.readany()
                assert chunk, f"the answer ended before {part!r}: {found!r}"
                found += chunk.decode()
        return found

    async def rest(self) -> str:
        async with asyncio.timeout(60):
            return (await self.answer.read()).decode()


def fresh_key() -> str:
    return secrets.token_hex(16)


def free_port() -> int:
    """A port of this machine on which nothing listens now."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@contextlib.asynccontextmanager
async def serving(home: TempHome, model: ScriptedServer, key: str) -> AsyncIterator[Api]:
    """The gateway of a home whose account `api_server` has that key."""
    async with running(home) as it, aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=20)) as http:
        platform = it.gateway.accounts["api_server"].platform
        assert isinstance(platform, ApiServerPlatform)
        yield Api(key, platform.port, model, home, http, it.gateway)


@contextlib.asynccontextmanager
async def api(
    replies: ReplyModel | Iterable[Reply], *, more: Mapping[str, object] | None = None, **options: object
) -> AsyncIterator[Api]:
    """An API server over a scripted model, with these options."""
    key = fresh_key()
    account = {"key": key, "port": 0, **options}
    async with ScriptedServer(replies) as model:
        with TempHome.for_server(model.url, more_config={**(more or {}), "platforms": {"api_server": account}}) as home:
            async with serving(home, model, key) as it:
                yield it
