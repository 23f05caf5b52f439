"""Finds how long a provider asks to wait: in headers, in members of its error, and in its words.

A wait is a time from now that makes sense: not negative, at most 32 days. A moment that has passed, or
that a wrong clock puts years ahead, is no wait.
"""

import re
from collections.abc import Iterator, Mapping

from hermes.llm.error_report import ErrorReport

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
