"""HTTP sessions for front-ends that talk with many services: aiohttp, with this machine's certificates and proxies."""

import ssl
from collections.abc import Mapping
from typing import TYPE_CHECKING

from hermes.providers.tls import tls_context

if TYPE_CHECKING:
    import ssl

    import aiohttp


def tls_of(environ: Mapping[str, str], ca_file: str = "") -> "ssl.SSLContext":
    """A fresh context that trusts what this machine trusts, for what does not speak HTTP."""
    return tls_context(environ, ca_file)


def client_session(environ: Mapping[str, str], ca_file: str = "") -> "aiohttp.ClientSession":
    """A session without cookies and without a time limit of its own. Proxies are those of the environment.

    Certificates are found as for models (row GW-05). Raises TransportError when a named file cannot be read.
    """
    import aiohttp

    connector = aiohttp.TCPConnector(limit=0, ssl=tls_context(environ, ca_file), ttl_dns_cache=60)
    return aiohttp.ClientSession(
        connector=connector,
        trust_env=True,
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=15),
        auto_decompress=True,
    )
