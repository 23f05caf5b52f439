"""Watches the requests of a browser's pages before they leave: each is judged by the session's rules, or fails."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable

import msgspec
from msgspec import Raw, Struct

from hermes.browser.cdp import CdpConnection
from hermes.browser.site_rules import PageRequest, SiteRules
from hermes.i18n.messages import N_
from hermes.util.cancellation import cancel_tasks
from hermes.util.text import to_one_line

MAX_NOTES = 50
_MAX_PAUSED = 2_000
"""Requests that wait for their judgement at a time; what comes beyond fails at once."""
_MAX_ADDRESS = 120
_PAGES, _WORKERS = frozenset({"page", "iframe"}), frozenset({"service_worker", "shared_worker"})
_PAUSED = "Fetch.requestPaused"
_NO_PEERS = (
    "for (const name of ['RTCPeerConnection', 'webkitRTCPeerConnection', 'WebTransport'])"
    " try { delete globalThis[name]; } catch (error) {}"
)
"""Runs in each document before its own scripts: what connects past the watch over requests is taken away."""
_LOG = logging.getLogger(__name__)


class _Request(Struct):
    url: str
    method: str = "GET"
    has_post_data: bool = msgspec.field(default=False, name="hasPostData")


class _Paused(Struct, rename="camel"):
    request_id: str
    request: _Request
    frame_id: str = ""
    resource_type: str = ""


class WatchedTab(Struct, frozen=True):
    """The tab that a target belongs to: its main frame, and how the address of its document is learned."""

    main_frame: str
    find_url: Callable[[], str]


class RequestGuard:
    """The watch over all targets of one browser; `close` ends what still waits for an answer."""

    def __init__(self, connection: CdpConnection, rules: SiteRules) -> None:
        self._connection = connection
        self._rules = rules
        self._tabs: dict[str, WatchedTab] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._notes: deque[str] = deque(maxlen=MAX_NOTES)

    async def prepare_target(self, session_id: str, kind: str, tab: WatchedTab) -> bool:
        """Watch a target before anything of it runs; return whether it may run at all.

        Workers that outlive their page, or serve several, may not: their requests belong to no page.
        """
        if kind in _WORKERS:
            return False
        self._tabs[session_id] = tab
        await self._connection.call("Fetch.enable", {"patterns": [{"urlPattern": "*"}]}, session_id)
        if kind in _PAGES:
            script = {"source": _NO_PEERS, "runImmediately": True}
            await self._connection.call("Page.addScriptToEvaluateOnNewDocument", script, session_id)
        return True

    def forget_target(self, session_id: str) -> None:
        """Forget a target that is gone."""
        self._tabs.pop(session_id, None)

    def take_event(self, session_id: str, method: str, params: Raw) -> bool:
        """Take an event of a target; return whether it was one of the watch's own."""
        if method != _PAUSED:
            return False
        paused = msgspec.json.decode(params, type=_Paused)
        if len(self._tasks) >= _MAX_PAUSED:
            self._fail(session_id, paused.request_id)
            return True
        task = asyncio.create_task(self._judge(session_id, paused), name="a request of a page")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return True

    def take_notes(self) -> list[str]:
        """Return what was refused since the last time, each a sentence, for the model."""
        notes = list(dict.fromkeys(self._notes))
        self._notes.clear()
        return notes

    def add_note(self, note: str) -> None:
        """Note that something was refused."""
        self._notes.append(note)

    async def close(self) -> None:
        """End what still waits."""
        await cancel_tasks(self._tasks)

    async def _judge(self, session_id: str, paused: _Paused) -> None:
        tab, request = self._tabs.get(session_id), paused.request
        why = N_("its page is gone")
        try:
            if tab is not None:
                why = await self._rules.explain_refusal(
                    PageRequest(
                        url=request.url,
                        page=tab.find_url(),
                        method=request.method,
                        has_body=request.has_post_data,
                        opens_page=paused.resource_type == "Document" and paused.frame_id == tab.main_frame,
                    )
                )
        finally:
            if why:
                self._fail(session_id, paused.request_id)
            else:
                self._connection.post("Fetch.continueRequest", {"requestId": paused.request_id}, session_id)
        if why:
            url, method = to_one_line(request.url, _MAX_ADDRESS), to_one_line(request.method, 20)
            self._notes.append(N_("{method} {url} was refused: {reason}.", method=method, url=url, reason=why))

    def _fail(self, session_id: str, request_id: str) -> None:
        params = {"requestId": request_id, "errorReason": "BlockedByClient"}
        self._connection.post("Fetch.failRequest", params, session_id)
