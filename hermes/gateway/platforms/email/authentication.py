"""Whether a mail is from whom it says: what our own server found out about it (RFC 8601).

A `From` is anybody's choice. A server that takes mail in checks signatures (DKIM), the sending machine (SPF) and what
the domain's owner wants (DMARC), and writes the outcome at the top of the mail.
"""

import re
from collections.abc import Sequence

_METHOD = re.compile(r"([a-z][a-z0-9-]*)(?:/\d+)?\s*=\s*([a-z]+)", re.IGNORECASE)
_PROPERTY = re.compile(r"([a-z]+\.[a-z-]+)\s*=\s*(\S+)", re.IGNORECASE)
_ASSIGNED = re.compile(r"\s*=\s*")
_TOKEN = re.compile(r'\\.|"(?:[^"\\]|\\.)*"|[^()";\\]+|.', re.DOTALL)
_QUOTED = re.compile(r'[\s;="]')


def vouched(results: Sequence[str], authserv_id: str, address: str) -> bool:
    """Whether the server with this name vouches for an address. Only its topmost header counts: a sender can put
    others below it."""
    domain = address.rpartition("@")[2].lower()
    for raw in results:
        pieces = _pieces(raw)
        if pieces is None:
            return False  # it may be our own server's, which a sender made unreadable so that another one counts
        if authserv_id and pieces[0].split()[:1] == [authserv_id.lower()]:
            return _passed(pieces[1:], domain)
    return False


def _passed(pieces: Sequence[str], domain: str) -> bool:
    passed = False
    for piece in pieces:
        method = _METHOD.match(piece)
        if method is None:
            continue
        name, result = method[1], method[2]
        about = dict(_PROPERTY.findall(piece[method.end() :]))
        if name == "dmarc" and result == "fail":
            return False
        if result == "pass":
            passed = passed or _names(name, about, domain)
    return passed


def _names(method: str, about: dict[str, str], domain: str) -> bool:
    """Whether what has passed is about the domain of the sender."""
    if method == "dmarc":
        return about.get("header.from", "").rpartition("@")[2] == domain
    if method == "dkim":
        signer = about.get("header.d") or about.get("header.i", "").rpartition("@")[2]
        return _aligned(signer, domain)
    if method == "spf":
        return _aligned(about.get("smtp.mailfrom", "").rpartition("@")[2], domain)
    return False


def _aligned(signer: str, domain: str) -> bool:
    """Whether who signed is the domain or stands above it. What stands below may be somebody else's."""
    return bool(signer) and (signer == domain or ("." in signer and domain.endswith("." + signer)))


def _pieces(raw: str) -> list[str] | None:
    """What stands between semicolons, in lower case, without comments; what is quoted holds no word that counts. None
    where it cannot be read."""
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
