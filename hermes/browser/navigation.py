"""Goes to other pages: by an address, and back."""

import asyncio
import re
from collections.abc import Mapping

from hermes.browser.cdp import CallTimeoutError
from hermes.browser.protocol import NavigateResult, NavigationHistory
from hermes.browser.settling import note_moment, settle, wait_for_load
from hermes.browser.tab import Tab
from hermes.core.errors import BrowserError

ANSWER_SECONDS = 30.0
"""How long a server may take to answer."""
_SCHEME = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*):(?!\d)")
_LOCAL = re.compile(r"(?:localhost|127\.[\d.]+|\[::1\])(?:[:/]|$)")
"""Beginnings of addresses that nobody serves by https."""
_REASONS: Mapping[str, str] = {
    "ERR_NAME_NOT_RESOLVED": "there is no host of that name",
    "ERR_CONNECTION_REFUSED": "the connection was refused",
    "ERR_CONNECTION_RESET": "the connection was broken off",
    "ERR_CONNECTION_CLOSED": "the connection was closed",
    "ERR_EMPTY_RESPONSE": "the server has sent nothing",
    "ERR_CONNECTION_TIMED_OUT": "the server does not answer",
    "ERR_TIMED_OUT": "the server does not answer",
    "ERR_INTERNET_DISCONNECTED": "there is no network",
    "ERR_ADDRESS_UNREACHABLE": "the address cannot be reached",
    "ERR_TOO_MANY_REDIRECTS": "it redirects without end",
    "ERR_BLOCKED_BY_CLIENT": "it is not allowed here",
    "ERR_TUNNEL_CONNECTION_FAILED": "there is no host of that name, it does not answer, or it is not allowed",
    "ERR_PROXY_CONNECTION_FAILED": "the proxy cannot be reached",
    "ERR_UNSAFE_PORT": "browsers do not use that port",
    "ERR_INVALID_URL": "it is no address",
}


def normalize_address(url: str) -> str:
    """Return an address as it will be asked for; one without a scheme is read as https,
    on this machine as http.

    Raises BrowserError for what is no page of the web.
    """
    given = url.strip()
    found = _SCHEME.match(given)
    if found is None:
        given = given.removeprefix("//")
        given = f"http{'' if _LOCAL.match(given) else 's'}://{given}"
    elif found[1].lower() not in ("http", "https") and given != "about:blank":
        raise BrowserError(f"Only pages of http and https can be opened, not {found[1]}:.")
    if re.search(r"\s", given) or given in ("https://", "http://"):
        raise BrowserError(f"{url[:100]!r} is no address of a page.")
    return given


async def navigate(tab: Tab, url: str) -> None:
    """Open an address in a tab, and wait until it is there. Raises BrowserError with why it is not."""
    tab.check_usable()
    before = note_moment(tab)
    try:
        asked = tab.session.call_for(NavigateResult, "Page.navigate", {"url": url}, seconds=ANSWER_SECONDS)
        result = await tab.run(asked)
        if result is None:
            return
        if result.error_text and not result.is_download:
            _check_error(tab, url, result.error_text)
            return
        if result.loader_id and not result.is_download:
            await tab.run(_wait_for_document(tab, result.loader_id))
        await settle(tab, before)
    except CallTimeoutError:
        tab.session.post("Page.stopLoading")
        raise BrowserError(f"{url} has not answered within {ANSWER_SECONDS:g} seconds.") from None
    except asyncio.CancelledError:
        tab.session.post("Page.stopLoading")
        raise


def _check_error(tab: Tab, url: str, text: str) -> None:
    name = text.removeprefix("net::")
    if name == "ERR_ABORTED":  # it is a download, or the server has nothing to show
        tab.notes.append("the address gave no page to show")
        return
    reason = _REASONS.get(name) or ("its certificate is not valid" if "CERT" in name else name)
    raise BrowserError(f"{url} cannot be opened: {reason}.")


async def _wait_for_document(tab: Tab, loader_id: str) -> None:
    activity = tab.activity
    await activity.wait_until(lambda: activity.document_id == loader_id, 5.0)
    await wait_for_load(tab)


async def go_back(tab: Tab) -> None:
    """Go to the page before in a tab's history. Raises BrowserError where there is none."""
    tab.check_usable()
    history = await tab.session.call_for(NavigationHistory, "Page.getNavigationHistory")
    number = history.current_index - 1
    while number >= 0 and history.entries[number].url == "about:blank":
        number -= 1
    if number < 0:
        raise BrowserError("There is no page before this one.")
    before = note_moment(tab)
    navigated = tab.activity.navigations
    url = tab.activity.url
    params = {"entryId": history.entries[number].id}
    await tab.run(tab.session.call("Page.navigateToHistoryEntry", params))
    if tab.dialog is None:
        moved = tab.activity
        await tab.run(moved.wait_until(lambda: moved.navigations != navigated or moved.url != url, ANSWER_SECONDS))
    await settle(tab, before)
