"""Where the pages of a session's browser may lead, and what they may reach.

A person is asked once for each site that a page of it is opened in a tab. What such a page loads is free where it lies
at a public address; what carries a body to another site (a form, an upload, a message of a script) is asked about, too.
Addresses of this machine and of inner networks are reached by pages of the very host alone that a person has opened
there, and those at which clouds hand out keys by none.

The proxy of the browser asks here as well: a page that gets past the watch over requests still reaches no inner
address, and speaks nothing but HTTPS and HTTP with other sites.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator, Sequence

from msgspec import Struct

from hermes.browser.network.announced_sockets import AnnouncedSockets
from hermes.browser.network.tls_hello import list_offered_protocols
from hermes.execution.base import CommandPermissions, Permit, SitePermissions
from hermes.execution.sandbox.egress_proxy import HostNotAllowed, ProxyRefusal
from hermes.i18n.messages import N_
from hermes.safety.shell.findings import Verdict
from hermes.safety.urls import Resolver, UrlJudgement, UrlPolicy, UrlRefusedError, judge_url, resolve_pinned
from hermes.web.fetch import is_same_site

_BODILESS = frozenset({"GET", "HEAD", "OPTIONS"})
_UNREADABLE = frozenset({"malformed", "confusing", "scheme", "address-form"})
"""The rules of judgements that no person can lift: what is addressed cannot be told."""
_HTTP = {"ws": "http:", "wss": "https:"}
_SECURE = b"h2"
"""What a client offers that speaks HTTP over TLS, and not one that opens a web socket."""
_UNKNOWN = N_("an unknown site")
_NOBODY = N_("nobody could be asked")
MAX_QUESTIONS = 5
"""The questions that one call may lead to; a page that wants more is up to something."""
_TOO_MANY = N_("too many sites are asked for at once")


class PageRequest(Struct, frozen=True, kw_only=True):
    """A request that a page makes. `page` is the address of the document in its tab; empty for a new tab."""

    url: str
    page: str = ""
    origin: str | None = None
    """The site of the document or worker that sends it, which is not that of `page` for a frame, for another tab, and
    for a page that has just gone; empty where it is hidden. None: the page itself.
    """
    method: str = "GET"
    has_body: bool = False
    opens_page: bool = False
    """Whether its answer takes the place of the document in a tab."""


class SiteRules:
    """The rules of one session. `policy` names the hosts of their own network that the person has opened for good."""

    def __init__(self, policy: UrlPolicy, *, resolver: Resolver | None = None) -> None:
        self._settings = policy
        self._opened = policy
        self._resolver = resolver
        self._permissions: SitePermissions | None = None
        self._announced = ("", 0)
        self._questions_left = 0
        self._answers: dict[tuple[str, ...], asyncio.Future[str]] = {}
        self._sites: set[tuple[str, int]] = set()
        self._sockets = AnnouncedSockets()

    @contextlib.contextmanager
    def asking(self, permissions: SitePermissions | None, opens: str = "") -> Iterator[None]:
        """Ask through `permissions` inside of the block; outside of one nobody is asked, and the answer is no.

        `opens` is the address that is opened by the agent itself: a page leads to none in an inner network.
        """
        before = self._permissions, self._announced, self._questions_left
        self._permissions, self._questions_left = permissions, MAX_QUESTIONS
        judged = judge_url(opens, self._opened)
        self._announced = (judged.host, judged.port)
        try:
            yield
        finally:
            self._permissions, self._announced, self._questions_left = before

    async def explain_refusal(self, request: PageRequest) -> str:
        """Return why a request may not be made, as the end of a sentence; empty where it may. A person may be asked."""
        judged = judge_url(request.url, self._opened)
        if request.opens_page:
            why = await self._open_site(request, judged)
        else:
            why = "" if judged.verdict is Verdict.ALLOW else judged.reason
            if not why and self._is_inner(judged) and not self._is_page_of(request.page, judged):
                why = N_("{host} is in your own network, and the page is not of it", host=judged.host)
        if why or not (request.has_body or request.method.upper() not in _BODILESS):
            return why
        return await self._allow_sending(request, judged)

    def announce_socket(self, url: str, sender: str) -> tuple[str, int] | None:
        """Take note of a web socket that a document or worker of the address `sender` opens.

        Returns host and port where it may not; None where it may, or reaches nothing.
        """
        judged = judge_url(_HTTP.get(url.partition(":")[0], "") + url.partition(":")[2], self._opened)
        if judged.verdict is not Verdict.ALLOW:
            return None
        is_own = is_same_site(judged.host, judge_url(sender, self._opened).host)
        is_allowed = self._is_page_of(sender, judged) if self._is_inner(judged) else is_own
        self._sockets.announce(judged.host, judged.port, is_allowed=is_allowed)
        return None if is_allowed else (judged.host, judged.port)

    async def resolve_allowed(self, host: str, port: int, permissions: CommandPermissions | None) -> Sequence[str]:
        """Return the addresses to which the browser may connect, for its proxy. Raises `ProxyRefusal`."""
        if not self._sites:
            raise HostNotAllowed(host, "no page is open")
        shown = f"[{host}]" if ":" in host else host
        judged = judge_url(f"http://{shown}:{port}/", self._opened)
        if judged.verdict is not Verdict.ALLOW:
            raise HostNotAllowed(host, judged.reason)
        try:
            # A name that nobody has opened does not lead to an address that somebody has.
            policy = self._opened if self._is_inner(judged) else UrlPolicy()
            return await resolve_pinned(judged.host, port, self._resolver, policy)
        except UrlRefusedError as error:
            if error.rule == "unresolved":
                raise ProxyRefusal("502 Bad Gateway", error.reason) from None
            raise HostNotAllowed(host, error.reason) from None

    async def explain_refused_name(self, url: str) -> str:
        """Return why the host of a request may not be connected to, by where its name leads; empty where it may."""
        judged = judge_url(url, self._opened)
        try:
            await self.resolve_allowed(judged.host, judged.port, None)
        except HostNotAllowed:
            return N_("its name leads to an address that pages may not reach")
        except ProxyRefusal:
            return N_("its name cannot be looked up here")
        return ""

    async def explain_refused_stream(self, host: str, port: int, opening: bytes) -> str:
        """Return why a connection must end: nothing but HTTPS is spoken, and web sockets of open sites by their own
        pages.
        """
        if _SECURE in (list_offered_protocols(opening) or ()):
            return ""
        name = host.lower().removesuffix(".")
        if self._is_open(name) and await self._sockets.take(name, port):
            return ""
        return f"a web socket to {host}, which is no site of its page"

    def forget_answers(self, permissions: CommandPermissions | None) -> None:
        """Keep the answers: they hold for the browser."""

    def _is_open(self, host: str) -> bool:
        return any(is_same_site(host, site) for site, _ in self._sites)

    def _is_inner(self, judged: UrlJudgement) -> bool:
        """Return whether a host is in an inner network and open by a person's answer or setting alone."""
        return self._opened.is_opened(judged.host, judged.port)

    def _is_page_of(self, page: str, judged: UrlJudgement) -> bool:
        opened = judge_url(page, self._opened)
        return (opened.host, opened.port) == (judged.host, judged.port)

    async def _open_site(self, request: PageRequest, judged: UrlJudgement) -> str:
        allowed = judged.verdict is Verdict.ALLOW
        if not allowed and (judged.rule in _UNREADABLE or not judged.host):
            return judged.reason
        host, port = judged.host, judged.port
        is_announced = (host, port) == self._announced
        if (host, port) in self._sites:
            return "" if is_announced else await self._lead_to_open_site(request.page, judged)
        may_open = UrlPolicy(private=(f"{host}:{port}",))
        if not allowed and (not is_announced or judge_url(request.url, may_open).verdict is not Verdict.ALLOW):
            return judged.reason  # no answer opens an address at which keys are handed out
        why = await self._ask_once(("open", host, str(port)), lambda asked: asked.open_site(host, port))
        if not why:
            self._sites.add((host, port))
            if not allowed:
                self._opened = UrlPolicy(private=(*self._opened.private, f"{host}:{port}"))
        return why

    async def _lead_to_open_site(self, page: str, judged: UrlJudgement) -> str:
        """Judge a page that leads to an open site: to one of an inner network that is as good as sending data there."""
        if not self._is_inner(judged) or self._is_page_of(page, judged):
            return ""
        return await self._ask_to_send(judge_url(page, self._opened).host or _UNKNOWN, judged)

    async def _allow_sending(self, request: PageRequest, judged: UrlJudgement) -> str:
        page = judge_url(request.page, self._opened).host
        origin = page if request.origin is None else judge_url(request.origin, self._opened).host
        if not page and not origin:
            return N_("its page is gone")
        for sender in (origin, page or origin) if origin else (page, _UNKNOWN):
            if not is_same_site(judged.host, sender):
                return await self._ask_to_send(sender, judged)
        return ""

    async def _ask_to_send(self, sender: str, judged: UrlJudgement) -> str:
        return await self._ask_once(
            ("send", sender, judged.host, str(judged.port)),
            lambda asked: asked.send_to_site(judged.host, judged.port, sender),
        )

    async def _ask_once(self, key: tuple[str, ...], ask: Callable[[SitePermissions], Awaitable[Permit]]) -> str:
        """Return the reason of a no, empty for a yes; asked once, however many requests want to know. Where nobody can
        be asked the answer is no, and is not kept.
        """
        while (known := self._answers.get(key)) is not None:
            await asyncio.wait({known})
            if not known.cancelled():
                return known.result()
        if self._permissions is None:
            return _NOBODY
        if not self._questions_left:
            return _TOO_MANY
        self._questions_left -= 1
        answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._answers[key] = answer
        try:
            permit = await ask(self._permissions)
            answer.set_result("" if permit.allowed else permit.reason or N_("it was not allowed"))
        finally:
            if not answer.done():
                answer.cancel()
                del self._answers[key]
        return answer.result()
