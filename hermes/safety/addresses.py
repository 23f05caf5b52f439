"""IP addresses: every way to write one, and which of them are public.

The ranges are those of the IANA special-purpose address registries (RFC 6890 and what was added since), written out
because the standard library's own table differs between patch releases.
"""

import ipaddress
import re
from functools import lru_cache

from msgspec import Struct

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


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


_V4 = (
    ("0.0.0.0/8", "unspecified", "it means this machine"),
    ("10.0.0.0/8", "private", "it is in a private network"),
    ("100.64.0.0/10", "private", "it is in a provider's inner network"),
    ("127.0.0.0/8", "loopback", "it is this machine"),
    ("169.254.0.0/16", "link-local", "it is on the local link, where clouds keep their metadata"),
    ("172.16.0.0/12", "private", "it is in a private network"),
    ("192.0.0.0/24", "reserved", "it is reserved"),
    ("192.0.2.0/24", "reserved", "it is reserved for examples"),
    ("192.31.196.0/24", "reserved", "it is reserved"),
    ("192.52.193.0/24", "reserved", "it is reserved"),
    ("192.88.99.0/24", "reserved", "it is reserved for relays"),
    ("192.168.0.0/16", "private", "it is in a private network"),
    ("192.175.48.0/24", "reserved", "it is reserved"),
    ("198.18.0.0/15", "private", "it is reserved for measuring inner networks"),
    ("198.51.100.0/24", "reserved", "it is reserved for examples"),
    ("203.0.113.0/24", "reserved", "it is reserved for examples"),
    ("224.0.0.0/4", "multicast", "it is no single machine"),
    ("240.0.0.0/4", "reserved", "it is reserved"),
)
_V6 = (
    ("2001::/23", "reserved", "it is reserved for protocols and tunnels"),
    ("2001:db8::/32", "reserved", "it is reserved for examples"),
    ("2002::/16", "tunnel", "it is a tunnel to an address inside it"),
    ("3fff::/20", "reserved", "it is reserved for examples"),
)
"""Exceptions within 2000::/3, the only part of the space that is given out."""
_V6_OUTSIDE = (
    ("::/128", "unspecified", "it means this machine"),
    ("::1/128", "loopback", "it is this machine"),
    ("fc00::/7", "private", "it is in a private network"),
    ("fe80::/10", "link-local", "it is on the local link"),
    ("fec0::/10", "private", "it is in a private network"),
    ("ff00::/8", "multicast", "it is no single machine"),
)
_METADATA = frozenset(
    {
        "169.254.169.254", "169.254.170.2", "169.254.170.23", "169.254.169.253", "169.254.169.123", "169.254.0.23",
        "100.100.100.200", "168.63.129.16", "192.0.0.192", "fd00:ec2::254", "fd00:ec2::23", "fd20:ce::254",
    }
)  # fmt: skip
"""AWS, its containers, Google, Azure (and its wire server), Oracle, Alibaba, Tencent and others."""

_IPV4_RANGES = tuple((ipaddress.IPv4Network(net), rule, reason) for net, rule, reason in _V4)
_IPV6_RANGES = tuple((ipaddress.IPv6Network(net), rule, reason) for net, rule, reason in _V6)
_IPV6_OUTSIDE_RANGES = tuple((ipaddress.IPv6Network(net), rule, reason) for net, rule, reason in _V6_OUTSIDE)
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
    found = _judge_ipv4(address) if isinstance(address, ipaddress.IPv4Address) else _judge_ipv6(address)
    if zone and found.is_public:
        return AddressJudgement(str(address), "link-local", "it names an interface of this machine")
    return found


def _judge_ipv4(address: ipaddress.IPv4Address) -> AddressJudgement:
    shown = str(address)
    if shown in _METADATA:
        return AddressJudgement(shown, "metadata", "a cloud hands out its keys there", metadata=True)
    for network, rule, reason in _IPV4_RANGES:
        if address in network:
            return AddressJudgement(shown, rule, reason)
    return AddressJudgement(shown)


def _judge_ipv6(address: ipaddress.IPv6Address) -> AddressJudgement:
    shown = str(address)
    inner = _embedded_ipv4(address)
    if inner is not None:
        found = _judge_ipv4(inner)
        if not found.is_public:
            return AddressJudgement(shown, found.rule, f"it leads to {inner}, and {found.reason}", found.metadata)
        if address in _MAPPED or address in _TRANSLATED:
            return AddressJudgement(shown)
    if shown in _METADATA:
        return AddressJudgement(shown, "metadata", "a cloud hands out its keys there", metadata=True)
    for network, rule, reason in _IPV6_RANGES if address in _IPV6_GLOBAL else _IPV6_OUTSIDE_RANGES:
        if address in network:
            return AddressJudgement(shown, rule, reason)
    if address not in _IPV6_GLOBAL:
        return AddressJudgement(shown, "reserved", "it is in no range that was given out")
    return AddressJudgement(shown)


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
