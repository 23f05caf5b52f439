"""Secrets by what they are called: `password = "..."`, headers, options, cookies. A name alone spoils nothing: the
value must look like a secret too."""

import re
from collections.abc import Iterator

from hermes.safety.secrets.names import is_random, may_be_password, secret_like, weight_of
from hermes.safety.secrets.placeholders import is_uuid, random_like

Span = tuple[int, int, str]

_ANCHORS = (b"pass", b"pwd", b"_pw", b"secret", b"token", b"key", b"auth", b"cred", b"bearer")
_LEFT = 48
_NAME_SIGNS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.$"
_AFTER = re.compile(
    r"(?P<rest>[\w-]{0,40}+)[\"'`\])}]{0,3}(?:"
    r"\s{0,3}(?P<sign>=>|:=|\?=|\|\|=|==?|:|<-)\s{0,3}"
    r"|(?P<element>>)"
    r"|(?P<attribute>[\"']?\s{1,3}(?:value|content)\s?=\s?)(?=[\"'])"
    r"|(?P<call>\()(?=[\"'`])"
    r"|(?P<comma>,\s{0,3})(?=[\"'`])"
    r"|(?P<blank>[ \t]{1,4})(?:(?P<says>is|was|of)[ \t]{1,3})?)"
    r"(?P<tag>!\w{1,12}[ \t]|[bBrRfFuU](?=[\"']))?"
    r"(?:\"(?P<double>[^\"\n]{4,500})\"|'(?P<single>[^'\n]{4,500})'|`(?P<tick>[^`\n]{4,500})`"
    r"|(?P<bare>[^\s\"'`,;<>(){}\[\]][^\s\"'`,;<>]{3,255}))"
)
_SCHEME = re.compile(
    r"(?:Basic|Bearer|Token|Digest|ApiKey|Api-Key|Key|Negotiate|SSWS|Splunk|GenieKey|AWS4-HMAC-SHA256|"
    r"[A-Za-z-]{2,24})[ \t]+(?:token=)?[\"']?([^\s\"'<>,;]{6,4000})"
)
_BEARER = re.compile(r"(?:er|earer)?[ \t]+([A-Za-z0-9._~+/=-]{12,4000})")
_COOKIE = re.compile(r"(?:\d?[\"']?\s?[:=]\s?[\"']?)")
_COOKIE_PAIR = re.compile(r"(?<![\w.$-])([\w.$-]{1,200}+)=([^\s;\"',]{1,4000})")
_COOKIE_NAME = re.compile(
    r"sess|(?:^|[._-])sids?(?:$|[._-])|sid$|token|auth|jwt|remember|csrf|xsrf|secret|passw|login|identity|credential|"
    r"ticket|key|\.aspx|sso|access|refresh|id$",
    re.IGNORECASE,
)
_SUDO = re.compile(
    r"(?:echo|printf)\s+(?:-\w+\s+)?(?:['\"]([^'\"\n]{4,200})['\"]|([^\s'\"|]{4,200}))\s*\|\s*(?:\S+\s+)?(?:sudo|docker|su|passwd|kinit|gpg|openssl|cryptsetup|podman|helm|az|oc|gh|op)\b"
)
_OPTIONS = {
    word: re.compile(rf"{how}[\"']?([^\s\"'|;]{{4,200}})", re.IGNORECASE)
    for word, how in (
        (b"sshpass", r"sshpass\s+-p\s{0,3}"),
        (b"mysql", r"mysql[a-z]{0,8}\b[^\n|;]{0,80}?\s-p"),
        (b"redis-cli", r"redis-cli\b[^\n|;]{0,80}?\s-a\s+"),
        (b"curl", r"curl\b[^\n|;]{0,200}?\s(?:-u|--user)[ =]?[\"']?[^\s:\"']{0,60}:"),
        (b"wget", r"wget\b[^\n|;]{0,200}?\s--user[ =]?[\"']?[^\s:\"']{0,60}:"),
        (b"identified", r"identified\s+(?:with\s+\w+\s+)?by\s+"),
        (b"ldap", r"ldap\w+\b[^\n|;]{0,80}?\s-w\s+"),
        (b"htpasswd", r"htpasswd\s+-\w{0,6}b\w{0,6}\s+\S{1,80}\s+\S{1,40}\s+"),
        (b" login", r" login\b[^\n|;]{0,80}?\s-p\s+"),
        (b"smbclient", r"smbclient\b[^\n|;]{0,80}?\s-U\s+[^\s%]{1,40}%"),
        (b"pass:", r"pass:"),
        (b"chpasswd", r"chpasswd\s{0,2}<<<\s{0,2}[\"']?[^\s:]{1,40}:"),
        (b"zip -p", r"zip\s+-P\s+"),
        (b"net user", r"net\s+user\s+\S{1,40}\s+"),
        (b"mongo", r"mongo\w{0,8}\b[^\n|;]{0,80}?\s-p\s+"),
        (b"sqlcmd", r"sqlcmd\b[^\n|;]{0,80}?\s-P\s+"),
        (b"requirepass", r"requirepass\s+"),
        (b"masterauth", r"masterauth\s+"),
    )
}
_REST = re.compile(r"[^\s\"'`,;<>&]{0,8000}")
_LONG = 240
_SESSION = 8
"""Characters of the shortest value that carries a session."""
_REPEATED = 4
"""A name that comes so often in what would be its own value is not given one."""
_KINDS = {"pass": "password", "pwd": "password", "_pw": "password", "token": "token", "key": "key"}
_AUTHORIZATION = re.compile(r"(?:[\w-]*orization(?:-header)?|[\w-]*_header|enticate)?")


def assignments(text: str, data: bytes) -> list[Span]:
    """(start, end, kind) of every value whose name and look say that it is a secret; `data` is `flat(text)`."""
    lower = data.lower()
    found = [span for anchor in _ANCHORS if anchor in lower for span in _around(text, lower, anchor)]
    if b"cookie" in lower:
        found += _cookies(text, lower)
    if b"|" in lower and (b"sudo" in lower or b"stdin" in lower):
        found += _piped(text)
    if any(sign in lower for sign in (b" -", b"identified", b"pass")):
        found += (span for word, pattern in _OPTIONS.items() for span in _given(text, lower, word, pattern))
    return found


def _piped(text: str) -> Iterator[Span]:
    """What is handed to a program that asks for a password."""
    for match in _SUDO.finditer(text):
        yield from _fitting(match, 1 if match[1] else 2)


def _around(text: str, lower: bytes, anchor: bytes) -> Iterator[Span]:
    """What is given to names with this anchor in them."""
    judged = _JUDGES.get(anchor, _value)
    at = lower.find(anchor)
    while at >= 0:
        end = at + len(anchor)
        match = _AFTER.match(text, end)
        repeated = match is not None and lower.count(anchor, *match.span("bare")) >= _REPEATED
        span = None if repeated else judged(text, match, at, end)
        if span:
            yield span
            end = max(end, span[1])
        elif match and repeated:
            end = match.end()
        at = lower.find(anchor, end)


def _given(text: str, lower: bytes, word: bytes, pattern: re.Pattern[str]) -> Iterator[Span]:
    """Passwords among the options of a program."""
    at = lower.find(word)
    while at >= 0:
        match = pattern.match(text, at)
        if match and word not in lower[match.start(1) : match.end(1)]:
            yield from _fitting(match, 1)
        at = lower.find(word, match.end() if match else at + len(word))


def _fitting(match: re.Match[str], group: int) -> Iterator[Span]:
    if may_be_password(match[group]):
        yield *match.span(group), "password"


def _value(text: str, match: re.Match[str] | None, at: int, end: int) -> Span | None:
    """The span of the value that is given to a name, if there is one."""
    if match is None or (match["bare"] or "-").isalpha():
        return None
    left, word = _left(text, at), text[at:end]
    weight = weight_of(word, left, match["rest"])
    start, stop, quoted = _place(text, match) if weight else (0, 0, False)
    value = text[start:stop]
    if not value or not _operator_fits(match, left, text, at, value):
        return None
    if not secret_like(value, weight, word.lower(), quoted=quoted):
        return None
    rest = _REST.match(text, stop) if len(value) >= _LONG else None
    return start, rest.end() if rest else stop, _KINDS.get(word.lower(), "secret")


def _bearer(text: str, match: re.Match[str] | None, at: int, end: int) -> Span | None:
    del match, at
    token = _BEARER.match(text, end)
    return (*token.span(1), "bearer") if token and is_random(token[1]) else None


def _authorization(text: str, match: re.Match[str] | None, at: int, end: int) -> Span | None:
    """`Authorization: Scheme value`, `x-auth: value`, `_auth=value`."""
    del at, end
    rest = match["rest"].lower() if match else "-"
    if match is None or not match["sign"] or not _AUTHORIZATION.fullmatch(rest):
        return None
    start, stop, _ = _place(text, match)
    scheme = _SCHEME.match(text, start) if rest.endswith("orization") else None
    if scheme:
        return (*scheme.span(1), "authorization") if may_be_password(scheme[1]) else None
    return (start, stop, "authorization") if is_random(text[start:stop]) else None


_JUDGES = {b"bearer": _bearer, b"auth": _authorization}


def _place(text: str, match: re.Match[str]) -> tuple[int, int, bool]:
    """Where the value is, and whether it is in quotes."""
    group = next(name for name in ("double", "single", "tick", "bare") if match[name] is not None)
    start, stop = match.span(group)
    return start, _bare_end(text, start, stop) if group == "bare" else stop, group != "bare"


def _left(text: str, at: int) -> str:
    """The part of the name before the anchor."""
    before = text[max(0, at - _LEFT) : at]
    return before[len(before.rstrip(_NAME_SIGNS)) :]


def _operator_fits(match: re.Match[str], left: str, text: str, at: int, value: str) -> bool:
    """Whether what stands between name and value gives the one to the other."""
    if match["blank"]:
        return left.startswith("-") or random_like(value, 8)
    if match["element"]:
        return text[: at - len(left)][-1:] in ("<", ":") or "<" in text[max(0, at - _LEFT) : at]
    if match["comma"]:
        return text[max(0, at - len(left) - 1) : at - len(left)] in ("'", '"')
    return True


def _bare_end(text: str, start: int, stop: int) -> int:
    """Where an unquoted value ends: before the next parameter of a query, and without the sentence's mark."""
    value = text[start:stop]
    if "&" not in value:
        return start + len(value.rstrip(".,;:)]}\\"))
    line = text[max(0, start - 300) : start].rpartition("\n")[2]
    if "?" in line or "&" in line[-_LEFT - 60 :]:
        value = value.partition("&")[0]
    return start + len(value.rstrip(".,;:)]}\\"))


def _cookies(text: str, lower: bytes) -> list[Span]:
    """Values of cookies that carry a session."""
    found: list[Span] = []
    at = lower.find(b"cookie")
    while at >= 0:
        end = at + 6
        head = _COOKIE.match(text, end)
        if head:
            line = text.find("\n", end)
            line = min(len(text) if line < 0 else line, end + 8_192)
            found += (
                (*match.span(2), "cookie")
                for match in _COOKIE_PAIR.finditer(text, head.end(), line)
                if len(match[2]) >= _SESSION and _COOKIE_NAME.search(match[1]) and _session_like(match[2])
            )
            end = line
        at = lower.find(b"cookie", end)
    return found


def _session_like(value: str) -> bool:
    return is_random(value) or is_uuid(value) or (len(value) >= 10 and may_be_password(value))
