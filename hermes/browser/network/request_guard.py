"""Watches the requests of a browser before they leave: each is judged by the session's rules, or fails.

The watch is the browser's own, not one of a page: a request that outlives its page (a beacon as it closes, a worker's)
is judged like any other.
"""

import asyncio
from collections.abc import Callable

import msgspec
from msgspec import Raw, Struct

from hermes.browser.cdp import CdpConnection
from hermes.browser.network.restricted_document import Header, restrict_document
from hermes.browser.network.site_rules import PageRequest, SiteRules
from hermes.browser.protocol import FrameEvent, TargetInfo
from hermes.browser.tab import Tab
from hermes.browser.target_session import TargetSession
from hermes.core.errors import BrowserError
from hermes.i18n.messages import N_
from hermes.safety.urls import judge_url
from hermes.util.cancellation import cancel_tasks
from hermes.util.text import to_one_line

_MAX_PAUSED = 2_000
"""Requests that wait for their judgement at a time; what comes beyond fails at once."""
_MAX_FRAMES = 5_000
_FRAME_SECONDS = 1.0
"""Seconds that a new frame may take to be told of; what opens a page in it waits so long."""
_MAX_ADDRESS = 120
_PAGES = frozenset({"page", "iframe"})
_SMALL_BUFFERS = {"maxTotalBufferSize": 0, "maxResourceBufferSize": 0, "maxPostDataSize": 0}
_EVERY_REQUEST = {"urlPattern": "*"}
_EVERY_DOCUMENT = {"urlPattern": "*", "resourceType": "Document", "requestStage": "Response"}
_SHARED_WORKERS = frozenset({"service_worker", "shared_worker"})


class _Request(Struct, rename="camel"):
    url: str
    method: str = "GET"
    has_post_data: bool = False
    headers: dict[str, str] = {}


class _Paused(Struct, rename="camel"):
    request_id: str
    request: _Request
    frame_id: str = ""
    resource_type: str = ""
    response_status_code: int | None = None
    response_error_reason: str = ""
    response_headers: list[Header] = []


class _Socket(Struct):
    url: str


class RequestGuard:
    """The watch over one browser. `start` begins it, before any page is open; `close` ends what waits for an answer.

    `end_tunnels` ends the connections to a host and port. With `only_own` it watches the targets it is told of and no
    others, as in a browser that has tabs of somebody else; names are looked up here then, since no proxy does it.
    """

    def __init__(
        self,
        connection: CdpConnection,
        rules: SiteRules,
        end_tunnels: Callable[[str, int], None] | None = None,
        *,
        only_own: bool = False,
    ) -> None:
        self._connection = connection
        self._rules = rules
        self._end_tunnels = end_tunnels
        self._only_own = only_own
        self._tabs: dict[str, Tab] = {}
        """The tab of each session."""
        self._targets: dict[str, TargetInfo] = {}
        self._frames: dict[str, Tab] = {}
        """The tab of each frame."""
        self._new_frame = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Begin the watch. Raises BrowserError."""
        self._connection.set_watch(self._take_event)
        if not self._only_own:
            await self._connection.call("Fetch.enable", {"patterns": [_EVERY_REQUEST]})

    def prepare_target(self, session: TargetSession, tab: Tab | None) -> bool:
        """Get to know a target before anything of it runs; return whether it may run at all.

        Workers that outlive their page, or serve several, may not: their requests belong to no page.
        """
        if tab is None or session.target.type in _SHARED_WORKERS:
            return False
        if self._only_own:
            if session.target.type not in _PAGES:
                return False
            session.post("Fetch.enable", {"patterns": [_EVERY_REQUEST, _EVERY_DOCUMENT]})
            session.post("Network.setBypassServiceWorker", {"bypass": True})
            session.post("Page.setPrerenderingAllowed", {"isAllowed": False})
        self._tabs[session.session_id] = tab
        self._targets[session.session_id] = session.target
        if session.target.type in _PAGES:
            self._add_frame(session.target.target_id, tab)
        else:
            session.post("Network.enable", _SMALL_BUFFERS)  # it tells of the worker's web sockets
        return True

    def forget_target(self, session_id: str) -> None:
        """Forget a target that is gone."""
        tab = self._tabs.pop(session_id, None)
        target = self._targets.pop(session_id, None)
        if tab is not None and target is not None and target.target_id == tab.main_frame:
            gone = [one for one, its_tab in self._tabs.items() if its_tab is tab]
            for one in gone:  # nobody tells of the ends of its frames and workers any more
                del self._tabs[one], self._targets[one]
            self._frames = {frame: one for frame, one in self._frames.items() if one is not tab}

    def add_note(self, note: str) -> None:
        """Note in the tab that is looked at that something was refused."""
        if self._tabs:
            next(reversed(self._tabs.values())).add_note(note)

    async def close(self) -> None:
        """End what still waits."""
        await cancel_tasks(self._tasks)

    def _add_frame(self, frame_id: str, tab: Tab) -> None:
        self._frames[frame_id] = tab
        while len(self._frames) > _MAX_FRAMES:
            del self._frames[next(iter(self._frames))]
        self._new_frame.set()
        self._new_frame = asyncio.Event()

    def _take_event(self, session_id: str, method: str, params: Raw) -> bool:
        if method == "Fetch.requestPaused":
            self._take_request(session_id, msgspec.json.decode(params, type=_Paused))
            return True
        if method == "Page.frameAttached" and (tab := self._tabs.get(session_id)) is not None:
            self._add_frame(msgspec.json.decode(params, type=FrameEvent).frame_id, tab)
        if method == "Network.webSocketCreated" and (tab := self._tabs.get(session_id)) is not None:
            self._take_socket(msgspec.json.decode(params, type=_Socket).url, self._targets[session_id], tab)
        return False

    def _take_socket(self, url: str, target: TargetInfo, tab: Tab) -> None:
        refused = self._rules.announce_socket(url, _find_address(target, tab))
        if refused is not None:
            tab.add_note(N_("a web socket to {host} was refused: it is no site of its page.", host=refused[0]))
            if self._end_tunnels is not None:
                self._end_tunnels(*refused)  # one that is open may take the socket (RFC 8441)

    def _take_request(self, session_id: str, paused: _Paused) -> None:
        if len(self._tasks) >= _MAX_PAUSED:
            self._fail(session_id, paused)
            return
        has_answer = paused.response_status_code is not None or paused.response_error_reason
        work = self._give_on(session_id, paused) if has_answer else self._judge(session_id, paused)
        task = asyncio.create_task(work, name="a request of a page")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _judge(self, session_id: str, paused: _Paused) -> None:
        request, why, tab = paused.request, N_("its page is gone"), None
        try:
            tab = await self._find_tab(paused)
            why = await self._rules.explain_refusal(
                PageRequest(
                    url=request.url,
                    page=tab.activity.url if tab is not None else "",
                    origin=_find_origin(paused, tab),
                    method=request.method,
                    has_body=request.has_post_data,
                    # What is not known as a frame of a page is taken for one.
                    opens_page=paused.resource_type == "Document"
                    and (tab is None or paused.frame_id == tab.main_frame),
                )
            )
            if self._only_own and not why:
                why = N_("its page is gone")  # should this be cancelled
                why = await self._rules.explain_refused_name(request.url)
        finally:
            if why:
                self._fail(session_id, paused)
            else:
                self._connection.post("Fetch.continueRequest", {"requestId": paused.request_id}, session_id)
        if why and tab is not None:
            is_page = paused.resource_type == "Document"  # a tab that shows no page yet tells no text of a redirect
            url = to_one_line(_drop_path(request.url) if is_page else request.url, _MAX_ADDRESS)
            method = to_one_line(request.method, 20)
            tab.add_note(N_("{method} {url} was refused: {reason}.", method=method, url=url, reason=why))

    async def _give_on(self, session_id: str, paused: _Paused) -> None:
        """Give on the answer to a request for a document."""
        status = paused.response_status_code
        if status is None or 300 <= status < 400:
            self._connection.post("Fetch.continueResponse", {"requestId": paused.request_id}, session_id)
            return
        is_given = False
        try:
            await restrict_document(self._connection, session_id, paused.request_id, status, paused.response_headers)
            is_given = True
        except BrowserError as error:
            if (tab := self._tabs.get(session_id)) is not None:
                tab.add_note(error.message)
        finally:
            if not is_given:
                self._fail(session_id, paused)

    async def _find_tab(self, paused: _Paused) -> Tab | None:
        """Return the tab of a request. A page that opens in a frame may be asked for before the frame is told of."""
        if paused.resource_type == "Document" and paused.frame_id not in self._frames:
            try:
                async with asyncio.timeout(_FRAME_SECONDS):
                    while paused.frame_id not in self._frames:
                        await self._new_frame.wait()
            except TimeoutError:
                return None
        return self._frames.get(paused.frame_id)

    def _fail(self, session_id: str, paused: _Paused) -> None:
        params = {"requestId": paused.request_id, "errorReason": "BlockedByClient"}
        self._connection.post("Fetch.failRequest", params, session_id)


def _drop_path(url: str) -> str:
    return "/".join((*url.split("/", 3)[:3], ""))


def _find_origin(paused: _Paused, tab: Tab | None) -> str | None:
    """Return the site that sends a request with a body; empty where it is hidden, None for that of the tab's page.

    Pages that tell nobody where one comes from hide it in forms, too: nobody else can have sent those in a tab that was
    not opened by another page, and in which no other site has a frame.
    """
    origin = {name.lower(): value for name, value in paused.request.headers.items()}.get("origin", "null")
    if origin != "null":
        return origin
    if tab is None or paused.resource_type != "Document" or tab.session.target.opener_id:
        return ""
    hosts = {judge_url(one).host for one in tab.list_addresses()}
    return None if len(hosts) == 1 else ""


def _find_address(target: TargetInfo, tab: Tab) -> str:
    """Return the address of the document or worker of a target."""
    if target.target_id == tab.main_frame:
        return tab.activity.url
    return tab.addresses.get(target.target_id, target.url).removeprefix("blob:")
