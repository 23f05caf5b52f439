"""A running browser as one session uses it: its tabs, of which one is the current one, and its downloads."""

import asyncio
import contextlib
import logging
from collections.abc import Coroutine
from functools import partial
from pathlib import Path
from typing import Protocol

import msgspec
from msgspec import Raw, Struct

from hermes.browser.cdp import CdpConnection
from hermes.browser.downloads import Downloads
from hermes.browser.protocol import AttachedToTarget, CreatedTarget, DetachedFromTarget
from hermes.browser.refs import RefTable
from hermes.browser.tab import AUTO_ATTACH, START_SECONDS, Tab
from hermes.browser.target_session import TargetSession
from hermes.core.errors import BrowserError, BrowserGoneError
from hermes.util.cancellation import cancel_tasks

MAX_TABS = 12
_WORKERS = frozenset({"worker", "shared_worker", "service_worker"})
_TAB_FILTER = [
    {"type": "browser", "exclude": True},
    {"type": "tab", "exclude": True},
    {"type": "background_page", "exclude": True},
    {},
]
_LOG = logging.getLogger(__name__)
_END_SECONDS = 5.0
_MOST_REFUSED = 40
"""After so many refused tabs the process of the page that opens them is ended: its script cannot be in every case."""


class TargetGuard(Protocol):
    """Watches what targets request."""

    def prepare_target(self, session: TargetSession, tab: Tab | None) -> bool:
        """Get to know a page, frame or worker before anything in it runs; return whether it may run at all. `tab` is
        whose it is; None for what belongs to no tab.

        It waits for no answer: a page that has opened another one does nothing until that one runs.
        """
        ...

    def forget_target(self, session_id: str) -> None:
        """Forget a target that is gone."""
        ...


class BrowserOptions(Struct, frozen=True, kw_only=True):
    """What a browser is used with."""

    download_folder: Path | None = None
    """Where downloads go; None: they are refused."""
    upload_folder: Path | None = None
    """Where files for forms are copied to; None: the browser reads them where they are."""
    max_tabs: int = MAX_TABS
    guard: TargetGuard | None = None
    """Knows each target before it runs."""
    context_id: str = ""
    """The context of a remote browser in which our tabs are: nothing else there is attached to. Empty: the browser is
    ours, with all that is in it.
    """


DEFAULT_OPTIONS = BrowserOptions()


class OpenBrowser:
    """The tabs of one browser. Whoever makes it calls `start`, and `close` in the end; the connection and the process
    are its maker's own.
    """

    def __init__(self, connection: CdpConnection, options: BrowserOptions = DEFAULT_OPTIONS) -> None:
        self.connection = connection
        self.refs = RefTable()
        self.downloads = Downloads(connection, options.download_folder)
        self.refused_popups = 0
        """How many tabs pages have opened beyond the limit, which were closed at once."""
        self.tabs: dict[int, Tab] = {}
        self._options = options
        self._by_target: dict[str, Tab] = {}
        self._by_session: dict[str, Tab] = {}
        self._current = 0
        self._last_number = 0
        self._starting: set[asyncio.Task[None]] = set()
        self._new_tab = asyncio.Event()

    async def start(self) -> None:
        """Attach to the pages that there are, and to all that will be. Raises BrowserError."""
        self.connection.set_handler("", self._take_event)
        if context_id := self._options.context_id:
            params = {"behavior": "deny", "browserContextId": context_id}
            await self.connection.call("Browser.setDownloadBehavior", params)
            return
        await self.connection.call("Browser.setDownloadBehavior", self.downloads.settings)
        await self.connection.call("Target.setAutoAttach", {**AUTO_ATTACH, "filter": _TAB_FILTER})

    async def close(self) -> None:
        """Let all that waits for a page end."""
        await cancel_tasks(self._starting)
        for tab in [*self.tabs.values()]:
            self._drop_tab(tab)

    async def get_current_tab(self) -> Tab:
        """Return the tab that is looked at, a new one where there is none."""
        tab = self.tabs.get(self._current)
        if tab is None or tab.is_crashed:
            kept = next((one for one in reversed(self.tabs.values()) if not one.is_crashed), None)
            tab = kept if kept is not None and tab is None else await self.open_tab()
        return await self._select(tab)

    def find_tab(self, number: int) -> Tab:
        """Return a tab by its number. Raises BrowserError where there is none."""
        tab = self.tabs.get(number)
        if tab is None:
            raise BrowserError(f"There is no tab {number}. Open are: {', '.join(map(str, self.tabs)) or 'none'}.")
        return tab

    @property
    def current_number(self) -> int:
        """The number of the tab that is looked at."""
        return self._current

    async def switch_tab(self, number: int) -> Tab:
        """Look at another tab, and return it."""
        tab = await self._select(self.find_tab(number))
        tab.session.post("Page.bringToFront")
        return tab

    async def open_tab(self) -> Tab:
        """Open an empty tab, look at it, and return it. Raises BrowserError beyond the limit."""
        for crashed in [tab for tab in self.tabs.values() if tab.is_crashed]:
            await self.close_tab(crashed.number)
        if len(self.tabs) >= self._options.max_tabs:
            raise BrowserError(f"{len(self.tabs)} tabs are open, and no more may be.", "Close one by browser_tabs.")
        context_id = self._options.context_id
        params = {"url": "about:blank", **({"browserContextId": context_id} if context_id else {})}
        made = await self.connection.call_for(CreatedTarget, "Target.createTarget", params)
        if context_id:
            await self.connection.call("Target.attachToTarget", {"targetId": made.target_id, "flatten": True})
        try:
            async with asyncio.timeout(START_SECONDS):
                while made.target_id not in self._by_target:
                    self._new_tab.clear()
                    await self._new_tab.wait()
        except TimeoutError:
            raise BrowserError("The browser has not opened a tab in time.") from None
        return await self._select(self._by_target[made.target_id])

    async def close_tab(self, number: int) -> None:
        """Close a tab, whatever its page says to that."""
        tab = self.find_tab(number)
        self._drop_tab(tab)
        if self._options.context_id:  # what its page sends as it goes is judged still
            with contextlib.suppress(BrowserError):
                await tab.session.call("Page.navigate", {"url": "about:blank"}, seconds=_END_SECONDS)
        await self.connection.call("Target.closeTarget", {"targetId": tab.main_frame}, timeout=5.0)

    async def _select(self, tab: Tab) -> Tab:
        """Look at a tab, once its events come."""
        self._current = tab.number
        await tab.is_ready.wait()
        return tab

    def _drop_tab(self, tab: Tab) -> None:
        tab.mark_closed()
        self.tabs.pop(tab.number, None)
        self._by_target.pop(tab.main_frame, None)
        for session_id in [one for one, owner in self._by_session.items() if owner is tab]:
            del self._by_session[session_id]
            self.connection.remove_handler(session_id)
        if self._current == tab.number:
            self._current = next(reversed(self.tabs), 0)

    def _take_event(self, method: str, params: Raw, owner: Tab | None = None) -> None:
        if method == "Target.attachedToTarget":
            self._take_attached(msgspec.json.decode(params, type=AttachedToTarget), owner)
        elif method == "Target.detachedFromTarget":
            self._take_detached(msgspec.json.decode(params, type=DetachedFromTarget).session_id)
        else:
            self.downloads.take_event(method, params)
            self._wake_tabs()

    def _take_worker_event(self, owner: Tab, method: str, params: Raw) -> None:
        if method.startswith("Target."):
            self._take_event(method, params, owner)

    def _wake_tabs(self) -> None:
        """Have what is waited for looked at again, since something has changed that is of no one tab."""
        for tab in self.tabs.values():
            tab.activity.wake()

    def _take_attached(self, attached: AttachedToTarget, owner: Tab | None) -> None:
        target = attached.target_info
        session = TargetSession(self.connection, attached.session_id, target)
        if target.type == "page":
            self._take_page(session)
        elif target.type == "iframe" and owner is not None:
            owner.frames[target.target_id] = session
            self._by_session[session.session_id] = owner
            owner.prepare_frame(session)
            self._begin(session, owner)
        elif target.type in _WORKERS:
            if owner is not None:
                self._by_session[session.session_id] = owner
                self.connection.set_handler(session.session_id, partial(self._take_worker_event, owner))
                session.post("Target.setAutoAttach", AUTO_ATTACH)  # workers have workers
            self._begin(session, owner)
        else:
            session.post("Runtime.runIfWaitingForDebugger")

    def _take_page(self, session: TargetSession) -> None:
        if len(self.tabs) >= self._options.max_tabs:
            self._refuse_popup(session)
            return
        self._last_number += 1
        tab = Tab(self._last_number, session, self.refs, self._take_event)
        tab.upload_folder = self._options.upload_folder
        tab.is_remote = bool(self._options.context_id)
        self.tabs[tab.number] = self._by_target[tab.main_frame] = tab
        self._by_session[session.session_id] = tab
        tab.prepare_page()
        self._begin(session, tab)
        self._start_task(self._read_document(tab))
        if not self._current:
            self._current = tab.number
        self._new_tab.set()
        self._wake_tabs()

    def _refuse_popup(self, session: TargetSession) -> None:
        """Close a tab beyond the limit before anything in it runs, and end a page that opens one after another."""
        self.refused_popups += 1
        self._wake_tabs()
        self._start_task(self._end_target(session))
        opener_id = session.target.opener_id
        opener = self._by_target.get(opener_id)
        if opener is None:
            return
        opener.refused_popups += 1
        if opener.refused_popups == _MOST_REFUSED:
            opener.crash_reason = f"it opened more than {_MOST_REFUSED} tabs at once, and was ended"
            opener.session.post("Page.crash")

    def _take_detached(self, session_id: str) -> None:
        if self._options.guard is not None:
            self._options.guard.forget_target(session_id)
        tab = self._by_session.pop(session_id, None)
        if tab is None:
            return
        self.connection.remove_handler(session_id)
        if session_id == tab.session.session_id:
            self._drop_tab(tab)
            return
        for frame_id, session in [*tab.frames.items()]:
            if session.session_id == session_id:
                del tab.frames[frame_id]
        tab.activity.wake()

    def _begin(self, session: TargetSession, tab: Tab | None) -> None:
        """Let a target run, unless its guard says that it may not."""
        guard = self._options.guard
        if guard is None or guard.prepare_target(session, tab):
            session.post("Runtime.runIfWaitingForDebugger")
        else:
            self.connection.post("Target.closeTarget", {"targetId": session.target.target_id})

    def _start_task(self, work: Coroutine[object, object, None]) -> None:
        task = asyncio.create_task(work, name="a browser's target")
        self._starting.add(task)
        task.add_done_callback(self._starting.discard)

    async def _end_target(self, session: TargetSession) -> None:
        """Close a target that must not run. Its opener's process may stand still until it is let run, so it is: without
        a network, and on its way out.
        """
        try:
            await session.call("Network.enable", seconds=_END_SECONDS)
            await session.call("Network.setBlockedURLs", {"urls": ["*"]}, seconds=_END_SECONDS)
            await session.call("Runtime.runIfWaitingForDebugger", seconds=_END_SECONDS)
        except BrowserError as error:
            _LOG.debug("a target of a browser has ended by itself: %s", error)
        self.connection.post("Target.closeTarget", {"targetId": session.target.target_id})

    async def _read_document(self, tab: Tab) -> None:
        """Learn what a new tab shows; one that does not answer is closed."""
        try:
            async with asyncio.timeout(START_SECONDS):
                await tab.read_first_document()
        except BrowserGoneError:
            return
        except (BrowserError, TimeoutError) as error:
            _LOG.debug("a tab of a browser does not answer and is closed: %s", error)
            await self._end_target(tab.session)
