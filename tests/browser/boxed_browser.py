"""A browser in its box with a web of its own: any name leads to one server on loopback, at a public address."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path

from aiohttp import web

from hermes.browser.process.launch import BrowserStarter
from hermes.browser.process.profile import BrowserProfileFolder
from hermes.browser.session_browser import BrowserPlan, SessionBrowser
from hermes.browser.tab import Tab
from hermes.core.errors import BrowserError
from hermes.execution.base import Permit
from hermes.execution.sandbox.probe import SandboxProbe
from hermes.execution.supervisor import Supervisors
from hermes.safety.urls import UrlPolicy
from tests.requirements import find_program

PUBLIC = "93.184.216.34"
WAIT_SECONDS = 30.0


class SmallWeb:
    """Sites by their names on one server. `seen` are the requests that arrived: method, host, path with its query."""

    def __init__(self, pages: Mapping[str, str] | None = None) -> None:
        self.pages = dict(pages or {})
        """What is answered, by host and path: `shop.example/`."""
        self.headers: dict[str, dict[str, str]] = {}
        """More headers of answers, by host and path."""
        self.seen: list[tuple[str, str, str]] = []
        self.connected: list[tuple[str, int]] = []
        """The addresses to which the proxy connected."""
        self.names: dict[str, list[str]] = {}
        """The addresses of names; of all others a public one."""
        self._port = 0

    async def resolve(self, host: str, port: int) -> list[str]:
        """Return the addresses of a name."""
        return self.names.get(host, [PUBLIC])

    async def connect(self, address: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect to the server, whatever the address."""
        self.connected.append((address, port))
        return await asyncio.open_connection("127.0.0.1", self._port)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator["SmallWeb"]:
        """Serve."""
        app = web.Application(client_max_size=1 << 24)
        app.router.add_route("*", "/{path:.*}", self._answer)
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        self._port = site._server.sockets[0].getsockname()[1]  # type: ignore[union-attr]
        try:
            yield self
        finally:
            await runner.cleanup()

    async def wait_until(self, holds: Callable[[], bool]) -> None:
        """Wait until something holds, such as that a request has arrived."""
        async with asyncio.timeout(WAIT_SECONDS):
            while not holds():  # noqa: ASYNC110 - it may be about something else than this server
                await asyncio.sleep(0.01)

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        self.seen.append((request.method, request.host, request.path_qs))
        page = self.pages.get(request.host + request.path)
        headers = {"Access-Control-Allow-Origin": "*", "Access-Control-Allow-Headers": "*"}
        headers |= {"Access-Control-Allow-Methods": "*"} | self.headers.get(request.host + request.path, {})
        if page is None:
            return web.Response(text="nothing", headers=headers)
        if page.startswith("->"):
            return web.Response(status=307, headers={"Location": page[2:], **headers})
        kind = "text/javascript" if request.path.endswith(".js") else "text/html"
        return web.Response(text=page, content_type=kind, charset="utf-8", headers=headers)


class Person:
    """Answers questions about sites: yes to those in `allowed`, by their host."""

    def __init__(self, *allowed: str) -> None:
        self.allowed = allowed
        self.questions: list[str] = []

    async def open_site(self, host: str, port: int) -> Permit:
        """Answer whether a site may be opened."""
        self.questions.append(f"open {host}")
        return Permit(host in self.allowed, "the person said no")

    async def send_to_site(self, host: str, port: int, sender: str) -> Permit:
        """Answer whether a page may send data."""
        self.questions.append(f"send {host} from {sender}")
        return Permit(f"{sender}>{host}" in self.allowed, "the person said no")


@contextlib.asynccontextmanager
async def boxed_browser(
    folder: Path,
    small_web: SmallWeb,
    *private: str,
    idle_seconds: float = 600.0,
    profile: BrowserProfileFolder | None = None,
) -> AsyncIterator[SessionBrowser]:
    """Lend a browser of the machine in its box; nothing of it runs afterwards."""
    find_program("chromium-headless-shell")
    environ = dict(os.environ)
    supervisors = Supervisors(environ)
    plan = BrowserPlan(
        environ=environ,
        downloads=folder / "downloads",
        profile=profile,
        idle_seconds=idle_seconds,
        policy=UrlPolicy(private=private),
        resolver=small_web.resolve,
        connect=small_web.connect,
    )
    browser = SessionBrowser(plan, BrowserStarter(supervisors=supervisors, probe=SandboxProbe(environ)))
    try:
        yield browser
    finally:
        await browser.close()
        await supervisors.close()


async def navigate(tab: Tab, url: str) -> str:
    """Open a page; return what the browser says is wrong, empty for nothing."""
    import msgspec

    answer = msgspec.json.decode(await tab.session.call("Page.navigate", {"url": url}))
    return str(answer.get("errorText", ""))


async def wait_for(tab: Tab, holds: Callable[[str], bool]) -> str:
    """Return the title of a page once it is as it should be."""
    async with asyncio.timeout(WAIT_SECONDS):
        while True:
            with contextlib.suppress(BrowserError):  # its document has just gone for another one
                title = str(await tab.session.evaluate("document.title", tab.main_frame))
                if holds(title):
                    return title
            await asyncio.sleep(0.02)
