"""What a page is busy with: its loading, its requests, and a way to wait until something about that holds."""

import asyncio
from collections.abc import Callable

import msgspec
from msgspec import Raw

from hermes.browser.protocol import (
    Frame,
    FrameEvent,
    FrameNavigated,
    NavigatedWithinDocument,
    NetworkRequestEnded,
    RequestSent,
    ResponseReceived,
)

_ENDLESS_TYPES = frozenset({"EventSource", "WebSocket", "Media", "Ping", "Prefetch", "CSPViolationReport"})
"""Kinds of requests that no one waits for: they are open as long as the page is, or change nothing in it."""
_MAX_REQUESTS = 1_000


class PageActivity:
    """The state of one tab's main frame, and the requests of all its frames."""

    def __init__(self, main_frame: str) -> None:
        self.main_frame = main_frame
        self.url = ""
        self.document_id = ""
        """The loader of the main document; another one means another document."""
        self.status = 0
        """The status of the main document's response; 0 where there was none."""
        self.is_interactive = True
        """Whether the main document is parsed."""
        self.is_loaded = True
        self.is_navigating = False
        """Whether another main document was asked for, and has not come."""
        self.given_up: tuple[str, bool] | None = None
        """The document, and whether another one was to come, for which nobody waits any more."""
        self.navigations = 0
        self.requests_begun = 0
        self._requests: dict[str, None] = {}
        self._statuses: dict[str, int] = {}
        self._waiters: set[asyncio.Future[None]] = set()
        self._takers: dict[str, Callable[[Raw], None]] = {
            "Network.requestWillBeSent": self._take_request,
            "Network.responseReceived": self._take_response,
            "Network.loadingFinished": self._take_end,
            "Network.loadingFailed": self._take_end,
            "Page.frameNavigated": self._take_navigation,
            "Page.navigatedWithinDocument": self._take_address,
            "Page.frameRequestedNavigation": self._take_navigation_request,
            "Page.frameStartedNavigating": self._take_navigation_request,
            "Page.frameStoppedLoading": self._take_stop,
        }

    @property
    def has_requests(self) -> bool:
        """Whether requests are open that the page may change with."""
        return bool(self._requests)

    def take_event(self, method: str, params: Raw) -> None:
        """Take an event of the page's session, or of one of its frames."""
        taker = self._takers.get(method)
        if taker is not None:
            taker(params)
            self.wake()

    def take_first_document(self, frame: Frame) -> None:
        """Take the document that a page had when its events began to come."""
        if not self.navigations:
            self.url = frame.url + frame.url_fragment
            self.document_id = frame.loader_id

    def take_main_event(self, method: str) -> None:
        """Take an event that counts only where it is of the page's own session."""
        if method == "Page.domContentEventFired":
            self.is_interactive = True
        elif method == "Page.loadEventFired":
            self.is_interactive = self.is_loaded = True
        else:
            return
        self.wake()

    def wake(self) -> None:
        """Have what is waited for looked at again."""
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def wait_until(self, is_true: Callable[[], bool], seconds: float) -> bool:
        """Wait until something holds, and return whether it does in the end."""
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        while not is_true():
            left = end - loop.time()
            if left <= 0:
                return False
            waiter: asyncio.Future[None] = loop.create_future()
            self._waiters.add(waiter)
            timer = loop.call_at(end, _resolve, waiter)
            try:
                await waiter
            finally:
                timer.cancel()
                self._waiters.discard(waiter)
        return True

    def forget_requests(self) -> None:
        """Wait no longer for what is open."""
        self._requests.clear()

    def _take_request(self, params: Raw) -> None:
        sent = msgspec.json.decode(params, type=RequestSent)
        if sent.type in _ENDLESS_TYPES or len(self._requests) >= _MAX_REQUESTS:
            return
        if sent.request_id not in self._requests:
            self.requests_begun += 1
            self._requests[sent.request_id] = None

    def _take_response(self, params: Raw) -> None:
        got = msgspec.json.decode(params, type=ResponseReceived)
        if got.type == "Document" and got.frame_id == self.main_frame:
            self._statuses = {got.loader_id: got.response.status}
            if got.loader_id == self.document_id:
                self.status = got.response.status

    def _take_end(self, params: Raw) -> None:
        self._requests.pop(msgspec.json.decode(params, type=NetworkRequestEnded).request_id, None)

    def _take_navigation(self, params: Raw) -> None:
        frame = msgspec.json.decode(params, type=FrameNavigated).frame
        if frame.id != self.main_frame:
            return
        self.url = (frame.unreachable_url or frame.url) + frame.url_fragment
        self.document_id = frame.loader_id
        self.status = self._statuses.get(frame.loader_id, 0)
        self.is_navigating = False
        self.is_interactive = self.is_loaded = False
        self.navigations += 1
        self._requests.clear()

    def _take_address(self, params: Raw) -> None:
        moved = msgspec.json.decode(params, type=NavigatedWithinDocument)
        if moved.frame_id == self.main_frame:
            self.url = moved.url
            self.is_navigating = False

    def _take_navigation_request(self, params: Raw) -> None:
        if msgspec.json.decode(params, type=FrameEvent).frame_id == self.main_frame:
            self.is_navigating = True

    def _take_stop(self, params: Raw) -> None:
        if msgspec.json.decode(params, type=FrameEvent).frame_id == self.main_frame:
            self.is_navigating = False
            self.is_interactive = self.is_loaded = True


def _resolve(waiter: "asyncio.Future[None]") -> None:
    if not waiter.done():
        waiter.set_result(None)
