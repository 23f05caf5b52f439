"""Waits until a page has done what an action began: its navigation, its requests, its changes, each within limits."""

import asyncio
from collections.abc import Coroutine
from typing import TypeVar

from msgspec import Struct

from hermes.browser.cdp import CallTimeoutError
from hermes.browser.tab import Tab
from hermes.core.errors import BrowserError, BrowserGoneError

T = TypeVar("T")
LOAD_SECONDS = 8.0
"""How long a page may take from its first byte until it is parsed."""
_REST_SECONDS = 2.5
"""How long its pictures, frames and later requests are waited for."""
_STOPPED_SECONDS = 0.7
"""An action that is stopped after so long may wait for a script that does not end: it is stopped, too."""
_PROBE_SECONDS = 5.0
"""How long a page's script may keep everything else from running before it is stopped."""
_QUIET = """new Promise(done => { let timer;
const end = () => { seen.disconnect(); clearTimeout(timer); clearTimeout(last); done(true) };
const begin = () => { clearTimeout(timer); timer = setTimeout(end, %d) };
const seen = new MutationObserver(begin); const last = setTimeout(end, %d);
seen.observe(document, {subtree: true, childList: true, attributes: true, characterData: true}); begin() })"""
_FIRST_QUIET = _QUIET % (30, 150)
_LAST_QUIET = _QUIET % (60, 600)
_SUGGESTING_QUIET = _QUIET % (300, 1200)
"""Lists of suggestions wait until nobody types any more."""


class Moment(Struct):
    """The state of a tab before an action."""

    navigations: int
    requests: int


def note_moment(tab: Tab) -> Moment:
    """Return the state of a tab now, to wait for what follows."""
    return Moment(tab.activity.navigations, tab.activity.requests_begun)


async def act(tab: Tab, work: Coroutine[object, object, T]) -> T | None:
    """Do something on a page and wait for what follows; return what the work does, None where a dialog has opened.

    A script of the page that keeps the work from its end is stopped. Raises BrowserError.
    """
    if (reason := tab.find_obstacle()) is not None:
        work.close()
        raise reason
    before = note_moment(tab)
    loop = asyncio.get_running_loop()
    begun = loop.time()
    try:
        done = await tab.run(work)
    except CallTimeoutError:
        stop_script(tab)
        done = None
    except asyncio.CancelledError:
        if loop.time() - begun > _STOPPED_SECONDS:
            stop_script(tab)
        raise
    await settle(tab, before)
    return done


async def settle(tab: Tab, before: Moment) -> None:
    """Wait until the page is quiet after an action, or a dialog is open. Raises BrowserError when it crashes."""
    await tab.run(_settle(tab, before))


async def wait_for_suggestions(tab: Tab) -> None:
    """Wait until a field that was written into has made its suggestions, or makes none."""
    before = note_moment(tab)
    await tab.run(_wait_until_quiet(tab, _SUGGESTING_QUIET))
    await settle(tab, before)


async def _settle(tab: Tab, before: Moment) -> None:
    activity = tab.activity
    await _wait_until_quiet(tab, _FIRST_QUIET)
    if not _has_begun_more(tab, before):
        await _wait_until_quiet(tab, _LAST_QUIET)
        if not _has_begun_more(tab, before):
            return
    await wait_for_load(tab)
    await activity.wait_until(lambda: not activity.has_requests, _REST_SECONDS)
    await wait_for_load(tab)  # a request may have led to another page
    activity.forget_requests()
    await _wait_until_quiet(tab, _LAST_QUIET)


def _has_begun_more(tab: Tab, before: Moment) -> bool:
    """Return whether the page goes elsewhere, or has asked for something."""
    activity = tab.activity
    if activity.given_up == (activity.document_id, activity.is_navigating):
        return activity.requests_begun != before.requests
    if activity.is_navigating or not activity.is_interactive:
        return True
    return activity.navigations != before.navigations or activity.requests_begun != before.requests


async def wait_for_load(tab: Tab) -> None:
    """Wait until the document that is coming is parsed, and a little for what belongs to it."""
    activity = tab.activity
    if activity.given_up == (activity.document_id, activity.is_navigating):
        return
    if not await activity.wait_until(lambda: activity.is_interactive and not activity.is_navigating, LOAD_SECONDS):
        activity.given_up = (activity.document_id, activity.is_navigating)
        tab.notes.append("the page is still loading")
        return
    if not await activity.wait_until(lambda: activity.is_loaded, _REST_SECONDS):
        tab.notes.append("parts of the page are still loading")


async def _wait_until_quiet(tab: Tab, probe: str) -> None:
    try:
        await tab.session.evaluate(probe, tab.main_frame, seconds=_PROBE_SECONDS)
    except CallTimeoutError:
        stop_script(tab)
    except BrowserGoneError:
        raise
    except BrowserError:
        return  # its document has gone: another one is coming


def stop_script(tab: Tab) -> None:
    """End the script that runs in a page now."""
    for session in tab.sessions:
        session.post("Runtime.terminateExecution")
    tab.notes.append("a script of the page did not end and was stopped")
