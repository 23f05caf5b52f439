"""What the tools of the browser have in common: the session's tabs, and results that are fenced as what a page says."""

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from urllib.parse import urlsplit

from hermes.browser.page_report import EMPTY_TAB, NO_CHANGE, PageReport, PageReporter
from hermes.browser.tab import Tab
from hermes.core.errors import BrowserError, ToolError
from hermes.core.messages import Provenance, Source, ToolStatus
from hermes.tools.session import ToolContext
from hermes.tools.taint import format_host, provenance_from_sources
from hermes.tools.tool import ToolOutput

NO_BROWSER = (
    "There is no browser here. Install chromium or chromium-headless-shell (Debian: apt install "
    "chromium-headless-shell), Chrome or Edge; web_extract reads pages without one."
)
_PORTS = {"http": 80, "https": 443}


@contextlib.asynccontextmanager
async def open_pages(ctx: ToolContext, opens: str = "") -> AsyncIterator[PageReporter]:
    """Lend the tabs of the session's browser for this call; `opens` is the address that it opens.

    Raises ToolError where there is no browser.
    """
    if ctx.browser is None:
        raise ToolError(NO_BROWSER)
    async with ctx.browser.use_pages(ctx.permissions, opens) as pages:
        yield pages


async def use_page(
    ctx: ToolContext, action: Callable[[Tab], Awaitable[str | None]], *, scrolled: bool = False, opens: str = ""
) -> ToolOutput:
    """Do something on the current tab, and return what it has changed; what the action returns is told with it."""
    async with open_pages(ctx, opens) as pages:
        tab = await pages.browser.get_current_tab()
        try:
            note = await action(tab)
            return make_output(await pages.describe_after(tab, scrolled=scrolled, note=note or ""))
        except BrowserError as error:
            return refuse(pages, tab, error)


def make_output(report: PageReport) -> ToolOutput:
    """Return a report as a result; one that says nothing of the page is the tool's own words."""
    is_own = report.text in (NO_CHANGE, EMPTY_TAB)
    return ToolOutput(text=report.text, provenance=None if is_own else find_provenance(report.addresses))


def refuse(pages: PageReporter, tab: Tab, error: BrowserError) -> ToolOutput:
    """Return why something could not be done, and what was noticed: names of a page's elements may be in it."""
    provenance = None if tab.is_untouched else find_provenance(tab.list_addresses())
    text = "\n".join((str(error), *(f"[{one}]" for one in tab.take_notes())))
    return ToolOutput(text=pages.hide_secrets(text), status=ToolStatus.ERROR, provenance=provenance)


def find_provenance(addresses: Iterable[str]) -> Provenance | None:
    """Return the hosts of documents as the source of a text. One without an address counts, too: the page that has
    opened it writes what it likes there.
    """
    hosts: dict[str, None] = {}
    has_failed = False
    for address in addresses:
        try:
            parts = urlsplit(address)
            host, port = parts.hostname or "", parts.port or _PORTS.get(parts.scheme, 0)
        except ValueError:
            host, port = address[:100], 0
        if address.startswith("chrome-error:"):  # the browser's own page; its host says nothing to anybody
            has_failed = True
        elif host:
            hosts[format_host(host, port)] = None
        else:
            hosts[f"{parts.scheme}:"] = None
    if not hosts:
        hosts["error page" if has_failed else "about:"] = None
    return provenance_from_sources(f"{Source.WEB}:{host}" for host in hosts)
