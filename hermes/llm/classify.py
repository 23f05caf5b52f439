"""What went wrong with a model call: every way it can fail is a `Failure` of one kind, with what may help.

The order is the HTTP status, the provider's code, its words, then the transport and the size of the request. The tables
are in `classes.py`, the reading of bodies in `report.py`, waiting times in `limits.py`; they are imported at the first
failure only.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING

from msgspec import Struct, structs

from hermes.core.errors import TransportError
from hermes.core.outcomes import FailureKind
from hermes.core.stream import Failure
from hermes.providers.wire import Endpoint, WireError
from hermes.util.text import inert, one_line, shown_address

if TYPE_CHECKING:
    from hermes.llm.classes import Row
    from hermes.llm.report import Report

_MESSAGE_LIMIT = 400
_SHOWN_KEY = 8
_FULL = 0.6
_MANY_TOKENS = 120_000
_LIMITS = frozenset({FailureKind.RATE_LIMIT, FailureKind.UPSTREAM_RATE_LIMIT, FailureKind.BILLING})


class Size(Struct, frozen=True):
    """How large a request is, in tokens (estimated; 0: not known), and the model's window."""

    tokens: int = 0
    window: int | None = None

    @property
    def fills(self) -> bool:
        """Whether it takes more than three fifths of a known window (row ER-17)."""
        return self.window is not None and self.tokens > _FULL * self.window

    @property
    def large(self) -> bool:
        """Whether a refusal without a reason most likely means that it is too long (row ER-11)."""
        return self.fills or self.tokens > _MANY_TOKENS


UNSIZED = Size()


def from_answer(
    status: int, headers: Mapping[str, str], body: bytes, endpoint: Endpoint, now: float, size: Size = UNSIZED
) -> Failure:
    """The failure that an answer with an error status is. `now` is wall time, for waiting times that are dates."""
    if status < 400:
        where = headers.get("location", "another address")
        said = (
            f"{endpoint.record.title} answered {status}: the API has moved to {one_line(without_key(where, endpoint))}."
        )
        hint = "Set `model.base_url` to the new address."
        failure = advised(FailureKind.BAD_RESPONSE, said, status=status, hint=hint)
        return structs.replace(failure, retryable=False)
    from hermes.llm.report import read_body

    # Before it is shortened: half a key at the cut would not be recognised any more.
    report = read_body(status, body, lambda text: without_key(text, endpoint))
    said = f"{endpoint.record.title} answered {status}"
    said = f"{said}: {report.message}" if report.message else f"{said}."
    return _judged(report, headers, without_key(said, endpoint), now, size)


def from_stream(error: WireError, endpoint: Endpoint, now: float = 0.0, size: Size = UNSIZED) -> Failure:
    """The failure that an error inside a stream is, or a whole answer that is an error in spite of its status."""
    from hermes.llm.classes import implied_status
    from hermes.llm.report import read_value

    codes = f"{error.code} {error.type}".strip()
    report = read_value(
        error.status, error.error, codes=codes, message=error.message, mask=lambda text: without_key(text, endpoint)
    )
    report = structs.replace(report, status=error.status or implied_status(report))
    said = one_line(without_key(error.message, endpoint), _MESSAGE_LIMIT)
    message = f"{endpoint.record.title} broke the answer off: {said}"
    return structs.replace(_judged(report, {}, message, now, size), status=error.status)


def from_transport(error: TransportError, endpoint: Endpoint, size: Size = UNSIZED) -> Failure:
    """The failure that a broken exchange is; `size` is given where nothing of an answer had come."""
    failure = advised(error.kind, without_key(error.message, endpoint), hint=error.hint)
    if error.kind is FailureKind.CUT and size.fills:
        return _overflow(failure, retryable=True)
    return structs.replace(failure, retryable=failure.retryable and not error.lasting, retry_after=error.wait)


def from_end(endpoint: Endpoint, *, began: bool, size: Size = UNSIZED) -> Failure:
    """The failure of a stream that ended by itself and too early."""
    title = endpoint.record.title
    if began:
        return advised(FailureKind.CUT, f"{title} ended the stream before the answer was complete.", status=200)
    failure = advised(FailureKind.BAD_RESPONSE, f"{title} sent an empty stream.", status=200)
    return _overflow(failure, retryable=True) if size.fills else failure


def from_page(body: bytes, kind: str, url: str, endpoint: Endpoint, status: int) -> Failure:
    """The failure of a success that is neither a stream nor an answer: most often a page of what stands between."""
    from hermes.llm.classes import row_for
    from hermes.llm.report import read_body

    shown = one_line(without_key(body[:2000].decode("utf-8", "replace"), endpoint), 120)
    said = f"{shown_address(url)} answered with {kind.partition(';')[0]} instead of an event stream: {shown}"
    report = read_body(0, body, lambda text: without_key(text, endpoint))
    row = row_for(structs.replace(report, codes=""))
    passing = row is not None and row.kind in (FailureKind.SERVER_ERROR, FailureKind.OVERLOADED, FailureKind.TIMEOUT)
    if row is not None and passing:
        return advised(row.kind, without_key(said, endpoint), status=status)
    hint = "Check `model.base_url`: does it end where the API begins (often in /v1)?"
    failure = advised(FailureKind.BAD_RESPONSE, without_key(said, endpoint), status=status, hint=hint)
    return structs.replace(failure, retryable=False)


def advised(kind: FailureKind, message: str, *, status: int = 0, hint: str = "", row: "Row | None" = None) -> Failure:
    """A failure of this kind with its kind's advice, where the row that found it says nothing else."""
    from hermes.llm.classes import ADVICE

    advice = ADVICE[kind]
    return Failure(
        kind=kind,
        message=inert(message),
        hint=hint or (row.hint if row else "") or advice.hint,
        status=status,
        retryable=row.retryable if row and row.retryable is not None else advice.retryable,
        rotate=advice.rotate,
        fall_back=advice.fall_back,
        compress=advice.compress,
        scope=row.scope if row and row.scope else advice.scope,
    )


def without_key(text: str, endpoint: Endpoint) -> str:
    """The text without the key that the call was made with, should a server repeat it, as it is or in another form, and
    without what looks like a key."""
    return _mask(endpoint.api_key if _keyed(endpoint) else "")(text)


@lru_cache(maxsize=64)
def _mask(key: str) -> Callable[[str], str]:
    from hermes.safety.secrets.redactor import Redactor

    redact = Redactor({"key": key}).redact
    return lambda text: redact(text.replace(key, "[key]") if key else text)


def _keyed(endpoint: Endpoint) -> bool:
    """Whether the key is one: a short one is a placeholder, and its letters stand in other words."""
    return len(endpoint.api_key) >= _SHOWN_KEY


def _judged(report: "Report", headers: Mapping[str, str], message: str, now: float, size: Size) -> Failure:
    """The failure that a report is."""
    from hermes.llm.classes import row_for
    from hermes.llm.limits import wish

    row = row_for(report)
    if row is None and report.status == 400 and size.large:
        return _overflow(advised(FailureKind.FORMAT_ERROR, message, status=400))
    kind = row.kind if row else _by_status(report.status)
    failure = advised(kind, message, status=report.status, row=row)
    wait = wish(headers, report, now, limited=kind in _LIMITS) if row is None or row.waits else None
    return structs.replace(failure, retry_after=wait)


def _by_status(status: int) -> FailureKind:
    """The kind of what no row knows."""
    if status >= 500:
        return FailureKind.SERVER_ERROR
    return FailureKind.FORMAT_ERROR if status >= 400 else FailureKind.UNKNOWN


def _overflow(failure: Failure, *, retryable: bool = False) -> Failure:
    """The same failure taken for a request that is too long. A broken connection may pass, a refusal does not."""
    found = advised(FailureKind.CONTEXT_OVERFLOW, failure.message, status=failure.status)
    return structs.replace(found, retryable=retryable)
