"""Verify a mail's sender by our own server's authentication results (RFC 8601).

Anybody can write any `From`. A server that receives mail checks signatures (DKIM), the sending machine (SPF) and the
domain owner's policy (DMARC), and writes the results at the top of the mail.
"""

import re
from collections.abc import Sequence

_METHOD = re.compile(r"([a-z][a-z0-9-]*)(?:/\d+)?\s*=\s*([a-z]+)", re.IGNORECASE)
_PROPERTY = re.compile(r"([a-z]+\.[a-z-]+)\s*=\s*(\S+)", re.IGNORECASE)
_ASSIGNED = re.compile(r"\s*=\s*")
_TOKEN = re.compile(r'\\.|"(?:[^"\\]|\\.)*"|[^()";\\]+|.', re.DOTALL)
_QUOTED = re.compile(r'[\s;="]')


def is_sender_verified(results: Sequence[str], authserv_id: str, address: str) -> bool:
    """Return whether the server with this name has verified an address.

    Only its topmost header counts: a sender can put others below it.
    """
    domain = address.rpartition("@")[2].lower()
    for raw in results:
        pieces = _split_results(raw)
        if pieces is None:
            return False  # it may be our own server's, which a sender made unreadable so that another one counts
        if authserv_id and pieces[0].split()[:1] == [authserv_id.lower()]:
            return _has_passed(pieces[1:], domain)
    return False


def _has_passed(pieces: Sequence[str], domain: str) -> bool:
    passed = False
    for piece in pieces:
        method = _METHOD.match(piece)
        if method is None:
            continue
        name, result = method[1], method[2]
        properties = dict(_PROPERTY.findall(piece[method.end() :]))
        if name == "dmarc" and result == "fail":
            return False
        if result == "pass":
            passed = passed or _is_about_domain(name, properties, domain)
    return passed


def _is_about_domain(method: str, properties: dict[str, str], domain: str) -> bool:
    """Return whether a passed check is about the sender's domain."""
    if method == "dmarc":
        return properties.get("header.from", "").rpartition("@")[2] == domain
    if method == "dkim":
        signer = properties.get("header.d") or properties.get("header.i", "").rpartition("@")[2]
        return _is_aligned(signer, domain)
    if method == "spf":
        return _is_aligned(properties.get("smtp.mailfrom", "").rpartition("@")[2], domain)
    return False


def _is_aligned(signer: str, domain: str) -> bool:
    """Return whether the signer is the domain or a parent of it. A subdomain may belong to somebody else."""
    return bool(signer) and (signer == domain or ("." in signer and domain.endswith("." + signer)))


def _split_results(raw: str) -> list[str] | None:
    """Split a header at semicolons, in lower case, without comments and without quoted special characters.

    None if it cannot be read.
    """
    found = [""]
    depth = 0
    for match in _TOKEN.finditer(raw):
        word = match[0]
        depth += {"(": 1, ")": -1}.get(word, 0)
        if depth < 0 or (depth == 0 and word == '"'):
            return None
        if depth or word == ")":
            continue
        if word == ";":
            found.append("")
        else:
            found[-1] += _QUOTED.sub("", word) if word.startswith('"') else word
    return None if depth else [_ASSIGNED.sub("=", " ".join(one.split())).lower() for one in found]
