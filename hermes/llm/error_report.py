"""Reads a provider's error from any vendor's body: its names, its words, and how long it asks to wait.

Vendors agree on nothing but JSON: the error may be the body, stand in it, in a list, in `metadata`, in
`base_resp`, or as JSON text inside another error's message when a gateway passes it on. All of it is
read, outermost first. A wait stands in headers, members or words; it is a time from now that makes sense: not negative,
at most 32 days. A moment that has passed, or that a wrong clock puts years ahead, is no wait.
"""

import re
from collections.abc import Callable, Iterator, Mapping

import msgspec
from msgspec import Struct

from hermes.core.encoding import to_json
from hermes.util.text import to_one_line

Table = Mapping[str, object]
Mask = Callable[[str], str]
"""Takes keys out of a text."""

_WORDS_LIMIT = 2_000
"""Characters of what was said that are looked at; a vendor says what is wrong in its first sentence."""
_PAGE_LIMIT = 20_000
_MESSAGE_LIMIT = 400
_MAX_OBJECTS = 24
_DEPTH = 8
_NAME_KEYS = (
    "code",
    "type",
    "status",
    "reason",
    "error_type",
    "error_code",
    "status_code",
    "http_code",
    "limit_source",
    "quotaId",
)
_TEXT_KEYS = ("message", "detail", "msg", "status_msg", "error_message", "error", "raw")
_NESTED_KEYS = (
    "error",
    "message",
    "detail",
    "details",
    "metadata",
    "raw",
    "upstream_error",
    "innererror",
    "base_resp",
    "violations",
    "response",
)
_WAIT_KEYS = ("retryDelay", "retry_after", "retry_after_seconds", "retry_after_ms", "resets_in_seconds", "resets_at")
_REQUEST_OVER_LIMIT = re.compile(r"limit:? (\d{1,12}),.{0,40}?requested:? ~?(\d{1,12})")
_TAG = re.compile(r"<[^<>]*>")

UPSTREAM = "@upstream"
"""The mark of an error that a router passes on from its supplier."""
OVER_LIMIT = "@over_limit"
"""The mark of a request that is larger than the limit itself: no waiting makes it fit."""


class ErrorReport(Struct, frozen=True, kw_only=True):
    """A failure as the provider reported it.

    `codes` are its own names for it and `words` its words, both in lower case; `message` is for people. `named_status`
    is the HTTP status that the body names (0: none). `headers` and `waits` say how long to wait, as they came.
    """

    status: int = 0
    named_status: int = 0
    codes: str = ""
    words: str = ""
    message: str = ""
    headers: Mapping[str, str] = {}
    waits: Table = {}


def _no_mask(text: str) -> str:
    return text


def read_error_body(status: int, body: bytes, mask: Mask = _no_mask) -> ErrorReport:
    """Read the report in a body: JSON of any vendor, a gateway's page, or plain text. For `mask` see
    `read_error_value`.
    """
    try:
        return read_error_value(status, msgspec.json.decode(body), mask=mask)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        text = mask(extract_page_text(body))
        return ErrorReport(status=status, words=text[:_WORDS_LIMIT].lower(), message=to_one_line(text, _MESSAGE_LIMIT))


def read_error_value(
    status: int, value: object, *, codes: str = "", message: str = "", mask: Mask = _no_mask
) -> ErrorReport:
    """Read the report in a decoded body or error object; `codes` and `message` are known of it already.

    `mask` takes keys out of texts: after they were decoded, or an escape would hide one, and before they
    are cut, or half of one would stay.
    """
    names = [codes] if codes else []
    texts = [message] if message else []
    headers: dict[str, str] = {}
    wishes: dict[str, object] = {}
    named = 0
    for table in _iter_error_objects(value):
        named = named or _find_status(table)
        names += _error_names(table)
        _add_texts(texts, table)
        found = table.get("headers")
        for name, text in found.items() if isinstance(found, dict) else ():
            headers.setdefault(str(name).lower(), str(text))
        for name in _WAIT_KEYS:
            if table.get(name) is not None:
                wishes.setdefault(name, table[name])
    said = mask((": ".join(texts) or _format_value(value))[:_PAGE_LIMIT])
    says = said[:_WORDS_LIMIT].lower()
    if any(int(limit) < int(asked) for limit, asked in _REQUEST_OVER_LIMIT.findall(says)):
        names.append(OVER_LIMIT)
    return ErrorReport(
        status=status,
        named_status=named,
        codes=" ".join(names).lower()[:_WORDS_LIMIT],
        words=says,
        message=to_one_line(said[:_WORDS_LIMIT], _MESSAGE_LIMIT),
        headers=headers,
        waits=wishes,
    )


def extract_page_text(body: bytes) -> str:
    """Return the words of a page without its tags, scripts and styles."""
    page = body[:_PAGE_LIMIT].decode("utf-8", "replace")
    for tag in ("script", "style"):
        page = _drop_elements(tag, page)
    return " ".join(_TAG.sub(" ", page).split())


def _drop_elements(tag: str, page: str) -> str:
    """Return the page without one kind of element; one that is not closed goes to the end. Looks at each character
    once.
    """
    lower = page.lower()
    kept = []
    at = 0
    while (start := lower.find(f"<{tag}", at)) >= 0:
        kept.append(page[at:start])
        end = lower.find(f"</{tag}", start)
        if end < 0:
            return "".join(kept)
        at = end
    return "".join(kept) + page[at:]


def _iter_error_objects(value: object) -> Iterator[Table]:
    """Yield the objects that an error may stand in, outermost first."""
    waiting: list[tuple[object, int]] = [(value, 0)]
    seen = 0
    while waiting and seen < _MAX_OBJECTS:
        found, depth = waiting.pop(0)
        if isinstance(found, str):
            found = _parse_embedded_json(found)
        if isinstance(found, list) and depth < _DEPTH:
            waiting[:0] = [(item, depth + 1) for item in found[:8]]
        elif isinstance(found, dict):
            seen += 1
            yield found
            if depth < _DEPTH:
                waiting += [(found[name], depth + 1) for name in _NESTED_KEYS if name in found]


def _parse_embedded_json(text: str) -> object:
    """Return the JSON that a text is or ends in, as gateways pass on what their upstream said; None when
    there is none.
    """
    start = text.find('{"')
    if start < 0:
        return None
    try:
        return msgspec.json.decode(text[start:].rstrip())
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        return None


def _find_status(table: Table) -> int:
    """Return the HTTP status that an object names, as a number or as text."""
    for name in ("code", "status_code", "http_code", "status"):
        value = table.get(name)
        if isinstance(value, str) and len(value) == 3 and value.isdecimal():
            value = int(value)
        if isinstance(value, int) and 400 <= value < 600:
            return value
    return 0


def _error_names(table: Table) -> list[str]:
    """Return the names that an object gives its error, and the marks that follow from its members."""
    found = (table.get(name) for name in _NAME_KEYS)
    names = [str(name) for name in found if isinstance(name, str | int) and name not in ("", "error")]
    if "status_msg" in table:
        names = [f"base_resp:{name}" for name in names]
    source = table.get("limit_source")
    if table.get("provider_name") or (isinstance(source, str) and source.startswith("upstream")):
        names.append(UPSTREAM)
    return names


def _add_texts(texts: list[str], table: Table) -> None:
    """Add what an object says, except JSON (its parts follow) and what was said already."""
    where = table.get("loc")
    place = ".".join(str(step) for step in where) + ": " if isinstance(where, list) else ""
    for name in _TEXT_KEYS:
        text = table.get(name)
        if not isinstance(text, str) or not text or isinstance(_parse_embedded_json(text), dict):
            continue
        if not any(text in said for said in texts):
            texts.append(place + text)


def _format_value(value: object) -> str:
    """Return what there is to show of a value without words."""
    if isinstance(value, str):
        return value
    return to_json(value).decode() if value else ""


MAX_WAIT = 32 * 86_400.0
_EPOCH_SECONDS = 1e9
_EPOCH_MILLISECONDS = 1e11

_UNITS = {"ms": 0.001, "mi": 60.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_SPAN_PART = re.compile(
    r"(\d{1,9}(?:\.\d{1,12})?) ?(milliseconds?|ms|seconds?|secs?|s|minutes?|mins?|m|hours?|hrs?|h|days?|d)(?![a-z])"
)
_SAID_WAIT = re.compile(
    r"(?:try again|retry|retrying|wait|resets?|available(?: again)?) (?:after |in |for |at least )?(?:about )?(?=\d)"
)
_SAID_AT = re.compile(
    r"(?:resets?|try again|retry|available) (?:at|on) (\d{4}-\d\d-\d\d[t ][0-9:.]{5,18}(?:z|[+-]\d\d:?\d\d))"
)
_LIMIT_RESET = re.compile(r"(?:x-ratelimit-reset-([a-z0-9-]{1,40})|anthropic-ratelimit-([a-z0-9-]{1,40})-reset)")


def find_retry_after(headers: Mapping[str, str], report: ErrorReport, now: float, *, limited: bool) -> float | None:
    """Return the seconds that the provider asks to wait, or None. `now` is wall time.

    `limited`: the failure is a limit, so that headers about limits, which come with every answer, are about
    it. The most exact source wins: `retry-after-ms`, `retry-after`, the error's own members, its words,
    then the limits.
    """
    headers = {**report.headers, **headers}
    for seconds in _iter_waits(headers, report, now, limited=limited):
        if seconds is not None:
            return seconds
    return None


def _iter_waits(
    headers: Mapping[str, str], report: ErrorReport, now: float, *, limited: bool
) -> Iterator[float | None]:
    yield _parse_milliseconds(headers.get("retry-after-ms"))
    yield seconds_until(headers.get("retry-after"), now)
    yield _parse_milliseconds(report.waits.get("retry_after_ms"))
    for name in ("retry_after", "retry_after_seconds", "retryDelay", "resets_in_seconds", "resets_at"):
        yield seconds_until(report.waits.get(name), now)
    said = _SAID_WAIT.search(report.words)
    yield parse_span(report.words[said.end() :]) if said else None
    dated = _SAID_AT.search(report.words)
    yield seconds_until(dated[1].upper(), now) if dated else None
    if limited:
        yield _emptiest_limit_reset(headers, now)
        yield seconds_until(headers.get("x-ratelimit-reset"), now)


def seconds_until(value: object, now: float) -> float | None:
    """Return the seconds until a moment given as a number, a span such as `1m30s`, an ISO date or an HTTP date.

    A number is in seconds; since 1970 when it is large; in ms when it is huge. None for what is none of these or out of
    bounds.
    """
    if not isinstance(value, str | int | float) or isinstance(value, bool) or value == "":
        return None
    try:
        number = float(value)
    except ValueError:
        text = str(value).strip()[:64]
        found = parse_span(text.lower())
        return found if found is not None else _seconds_until_date(text, now)
    except OverflowError:
        return None
    if number >= _EPOCH_MILLISECONDS:
        return _check_bounds(number / 1000 - now)
    return _check_bounds(number - now if number >= _EPOCH_SECONDS else number)


def parse_span(text: str) -> float | None:
    """Parse the span at the beginning of a lower-case text: `7.66s`, `6m0s`, `120ms`, `2 days`; None when there is
    none.
    """
    at = 0
    total = 0.0
    while (part := _SPAN_PART.match(text, at)) is not None:
        unit = part[2]
        total += float(part[1]) * _UNITS["ms" if unit.startswith("milli") else unit if unit == "ms" else unit[0]]
        at = part.end()
        at += text[at : at + 1] == " "
    return _check_bounds(total) if at else None


def _parse_milliseconds(value: object) -> float | None:
    try:
        return _check_bounds(float(value) / 1000) if isinstance(value, str | int | float) else None
    except (ValueError, OverflowError):
        return None


def _check_bounds(seconds: float) -> float | None:
    return seconds if 0.0 <= seconds <= MAX_WAIT else None


def _seconds_until_date(text: str, now: float) -> float | None:
    """Return the seconds until an ISO date with a zone, or an HTTP date."""
    from datetime import datetime
    from email.utils import parsedate_to_datetime  # 15 ms of import, needed once in a thousand failures

    try:
        if text[:4].isdigit():
            date = datetime.fromisoformat(text)
            return _check_bounds(date.timestamp() - now) if date.tzinfo is not None else None
        return _check_bounds(parsedate_to_datetime(text).timestamp() - now)
    except (ValueError, OverflowError):
        return None


def _emptiest_limit_reset(headers: Mapping[str, str], now: float) -> float | None:
    """Return when the limit with the smallest part left is reset; of two that are equally empty, the later one.

    Providers count requests and tokens (some for a minute and for a day) and tell of all of them; the one that is used
    up, or nearest to it, is the one that refused.
    """
    found: list[tuple[float, float]] = []
    for name, value in headers.items():
        match = _LIMIT_RESET.fullmatch(name)
        seconds = seconds_until(value, now) if match else None
        if match and seconds is not None:
            bucket = match[1] or match[2]
            form = "x-ratelimit-{what}-{bucket}" if match[1] else "anthropic-ratelimit-{bucket}-{what}"
            left, whole = (
                _parse_count(headers, form.format(what=what, bucket=bucket)) for what in ("remaining", "limit")
            )
            share = 1.0 if left is None else min(1.0, left / whole) if whole else float(left > 0)
            found.append((share, -seconds))
    return -min(found)[1] if found else None


def _parse_count(headers: Mapping[str, str], name: str) -> float | None:
    try:
        number = float(headers.get(name, ""))
    except ValueError:
        return None
    return number if 0 <= number < float("inf") else None
