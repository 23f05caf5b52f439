"""HTTP over httpx2: every address, and every way there (proxies, SOCKS, a company's CA).

httpx2 is imported when the first request is sent. Its transport is used without its client: no cookies,
no redirects, and a body is decoded only here.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING

from hermes.core.errors import TransportError
from hermes.core.outcomes import FailureKind
from hermes.core.protocols import HttpStream, HttpTimeouts
from hermes.providers.http_common import (
    BodyDecoder,
    HttpTarget,
    connect_failure,
    create_tls_context,
    cut_failure,
    find_proxy,
    late_failure,
    parse_target,
    slow_failure,
)

if TYPE_CHECKING:
    import ssl

    import httpx2


class Httpx2Transport:
    """An `HttpTransport` over httpx2, for one event loop. `environ` is read for proxies and certificates."""

    def __init__(self, environ: Mapping[str, str], *, ca_file: str = "", uds: str = "") -> None:
        self._environ = environ
        self._ca_file = ca_file
        self._uds = uds
        self._tls: ssl.SSLContext | None = None
        self._pools: dict[tuple[str, bool], httpx2.AsyncHTTPTransport] = {}

    def open(
        self, method: str, url: str, *, headers: Mapping[str, str], body: bytes, timeouts: HttpTimeouts
    ) -> AbstractAsyncContextManager[HttpStream]:
        """Send a request and wait for the answer's head; see `HttpTransport.open`."""
        where = parse_target(url)
        fields = {"host": where.authority, "accept-encoding": "identity", **headers}
        if body or method not in ("GET", "HEAD"):
            fields["content-length"] = str(len(body))
        return self._open_exchange(where, method, url, fields, body, timeouts)

    async def close(self) -> None:
        """Close every connection."""
        pools = list(self._pools.values())
        self._pools.clear()
        for pool in pools:
            await pool.aclose()

    @asynccontextmanager
    async def _open_exchange(
        self, where: HttpTarget, method: str, url: str, fields: dict[str, str], body: bytes, timeouts: HttpTimeouts
    ) -> AsyncIterator[HttpStream]:
        answer = await self._send_request(where, method, url, fields, body, timeouts)
        try:
            yield _Httpx2Stream(answer, where, timeouts.read)
        finally:
            await answer.aclose()

    async def _send_request(
        self, where: HttpTarget, method: str, url: str, fields: dict[str, str], body: bytes, timeouts: HttpTimeouts
    ) -> "httpx2.Response":
        """Send once, and once more when a pooled connection turns out to have been closed."""
        import httpx2

        pool = self._pool_for(where)
        for last in (False, True):
            fresh: list[str] = []

            async def record_connect(name: str, info: Mapping[str, object], seen: list[str] = fresh) -> None:
                if name.endswith(("connect_tcp.started", "connect_unix_socket.started")):
                    seen.append(name)

            limits = {"connect": timeouts.connect, "read": timeouts.read, "write": timeouts.read, "pool": None}
            request = httpx2.Request(
                method, url, headers=fields, content=body, extensions={"timeout": limits, "trace": record_connect}
            )
            try:
                # httpx2 bounds each wait for bytes, and nothing in all: a way has up to three hellos, then the answer.
                async with asyncio.timeout(3 * timeouts.connect + 2 * timeouts.read):
                    return await pool.handle_async_request(request)
            except TimeoutError as error:
                raise late_failure(where, timeouts.read) from error
            except httpx2.ConnectTimeout as error:
                raise connect_failure(TimeoutError(), where, timeouts.connect, uds=self._uds) from error
            except httpx2.TimeoutException as error:
                raise slow_failure(where, timeouts.read) from error
            except (httpx2.ConnectError, httpx2.ProxyError, httpx2.UnsupportedProtocol) as error:
                raise connect_failure(error, where, timeouts.connect, uds=self._uds) from error
            except httpx2.TransportError as error:
                if last or fresh:
                    raise cut_failure(where, answered=False) from error
        raise cut_failure(where, answered=False)

    def _pool_for(self, where: HttpTarget) -> "httpx2.AsyncHTTPTransport":
        """Return the connections that go the same way. A TLS context is built only for a way that needs one."""
        import ssl

        import httpx2

        proxy = "" if self._uds else find_proxy(where.scheme, where.host, where.port, self._environ)
        secure = where.is_secure or proxy.startswith("https:")
        pool = self._pools.get((proxy, secure))
        if pool is not None:
            return pool
        if secure and self._tls is None:
            self._tls = create_tls_context(self._environ, self._ca_file)
        context = self._tls if secure and self._tls is not None else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        try:
            way = httpx2.Proxy(proxy, ssl_context=context if proxy.startswith("https:") else None) if proxy else None
            pool = httpx2.AsyncHTTPTransport(
                verify=context,
                trust_env=False,
                proxy=way,
                uds=self._uds or None,
                limits=httpx2.Limits(max_connections=None, max_keepalive_connections=8, keepalive_expiry=55.0),
            )
        except (ValueError, httpx2.InvalidURL) as error:
            raise TransportError(
                FailureKind.UNREACHABLE,
                "The proxy set in the environment cannot be used: it is not an http, https or socks5 address.",
                "Check HTTP_PROXY, HTTPS_PROXY and ALL_PROXY.",
            ) from error
        self._pools[proxy, secure] = pool
        return pool


class _Httpx2Stream:
    """A response whose head has arrived."""

    def __init__(self, answer: "httpx2.Response", where: HttpTarget, seconds: float) -> None:
        self.status = answer.status_code
        self.headers: Mapping[str, str] = dict(answer.headers)
        self._answer = answer
        self._where = where
        self._seconds = seconds

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield the body as it arrives."""
        import httpx2

        coding = BodyDecoder(self.headers.get("content-encoding", ""), self._where)
        try:
            async for chunk in self._answer.aiter_raw():
                for plain in coding.feed(chunk):
                    if plain:
                        yield plain
        except httpx2.TimeoutException as error:
            raise slow_failure(self._where, self._seconds) from error
        except httpx2.TransportError as error:
            raise cut_failure(self._where, answered=True) from error
