"""Shared by all HTTP transports: parsing of addresses, failures in words, encoded bodies.

The TLS context of outgoing connections, built when the first https address is used.
"""

import os.path
import socket
import ssl
import zlib
from collections.abc import Iterator, Mapping
from functools import lru_cache
from urllib.parse import urlsplit

from msgspec import Struct

from hermes.core.errors import TransportError
from hermes.core.outcomes import FailureKind
from hermes.providers.proxies import is_loopback
from hermes.util.text import redact_url

_PIECE = 256 * 1024
_LOCAL_WAIT = 0.5
"""Seconds between tries to reach a server on this machine that refuses connections."""


class HttpTarget(Struct, frozen=True):
    """A parsed http or https address. `host` is as a resolver wants it, `authority` as a Host field does."""

    scheme: str
    host: str
    port: int
    authority: str
    path: str

    @property
    def is_secure(self) -> bool:
        """Return whether TLS is spoken."""
        return self.scheme == "https"


@lru_cache(maxsize=64)
def parse_target(url: str) -> HttpTarget:
    """Parse an address. Raises `TransportError` when it is not one that can be requested."""
    try:
        parts = urlsplit(url.strip())
        host, port = (parts.hostname or "").encode("idna").decode(), parts.port
    except (ValueError, UnicodeError):
        host, port, parts = "", None, urlsplit("")
    if parts.scheme not in ("http", "https") or not host:
        raise TransportError(
            FailureKind.UNREACHABLE,
            f"`{redact_url(url)}` is not an http or https address.",
            "Check `model.base_url`.",
        )
    default = 443 if parts.scheme == "https" else 80
    shown = f"[{host}]" if ":" in host else host
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return HttpTarget(
        scheme=parts.scheme,
        host=host,
        port=port or default,
        authority=shown if port in (None, default) else f"{shown}:{port}",
        path=path.replace(" ", "%20"),
    )


def connect_failure(error: BaseException, where: HttpTarget, seconds: float, *, uds: str = "") -> TransportError:
    """Describe in one line why no connection came about. Looks through the causes of a library's own errors."""
    name = uds or where.authority
    chain = _list_causes(error)
    for cause in chain:
        if isinstance(cause, ssl.SSLError):
            return _tls_failure(cause, name)
        if isinstance(cause, socket.gaierror):
            said, hint = f"The host {where.host} cannot be found.", "Check `model.base_url` and the network."
            return TransportError(FailureKind.UNREACHABLE, said, hint, lasting=cause.errno == socket.EAI_NONAME)
        if isinstance(cause, TimeoutError):
            return TransportError(FailureKind.TIMEOUT, f"{name} did not answer within {seconds:g} s of connecting.")
        if isinstance(cause, ConnectionRefusedError | FileNotFoundError):
            # A server on this machine is there in a moment (it restarts) or not at all.
            wait = _LOCAL_WAIT if uds or is_loopback(where.host) else None
            said, hint = f"Nothing answers at {name}.", "Is the server running?"
            return TransportError(FailureKind.UNREACHABLE, said, hint, wait=wait)
    reason = next((cause.strerror for cause in chain if isinstance(cause, OSError) and cause.strerror), str(error))
    return TransportError(
        FailureKind.UNREACHABLE, f"{name} cannot be reached: {reason}.", "Check `model.base_url` and the network."
    )


def _tls_failure(error: ssl.SSLError, name: str) -> TransportError:
    if isinstance(error, ssl.SSLCertVerificationError):
        return TransportError(
            FailureKind.TLS,
            f"The certificate of {name} is not trusted: {error.verify_message or error.reason}.",
            "If a company's proxy inspects traffic, set SSL_CERT_FILE to its CA file.",
        )
    reason = (error.reason or str(error)).replace("_", " ").lower()
    return TransportError(FailureKind.TLS, f"TLS with {name} failed: {reason}.", "Is it really https?")


def cut_failure(where: HttpTarget, *, answered: bool) -> TransportError:
    """Return the error of a connection that ended too early."""
    what = "before the answer was complete" if answered else "without an answer"
    return TransportError(FailureKind.CUT, f"{where.authority} closed the connection {what}.")


def slow_failure(where: HttpTarget, seconds: float) -> TransportError:
    """Return the error when nothing came for too long."""
    return TransportError(FailureKind.TIMEOUT, f"{where.authority} sent nothing for {seconds:g} s.")


def late_failure(where: HttpTarget, seconds: float) -> TransportError:
    """Return the error when something came, but no whole head of an answer."""
    return TransportError(FailureKind.TIMEOUT, f"{where.authority} did not begin its answer within {seconds:g} s.")


def _list_causes(error: BaseException) -> list[BaseException]:
    found: list[BaseException] = []
    waiting: list[BaseException | None] = [error]
    while waiting and len(found) < 16:
        cause = waiting.pop(0)
        if cause is None or cause in found:
            continue
        found.append(cause)
        waiting += [cause.__cause__, cause.__context__]
        if isinstance(cause, BaseExceptionGroup):
            waiting += cause.exceptions
    return found


class BodyDecoder:
    """Undoes a content encoding that we did not ask for but some gateways apply all the same."""

    def __init__(self, name: str, where: HttpTarget) -> None:
        self._where = where
        wanted = name.strip().lower()
        if wanted not in ("", "identity", "gzip", "x-gzip", "deflate"):
            raise TransportError(
                FailureKind.BAD_RESPONSE, f"{where.authority} answered in an encoding nobody asked for: {wanted}."
            )
        self._decoder = zlib.decompressobj(47) if wanted not in ("", "identity") else None

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield the plain bytes, in pieces of at most 256 KB: a few packed bytes may decode to very many.

        Raises `TransportError` when they are not what the server says.
        """
        if self._decoder is None:
            yield data
            return
        try:
            while data and not self._decoder.eof:
                plain = self._decoder.decompress(data, _PIECE)
                data = self._decoder.unconsumed_tail
                yield plain
        except zlib.error as error:
            raise TransportError(
                FailureKind.BAD_RESPONSE, f"{self._where.authority} sent a body that cannot be unpacked: {error}."
            ) from error


# Where distributions keep their bundle, for interpreters whose own default path does not exist.
_BUNDLES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)


def create_tls_context(environ: Mapping[str, str], ca_file: str = "") -> ssl.SSLContext:
    """Create a verifying client context.

    SSL_CERT_FILE and SSL_CERT_DIR in `environ` replace the system's certificates, as everywhere; `ca_file`
    (from the config) is trusted beside them. Raises `TransportError` when one of them cannot be read.
    """
    file, folder = environ.get("SSL_CERT_FILE", ""), environ.get("SSL_CERT_DIR", "")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.set_alpn_protocols(["http/1.1"])
    if file or folder:
        _load_certificates(context, file, folder, "SSL_CERT_FILE or SSL_CERT_DIR")
    else:
        _load_system_certificates(context)
    if ca_file:
        _load_certificates(context, ca_file, "", "the configured CA file")
    return context


def _load_certificates(context: ssl.SSLContext, file: str, folder: str, source: str) -> None:
    try:
        context.load_verify_locations(file or None, folder or None)
    except (OSError, ssl.SSLError) as error:
        raise TransportError(
            FailureKind.TLS,
            f"The certificates at {file or folder} cannot be read: {error.strerror or error}.",
            f"Check {source}.",
        ) from error


def _load_system_certificates(context: ssl.SSLContext) -> None:
    paths = ssl.get_default_verify_paths()
    file = paths.openssl_cafile if os.path.isfile(paths.openssl_cafile) else ""
    if not file:
        file = next((path for path in _BUNDLES if os.path.isfile(path)), "")
    folder = paths.openssl_capath if not file and os.path.isdir(paths.openssl_capath) else ""
    if file or folder:
        context.load_verify_locations(file or None, folder or None)
    else:
        context.load_default_certs()
