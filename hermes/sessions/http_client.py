"""HTTP sessions for front-ends that talk to many services: aiohttp with this machine's certificates and proxies."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from hermes.providers.http_common import create_tls_context

if TYPE_CHECKING:
    import aiohttp

__all__ = ["create_client_session", "create_tls_context"]


def create_client_session(environ: Mapping[str, str], ca_file: str = "") -> "aiohttp.ClientSession":
    """Create a session without cookies and without a total time limit. Proxies are those of the environment.

    Certificates are found as for models. Raises TransportError when a named file cannot be read.
    """
    import aiohttp

    connector = aiohttp.TCPConnector(limit=0, ssl=create_tls_context(environ, ca_file), ttl_dns_cache=60)
    return aiohttp.ClientSession(
        connector=connector,
        trust_env=True,
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=15),
        auto_decompress=True,
    )
