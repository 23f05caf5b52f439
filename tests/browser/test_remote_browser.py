"""A remote browser by its address: used in a context of our own, watched there, and left as it was."""

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from hermes.browser.cdp import CdpConnection
from hermes.browser.fields import upload_files
from hermes.browser.pointer import click
from hermes.browser.process.browser_state import read_browser_state
from hermes.browser.process.launch import BrowserStarter
from hermes.browser.process.remote import OUTSIDE_NOTICE, connect_remote
from hermes.browser.session_browser import BrowserPlan, SessionBrowser
from hermes.config.home import locate_home
from hermes.core.errors import BrowserError
from hermes.execution.sandbox.probe import SandboxProbe
from hermes.execution.supervisor import Supervisors
from tests.browser.boxed_browser import Person, SmallWeb, navigate, wait_for
from tests.browser.running_browser import FLAGS
from tests.requirements import find_program, require

SHOP = "http://shop.example/"


class PersonsBrowser:
    """A browser with a port for debugging, and a tab in which a page goes on asking for things."""

    def __init__(self, process: asyncio.subprocess.Process, told: Path) -> None:
        self._process = process
        self._told = told

    @property
    def address(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self._told.read_text().splitlines()[0]}"

    def kill(self) -> None:
        """Kill it with everything that it has started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)


@contextlib.asynccontextmanager
async def run_persons_browser(folder: Path, small_web: SmallWeb, page: str) -> AsyncIterator[PersonsBrowser]:
    require("chromium-headless-shell")
    process = await asyncio.create_subprocess_exec(
        str(find_program("chromium-headless-shell")),
        *(flag for flag in FLAGS if flag != "--remote-debugging-pipe"),
        "--remote-debugging-port=0",
        "--no-proxy-server",
        f"--ip-address-space-overrides=127.0.0.1:{small_web._port}=public",
        f"--host-resolver-rules=MAP *.example 127.0.0.1:{small_web._port}",
        f"--user-data-dir={folder}",
        page,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
        start_new_session=True,
    )
    told = folder / "DevToolsActivePort"
    browser = PersonsBrowser(process, told)
    try:
        await small_web.wait_until(lambda: told.exists() and "\n" in told.read_text())
        yield browser
    finally:
        browser.kill()
        await process.wait()


@contextlib.asynccontextmanager
async def use_remote(folder: Path, small_web: SmallWeb, address: str) -> AsyncIterator[SessionBrowser]:
    environ = dict(os.environ)
    supervisors = Supervisors(environ)
    plan = BrowserPlan(environ=environ, downloads=folder / "downloads", cdp_url=address, resolver=small_web.resolve)
    browser = SessionBrowser(plan, BrowserStarter(supervisors=supervisors, probe=SandboxProbe(environ)))
    try:
        yield browser
    finally:
        await browser.close()
        await supervisors.close()


async def list_pages(connection: CdpConnection) -> list[tuple[str, str]]:
    found = msgspec.json.decode(await connection.call("Target.getTargets"))
    return [(one["url"], one["title"]) for one in found["targetInfos"] if one["type"] == "page"]


_PERSONS = "<title>Mine</title><script>setInterval(() => fetch('/tick'), 50)</script>"
_PAGE = """<title>Shop</title><button onclick="document.title = 'Bought'">Buy</button>
<a target=_blank href=http://127.0.0.1:PORT/blank id=link>x</a><input type=file aria-label=File>
<object data=http://frame.example/object></object>
<iframe src=http://frame.example/></iframe><script>
new Image().src = 'http://127.0.0.1:PORT/image'; new Image().src = 'http://inner.example/name';
window.open('http://127.0.0.1:PORT/window'); link.click();
try { new SharedWorker('/worker.js'); } catch {} try { new Worker('/worker.js'); } catch {}
try { navigator.serviceWorker?.register('/worker.js'); } catch {}
try { new WebSocket('ws://127.0.0.1:PORT/socket'); } catch {}
fetch('http://cdn.example/last');</script>"""
_FRAME = (
    "<script>new Image().src = 'http://127.0.0.1:PORT/framed'; window.open('http://127.0.0.1:PORT/popup');"
    "fetch('http://cdn.example/framed');</script>"
    ""
)


async def test_a_page_is_used_and_watched_and_a_tab_of_the_person_is_left_alone(tmp_path: Path) -> None:
    async with SmallWeb({"mine.example/": _PERSONS}).running() as web:
        web.names["inner.example"] = ["10.0.0.7"]
        web.pages["shop.example/"] = _PAGE.replace("PORT", str(web._port))
        web.pages["frame.example/"] = _FRAME.replace("PORT", str(web._port))
        async with run_persons_browser(tmp_path / "profile", web, "http://mine.example/") as persons:
            await web.wait_until(lambda: ("GET", "mine.example", "/tick") in web.seen)
            async with (
                use_remote(tmp_path, web, persons.address) as browser,
                browser.use_pages(Person("shop.example")) as pages,
            ):
                tab = await pages.browser.get_current_tab()
                assert tab.take_notes() == [OUTSIDE_NOTICE]
                assert await navigate(tab, SHOP) == ""
                await wait_for(tab, lambda title: title == "Shop")
                fetched = {("GET", "cdn.example", "/last"), ("GET", "cdn.example", "/framed")}
                await web.wait_until(lambda: fetched <= {*web.seen})
                told = (await pages.describe_after(tab)).text
                await click(tab, told.split(' button "Buy"')[0].split()[-1])
                assert await wait_for(tab, lambda title: title == "Bought")
                with pytest.raises(BrowserError, match="remote browser"):
                    await upload_files(tab, told.split(' file input "File"')[0].split()[-1], [str(tmp_path)])
                assert "ERR_BLOCKED_BY_CLIENT" in await navigate(tab, "http://other.example/")
                assert len(pages.browser.tabs) == 1
                assert [url for url, _ in await list_pages(pages.browser.connection) if "mine" in url]
            count = len(web.seen)
            await web.wait_until(lambda: ("GET", "mine.example", "/tick") in web.seen[count:])
            reached = {(host, path) for _, host, path in web.seen if path not in ("/tick", "/favicon.ico")}
            allowed = {("mine.example", "/"), ("shop.example", "/"), ("frame.example", "/")}
            assert reached == allowed | {("cdn.example", "/last"), ("cdn.example", "/framed")}
            remote = await connect_remote(persons.address)
            assert await list_pages(remote.connection) == [("http://mine.example/", "Mine")]
            await remote.close()


async def test_a_connection_that_dies_is_a_browser_that_has_ended(tmp_path: Path) -> None:
    async with (
        SmallWeb().running() as web,
        run_persons_browser(tmp_path / "profile", web, "about:blank") as persons,
        use_remote(tmp_path, web, persons.address) as browser,
    ):
        async with browser.use_pages(None) as pages:
            persons.kill()
            await pages.browser.connection.wait_until_gone()
            with pytest.raises(BrowserError, match="The browser is gone"):
                await pages.browser.connection.call("Browser.getVersion")
        with pytest.raises(BrowserError, match=r"http://127\.0\.0\.1:\d+ cannot be reached"):
            async with browser.use_pages(None):
                pass


@pytest.mark.parametrize("address", ["file:///etc/passwd", "http://", "http://127.0.0.1:x", "127.0.0.1:9222"])
async def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(BrowserError, match=r"browser\.cdp_url"):
        await connect_remote(address)


async def test_the_state_names_the_address_without_its_key(tmp_path: Path) -> None:
    environ = {**os.environ, "HERMES_HOME": str(tmp_path)}
    (tmp_path / "config.yaml").write_text("browser: {cdp_url: 'wss://far.example/path?token=made-up'}\n")
    state = await read_browser_state(environ, locate_home(environ))
    assert (state.remote, state.program, state.problem) == ("wss://far.example", "", "")
    (tmp_path / "config.yaml").write_text("browser: {cdp_url: 'file:///made-up'}\n")
    state = await read_browser_state(environ, locate_home(environ))
    assert state.remote == "" and "browser.cdp_url" in state.problem


async def test_what_answers_with_something_else_is_told_without_the_address(tmp_path: Path) -> None:
    async with SmallWeb().running() as web:
        at = f"127.0.0.1:{web._port}"
        with pytest.raises(BrowserError, match=rf"http://{at} cannot be reached: what answers there is no browser"):
            await connect_remote(f"http://{at}")
        with pytest.raises(BrowserError, match=rf"ws://{at} cannot be reached: it answers with status 200") as caught:
            await connect_remote(f"ws://{at}/?token=made-up")
        assert "made-up" not in str(caught.value)
