"""What went wrong with a model call, as a table: status, then the provider's code, then its words, then the transport.

The first row that fits decides. A row with several conditions asks for all of them.
"""

import re
from collections.abc import Mapping

import msgspec
from msgspec import Struct

from hermes.core.errors import TransportError
from hermes.core.outcomes import FailureKind
from hermes.core.stream import Failure
from hermes.providers.wire import Endpoint, WireError
from hermes.util.text import one_line

_MESSAGE_LIMIT = 400
_SHOWN_KEY = 8


class Report(Struct, frozen=True, kw_only=True):
    """A failed exchange as the provider told it. `words` is code, type and message in lower case."""

    status: int = 0
    words: str = ""
    message: str = ""


class Row(Struct, frozen=True, kw_only=True):
    """One line of the table: the kind, whether trying again unchanged can help, and when the row fits."""

    kind: FailureKind
    statuses: tuple[int, ...] = ()
    pattern: str = ""
    retryable: bool = False
    hint: str = ""

    def fits(self, report: Report) -> bool:
        """Whether the row is about this report."""
        if self.statuses and report.status not in self.statuses:
            return False
        return not self.pattern or re.search(self.pattern, report.words) is not None


_OVERFLOW = (
    r"context.?length|context.?window|maximum context|max_model_len|too many (input )?tokens|prompt is too long"
    r"|input is too long|exceeds? the (available|maximum) (context|number of tokens)|exceed_context_size"
    r"|input token count|reduce the length|maximum.{0,20}prompt length"
)
_BILLING = (
    r"insufficient.?(quota|credits?|balance|funds)|billing|payment.?required|exceeded your current quota"
    r"|credit balance|out of credits|key limit|arrearage|余额不足"
)
_POLICY = (
    r"content.?policy|content.?filter|safety (system|filter|setting)|moderation|flagged|usage polic|data_inspection"
)
_NO_MODEL = (
    r"model.?not.?found|no such model|model.{0,80}does not exist|unknown model|invalid model|not a valid model"
    r"|no endpoints found"
)
_KEY_HINT = "Check the API key (`hermes auth`, or the provider's variable)."

TABLE: tuple[Row, ...] = (
    Row(kind=FailureKind.RATE_LIMIT, statuses=(402,), pattern=r"try again|resets? (at|in)|temporar", retryable=True),
    Row(kind=FailureKind.BILLING, statuses=(402,), hint="Top the account up, or use another provider."),
    Row(
        kind=FailureKind.RATE_LIMIT, statuses=(429,), pattern=r"resource_exhausted|retry in \d|per.min", retryable=True
    ),
    Row(kind=FailureKind.BILLING, statuses=(403, 429, 400), pattern=_BILLING, hint="Top the account up."),
    Row(kind=FailureKind.AUTH, statuses=(401,), hint=_KEY_HINT),
    Row(kind=FailureKind.CONTENT_POLICY, statuses=(403,), pattern=_POLICY),
    Row(kind=FailureKind.AUTH, statuses=(403,), hint=_KEY_HINT),
    Row(kind=FailureKind.MODEL_NOT_FOUND, statuses=(404,), hint="Check `model.default` and `model.base_url`."),
    Row(kind=FailureKind.PAYLOAD_TOO_LARGE, statuses=(413,)),
    Row(kind=FailureKind.TIMEOUT, statuses=(408, 504), retryable=True),
    Row(kind=FailureKind.RATE_LIMIT, statuses=(429,), retryable=True),
    Row(kind=FailureKind.CONTEXT_OVERFLOW, statuses=(400, 422, 500), pattern=_OVERFLOW),
    Row(kind=FailureKind.AUTH, statuses=(400,), pattern=r"api.?key.{0,30}(invalid|not valid|missing)", hint=_KEY_HINT),
    Row(kind=FailureKind.CONTENT_POLICY, statuses=(400, 422), pattern=_POLICY),
    Row(kind=FailureKind.MODEL_NOT_FOUND, statuses=(400, 422), pattern=_NO_MODEL, hint="Check `model.default`."),
    Row(kind=FailureKind.OVERLOADED, statuses=(409,), retryable=True),
    Row(kind=FailureKind.OVERLOADED, statuses=(503, 529), retryable=True),
    Row(kind=FailureKind.OVERLOADED, statuses=(500, 502), pattern=r"overloaded", retryable=True),
    Row(kind=FailureKind.BILLING, pattern=r"insufficient_quota|billing_error", hint="Top the account up."),
    Row(kind=FailureKind.AUTH, pattern=r"authentication_error|invalid_api_key|permission_error", hint=_KEY_HINT),
    Row(kind=FailureKind.RATE_LIMIT, pattern=r"rate.?limit|resource_exhausted|too many requests", retryable=True),
    Row(kind=FailureKind.OVERLOADED, pattern=r"overloaded|server is busy|slow_down|engine_busy", retryable=True),
    Row(kind=FailureKind.CONTEXT_OVERFLOW, pattern=_OVERFLOW),
    Row(kind=FailureKind.MODEL_NOT_FOUND, pattern=r"not_found_error|model_not_found"),
    Row(kind=FailureKind.PAYLOAD_TOO_LARGE, pattern=r"request_too_large"),
    Row(kind=FailureKind.CONTENT_POLICY, pattern=r"content_policy|content_filter|policy_violation|bio_policy"),
    Row(kind=FailureKind.BAD_RESPONSE, pattern=r"^not_json\b", retryable=True),
    Row(kind=FailureKind.FORMAT_ERROR, pattern=r"invalid_request|invalid_prompt|invalid_argument"),
    Row(kind=FailureKind.TIMEOUT, pattern=r"timeout|timed out", retryable=True),
    Row(kind=FailureKind.SERVER_ERROR, pattern=r"server_error|api_error|internal", retryable=True),
)

_TRANSPORT_RETRYABLE = frozenset({FailureKind.UNREACHABLE, FailureKind.TIMEOUT, FailureKind.CUT})


def from_answer(status: int, headers: Mapping[str, str], body: bytes, endpoint: Endpoint, now: float) -> Failure:
    """The failure that an answer with an error status is. `now` is wall time, for dates in `Retry-After`."""
    if status < 400:
        where = headers.get("location", "another address")
        said = (
            f"{endpoint.record.title} answered {status}: the API has moved to {one_line(without_key(where, endpoint))}."
        )
        return Failure(
            kind=FailureKind.BAD_RESPONSE,
            message=said,
            hint="Set `model.base_url` to the new address.",
            status=status,
        )
    # Before it is shortened: half a key at the cut would not be recognised any more.
    message, words = _explain(body.replace(endpoint.api_key.encode(), b"[key]") if _keyed(endpoint) else body)
    report = Report(status=status, words=words, message=message)
    row = _row(report)
    said = f"{endpoint.record.title} answered {status}"
    return Failure(
        kind=row.kind,
        message=without_key(f"{said}: {message}" if message else f"{said}.", endpoint),
        hint=row.hint,
        status=status,
        retryable=row.retryable,
        fall_back=True,
        compress=row.kind in (FailureKind.CONTEXT_OVERFLOW, FailureKind.PAYLOAD_TOO_LARGE),
        retry_after=retry_after(headers, now),
    )


def from_stream(error: WireError, endpoint: Endpoint) -> Failure:
    """The failure that an error inside a stream is."""
    words = " ".join((error.code, error.type, error.message)).strip().lower()
    row = _row(Report(status=error.status, words=words, message=error.message))
    said = one_line(without_key(error.message, endpoint), _MESSAGE_LIMIT)
    message = f"{endpoint.record.title} broke the answer off: {said}"
    return Failure(
        kind=row.kind,
        message=message,
        hint=row.hint,
        status=error.status,
        retryable=row.retryable,
        fall_back=True,
        compress=row.kind in (FailureKind.CONTEXT_OVERFLOW, FailureKind.PAYLOAD_TOO_LARGE),
    )


def from_transport(error: TransportError, endpoint: Endpoint) -> Failure:
    """The failure that a broken exchange is."""
    return Failure(
        kind=error.kind,
        message=without_key(error.message, endpoint),
        hint=error.hint,
        fall_back=True,
        retryable=error.kind in _TRANSPORT_RETRYABLE and not error.lasting,
        retry_after=error.wait,
    )


def retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """The seconds that a provider asks to wait: `retry-after-ms`, or `Retry-After` in seconds or as a date."""
    for name, scale in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        value = headers.get(name, "").strip()
        try:
            seconds = float(value) * scale
        except ValueError:
            continue
        if 0 <= seconds < float("inf"):
            return seconds
    date = headers.get("retry-after", "")
    return _seconds_until(date, now) if date else None


def _seconds_until(date: str, now: float) -> float | None:
    """Seconds until an HTTP date; None for what is none."""
    from email.utils import parsedate_to_datetime  # 15 ms of import, needed once in a thousand failures

    try:
        return max(0.0, parsedate_to_datetime(date).timestamp() - now)
    except ValueError:
        return None


def without_key(text: str, endpoint: Endpoint) -> str:
    """The text without the key that the call was made with, should a server repeat it."""
    return text.replace(endpoint.api_key, "[key]") if _keyed(endpoint) else text


def _keyed(endpoint: Endpoint) -> bool:
    """Whether the key is one: a short one is a placeholder, and its letters stand in other words."""
    return len(endpoint.api_key) >= _SHOWN_KEY


def _row(report: Report) -> Row:
    row = next((row for row in TABLE if row.fits(report)), None)
    if row is not None:
        return row
    if report.status >= 500:
        return Row(kind=FailureKind.SERVER_ERROR, retryable=True)
    if report.status >= 400:
        return Row(kind=FailureKind.FORMAT_ERROR)
    return Row(kind=FailureKind.UNKNOWN)


def _explain(body: bytes) -> tuple[str, str]:
    """The message in an error body of any vendor, and the words to classify it by."""
    try:
        value = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        page = body[:20_000].decode("utf-8", "replace")
        value = re.sub(r"<(script|style).*?</\1>|<[^>]*>", " ", page, flags=re.DOTALL)
    if isinstance(value, list) and value:
        value = value[0]
    error = value.get("error", value) if isinstance(value, dict) else value
    if not isinstance(error, dict):
        message = one_line(str(error), _MESSAGE_LIMIT)
        return message, message.lower()
    message = one_line(_said(error), _MESSAGE_LIMIT)
    names = (error.get(key) for key in ("code", "type", "status", "reason"))
    words = " ".join(str(name) for name in names if isinstance(name, str | int))
    return message, f"{words} {message}".lower()


def _said(error: Mapping[str, object]) -> str:
    """The message of an error object; a router adds what its upstream said; else the object itself."""
    found = (error.get(key) for key in ("message", "detail", "msg", "error"))
    message = next((text for text in found if isinstance(text, str)), "")
    metadata = error.get("metadata")
    raw = metadata.get("raw") if isinstance(metadata, dict) else None
    if isinstance(raw, str) and raw not in message:
        message = f"{message}: {raw}"
    return message or msgspec.json.encode(error).decode()
