"""Finds secrets by their patterns: vendors' keys, private keys, tokens, passwords in URLs."""

import base64
import binascii
import re
from collections.abc import Iterator
from functools import cache

from hermes.safety.secrets import vendor_patterns
from hermes.safety.secrets.placeholders import (
    is_common_password,
    is_generated_key,
    is_placeholder,
    is_random_like,
    is_uuid,
)

Span = tuple[int, int, str]

_MIN_RUN = 16
"""Characters of the shortest run that is looked at: no vendor's key is all shorter."""
_MAX_BEFORE = 40
_MAX_AFTER = 400
_MAX_TRIES = 4
_SIGNS = ".:/|$~-"
_DASH = re.compile("[-_]")
_EDGE = re.compile(r"(?<![A-Za-z0-9])[A-Za-z0-9_~.-]")
"""Places where a key may begin: searching only from there is five times as fast on a hostile text."""
_RUN_MARK = b"\1" * _MIN_RUN


def _make_table(kinds: dict[str, str]) -> bytes:
    table = bytearray(b" " * 256)
    for mark, characters in kinds.items():
        for one in characters:
            table[ord(one)] = ord(mark)
    return bytes(table)


_LOWER, _UPPER, _DIGITS = "abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "0123456789"
_IN_RUN = _make_table({"\1": _LOWER + _UPPER + _DIGITS + "-_"})
_KINDS = _make_table({"a": _LOWER, "A": _UPPER, "0": _DIGITS, "-": "-_"})

_PEM = re.compile(r"-----BEGIN ([A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?)-----")
_PEM_BODY = re.compile(r"[A-Za-z0-9+/=\s\\\"',:.()-]{0,20000}")
_PUTTY = re.compile(r"Private-Lines: \d{1,4}\s+([A-Za-z0-9+/=\s]{40,20000})")
_USER_INFO = re.compile(
    r"[^\s/@:\"'<>`?#]{0,100}:([^\s/\"'<>`]{1,200})@(?=[\w\[.$-])|([^\s/@:\"'<>`?#]{16,200})@(?=[\w\[])"
)
_QUERY = re.compile(
    r"[?&;#](?:[\w.-]{0,40}(?:token|secret|passw(?:or)?d|signature|api_?key|apikey|credential)|sig|key|auth|pwd|pass|"
    r"jwt|code_verifier|hapikey|subscription-key|access_key|assertion)=([^&\s\"'<>#;`]{6,2000})",
    re.IGNORECASE,
)
_WEBHOOK_URL = re.compile(
    r"(?:discord(?:app)?\.com/api/(?:v\d+/)?webhooks/\d{10,24}/|hooks\.slack(?:-gov)?\.com/(?:services|workflows|triggers)/"
    r"|webhook\.office\.com/webhookb2/|outlook\.office\.com/webhook/|hooks\.zapier\.com/hooks/catch/\d+/|"
    r"api\.telegram\.org/bot|open\.(?:feishu|larksuite)\.(?:cn|com)/open-apis/bot/v2/hook/|hooks\.airtable\.com/workflows/v1/|"
    r"maker\.ifttt\.com/trigger/\w{1,60}/(?:json/)?with/key/|ntfy\.sh/|hc-ping\.com/|chat\.googleapis\.com/v1/spaces/)"
    r"([A-Za-z0-9_/:@.-]{16,300})"
)
_WEBHOOK_WORDS = ("hook", "telegram", "ifttt", "hc-ping", "googleapis", "ntfy")
_JWT = re.compile(r"eyJ[A-Za-z0-9_-]{6,4000}\.[A-Za-z0-9_-]{4,8000}(?:\.[A-Za-z0-9_-]{0,4000}){0,3}")
_MIN_UNKNOWN_KEY = 30
_ANY_VENDOR = re.compile(r"[a-z]{2,10}[-_](?:[a-z]{2,8}[-_])?([A-Za-z0-9]{24,100})(?![A-Za-z0-9+/=])")
_HEX = re.compile(r"(?:[0-9a-fA-F]{2}){16,2000}")
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{16,4000}={0,2}")


def find_secret_patterns(text: str, data: bytes) -> list[Span]:
    """Return (start, end, kind) of text with the pattern of a secret; `data` is `to_single_bytes(text)`."""
    from hermes.safety.secrets.assignments import find_assignments

    found = list(_find_keys(text, data))
    if "PRIVATE KEY" in text or "Private-Lines" in text:
        found += _find_private_keys(text)
    if "://" in text:
        found += _find_url_secrets(text)
    found += find_assignments(text, data)
    return found


def _find_keys(text: str, data: bytes) -> Iterator[Span]:
    """Yield keys in runs of characters that are long enough for one, and hold a digit or both cases."""
    marked = data.translate(_IN_RUN)
    at = marked.find(_RUN_MARK)
    if at < 0:
        return
    kinds = data.translate(_KINDS)
    done = 0
    while at >= 0:
        end = marked.find(b" ", at)
        end = len(marked) if end < 0 else end
        if b"0" in kinds[at:end] or (kinds.find(b"a", at, end) >= 0 and kinds.find(b"A", at, end) >= 0):
            for span in _find_key_in_run(text, max(at, done), end, done):
                done = span[1]
                yield span
        at = marked.find(_RUN_MARK, max(end, done))


def _find_key_in_run(text: str, at: int, end: int, done: int) -> Iterator[Span]:
    token = _JWT.match(text, at) if text.startswith("eyJ", at) else None
    if token and (token[0].count(".") >= 2 or len(token[0]) > 60):
        yield token.start(), token.end(), "jwt"
        return
    last = min(len(text), end + _MAX_AFTER)
    for match in _key_candidates(text, at, end, last, done):
        key = match[0].rstrip(".")
        kind, beginning = vendor_patterns.identify_vendor(key)
        if is_generated_key(key[len(beginning) :]) and not _is_longer_name(text, match, key):
            yield match.start(), match.start() + len(key), kind
            return
    generic = _ANY_VENDOR.match(text, at, end) if end - at >= _MIN_UNKNOWN_KEY else None
    if generic and _well_mixed(generic[1]):
        yield at, generic.end(), "key"
    elif end - at >= 20:
        yield from _find_encoded_key(text, at, end)


def _key_candidates(text: str, at: int, end: int, last: int, done: int) -> Iterator[re.Match[str]]:
    """Yield possible keys in this run: at its beginning, after a dash in its first part,
    or with the signs around it.
    """
    place = at
    for _ in range(_MAX_TRIES):
        shape = vendor_patterns.key_pattern(text[place : place + 2])
        match = shape.match(text, place, last) if shape else None
        if match:
            yield match
            return
        mark = _DASH.search(text, place, end)
        if mark is None:
            break
        place = mark.end()
    if text[end : end + 1] in _SIGNS or (at and text[at - 1] in _SIGNS):
        whole = vendor_patterns.whole_key_pattern()
        starts = _EDGE.finditer(text, max(done, at - _MAX_BEFORE), end)
        match = next(filter(None, (whole.match(text, edge.start(), last) for edge in starts)), None)
        if match:
            yield match


def _well_mixed(body: str) -> bool:
    """Return whether a long text has so much of every kind of character that only a generator can have made it."""
    upper, lower, digits = (sum(map(kind, body)) for kind in (str.isupper, str.islower, str.isdigit))
    return min(upper, lower) >= len(body) // 8 and digits > 1 and is_generated_key(body)


def _is_longer_name(text: str, match: re.Match[str], key: str) -> bool:
    """Return whether it is only the beginning of something longer that no key is, such as a file's name or a folder."""
    after = text[match.end() : match.end() + 1]
    return after == "(" or (after == "/" and "/" not in key and not is_random_like(key))


@cache
def _encoded_prefixes() -> dict[str, str]:
    """Return the first four characters of keys in base64, hex and reversed, and which of these it is."""
    found: dict[str, str] = {}
    for prefix in vendor_patterns.list_prefixes():
        if len(prefix) >= 3 and not prefix.isalnum():
            found[base64.b64encode(prefix[:3].encode()).decode()] = "base64"
            found[prefix[:4].encode().hex()[:6]] = "hex"
            found[prefix[:4][::-1]] = "reversed"
    return found


def _find_encoded_key(text: str, at: int, end: int) -> Iterator[Span]:
    """Yield a vendor's whole key in base64, in hex, or reversed."""
    starts = _encoded_prefixes()
    if text[at : at + 4] in starts:
        match = _BASE64.match(text, at)
        if match and (plain := _decode_base64(match[0])) and _is_key(plain):
            yield match.start(), match.end(), "encoded-key"
    elif text[at : at + 6] in starts:
        if _HEX.fullmatch(text, at, end) and _is_key(bytes.fromhex(text[at:end]).decode("latin-1")):
            yield at, end, "encoded-key"
    elif (text[end - 4 : end] in starts or text[end - 3 : end] in starts) and _is_key(text[at:end][::-1]):
        yield at, end, "reversed-key"


def _decode_base64(body: str) -> str:
    body = body.rstrip("=").replace("-", "+").replace("_", "/")
    try:
        return base64.b64decode(body + "=" * (-len(body) % 4)).decode("latin-1")
    except (ValueError, binascii.Error):
        return ""


def _is_key(text: str) -> bool:
    shape = vendor_patterns.key_pattern(text[:2])
    match = shape.match(text) if shape else None
    return match is not None and is_generated_key(match[0][len(vendor_patterns.identify_vendor(match[0])[1]) :])


def _find_private_keys(text: str) -> Iterator[Span]:
    """Yield private keys as files hold them; one without its end extends as far as it looks like one."""
    at = 0
    while match := _PEM.search(text, at):
        closing = f"-----END {match[1]}-----"
        end = text.find(closing, match.end())
        if end < 0:
            body = _PEM_BODY.match(text, match.end())
            end = at = body.end() if body else match.end()
        else:
            end = at = end + len(closing)
        if end - match.start() > 100 + len(closing) or "..." not in text[match.start() : end]:
            yield match.start(), end, "private-key"
    for match in _PUTTY.finditer(text):
        yield *match.span(1), "private-key"


def _find_url_secrets(text: str) -> Iterator[Span]:
    """Yield passwords and tokens in URLs."""
    yield from _find_url_passwords(text)
    for match in _QUERY.finditer(text):
        if not is_common_password(match[1]) and not is_placeholder(match[1]) and _is_token(match[1]):
            yield *match.span(1), "url-token"
    if any(word in text for word in _WEBHOOK_WORDS):
        for match in _WEBHOOK_URL.finditer(text):
            if _is_token(match[1]):
                yield *match.span(1), "url-token"


def _find_url_passwords(text: str) -> Iterator[Span]:
    at = text.find("://")
    while at >= 0:
        end = at + 3
        match = _USER_INFO.match(text, end)
        if match:
            group = 1 if match[1] is not None else 2
            if _is_password(match[1]) if group == 1 else is_random_like(match[2]):
                yield *match.span(group), "url-password"
            end = match.end()
        at = text.find("://", end)


def _is_token(value: str) -> bool:
    return is_random_like(value, 8) or is_uuid(value)


def _is_password(value: str) -> bool:
    return not is_placeholder(value) and not is_common_password(value) and len(value) >= 4


def merge_spans(spans: list[Span]) -> list[Span]:
    """Return the spans in order, overlapping ones merged; the longer one names it."""
    spans.sort()
    result: list[Span] = []
    for start, end, kind in spans:
        if result and start < result[-1][1]:
            before = result[-1]
            named = kind if end - start > before[1] - before[0] else before[2]
            result[-1] = (before[0], max(end, before[1]), named)
        else:
            result.append((start, end, kind))
    return result
