"""What tests of sign-ins share: a sender over the real HTTP client, a person who agrees, a store in a folder.

Run as a program it is one of many processes that share a sign-in: `oauth_client.py FOLDER SERVER TOKEN`.
"""

import asyncio
import sys
import time
import urllib.request
from collections.abc import Mapping
from pathlib import Path

from hermes.oauth.metadata import Challenge
from hermes.oauth.requests import HttpAnswer
from hermes.oauth.sign_in import SignIn
from hermes.oauth.sign_in_flow import SignInRequest, run_sign_in
from hermes.oauth.token_keeper import TokenKeeper
from hermes.oauth.token_store import TokenStore
from hermes.safety.urls import UrlPolicy
from hermes.web.fetch import WebFetcher

NAME = "mcp:notes"


async def send(method: str, url: str, *, headers: Mapping[str, str], body: bytes) -> HttpAnswer:
    async with WebFetcher({}, policy=UrlPolicy(private=("127.0.0.1",))) as fetcher:
        page = await fetcher.send_request(method, url, headers=headers, body=body)
    return HttpAnswer(page.status, page.headers, page.body)


class AgreeingPerson:
    """Follows the address at once, or has it pasted over ssh."""

    def __init__(self, *, pastes: bool = False) -> None:
        self.urls: list[str] = []
        self._pastes = pastes
        self._pasted: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def show_address(self, url: str) -> None:
        self.urls.append(url)
        if self._pastes:
            self._pasted.set_result(await asyncio.to_thread(self._find_end, url))
        else:
            await asyncio.to_thread(self._follow, url)

    async def read_pasted_address(self) -> str:
        return await self._pasted

    async def ask_client_id(self, issuer: str) -> str:
        del issuer
        return ""

    @staticmethod
    def _follow(url: str) -> None:
        with urllib.request.urlopen(url, timeout=20) as page:
            page.read()

    @staticmethod
    def _find_end(url: str) -> str:
        """Return where the browser ends, without going there: as one on another machine does."""

        class Stay(urllib.request.HTTPRedirectHandler):
            def redirect_request(self, *_: object, **__: object) -> None:
                return None

        try:
            urllib.request.build_opener(Stay).open(url, timeout=20)
        except urllib.error.HTTPError as answer:
            return answer.headers["location"]
        raise AssertionError


def open_store(folder: Path) -> TokenStore:
    return TokenStore(folder / "oauth.json", folder / "run")


def open_keeper(folder: Path) -> TokenKeeper:
    return TokenKeeper(open_store(folder), NAME, send, time.time)


async def sign_in(url: str, person: AgreeingPerson | None = None, **fields: object) -> SignIn:
    request = SignInRequest(server_url=f"{url}/mcp", **fields)  # type: ignore[arg-type]
    return await run_sign_in(request, Challenge(401, scope="notes"), person or AgreeingPerson(), send, time.time)


if __name__ == "__main__":
    sys.stdout.write(asyncio.run(open_keeper(Path(sys.argv[1])).refresh(sys.argv[2])))


class CodeReader:
    """The person who reads a device code, and the pauses that are made for them."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str, float]] = []
        self.pauses: list[float] = []

    async def show_code(self, url: str, code: str, seconds: float) -> None:
        self.seen.append((url, code, seconds))

    async def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
