"""A browser in its box: it is confined, asks about sites, and leaves nothing behind."""

import asyncio
from pathlib import Path

import pytest

from hermes.browser.fields import upload_files
from hermes.core.errors import BrowserError
from tests.browser.boxed_browser import Person, SmallWeb, boxed_browser, navigate, wait_for
from tests.requirements import find_program
from tests.torture.browser_kills import run_kills

SHOP = "http://shop.example/"


async def test_a_site_opens_by_a_yes_and_another_one_does_not(tmp_path: Path) -> None:
    pages = {"shop.example/": "<title>Shop</title><img src=http://cdn.example/a.png>"}
    async with SmallWeb(pages).running() as web, boxed_browser(tmp_path, web) as browser:
        person = Person("shop.example")
        async with browser.use_pages(person) as pages:
            tab = await pages.browser.get_current_tab()
            assert await navigate(tab, SHOP) == ""
            await wait_for(tab, lambda title: title == "Shop")
            assert "ERR_BLOCKED_BY_CLIENT" in await navigate(tab, "http://other.example/")
        assert person.questions == ["open shop.example", "open other.example"]
        await web.wait_until(lambda: ("GET", "cdn.example", "/a.png") in web.seen)
        assert not any(host == "other.example" for _, host, _ in web.seen)
        assert tab.take_notes() == ["GET http://other.example/ was refused: the person said no."]


async def test_outside_of_a_call_nobody_is_asked(tmp_path: Path) -> None:
    pages = {"shop.example/": "<title>Shop</title>"}
    async with SmallWeb(pages).running() as web, boxed_browser(tmp_path, web) as browser:
        async with browser.use_pages(Person("shop.example")) as pages:
            tab = await pages.browser.get_current_tab()
            await navigate(tab, SHOP)
        assert "ERR_BLOCKED" in await navigate(tab, "http://other.example/")
        assert not any(host == "other.example" for _, host, _ in web.seen)


async def test_it_closes_when_nobody_uses_it_and_starts_again(tmp_path: Path) -> None:
    async with SmallWeb().running() as web, boxed_browser(tmp_path, web, idle_seconds=0.05) as browser:
        async with browser.use_pages(None) as pages:
            await pages.browser.get_current_tab()
            await asyncio.sleep(0.2)
            assert browser.is_running
        await web.wait_until(lambda: not browser.is_running)
        async with browser.use_pages(None) as pages:
            assert await pages.browser.get_current_tab()


async def test_nothing_is_left_of_it_when_hermes_is_killed() -> None:
    find_program("chromium-headless-shell")
    assert "nothing is left" in await run_kills(3, seed=1)


async def test_a_killed_browser_is_named_and_replaced(tmp_path: Path) -> None:
    async with SmallWeb().running() as web, boxed_browser(tmp_path, web) as browser:
        with pytest.raises(BrowserError):
            async with browser.use_pages(None) as pages:
                await pages.browser.connection.call("Browser.crash")
        async with browser.use_pages(None) as pages:
            assert await pages.browser.get_current_tab()


async def test_a_form_gets_a_copy_of_a_file_that_the_box_hides(tmp_path: Path) -> None:
    page = "<input type=file aria-label=File onchange='files[0].text().then(text => document.title = text)'>"
    file = tmp_path / "note.txt"
    file.write_text("hello")
    async with (
        SmallWeb({"shop.example/": page}).running() as web,
        boxed_browser(tmp_path, web) as browser,
        browser.use_pages(Person("shop.example")) as pages,
    ):
        tab = await pages.browser.get_current_tab()
        assert await navigate(tab, SHOP) == ""
        told = (await pages.describe_after(tab)).text
        await upload_files(tab, told.split(' file input "File"')[0].split()[-1], [str(file)])
        assert await wait_for(tab, lambda title: title == "hello")
    assert not (tmp_path / "downloads").exists()
