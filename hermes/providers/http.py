"""The default HTTP transport: the direct one, and httpx2 where a proxy is set."""

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager

from hermes.core.protocols import HttpStream, HttpTimeouts, HttpTransport
from hermes.providers.direct import DirectTransport
from hermes.providers.http_common import parse_target
from hermes.providers.proxies import find_proxy


def create_http_transport(environ: Mapping[str, str], *, ca_file: str = "", uds: str = "") -> HttpTransport:
    """Create the transport to use; see `DefaultHttpTransport`."""
    return DefaultHttpTransport(environ, ca_file=ca_file, uds=uds)


class DefaultHttpTransport:
    """An `HttpTransport` for one event loop.

    `environ` is read for proxies (HTTP_PROXY, HTTPS_PROXY, ALL_PROXY, NO_PROXY) and certificates (SSL_CERT_FILE,
    SSL_CERT_DIR); `ca_file` is trusted besides; with `uds` every request goes to that Unix socket.
    """

    def __init__(self, environ: Mapping[str, str], *, ca_file: str = "", uds: str = "") -> None:
        self._environ = environ
        self._ca_file = ca_file
        self._uds = uds
        self._direct = DirectTransport(environ, ca_file=ca_file, uds=uds)
        self._proxied: HttpTransport | None = None

    def open(
        self, method: str, url: str, *, headers: Mapping[str, str], body: bytes, timeouts: HttpTimeouts
    ) -> AbstractAsyncContextManager[HttpStream]:
        """Send a request and wait for the answer's head; see `HttpTransport.open`."""
        way: HttpTransport = self._direct
        where = parse_target(url)
        if not self._uds and find_proxy(where.scheme, where.host, where.port, self._environ):
            way = self._proxied = self._proxied or self._create_proxied()
        return way.open(method, url, headers=headers, body=body, timeouts=timeouts)

    async def close(self) -> None:
        """Close every connection."""
        await self._direct.close()
        if self._proxied is not None:
            await self._proxied.close()

    def _create_proxied(self) -> HttpTransport:
        from hermes.providers.proxied import Httpx2Transport

        return Httpx2Transport(self._environ, ca_file=self._ca_file)
