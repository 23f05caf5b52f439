"""Judges which URLs may be fetched. A URL has one reading; a URL that programs read in more than one way is refused.

`judge_url` knows the text alone: names that must be looked up pass. `resolve_pinned` looks a name up and returns the
addresses to connect to, all of them judged: a client that connects to those, and to nothing else, cannot be redirected
by a name that changes its answer (DNS rebinding). A redirect is a new URL and is judged again.

IP addresses: every way to write one, and which of them are public.

The ranges are those of the IANA special-purpose address registries (RFC 6890 and what was added since), written out
because the standard library's own table differs between patch releases.
"""

import asyncio
import fnmatch
import ipaddress
import re
import socket
import unicodedata
from collections.abc import Sequence
from functools import lru_cache
from typing import Protocol
from urllib.parse import quote

from msgspec import Struct

from hermes.i18n.messages import N_
from hermes.safety.shell.findings import Verdict
from hermes.safety.shell.words import word_set
from hermes.util.localizable import join_localizable


class AddressJudgement(Struct, frozen=True):
    """The judgement of an address. `rule` is empty for a public one, `reason` says in words what it is.

    `metadata` marks the addresses at which clouds hand out keys; no setting opens those.
    """

    address: str
    rule: str = ""
    reason: str = ""
    metadata: bool = False

    @property
    def is_public(self) -> bool:
        """Return whether the address is public."""
        return not self.rule


_KINDS_OF_RANGES = (
    ("unspecified", "it means this machine", "0.0.0.0/8 ::/128"),
    ("loopback", "it is this machine", "127.0.0.0/8 ::1/128"),
    ("private", "it is in a private network", "10.0.0.0/8 172.16.0.0/12 192.168.0.0/16 fc00::/7 fec0::/10"),
    ("private", "it is in a provider's inner network", "100.64.0.0/10"),
    ("private", "it is reserved for measuring inner networks", "198.18.0.0/15"),
    ("link-local", "it is on the local link, where clouds keep their metadata", "169.254.0.0/16"),
    ("link-local", "it is on the local link", "fe80::/10"),
    ("reserved", "it is reserved for examples", "192.0.2.0/24 198.51.100.0/24 203.0.113.0/24 2001:db8::/32 3fff::/20"),
    ("reserved", "it is reserved for relays", "192.88.99.0/24"),
    ("reserved", "it is reserved", "192.0.0.0/24 192.31.196.0/24 192.52.193.0/24 192.175.48.0/24 240.0.0.0/4"),
    ("reserved", "it is reserved for protocols and tunnels", "2001::/23"),
    ("tunnel", "it is a tunnel to an address inside it", "2002::/16"),
    ("multicast", "it is not the address of a single machine", "224.0.0.0/4 ff00::/8"),
)
"""What is not public: rule, reason and ranges. Of version 6 these are exceptions within 2000::/3, and what is named
outside of it."""


_METADATA = frozenset(
    {
        "169.254.169.254", "169.254.170.2", "169.254.170.23", "169.254.169.253", "169.254.169.123", "169.254.0.23",
        "100.100.100.200", "168.63.129.16", "192.0.0.192", "fd00:ec2::254", "fd00:ec2::23", "fd20:ce::254",
    }
)  # fmt: skip
"""AWS, its containers, Google, Azure (and its wire server), Oracle, Alibaba, Tencent and others."""
_METADATA_REASON = "it is a cloud's metadata service, which hands out keys"


_RANGES = tuple(
    (ipaddress.ip_network(net), rule, reason) for rule, reason, nets in _KINDS_OF_RANGES for net in nets.split()
)


_IPV6_GLOBAL = ipaddress.IPv6Network("2000::/3")


_MAPPED = ipaddress.IPv6Network("::ffff:0:0/96")


_TRANSLATED = ipaddress.IPv6Network("64:ff9b::/96")


_CANONICAL = re.compile(r"(?:0|[1-9][0-9]{0,2})(?:\.(?:0|[1-9][0-9]{0,2})){3}")


_NUMBER = re.compile(r"0[xX][0-9a-fA-F]*|[0-9]+")


def ends_in_number(host: str) -> bool:
    """Return whether resolvers take a host for an IPv4 address (the URL standard's rule), well written or not."""
    return bool(_NUMBER.fullmatch(host.removesuffix(".").rpartition(".")[2]))


def is_canonical_ipv4(host: str) -> bool:
    """Return whether it is written as four decimal numbers without leading zeros, which all programs read alike."""
    return bool(_CANONICAL.fullmatch(host)) and all(int(part) < 256 for part in host.split("."))


def judge_address(ip: str) -> AddressJudgement:
    """Judge an address as a resolver gives it. A text that is not an address, or names an interface, is not public."""
    return _judge_text(ip.strip())


@lru_cache(maxsize=512)
def _judge_text(ip: str) -> AddressJudgement:
    text, zone, _ = ip.partition("%")
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return AddressJudgement(ip, "not-an-address", "it is no address")
    found = _judge_range(address) if isinstance(address, ipaddress.IPv4Address) else _judge_ipv6(address)
    if zone and found.is_public:
        return AddressJudgement(str(address), "link-local", "it names an interface of this machine")
    return found


def _judge_range(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> AddressJudgement:
    """Judge an address by itself, and by the range that it is in."""
    shown = str(address)
    if shown in _METADATA:
        return AddressJudgement(shown, "metadata", _METADATA_REASON, metadata=True)
    found = ((rule, reason) for network, rule, reason in _RANGES if address in network)
    return AddressJudgement(shown, *next(found, ()))


def _judge_ipv6(address: ipaddress.IPv6Address) -> AddressJudgement:
    shown = str(address)
    inner = _embedded_ipv4(address)
    if inner is not None:
        found = _judge_range(inner)
        if not found.is_public:
            reason = N_("it leads to {inner}, and {reason}", inner=inner, reason=found.reason)
            return AddressJudgement(shown, found.rule, reason, found.metadata)
        if address in _MAPPED or address in _TRANSLATED:
            return AddressJudgement(shown)
    found = _judge_range(address)
    if found.is_public and address not in _IPV6_GLOBAL:
        return AddressJudgement(shown, "reserved", "it is in no allocated range")
    return found


def _embedded_ipv4(address: ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    """Return the IPv4 address that a mapped, translated, tunnelled or compatible one leads to."""
    if address in _MAPPED or address in _TRANSLATED:
        return ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
    if address.sixtofour is not None:
        return address.sixtofour
    if address.teredo is not None:
        return address.teredo[1]
    low = int(address)
    return ipaddress.IPv4Address(low) if 1 < low <= 0xFFFF_FFFF else None


RESOLVE_SECONDS = 10.0
MAX_URL_CHARS = 8_192
_MAX_ADDRESSES = 8


class UrlPolicy(Struct, frozen=True):
    """The hosts that the person has opened besides the public net.

    `private` holds hosts of their own network: names (`nas.local`, `*.lan`), addresses (`192.168.1.10`,
    `192.168.1.0/24`), each with a port if only that one is meant (`localhost:8080`). The addresses at which
    clouds hand out keys stay closed whatever it says.
    """

    private: tuple[str, ...] = ()

    def is_opened(self, host: str, port: int) -> bool:
        """Return whether a host, by name or address, is opened."""
        return any(_pattern_covers(pattern.strip().lower(), host, port) for pattern in self.private)


class UrlJudgement(Struct, frozen=True):
    """The judgement of a URL. `url` is its one reading, to be used instead of the given text.

    It has no user name, no password and no fragment; `host` is in ASCII. All three are empty when it cannot be read.
    """

    verdict: Verdict
    rule: str = ""
    reason: str = ""
    url: str = ""
    scheme: str = ""
    host: str = ""
    port: int = 0


class Resolver(Protocol):
    """A resolver of host names."""

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        """Return every address of the host, none when there is no such name. Raises OSError when the lookup fails."""
        ...


class UrlRefusedError(Exception):
    """A URL is refused, or a name leads to a refused address: `rule` and `reason` as in `UrlJudgement`."""

    def __init__(self, rule: str, reason: str) -> None:
        super().__init__(reason)
        self.rule = rule
        self.reason = reason


class _UnreadableError(UrlRefusedError):
    """The text is not a URL that all programs read alike."""


_PORTS = {"http": 80, "https": 443}
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\xa0\u2028\u2029]")
_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
_LOCAL_TLDS = word_set(
    "localhost localdomain local internal intranet private corp home lan consul svc cluster onion invalid test"
)
_METADATA_NAMES = ("metadata.google.", "instance-data.", "metadata.azure.")
_LOCAL_NAMES = frozenset({"metadata.goog", "metadata.packet.net", "home.arpa"})
_LOOPBACK_ZONES = word_set(
    "localtest.me lvh.me vcap.me lacolhost.com localho.st local.gd fuf.me smackaho.st 42foo.com ulh.us"
)
"""Public zones all of whose names mean this machine."""
_REBINDING_ZONES = word_set("rbndr.us 1u.ms rebind.network rebind.it")
_WILDCARD_ZONES = word_set("nip.io sslip.io xip.io traefik.me backname.io ip.addr.tools")
"""Public zones whose names hold the address that they mean."""
_FOREIGN_PORTS = frozenset(
    {
        1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102, 103, 104,
        109, 110, 111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427, 465, 512, 513, 514, 515,
        526, 530, 531, 532, 540, 548, 554, 556, 563, 587, 601, 636, 989, 990, 993, 995, 1719, 1720, 1723, 2049,
        2375, 2376, 3306, 3389, 3659, 4045, 4190, 5060, 5061, 5432, 6000, 6379, 6566, 6665, 6666, 6667, 6668,
        6669, 6679, 6697, 10080, 11211, 27017,
    }
)  # fmt: skip
"""Ports of other protocols: those that browsers refuse, and well-known databases."""
_DOTTED = re.compile(r"(?<![0-9])([0-9]{1,3}(?:[.-][0-9]{1,3}){3})(?![0-9])")
_HEX_LABEL = re.compile(r"(?:^|[.-])([0-9a-f]{8})(?=\.)")


def judge_url(url: str, policy: UrlPolicy = UrlPolicy()) -> UrlJudgement:  # noqa: B008 - a frozen value
    """Judge a URL, as far as its text shows. Never raises."""
    try:
        read = _parse_url(url.strip(" "))
        return _judge_host(read, policy)
    except _UnreadableError as error:
        return UrlJudgement(Verdict.DENY, error.rule, error.reason)


async def resolve_pinned(
    host: str,
    port: int,
    resolver: Resolver | None = None,
    policy: UrlPolicy = UrlPolicy(),  # noqa: B008 - a frozen value
    *,
    seconds: float = RESOLVE_SECONDS,
) -> tuple[str, ...]:
    """Return the addresses to connect to for a host that `judge_url` passed: exactly those, the name is not
    looked up again.

    Raises `UrlRefusedError` when one of its addresses is not public (one is enough), when there is none, or
    when they cannot be learned within `seconds`.
    """
    try:
        async with asyncio.timeout(seconds):
            found = [host] if _is_address(host) else list(await (resolver or resolve_host)(host, port))
    except TimeoutError:
        reason = N_(
            "the name {host} could not be looked up within {seconds} s", host=host, seconds=format(seconds, "g")
        )
        raise UrlRefusedError("unresolved", reason) from None
    except (OSError, UnicodeError):
        raise UrlRefusedError("unresolved", N_("the name {host} cannot be looked up", host=host)) from None
    if not found:
        raise UrlRefusedError("unresolved", N_("there is no host called {host}", host=host))
    opened = policy.is_opened(host, port)
    for address in found:
        judged = judge_address(address)
        if judged.is_public or (not judged.metadata and (opened or policy.is_opened(judged.address, port))):
            continue
        where = judged.address or address
        reason = N_("{host} leads to {address}, and {reason}", host=host, address=where, reason=judged.reason)
        raise UrlRefusedError(judged.rule, reason)
    return tuple(dict.fromkeys(found))[:_MAX_ADDRESSES]


async def resolve_host(host: str, port: int) -> Sequence[str]:
    """Return the addresses of a host from the system's resolver."""
    try:
        rows = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except socket.gaierror as error:
        if error.errno in (socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME)):
            return []
        raise
    # A link-local address comes with the number of its interface.
    return [f"{where[0]}%{where[3]}" if len(where) == 4 and where[3] else str(where[0]) for *_, where in rows]


class _ParsedUrl(Struct, frozen=True):
    """The parts of a URL."""

    scheme: str
    host: str
    port: int
    tail: str

    @property
    def url(self) -> str:
        shown = f"[{self.host}]" if ":" in self.host else self.host
        given = "" if self.port == _PORTS[self.scheme] else f":{self.port}"
        return f"{self.scheme}://{shown}{given}{self.tail}"


def _parse_url(url: str) -> _ParsedUrl:
    """Parse a URL. Raises `_UnreadableError` for text that programs are known to read in more than one way."""
    if not url or len(url) > MAX_URL_CHARS:
        reason = N_("a URL has 1 to {MAX_URL_CHARS} characters", MAX_URL_CHARS=MAX_URL_CHARS)
        raise _UnreadableError("malformed", reason)
    scheme, rest = _split_scheme(url)
    authority = re.split(r"[/?#]", rest, maxsplit=1)[0]
    tail = rest[len(authority) :]
    if not authority:
        raise _UnreadableError("confusing", "it names no host")
    _check_characters(url, authority, re.split(r"[?#]", tail, maxsplit=1)[0])
    user, at, address = authority.rpartition("@")
    if at:
        _check_user(user)
    host, port = _split_port(address, scheme)
    if tail[:1] in ("?", "#") and "@" in tail:
        _check_other_reading(tail.rpartition("@")[2])
    return _ParsedUrl(scheme, _normalize_host(host), port, _normalize_tail(tail))


def _check_characters(url: str, authority: str, path: str) -> None:
    if _CONTROL.search(url) or " " in authority:
        raise _UnreadableError("confusing", "it has spaces or control characters where some programs skip them")
    if "\\" in authority or "\\" in path:
        raise _UnreadableError("confusing", "it has a backslash, which some programs read as a slash")


def _split_scheme(url: str) -> tuple[str, str]:
    """Return (scheme, what follows its two slashes)."""
    match = _SCHEME.match(url)
    if match is None:
        raise _UnreadableError("scheme", "it does not begin with http:// or https://")
    scheme = match[1].lower()
    if scheme not in _PORTS:
        raise _UnreadableError("scheme", f"{scheme}: is not fetched, only http and https are")
    if not url.startswith("//", match.end()):
        raise _UnreadableError("confusing", N_("there is no // after {scheme}:", scheme=scheme))
    return scheme, url[match.end() + 2 :]


def _check_user(user: str) -> None:
    """Refuse a user name that looks like a host and misleads."""
    if "@" in user or "%" in user:
        raise _UnreadableError("confusing", "more than one host could be read in it")
    name = user.partition(":")[0].lower()
    if ends_in_number(name) or "." in name or "[" in name or name == "localhost":
        raise _UnreadableError("confusing", "the part before its @ looks like a host")


def _check_other_reading(text: str) -> None:
    """Refuse a private host behind an `@` in a query or fragment, which old parsers take as the host."""
    host = re.split(r"[/?#:&]", text, maxsplit=1)[0].strip("[]").lower()
    if (_is_address(host) and not judge_address(host).is_public) or host.rpartition(".")[2] in _LOCAL_TLDS:
        raise _UnreadableError("confusing", "more than one host could be read in it")


def _split_port(address: str, scheme: str) -> tuple[str, int]:
    if address.startswith("["):
        host, bracket, rest = address[1:].partition("]")
        if not bracket or (rest and not rest.startswith(":")):
            raise _UnreadableError("confusing", "its address in brackets has no end")
        host, given = f"[{host}]", rest[1:]
    else:
        host, _, given = address.partition(":")
    if not given:
        return host, _PORTS[scheme]
    if not (given.isascii() and given.isdigit() and len(given) <= 5 and 0 < int(given) < 65536):
        raise _UnreadableError("confusing", "its port is no number from 1 to 65535")
    return host, int(given)


def _normalize_host(host: str) -> str:
    """Return the host as all programs resolve it: ASCII, lower case, no dot at the end."""
    if host.startswith("["):
        return _normalize_ipv6(host[1:-1])
    if "%" in host:
        raise _UnreadableError("confusing", "its host is written with percent signs")
    name = host if host.isascii() else _host_to_ascii(host)
    name = name.lower().removesuffix(".")
    if ends_in_number(name) or name == "":
        if not is_canonical_ipv4(name):
            raise _UnreadableError("address-form", "its address is not written as four decimal numbers")
        return name
    if len(name) > 253 or not all(_LABEL.fullmatch(label) for label in name.split(".")):
        raise _UnreadableError("malformed", "its host is not a name")
    return name


def _normalize_ipv6(text: str) -> str:
    if "%" in text:
        raise _UnreadableError("link-local", "it names an interface of this machine")
    try:
        return str(ipaddress.IPv6Address(text))
    except ValueError:
        raise _UnreadableError("malformed", "the text in its brackets is no IPv6 address") from None


def _host_to_ascii(host: str) -> str:
    plain = unicodedata.normalize("NFKC", host).replace("\u3002", ".")
    if plain.isascii() or any(unicodedata.category(char) in ("Cf", "Cc", "Zs", "Mn") for char in host):
        raise _UnreadableError("confusing", "its host is written with characters that represent others, or none")
    try:
        return host.encode("idna").decode("ascii")
    except UnicodeError:
        raise _UnreadableError("malformed", "its host is not a name") from None


def _normalize_tail(tail: str) -> str:
    """Return path and query as they are sent; the fragment is not."""
    path_and_query = tail.partition("#")[0]
    return ("" if path_and_query.startswith("/") else "/") + quote(path_and_query, safe="/?:@!$&'()*+,;=-._~%[]")


def _judge_host(read: _ParsedUrl, policy: UrlPolicy) -> UrlJudgement:
    rule, reason, metadata = _host_refusal(read.host)
    if not rule and read.port in _FOREIGN_PORTS:
        rule, reason = "port", N_("port {port} is not a port of the web", port=read.port)
    verdict = Verdict.DENY if rule else Verdict.ALLOW
    if rule and not metadata and policy.is_opened(read.host, read.port):
        verdict, rule, reason = Verdict.ALLOW, "opened", "the person opened it in security.allow_private_urls"
    return UrlJudgement(verdict, rule, reason, read.url, read.scheme, read.host, read.port)


def _host_refusal(host: str) -> tuple[str, str, bool]:
    """Return the reason against a host: (rule, reason, whether nothing opens it)."""
    if _is_address(host):
        judged = judge_address(host)
        reason = N_("{host} is not a public host: {reason}", host=host, reason=judged.reason) if judged.rule else ""
        return judged.rule, reason, judged.metadata
    if local := _local_name_refusal(host):
        return (local[0], N_("{host} is not a public host: {local}", host=host, local=local[1]), local[0] == "metadata")
    if inner := _embedded_address_refusal(host):
        return inner[0], N_("{host} stands for {inner}", host=host, inner=inner[1]), inner[2]
    return "", "", False


def _local_name_refusal(host: str) -> tuple[str, str] | None:
    last_two = ".".join(host.split(".")[-2:])
    if host in ("metadata", "instance-data") or host.startswith(_METADATA_NAMES):
        return "metadata", _METADATA_REASON
    if last_two in _LOCAL_NAMES:
        return ("private" if last_two == "home.arpa" else "metadata"), "it is an inner name"
    if host.rpartition(".")[2] in _LOCAL_TLDS:
        return "private", "such names belong to this machine or its network"
    if "." not in host:
        return "private", "a name without a dot belongs to the local network"
    if last_two in _LOOPBACK_ZONES:
        return "loopback", "all names there mean this machine"
    if last_two in _REBINDING_ZONES:
        return "rebinding", "names there change what they mean"
    return None


def _embedded_address_refusal(host: str) -> tuple[str, str, bool] | None:
    """Find a private address within a name, as names of wildcard zones have it: (rule, address, whether
    nothing opens it).
    """
    wildcard = any(host.endswith(f".{zone}") for zone in _WILDCARD_ZONES)
    found = [text.replace("-", ".") for text in _DOTTED.findall(host) if wildcard or "-" not in text]
    if wildcard:
        found += [str(ipaddress.IPv4Address(int(text, 16))) for text in _HEX_LABEL.findall(host)]
        first = host.split(".", maxsplit=1)[0].replace("-", ":")
        found += [first] if _is_address(first) else []
    for text in found:
        judged = judge_address(text)
        if judged.rule not in ("", "not-an-address"):
            return judged.rule, join_localizable(", and ", (text, judged.reason)), judged.metadata
    return None


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _pattern_covers(pattern: str, host: str, port: int) -> bool:
    name, colon, wanted = pattern.rpartition(":")
    if not colon or not wanted.isdigit() or (":" in name and not name.endswith("]")):
        name, wanted = pattern, ""
    name = name.strip("[]")
    if wanted and int(wanted) != port:
        return False
    if "/" in name:
        try:
            return ipaddress.ip_address(host) in ipaddress.ip_network(name, strict=False)
        except ValueError:
            return False
    return fnmatch.fnmatchcase(host, name)
