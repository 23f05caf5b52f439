"""Fetches URLs that a model names: judged, pinned, bounded.

Each hop of a request is judged as text (`hermes.safety.urls`), its name looked up once, every address judged, and the
connection made to one of exactly those. Where a proxy is set for the URL the proxy looks names up: then the text is all
that is judged here. No cookies, no credentials, no referrer; redirects are followed by hand.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from types import TracebackType
from urllib.parse import urljoin, urlsplit

from msgspec import Struct

from hermes.core.errors import ToolError, TransportError
from hermes.core.outcomes import FailureKind
from hermes.core.protocols import HttpStream, HttpTimeouts, HttpTransport
from hermes.i18n.messages import N_
from hermes.providers.http import DirectTransport, create_http_transport
from hermes.providers.http_common import find_proxy
from hermes.safety.shell.findings import Verdict
from hermes.safety.urls import Resolver, UrlJudgement, UrlPolicy, UrlRefusedError, judge_url, resolve_pinned

_REDIRECT_STATUSES = (301, 302, 303, 307, 308)
_USER_AGENT = "Mozilla/5.0 (compatible; hermes-anew)"
_ACCEPT_HEADER = (
    "text/markdown, text/html;q=0.9, application/xhtml+xml;q=0.9, text/plain;q=0.8, application/json;q=0.8, */*;q=0.1"
)


class FetchLimits(Struct, frozen=True, kw_only=True):
    """The limits of one fetch, redirects included."""

    seconds: float = 30.0
    """From the first look-up to the last byte, however steadily a server drips."""
    connect: float = 10.0
    """Seconds for each look-up and for each connection."""
    bytes: int = 5_000_000
    """The most bytes of a body, unpacked."""
    redirects: int = 5


class FetchedPage(Struct, frozen=True, kw_only=True):
    """The answer for a URL. `url` is the last one requested, `hops` are those before it, in order."""

    url: str
    status: int
    headers: Mapping[str, str]
    body: bytes = b""
    hops: tuple[str, ...] = ()
    other_site: str = ""
    """Where the last answer redirects to, when that is another site: it was not requested."""
    is_unread: bool = False
    """Whether the body was not read because of its media type."""

    @property
    def media_type(self) -> str:
        """The media type in lower case, without parameters; empty when the server names none."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()


def is_same_site(host: str, other: str) -> bool:
    """Return whether a redirect stays on the requested site: the same host, or one above or below it."""
    one, two = _drop_www(host), _drop_www(other)
    return one == two or one.endswith(f".{two}") or two.endswith(f".{one}")


def _drop_www(host: str) -> str:
    """Return a host without its `www.`; what would be left of `www.com` is no site, and stays."""
    rest = host.removeprefix("www.")
    return rest if "." in rest else host


def find_host(base: str) -> str:
    """Return the host of an address, with its port where it has one."""
    return urlsplit(base).netloc.rpartition("@")[2]


class WebFetcher:
    """Fetches URLs; an async context. All failures are `ToolError`s that say what happened.

    `environ` is read for proxies and certificates; `can_follow` says whether a redirect from one host to
    another is followed; `resolver` is the system's unless another is given.
    """

    def __init__(
        self,
        environ: Mapping[str, str],
        *,
        policy: UrlPolicy | None = None,
        resolver: Resolver | None = None,
        limits: FetchLimits | None = None,
        ca_file: str = "",
        can_follow: Callable[[str, str], bool] = is_same_site,
    ) -> None:
        self._environ = environ
        self._policy = policy or UrlPolicy()
        self._resolver = resolver
        self._limits = limits or FetchLimits()
        self._ca_file = ca_file
        self._can_follow = can_follow
        self._direct = DirectTransport(environ, ca_file=ca_file)
        self._proxied: HttpTransport | None = None

    async def __aenter__(self) -> "WebFetcher":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._direct.close()
        if self._proxied is not None:
            await self._proxied.close()

    async def fetch_page(
        self, url: str, *, wanted: Callable[[Mapping[str, str]], bool] = lambda _: True
    ) -> FetchedPage:
        """Get a page, following redirects within the site. A body whose headers are not `wanted` is left unread."""
        judged = self._check_url(url, "")
        async with self._limit_time(judged):
            return await self._follow_redirects(judged, wanted)

    async def send_request(self, method: str, url: str, *, headers: Mapping[str, str], body: bytes) -> FetchedPage:
        """Send one request to an API, with headers of its own (keys, for instance). Redirects are not followed.

        Raises ToolError; where the server was not reached, or broke off, its cause is a `TransportError`.
        """
        judged = self._check_url(url, "")
        async with self._limit_time(judged):
            return await self._request_once(
                method, judged, {"user-agent": _USER_AGENT, **headers}, body, lambda _: True
            )

    @contextlib.asynccontextmanager
    async def _limit_time(self, judged: UrlJudgement) -> AsyncIterator[None]:
        seconds = self._limits.seconds
        try:
            async with asyncio.timeout(seconds):
                yield
        except TimeoutError:
            said = N_(
                "{host} did not send its whole answer within {seconds} s.",
                host=judged.host,
                seconds=format(seconds, "g"),
            )
            raise ToolError(said) from TransportError(FailureKind.TIMEOUT, said)
        except TransportError as error:
            raise ToolError(error.message) from error

    async def _follow_redirects(self, judged: UrlJudgement, wanted: Callable[[Mapping[str, str]], bool]) -> FetchedPage:
        hops: list[str] = []
        headers = {"user-agent": _USER_AGENT, "accept": _ACCEPT_HEADER}
        while True:
            page = await self._request_once("GET", judged, headers, b"", wanted)
            location = page.headers.get("location", "") if page.status in _REDIRECT_STATUSES else ""
            if not location:
                return _with_hops(page, hops)
            hops.append(judged.url)
            following = self._check_url(_join_location(judged.url, location), judged.host)
            if not self._can_follow(judged.host, following.host):
                return _with_hops(page, hops[:-1], elsewhere=following.url)
            if len(hops) > self._limits.redirects:
                raise ToolError(f"{hops[0]} redirects more than {self._limits.redirects} times.")
            judged = following

    def _check_url(self, url: str, sender: str) -> UrlJudgement:
        judged = judge_url(url, self._policy)
        if judged.verdict is Verdict.ALLOW:
            return judged
        who = f"{sender} redirects to an address that" if sender else "This address"
        raise ToolError(f"{who} is not fetched: {judged.reason}.")

    async def _request_once(
        self,
        method: str,
        judged: UrlJudgement,
        headers: Mapping[str, str],
        body: bytes,
        wanted: Callable[[Mapping[str, str]], bool],
    ) -> FetchedPage:
        timeouts = HttpTimeouts(connect=self._limits.connect, read=self._limits.seconds)
        if find_proxy(judged.scheme, judged.host, judged.port, self._environ):
            self._proxied = self._proxied or create_http_transport(self._environ, ca_file=self._ca_file)
            opening = self._proxied.open(method, judged.url, headers=headers, body=body, timeouts=timeouts)
        else:
            addresses = await self._resolve_addresses(judged)
            opening = self._direct.open(
                method, judged.url, headers=headers, body=body, timeouts=timeouts, addresses=addresses
            )
        async with opening as stream:
            moved = stream.status in _REDIRECT_STATUSES and "location" in stream.headers
            read = not moved and wanted(stream.headers)
            content = await self._read_body(stream, judged) if read else b""
            return FetchedPage(
                url=judged.url,
                status=stream.status,
                headers=stream.headers,
                body=content,
                is_unread=not read and not moved,
            )

    async def _resolve_addresses(self, judged: UrlJudgement) -> tuple[str, ...]:
        try:
            return await resolve_pinned(
                judged.host, judged.port, self._resolver, self._policy, seconds=self._limits.connect
            )
        except UrlRefusedError as error:
            said = N_("{url} is not fetched: {reason}.", url=judged.url, reason=error.reason)
            if error.rule != "unresolved":
                raise ToolError(said) from None
            raise ToolError(said) from TransportError(FailureKind.UNREACHABLE, said)

    async def _read_body(self, stream: HttpStream, judged: UrlJudgement) -> bytes:
        limit = self._limits.bytes
        said = stream.headers.get("content-length", "")
        if said.isascii() and said.isdigit() and len(said) < 19 and int(said) > limit:
            raise ToolError(f"{judged.url} has {int(said):,} bytes, more than the {limit:,} that are read.")
        body = bytearray()
        async with contextlib.aclosing(stream.chunks()) as chunks:  # type: ignore[type-var]
            async for chunk in chunks:
                body += chunk
                if len(body) > limit:
                    raise ToolError(f"{judged.url} has more than the {limit:,} bytes that are read.")
        return bytes(body)


def _with_hops(page: FetchedPage, hops: list[str], elsewhere: str = "") -> FetchedPage:
    return FetchedPage(
        url=page.url,
        status=page.status,
        headers=page.headers,
        body=page.body,
        hops=tuple(hops),
        other_site=elsewhere,
        is_unread=page.is_unread,
    )


def _join_location(base: str, location: str) -> str:
    """Return where a Location field leads. Field values arrive as Latin-1; servers mean UTF-8."""
    with contextlib.suppress(UnicodeError):
        location = location.encode("latin-1").decode("utf-8")
    try:
        return urljoin(base, location)
    except ValueError:
        return location
