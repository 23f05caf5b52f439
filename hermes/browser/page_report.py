"""Tells a model of a tab: its page when it is new, and after an action only what has changed."""

import asyncio

from msgspec import Struct

from hermes.browser.cdp import CallTimeoutError
from hermes.browser.excerpt import Excerpt, Seen, choose_lines, describe_changes, find_lines, page_through
from hermes.browser.open_browser import OpenBrowser
from hermes.browser.settling import stop_script
from hermes.browser.snapshot import PageSnapshot, PageTooLargeError, take_snapshot
from hermes.browser.tab import PageCrashedError, Tab
from hermes.core.errors import BrowserError, BrowserGoneError
from hermes.util.text import to_one_line

MAX_CHARACTERS = 6_000
"""The characters of one result."""
NO_CHANGE = "(no change)"
_NOTHING = "(nothing to see)"
EMPTY_TAB = f"about:blank\n{_NOTHING}"
_MAX_URL = 300
_MAX_TITLE = 150
_NEW_DOCUMENT_PAUSE = 0.3
_MAX_NOTES = 8
_MAX_NEW_TABS = 3
_MAX_SECRETS = 50
_DOWNLOAD_SECONDS = 2.0
"""How long an action waits for a download that it began, which may go on."""


class PageReport(Struct, frozen=True):
    """What is told of a tab. `addresses` are those of the documents that it was read from."""

    text: str
    addresses: tuple[str, ...]


class _Told(Struct):
    """What was told of a browser, besides its pages."""

    url: str = ""
    title: str = ""
    tab: int = 0
    tabs: set[int] = set()
    downloads: int = 0
    refused_popups: int = 0


class PageReporter:
    """Remembers what a model was told of each tab. One for a browser."""

    def __init__(self, browser: OpenBrowser) -> None:
        self.browser = browser
        self._seen: dict[int, Seen] = {}
        self._told = _Told()
        self._secrets: set[str] = set()

    async def describe_after(self, tab: Tab, *, scrolled: bool = False, note: str = "") -> PageReport:
        """Return what an action has changed; where the page is another one, that page."""
        tab = await self._find_shown_tab(tab)
        notes = [note] if note else []
        if tab.dialog is not None:
            return self._finish(tab, notes, "")
        downloads = self.browser.downloads
        await tab.activity.wait_until(lambda: not downloads.is_running, _DOWNLOAD_SECONDS)
        snapshot = await self._take_snapshot(tab)
        if snapshot is None:
            return self._finish(tab, notes, "")
        seen = self._seen.get(tab.number)
        changes = None
        if seen is not None and seen.document_id == snapshot.document_id:
            changes = describe_changes(snapshot.lines, seen, scrolled=scrolled)
        if changes is None:
            excerpt = choose_lines(snapshot.lines)
            self._remember(tab, snapshot, excerpt, is_new=True)
            return self._finish(tab, notes, excerpt.text or _NOTHING)
        self._remember(tab, snapshot, changes, is_new=False)
        return self._finish(tab, notes, changes.text or ("" if notes else NO_CHANGE))

    async def describe_page(self, tab: Tab, *, full: bool = False, page: int = 1, find: str = "") -> PageReport:
        """Return the page as it is: what is in view first; with `full` all of it, a part at a time; with `find` the
        lines that hold these words.
        """
        tab.check_usable()
        snapshot = await self._take_snapshot(tab)
        if snapshot is None:
            return self._finish(tab, [], "")
        if find:
            excerpt = find_lines(snapshot.lines, find)
        elif full:
            excerpt = page_through(snapshot.lines, page)
        else:
            excerpt = choose_lines(snapshot.lines)
        self._remember(tab, snapshot, excerpt, is_new=not (find or (full and page > 1)))
        self._told.url = self._told.title = ""
        return self._finish(tab, [], excerpt.text or _NOTHING)

    async def describe_tabs(self, tab: Tab) -> PageReport:
        """Return the list of the tabs."""
        lines: list[str] = []
        addresses: list[str] = []
        for number, one in self.browser.tabs.items():
            mark = " (current)" if one is tab else ""
            state = " (crashed)" if one.is_crashed else ""
            title = to_one_line(one.title or one.session.target.title, _MAX_TITLE)
            lines.append(f"tab {number}{mark}{state}: {one.activity.url[:_MAX_URL]} {title}".rstrip())
            addresses += one.list_addresses()
        self._told.tabs = {*self.browser.tabs}
        return PageReport(self.hide_secrets("\n".join(lines)), tuple(dict.fromkeys(addresses)))

    async def learn_secrets(self, tab: Tab) -> None:
        """Learn what fields of passwords hold now, so that it is taken out of what is told next."""
        await self._take_snapshot(tab)

    def hide_secrets(self, text: str) -> str:
        """Return a text without what fields of passwords were seen to hold."""
        for secret in sorted(self._secrets, key=len, reverse=True):
            text = text.replace(secret, "•••")
        return text

    async def take_snapshot(self, tab: Tab) -> PageSnapshot:
        """Return the tab as it is now, for a picture of it. Raises BrowserError where a dialog is open."""
        tab.check_usable()
        snapshot = await self._take_snapshot(tab)
        if snapshot is None:
            tab.check_usable()
            raise BrowserError("The page does not answer.")
        return snapshot

    async def _find_shown_tab(self, tab: Tab) -> Tab:
        """Return the tab, or the one that is looked at since it has closed itself."""
        if tab.is_crashed:
            raise PageCrashedError(tab.crash_reason)
        if not tab.is_closed:
            return tab
        tab.notes.clear()
        found = await self.browser.get_current_tab()
        found.notes.append(f"tab {tab.number} has closed, this is tab {found.number}")
        return found

    async def _take_snapshot(self, tab: Tab) -> PageSnapshot | None:
        """Return a snapshot; None where a dialog has opened, or the page is too large, which is noted then. A document
        that goes meanwhile is waited for once.
        """
        found = await self._take_patiently(tab)
        if found is not None:
            self._secrets = {*found.secrets, *([*self._secrets][:_MAX_SECRETS])}
        return found

    async def _take_patiently(self, tab: Tab) -> PageSnapshot | None:
        try:
            return await tab.run(take_snapshot(tab))
        except (PageCrashedError, BrowserGoneError):
            raise
        except PageTooLargeError as error:
            tab.notes.append(str(error))
            return None
        except CallTimeoutError:
            stop_script(tab)
            return await tab.run(take_snapshot(tab))
        except BrowserError:
            tab.check_usable()
            await asyncio.sleep(_NEW_DOCUMENT_PAUSE)
            return await tab.run(take_snapshot(tab))

    def _remember(self, tab: Tab, snapshot: PageSnapshot, excerpt: Excerpt, *, is_new: bool) -> None:
        texts = {line.node: line.text for line in snapshot.lines}
        before = self._seen.get(tab.number)
        shown = excerpt.shown if is_new or before is None else before.shown | excerpt.shown
        self._seen[tab.number] = Seen(snapshot.document_id, texts, shown & texts.keys())
        for number in [one for one in self._seen if one not in self.browser.tabs]:
            del self._seen[number]

    def _finish(self, tab: Tab, notes: list[str], body: str) -> PageReport:
        """Return the report: the page's name and address where they are news, what happened, and the lines."""
        told = self._told
        head = []
        url, title = tab.activity.url[:_MAX_URL], to_one_line(tab.title, _MAX_TITLE)
        if (url, title, tab.number) != (told.url, told.title, told.tab):
            head = list(filter(None, (title if title != told.title or url != told.url else "", url)))
        told.url, told.title, told.tab = url, title, tab.number
        if tab.activity.status >= 400 and head:
            notes.append(f"status {tab.activity.status}")
        notes += self._collect_news(tab)
        shown = [f"[{to_one_line(note, 800)}]" for note in notes[:_MAX_NOTES]]
        text = "\n".join((*head, *shown, *([body] if body else []))) or NO_CHANGE
        return PageReport(self.hide_secrets(text)[:MAX_CHARACTERS], tab.list_addresses())

    def _collect_news(self, tab: Tab) -> list[str]:
        """Return what happened that no line of the page shows."""
        told, browser = self._told, self.browser
        news: list[str] = []
        if tab.dialog is not None:
            news.append(f"open: {tab.dialog.describe()} Answer by browser_dialog")
        news += dict.fromkeys(tab.notes)
        tab.notes.clear()
        if tab.chooser is not None:
            news.append("the page asks for a file: browser_upload on what was clicked")
            tab.chooser = None
        news += self._name_new_tabs(tab)
        if browser.refused_popups > told.refused_popups:
            news.append(f"{browser.refused_popups - told.refused_popups} more tabs were closed at once: too many")
            told.refused_popups = browser.refused_popups
        if browser.downloads.version != told.downloads:
            news += [one.describe() for one in browser.downloads.take_news()]
            told.downloads = browser.downloads.version
        if count := tab.console.take_errors():
            news.append(f"{count} error{'s' if count > 1 else ''} in the console")
        return news

    def _name_new_tabs(self, tab: Tab) -> list[str]:
        """Return the tabs that have opened since they were told last."""
        tabs = self.browser.tabs
        opened = [number for number in tabs if number not in self._told.tabs and number != tab.number]
        self._told.tabs = {*tabs}
        named = [
            f"tab {number} has opened: {tabs[number].activity.url[:_MAX_URL]} (browser_tabs switches to it)"
            for number in opened[:_MAX_NEW_TABS]
        ]
        more = opened[_MAX_NEW_TABS:]
        return [*named, f"more tabs have opened: {', '.join(map(str, more))}"] if more else named
