"""Secrets by what they are called: `password = "..."`, headers, options, cookies. A name alone spoils nothing: the
value must look like a secret too."""

import re
from collections.abc import Iterator

from hermes.safety.lookalikes import common, is_identifier, is_uuid, random_like, stand_in

Span = tuple[int, int, str]

_ANCHORS = (b"pass", b"pwd", b"_pw", b"secret", b"token", b"key", b"auth", b"cred", b"cookie", b"bearer")
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
_SAFE_REST = re.compile(
    r"^(?:s?_?(?:count|length|len|hash|hashed|digest|id|ids|type|name|names|file|filename|path|dir|limit|size|expir\w*|"
    r"ttl|policy|field|fields|header|prefix|suffix|version|url|uri|endpoint|min\w*|max\w*|reset|required|strength|"
    r"rounds|index|status|format|usage|used|budget|hint|label|algorithm|alg|store|provider|class|column|pattern|regex|"
    r"error|errors|age|code|event|board|pair|map|list|set|ring|space|stone|frame|note|word|words|wordlist|port|mode|"
    r"schema|arn|ref|refs|reference|var|env|source|prompt|validator|rules|scope|scopes|created|updated|at|by|on|off|"
    r"thumbprint|fingerprint|checksum|present|enabled|disabled|lifetime|duration|rate|rotation|count_\w+))$"
    r"|^(?:izer|ize|board|word|frame|stone|note|pad|noise|ring|enger|age|ion|ive|port|ed|ing|es\b|or|ors|ored|entic|"
    r"ority|ur|ry|ret|its|ible)",
    re.IGNORECASE,
)
_SAFE_LEFT = re.compile(
    r"(?:^|[_.$-])(?:max|min|num|n|total|primary|foreign|cache|sort|partition|public|publishable|idempotency|translation|row|"
    r"hash|range|object|s3|storage_object|next|page|continuation|sync|cancel|stop|eos|bos|pad|unk|prompt|completion|"
    r"input|output|cached|reset|show|hide|toggle|forgot|no|i18n|locale|map|dict|index|group|composite|unique|natural|"
    r"surrogate|join|lookup|ssh_public|host|device|registry|query|state|route|react|hot|mon|tur|whis|don|joc|jockey|"
    r"by|com|tres|over|under|sur|en|tim|bi|mis)[_.-]?$",
    re.IGNORECASE,
)
_KEY_LEFT = re.compile(
    r"(?:api|access|secret|private|priv|auth|encryption|encrypt|crypt|signing|sign|master|service|account|app|license|"
    r"client|consumer|shared|session|admin|webhook|jwt|deploy|subscription|functions?|security|root|server|user|bot|"
    r"project|team|org|integration|write|read|rest|hmac|aes|rsa|ssl|tls|ssh|salt|cookie|data|db|field|fernet|"
    r"ocp_apim_subscription|stripe|openai|azure|aws|application|ingest|x|(?:api|access)_?secret)[_.-]?$",
    re.IGNORECASE,
)
_UPPER_NAME = re.compile(r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)*_$")
_SCHEME = re.compile(
    r"(?:Basic|Bearer|Token|Digest|ApiKey|Api-Key|Key|Negotiate|SSWS|Splunk|GenieKey|AWS4-HMAC-SHA256|"
    r"[A-Za-z-]{2,24})[ \t]+(?:token=)?[\"']?([^\s\"'<>,;]{6,4000})"
)
_BEARER = re.compile(r"(?:er|earer)?[ \t]+([A-Za-z0-9._~+/=-]{12,4000})")
_COOKIE = re.compile(r"(?:\d?[\"']?\s?[:=]\s?[\"']?)")
_COOKIE_PAIR = re.compile(r"([\w.$-]{1,60})=([^\s;\"',]{1,4000})")
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
_REPEATED = 4
"""A name that comes so often in what would be its own value is not given one."""
_STRONG, _WEAK = 2, 1


def assignments(text: str, data: bytes) -> list[Span]:
    """(start, end, kind) of every value whose name and look say that it is a secret; `data` is `flat(text)`."""
    lower = data.lower()
    found: list[Span] = []
    seen: set[bytes] = set()
    for anchor in _ANCHORS:
        at = lower.find(anchor)
        while at >= 0:
            seen.add(anchor)
            end = at + len(anchor)
            match = None if anchor == b"cookie" else _AFTER.match(text, end)
            span = _judged(text, anchor, match, at, end)
            if span:
                found.append(span)
                end = max(end, span[1])
            elif match and match["bare"] and lower.count(anchor, *match.span("bare")) >= _REPEATED:
                end = match.end()
            at = lower.find(anchor, end)
    if b"cookie" in seen:
        found += _cookies(text, lower)
    if b"|" in lower and (b"sudo" in lower or b"stdin" in lower):
        found += (span for match in _SUDO.finditer(text) for span in _fitting(match, 1 if match[1] else 2))
    if b" -" in lower or b"identified" in lower or b"pass" in seen:
        for word, pattern in _OPTIONS.items():
            at = lower.find(word)
            while at >= 0:
                match = pattern.match(text, at)
                if match:
                    found += _fitting(match, 1)
                at = lower.find(word, match.end() if match else at + len(word))
    return found


def _fitting(match: re.Match[str], group: int) -> Iterator[Span]:
    if _fits(match[group]):
        yield *match.span(group), "password"


def _fits(value: str) -> bool:
    return not stand_in(value) and not common(value) and _password_like(value, quoted=True)


def _judged(text: str, anchor: bytes, match: re.Match[str] | None, at: int, end: int) -> Span | None:
    """The span of the value that is given to a name with this anchor in it, if there is one."""
    if anchor == b"bearer":
        token = _BEARER.match(text, end)
        return (*token.span(1), "bearer") if token and _token_like(token[1]) else None
    if match is None or (anchor != b"auth" and (match["bare"] or "-").isalpha()):
        return None
    left = _left(text, at)
    if anchor == b"auth":
        return _authorization(text, match, left)
    weight = _weight(anchor, left, match["rest"], text[at:end])
    if not weight:
        return None
    group = next(name for name in ("double", "single", "tick", "bare") if match[name] is not None)
    start, stop = match.span(group)
    if group == "bare":
        stop = _bare_end(text, start, stop, left)
    value = text[start:stop]
    if not _operator_fits(match, left, text, at):
        return None
    quoted = group != "bare"
    if (match["blank"] or match["says"]) and not (_dashed(left) or random_like(value, 8)):
        return None
    if not _secret_like(value, weight, anchor, quoted=quoted):
        return None
    rest = _REST.match(text, stop) if len(value) >= _LONG else None
    return start, rest.end() if rest else stop, _kind(anchor)


def _left(text: str, at: int) -> str:
    """The part of the name before the anchor."""
    before = text[max(0, at - _LEFT) : at]
    return before[len(before.rstrip(_NAME_SIGNS)) :]


def _dashed(left: str) -> bool:
    return left.startswith("-")


def _operator_fits(match: re.Match[str], left: str, text: str, at: int) -> bool:
    """Whether what stands between name and value gives the one to the other."""
    if match["element"]:
        return text[: at - len(left)][-1:] in ("<", ":") or "<" in text[max(0, at - _LEFT) : at]
    if match["comma"]:
        return text[max(0, at - len(left) - 1) : at - len(left)] in ("'", '"')
    return True


def _bare_end(text: str, start: int, stop: int, left: str) -> int:
    """Where an unquoted value ends: before the next parameter of a query, and without the sentence's mark."""
    value = text[start:stop]
    if "&" not in value:
        return start + len(value.rstrip(".,;:)]}\\"))
    line = text[max(0, start - 300) : start].rpartition("\n")[2]
    if "?" in line or "&" in line[-_LEFT - 60 :]:
        value = value.partition("&")[0]
    return start + len(value.rstrip(".,;:)]}\\"))


def _weight(anchor: bytes, left: str, rest: str, word: str) -> int:
    """How surely a name is a secret's: 2 surely, 1 perhaps, 0 not."""
    if anchor == b"pass":
        rest = re.sub("^(?:word|wd|phrase|code)", "", rest, flags=re.IGNORECASE) if rest else rest
    if _SAFE_REST.search(rest) and not (rest[:1] in "sS" and rest[1:] == ""):
        return 0
    if _SAFE_LEFT.search(left) or (
        rest
        and rest[0].islower()
        and anchor in (b"pwd", b"_pw", b"key", b"cred", b"secret")
        and rest not in ("s", "entials", "ential")
    ):
        return 0
    if anchor == b"key":
        if _KEY_LEFT.search(left) or (_UPPER_NAME.search(left) and word.isupper()):
            return _STRONG
        return 0
    if anchor == b"token":
        return _STRONG if (left and not left.endswith(".")) or not rest else _WEAK
    if anchor == b"pass":
        return _STRONG if not rest or rest[0] in "_-0123456789" or rest[0].isupper() or rest == "s" else 0
    return _STRONG


def _kind(anchor: bytes) -> str:
    return {b"pass": "password", b"pwd": "password", b"_pw": "password", b"token": "token", b"key": "key"}.get(
        anchor, "secret"
    )


def _secret_like(value: str, weight: int, anchor: bytes, *, quoted: bool) -> bool:
    if stand_in(value) or common(value) or len(value) < 6:
        return False
    if anchor in (b"pass", b"pwd", b"_pw") and weight == _STRONG:
        return _password_like(value, quoted=quoted)
    if is_uuid(value):
        return weight == _STRONG and anchor != b"token"
    if value.isdigit() or (" " in value.strip() and not random_like(value)):
        return False
    return _password_like(value, quoted=quoted) and (len(value) >= 8 or quoted)


def _password_like(value: str, *, quoted: bool) -> bool:
    """Whether a person or a program may have chosen this for a secret: no word, number, name or expression."""
    if random_like(value, 8):
        return not (not quoted and "(" in value)
    if not quoted and is_identifier(value):
        plain = value.isalnum() and not value.islower() and any(one.isdigit() for one in value)
        return plain and len(value) >= 8
    if value.isalpha() or value.isdigit() or " " in value.strip():
        return False
    if not quoted and any(one in value for one in "(){}[]"):
        return False
    letters = any(one.isalpha() for one in value)
    digits = any(one.isdigit() for one in value)
    signs = sum(not one.isalnum() and one not in "_-./:" for one in value)
    if letters and digits:
        return len(value) >= 6 and not _version_like(value)
    return letters and signs > 0 and len(value) >= 8 and not value.rstrip("?!.").isalpha()


def _version_like(value: str) -> bool:
    """Words with numbers between dots, dashes and slashes, as in paths, versions, dates and keys of a cache."""
    parts = re.split(r"[-_./:@]+", value)
    return len(parts) > 1 and all(
        part.isdigit() or part.isalpha() or re.fullmatch(r"v?\d+\w?|[a-z]+\d{1,2}", part) for part in parts if part
    )


def _token_like(value: str) -> bool:
    return not stand_in(value) and random_like(value, 8)


def _authorization(text: str, match: re.Match[str], left: str) -> Span | None:
    """`Authorization: Scheme value`, `x-auth: value`, `_auth=value`."""
    rest = match["rest"].lower()
    if rest not in ("orization", "", "orization-header", "enticate") and not rest.endswith(("orization", "_header")):
        return None
    start = next(match.start(name) for name in ("double", "single", "tick", "bare") if match[name] is not None)
    scheme = _SCHEME.match(text, start)
    if scheme and match["sign"] and rest.endswith("orization"):
        value = scheme[1]
        return (*scheme.span(1), "authorization") if _header_like(value) else None
    value = match["double"] or match["single"] or match["tick"] or match["bare"]
    fits = match["sign"] and not stand_in(value) and random_like(value, 8)
    return (start, start + len(value), "authorization") if fits else None


def _header_like(value: str) -> bool:
    return not stand_in(value) and not common(value) and _password_like(value, quoted=True)


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
            for match in _COOKIE_PAIR.finditer(text, head.end(), line):
                value = match[2]
                if (
                    _COOKIE_NAME.search(match[1])
                    and not stand_in(value)
                    and (
                        random_like(value, 8)
                        or is_uuid(value)
                        or (len(value) >= 10 and _password_like(value, quoted=True))
                    )
                ):
                    found.append((*match.span(2), "cookie"))
            end = line
        at = lower.find(b"cookie", end)
    return found
