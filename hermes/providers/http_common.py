"""What all HTTP transports share: addresses and proxies, failures in words, TLS, heads and bodies of HTTP/1.1 answers.

The three ways in which a body ends are those of RFC 9112, sections 4 to 7; the TLS context is built when the first
https address is used.
"""

from __future__ import annotations

import importlib.util
import os.path
import socket
import ssl
import zlib
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Protocol
from urllib.parse import urlsplit

from msgspec import Struct

from hermes.core.errors import TransportError
from hermes.core.outcomes import FailureKind
from hermes.i18n.messages import N_
from hermes.util.hosts import is_loopback
from hermes.util.text import redact_url

if TYPE_CHECKING:
    from ipaddress import IPv4Address, IPv6Address


def find_proxy(scheme: str, host: str, port: int, environ: Mapping[str, str]) -> str:
    """Return the proxy's URL, or an empty string to go there directly.

    Lower-case variables win over upper-case ones. Addresses of this machine are never requested through a proxy.
    """
    proxy = _read_variable(environ, f"{scheme}_proxy") or _read_variable(environ, "all_proxy")
    if not proxy or is_loopback(host) or _is_excepted(host, port, _read_variable(environ, "no_proxy")):
        return ""
    return proxy if "://" in proxy else f"http://{proxy}"


def _read_variable(environ: Mapping[str, str], name: str) -> str:
    return (environ.get(name) or environ.get(name.upper()) or "").strip()


def _parse_address(host: str) -> IPv4Address | IPv6Address | None:
    import ipaddress  # only where a proxy is set

    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _is_excepted(host: str, port: int, rules: str) -> bool:
    """Return whether NO_PROXY names the host: `*`, a name and all below it, an address, a network, any with a port."""
    address = _parse_address(host)
    for item in rules.replace(" ", ",").split(","):
        rule = item.strip().lower()
        if not rule:
            continue
        if rule == "*":
            return True
        if address is not None and _is_in_network(address, rule):
            return True
        name, _, wanted = rule.partition(":")
        if wanted and wanted != str(port):
            continue
        name = name.removeprefix("*").removeprefix(".")
        if host == name or host.endswith(f".{name}"):
            return True
    return False


def _is_in_network(address: IPv4Address | IPv6Address, rule: str) -> bool:
    import ipaddress

    try:
        network = ipaddress.ip_network(rule.strip("[]"), strict=False)
    except ValueError:
        return False
    return address in network


_PIECE = 256 * 1024
_LOCAL_WAIT = 0.5
"""Seconds between tries to reach a server on this machine that refuses connections."""


_MAX_LABEL = 63
"""Characters of a part of a host's name (RFC 1035, section 2.3.4)."""


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


def _encode_host(host: str) -> str:
    """Return a host's name as resolvers want it. Raises UnicodeError for one that cannot be a name."""
    if host.isascii() and all(0 < len(label) <= _MAX_LABEL for label in host.removesuffix(".").split(".")):
        return host  # the codec would return the same, and takes a millisecond to import
    return host.encode("idna").decode()


@lru_cache(maxsize=64)
def parse_target(url: str) -> HttpTarget:
    """Parse an address. Raises `TransportError` when it is not one that can be requested."""
    try:
        parts = urlsplit(url.strip())
        host, port = _encode_host(parts.hostname or ""), parts.port
    except (ValueError, UnicodeError):
        host, port, parts = "", None, urlsplit("")
    if parts.scheme not in ("http", "https") or not host:
        raise TransportError(
            FailureKind.UNREACHABLE,
            N_("`{redact_url}` is not an http or https address.", redact_url=redact_url(url)),
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
            said, hint = (
                N_("The host {host} cannot be found.", host=where.host),
                "Check `model.base_url` and the network.",
            )
            return TransportError(FailureKind.UNREACHABLE, said, hint, lasting=cause.errno == socket.EAI_NONAME)
        if isinstance(cause, TimeoutError):
            return TransportError(
                FailureKind.TIMEOUT,
                N_("{name} did not answer within {seconds} s of connecting.", name=name, seconds=format(seconds, "g")),
            )
        if isinstance(cause, ConnectionRefusedError | FileNotFoundError):
            # A server on this machine is there in a moment (it restarts) or not at all.
            wait = _LOCAL_WAIT if uds or is_loopback(where.host) else None
            said, hint = N_("Nothing answers at {name}.", name=name), "Is the server running?"
            return TransportError(FailureKind.UNREACHABLE, said, hint, wait=wait)
    reason = next((cause.strerror for cause in chain if isinstance(cause, OSError) and cause.strerror), str(error))
    return TransportError(
        FailureKind.UNREACHABLE,
        N_("{name} cannot be reached: {reason}.", name=name, reason=reason),
        "Check `model.base_url` and the network.",
    )


def _tls_failure(error: ssl.SSLError, name: str) -> TransportError:
    if isinstance(error, ssl.SSLCertVerificationError):
        return TransportError(
            FailureKind.TLS,
            N_(
                "The certificate of {name} is not trusted: {verify_message}.",
                name=name,
                verify_message=error.verify_message or error.reason,
            ),
            "If a company's proxy inspects traffic, set SSL_CERT_FILE to its CA file.",
        )
    reason = (error.reason or str(error)).replace("_", " ").lower()
    return TransportError(
        FailureKind.TLS, N_("TLS with {name} failed: {reason}.", name=name, reason=reason), "Is it really https?"
    )


def cut_failure(where: HttpTarget, *, answered: bool) -> TransportError:
    """Return the error of a connection that ended too early."""
    what = "before the answer was complete" if answered else "without an answer"
    return TransportError(
        FailureKind.CUT, N_("{authority} closed the connection {what}.", authority=where.authority, what=what)
    )


def slow_failure(where: HttpTarget, seconds: float) -> TransportError:
    """Return the error when nothing came for too long."""
    return TransportError(
        FailureKind.TIMEOUT,
        N_("{authority} sent nothing for {seconds} s.", authority=where.authority, seconds=format(seconds, "g")),
    )


def late_failure(where: HttpTarget, seconds: float) -> TransportError:
    """Return the error when something came, but no whole head of an answer."""
    return TransportError(
        FailureKind.TIMEOUT,
        N_(
            "{authority} did not begin its answer within {seconds} s.",
            authority=where.authority,
            seconds=format(seconds, "g"),
        ),
    )


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
                FailureKind.BAD_RESPONSE,
                N_(
                    "{authority} used an encoding that was not requested: {wanted}.",
                    authority=where.authority,
                    wanted=wanted,
                ),
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
                FailureKind.BAD_RESPONSE,
                N_(
                    "{authority} sent a body that cannot be unpacked: {error}.",
                    authority=self._where.authority,
                    error=error,
                ),
            ) from error


# Where distributions keep their bundle, for interpreters whose own default path does not exist.
_BUNDLES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
    "/opt/homebrew/etc/openssl@3/cert.pem",
    "/usr/local/etc/openssl@3/cert.pem",
    "/home/linuxbrew/.linuxbrew/etc/openssl@3/cert.pem",
    "/opt/homebrew/etc/ca-certificates/cert.pem",
    "/usr/local/etc/ca-certificates/cert.pem",
    "/nix/var/nix/profiles/default/etc/ssl/certs/ca-bundle.crt",
)


def create_tls_context(environ: Mapping[str, str], ca_file: str = "") -> ssl.SSLContext:
    """Create a verifying client context.

    SSL_CERT_FILE and SSL_CERT_DIR in `environ` replace the system's certificates, as everywhere; without them
    NIX_SSL_CERT_FILE does, where that file is. `ca_file` (from the config) is trusted beside them. Raises
    `TransportError` when one of them cannot be read.
    """
    file, folder = environ.get("SSL_CERT_FILE", ""), environ.get("SSL_CERT_DIR", "")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.set_alpn_protocols(["http/1.1"])
    if file or folder:
        _load_certificates(context, file, folder, "SSL_CERT_FILE or SSL_CERT_DIR")
    else:
        _load_system_certificates(context, environ)
    if ca_file:
        _load_certificates(context, ca_file, "", "the configured CA file")
    return context


def _load_certificates(context: ssl.SSLContext, file: str, folder: str, source: str) -> None:
    try:
        context.load_verify_locations(file or None, folder or None)
    except (OSError, ssl.SSLError) as error:
        raise TransportError(
            FailureKind.TLS,
            N_(
                "The certificates at {file} cannot be read: {strerror}.",
                file=file or folder,
                strerror=error.strerror or error,
            ),
            N_("Check {source}.", source=source),
        ) from error


def find_certificates(
    environ: Mapping[str, str], file: str, folder: str, bundles: Sequence[str] = _BUNDLES
) -> tuple[str, str]:
    """Return the file or the folder of the system's certificates; both empty where there is neither.

    The file is that of Nix, where the environment names one; else `file`, the interpreter's own; else the first bundle
    of a distribution. Without one it is the interpreter's `folder`, if that holds anything; else the file of the
    package certifi, where it is installed.
    """
    named = (environ.get("NIX_SSL_CERT_FILE", ""), file, *bundles)
    if found := next((path for path in named if path and os.path.isfile(path)), ""):
        return found, ""
    if os.path.isdir(folder) and os.listdir(folder):
        return "", folder
    package = importlib.util.find_spec("certifi")
    own = os.path.join(os.path.dirname(package.origin or ""), "cacert.pem") if package is not None else ""
    return (own, "") if os.path.isfile(own) else ("", "")


def _load_system_certificates(context: ssl.SSLContext, environ: Mapping[str, str]) -> None:
    paths = ssl.get_default_verify_paths()
    file, folder = find_certificates(environ, paths.openssl_cafile, paths.openssl_capath)
    if file or folder:
        context.load_verify_locations(file or None, folder or None)
    else:
        context.load_default_certs()


_HEX = frozenset(b"0123456789abcdefABCDEF")
_MAX_LINE = 16 * 1024
_LENGTH_DIGITS = 18


class BodyFraming(Protocol):
    """Finds the end of a body."""

    done: bool
    surplus: bool
    """Whether bytes stood behind the end."""

    def feed(self, data: bytes, where: HttpTarget) -> bytes:
        """Return the body's own bytes in what has arrived. Raises `TransportError` when they break the rules."""
        ...


class LengthFraming:
    """A body of a length known beforehand."""

    def __init__(self, length: int) -> None:
        self._left = length
        self.done = length == 0
        self.surplus = False

    def feed(self, data: bytes, where: HttpTarget) -> bytes:
        """Return bytes up to the length."""
        taken = data[: self._left]
        self._left -= len(taken)
        self.done = self._left == 0
        self.surplus = len(taken) < len(data)
        return taken


class CloseFraming:
    """A body that ends with the connection."""

    def __init__(self) -> None:
        self.done = False
        self.surplus = False

    def feed(self, data: bytes, where: HttpTarget) -> bytes:
        """Return all of it."""
        return data


class ChunkedFraming:
    """A body in chunks, each with its length before it."""

    def __init__(self) -> None:
        self._rest = b""
        self._left = 0
        self._ending = False
        self._trailer = False
        self.done = False
        self.surplus = False

    def feed(self, data: bytes, where: HttpTarget) -> bytes:
        """Return the chunks' contents, joined."""
        data = self._rest + data if self._rest else data
        self._rest = b""
        position, size = 0, len(data)
        taken: list[bytes] = []
        while position < size and not self.done:
            if self._left:
                piece = data[position : position + self._left]
                taken.append(piece)
                position += len(piece)
                self._left -= len(piece)
                self._ending = not self._left
                continue
            end = data.find(b"\r\n", position)
            if end < 0:
                if size - position > _MAX_LINE:
                    raise _framing_error(where)
                self._rest = data[position:]
                break
            self._read_line(data[position:end], where)
            position = end + 2
        self.surplus = self.done and position < size
        return taken[0] if len(taken) == 1 else b"".join(taken)

    def _read_line(self, line: bytes, where: HttpTarget) -> None:
        """Read a line between chunks: the end of the last one, the length of the next, or a trailer field."""
        if self._trailer:
            self.done = not line
        elif self._ending:
            if line:
                raise _framing_error(where)
            self._ending = False
        else:
            digits = line.split(b";", 1)[0].strip()
            if not digits or len(digits) > 15 or not _HEX.issuperset(digits):
                raise _framing_error(where)
            self._left = int(digits, 16)
            self._trailer = self._left == 0


def _framing_error(where: HttpTarget) -> TransportError:
    return TransportError(
        FailureKind.BAD_RESPONSE,
        N_("{authority} sent a body that breaks the rules of HTTP.", authority=where.authority),
    )


class ResponseHead(Struct, frozen=True):
    """Status and fields of an answer; names in lower case, repeated ones joined by commas."""

    status: int
    version: str
    fields: dict[str, str]

    @property
    def is_persistent(self) -> bool:
        """Return whether the connection may serve another request."""
        options = self.fields.get("connection", "").lower()
        return "close" not in options and (self.version == "HTTP/1.1" or "keep-alive" in options)

    def select_framing(self) -> BodyFraming:
        """Return the framing that tells where the body ends."""
        if self.status in (204, 304):
            return LengthFraming(0)
        if "chunked" in self.fields.get("transfer-encoding", "").lower():
            return ChunkedFraming()
        length = self.fields.get("content-length", "").split(",")[0].strip()
        known = length.isascii() and length.isdigit() and len(length) <= _LENGTH_DIGITS
        return LengthFraming(int(length)) if known else CloseFraming()


def parse_head(raw: bytes, where: HttpTarget) -> ResponseHead:
    """Read the lines before a body. Raises `TransportError` when they are not HTTP/1."""
    first, *lines = raw.decode("latin-1").split("\r\n")
    version, _, rest = first.partition(" ")
    code = rest[:3]
    if not version.startswith("HTTP/1.") or not (code.isascii() and code.isdigit()):
        raise TransportError(
            FailureKind.BAD_RESPONSE, N_("What answers at {authority} does not speak HTTP.", authority=where.authority)
        )
    fields: dict[str, str] = {}
    for line in lines:
        name, _, value = line.partition(":")
        key = name.strip().lower()
        value = value.strip()
        fields[key] = f"{fields[key]}, {value}" if key in fields else value
    return ResponseHead(status=int(code), version=version, fields=fields)
