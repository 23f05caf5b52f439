"""Finds the proxy, if any, between us and an address: HTTP_PROXY, HTTPS_PROXY, ALL_PROXY, NO_PROXY."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

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


def is_loopback(host: str) -> bool:
    """Return whether the host is this machine, by name or number."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    address = _parse_address(host)
    return address is not None and address.is_loopback


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
