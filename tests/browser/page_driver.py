"""Pages of the test site, used by the words that stand on them."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from hermes.browser import fields, navigation, pointer
from hermes.browser.open_browser import BrowserOptions, OpenBrowser
from hermes.browser.page_report import PageReporter
from hermes.browser.settling import note_moment, settle
from hermes.browser.tab import Tab
from tests.browser.browser_site import serve_site
from tests.browser.running_browser import RunningBrowser, run_browser


class PageDriver:
    """One browser and one site; `told` is all that was told of the page since it was opened."""

    def __init__(self, running: RunningBrowser, browser: OpenBrowser, site: str, downloads: Path) -> None:
        self.running = running
        self.browser = browser
        self.site = site
        self.downloads = downloads
        self.reporter = PageReporter(browser)
        self.told = ""

    async def tab(self) -> Tab:
        return await self.browser.get_current_tab()

    async def open(self, path: str) -> str:
        """Open a page of the site, as if nothing had been told before, and return what is told of it."""
        self.reporter = PageReporter(self.browser)
        for number in [one for one in self.browser.tabs if one != self.browser.current_number]:
            await self.browser.close_tab(number)
        self.told = ""
        tab = await self.tab()
        await navigation.navigate(tab, f"{self.site}{path}")
        if tab.dialog is not None and tab.dialog.kind == "beforeunload":
            before = note_moment(tab)
            await tab.answer_dialog(accept=True)
            await settle(tab, before)
        return await self.report()

    async def report(self, *, scrolled: bool = False) -> str:
        report = await self.reporter.describe_after(await self.tab(), scrolled=scrolled)
        self.told += f"\n{report.text}"
        return report.text

    def ref(self, words: str) -> str:
        """Return the ref of the element that has these words for its name, as it was told last."""
        found = re.findall(rf'(e\d+) [a-z ]+ "{re.escape(words)}', self.told)
        assert found, f"no {words!r} in {self.told}"
        return str(found[-1])

    async def click(self, words: str) -> str:
        await pointer.click(await self.tab(), self.ref(words))
        return await self.report()

    async def type(self, words: str, text: str, *, submit: bool = False) -> str:
        await fields.type_text(await self.tab(), self.ref(words), text, submit=submit)
        return await self.report()


@asynccontextmanager
async def drive_pages(folder: Path) -> AsyncIterator[PageDriver]:
    """Start a browser on the test site."""
    downloads = folder / "downloads"
    downloads.mkdir()
    with serve_site() as site:
        async with run_browser(folder / "profile") as running:
            browser = OpenBrowser(running.connection, BrowserOptions(download_folder=downloads))
            await browser.start()
            try:
                yield PageDriver(running, browser, site, downloads)
            finally:
                await browser.close()
