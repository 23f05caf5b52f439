"""Classifies failed model calls: every way a call can fail is a `Failure` of one kind, with what may help.

The order is the HTTP status, the provider's code, its words, then the transport and the size of the request. The rules
are in `failure_rules.py`, the reading of bodies and of waiting times in `error_report.py`; they are
imported at the first failure only.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING

from msgspec import Struct, structs

from hermes.core.errors import TransportError
from hermes.core.outcomes import FailureKind
from hermes.core.stream import Failure
from hermes.i18n.messages import N_
from hermes.providers.wire import Endpoint, WireError
from hermes.util.localizable import join_localizable
from hermes.util.text import end_sentence, redact_url, strip_control_characters, to_one_line

if TYPE_CHECKING:
    from hermes.llm.error_report import ErrorReport
    from hermes.llm.failure_rules import FailureRule

_MESSAGE_LIMIT = 400
_SHOWN_KEY = 8
_NEARLY_FULL = 0.6
_MANY_TOKENS = 120_000
_NOT_FOREIGN = frozenset({401, 402, 407, 408, 413, 429})
"""Statuses below 500 that say what is wrong, whoever words it."""
_LIMIT_KINDS = frozenset({FailureKind.RATE_LIMIT, FailureKind.UPSTREAM_RATE_LIMIT, FailureKind.BILLING})


class RequestSize(Struct, frozen=True):
    """The size of a request in tokens (estimated; 0 when unknown), and the model's window."""

    tokens: int = 0
    window: int | None = None

    @property
    def fills_window(self) -> bool:
        """Return whether it takes more than three fifths of a known window."""
        return self.window is not None and self.tokens > _NEARLY_FULL * self.window

    @property
    def is_large(self) -> bool:
        """Return whether a refusal without a reason most likely means that it is too long."""
        return self.fills_window or self.tokens > _MANY_TOKENS


UNKNOWN_SIZE = RequestSize()


def failure_from_response(
    status: int,
    headers: Mapping[str, str],
    body: bytes,
    endpoint: Endpoint,
    now: float,
    size: RequestSize = UNKNOWN_SIZE,
) -> Failure:
    """Classify a response with an error status. `now` is wall time, for waiting times that are dates."""
    if status < 400:
        where = headers.get("location", "another address")
        said = N_(
            "{title} answered {status}: the API has moved to {redact_key}.",
            title=endpoint.record.title,
            status=status,
            redact_key=to_one_line(redact_key(where, endpoint)),
        )
        hint = "Set `model.base_url` to the new address."
        failure = build_failure(FailureKind.BAD_RESPONSE, said, status=status, hint=hint)
        return structs.replace(failure, retryable=False)
    from hermes.llm.error_report import read_error_body

    # Before it is shortened: half a key at the cut would not be recognised any more.
    report = read_error_body(status, body, lambda text: redact_key(text, endpoint))
    said = N_("{title} answered {status}", title=endpoint.record.title, status=status)
    said = join_localizable(": ", (said, report.message)) if report.message else end_sentence(said)
    return _classify_report(report, headers, redact_key(said, endpoint), now, size)


def failure_from_stream(
    error: WireError, endpoint: Endpoint, now: float = 0.0, size: RequestSize = UNKNOWN_SIZE
) -> Failure:
    """Classify an error inside a stream, or a whole answer that is an error in spite of its status."""
    from hermes.llm.error_report import read_error_value
    from hermes.llm.failure_rules import infer_status

    codes = f"{error.code} {error.type}".strip()
    report = read_error_value(
        error.status, error.error, codes=codes, message=error.message, mask=lambda text: redact_key(text, endpoint)
    )
    report = structs.replace(report, status=error.status or infer_status(report))
    said = to_one_line(redact_key(error.message, endpoint), _MESSAGE_LIMIT)
    message = f"{endpoint.record.title} broke the answer off: {said}"
    return structs.replace(_classify_report(report, {}, message, now, size), status=error.status)


def is_foreign_page(status: int, headers: Mapping[str, str], body: bytes) -> bool:
    """Return whether a refusal of a server that has answered before was most likely sent by something in between: a
    redirect, or a page where an API answers in JSON.
    """
    if status < 400:
        return True
    if status >= 500 or status in _NOT_FOREIGN:
        return False
    page = "text/html" in headers.get("content-type", "").lower()
    return page or body[:200].lstrip().lower().startswith((b"<!doctype", b"<html"))


def failure_from_foreign_page(status: int, endpoint: Endpoint) -> Failure:
    """Return the failure of a call that was answered by something between us and the server."""
    said = N_(
        "Something between here and {title} answered {status} with a page of its own.",
        title=endpoint.record.title,
        status=status,
    )
    hint = "Does the network want a login, or a proxy?"
    return build_failure(FailureKind.BAD_RESPONSE, said, status=status, hint=hint)


def failure_from_transport(
    error: TransportError, endpoint: Endpoint, size: RequestSize = UNKNOWN_SIZE, *, known_server: bool = False
) -> Failure:
    """Classify a broken exchange; `size` is given where nothing of an answer had come.

    The host of a `known_server` was found before, so that it cannot be found now passes.
    """
    failure = build_failure(error.kind, redact_key(error.message, endpoint), hint=error.hint)
    if error.kind is FailureKind.CUT and size.fills_window:
        return _as_overflow(failure, retryable=True)
    lasting = error.lasting and not (known_server and error.kind is FailureKind.UNREACHABLE)
    return structs.replace(failure, retryable=failure.retryable and not lasting, retry_after=error.wait)


def failure_from_early_end(endpoint: Endpoint, *, began: bool, size: RequestSize = UNKNOWN_SIZE) -> Failure:
    """Classify a stream that ended by itself and too early."""
    title = endpoint.record.title
    if began:
        return build_failure(
            FailureKind.CUT, N_("{title} ended the stream before the answer was complete.", title=title), status=200
        )
    failure = build_failure(FailureKind.BAD_RESPONSE, N_("{title} sent an empty stream.", title=title), status=200)
    return _as_overflow(failure, retryable=True) if size.fills_window else failure


def failure_from_page(body: bytes, kind: str, url: str, endpoint: Endpoint, status: int) -> Failure:
    """Classify a success that is neither a stream nor an answer: most often a page of a proxy in between."""
    from hermes.llm.error_report import read_error_body
    from hermes.llm.failure_rules import find_rule

    shown = to_one_line(redact_key(body[:2000].decode("utf-8", "replace"), endpoint), 120)
    said = f"{redact_url(url)} answered with {kind.partition(';')[0]} instead of an event stream: {shown}"
    report = read_error_body(0, body, lambda text: redact_key(text, endpoint))
    row = find_rule(structs.replace(report, codes=""))
    passing = row is not None and row.kind in (FailureKind.SERVER_ERROR, FailureKind.OVERLOADED, FailureKind.TIMEOUT)
    if row is not None and passing:
        return build_failure(row.kind, redact_key(said, endpoint), status=status)
    hint = "Check `model.base_url`: does it end where the API begins (often in /v1)?"
    failure = build_failure(FailureKind.BAD_RESPONSE, redact_key(said, endpoint), status=status, hint=hint)
    return structs.replace(failure, retryable=False)


def build_failure(
    kind: FailureKind, message: str, *, status: int = 0, hint: str = "", rule: "FailureRule | None" = None
) -> Failure:
    """Build a failure of this kind with its kind's advice, where the rule that matched says nothing else."""
    from hermes.llm.failure_rules import ADVICE

    advice = ADVICE[kind]
    return Failure(
        kind=kind,
        message=strip_control_characters(message),
        hint=hint or (rule.hint if rule else "") or advice.hint,
        status=status,
        retryable=rule.retryable if rule and rule.retryable is not None else advice.retryable,
        rotate=advice.rotate,
        fall_back=advice.fall_back,
        compress=advice.compress,
        scope=rule.scope if rule and rule.scope else advice.scope,
    )


def redact_key(text: str, endpoint: Endpoint) -> str:
    """Return the text without the key of the call, should a server repeat it in whatever form, and without
    what looks like a key.
    """
    held = endpoint.signer.list_secrets() if endpoint.signer is not None else ()
    return _key_redactor((endpoint.api_key, *held) if _has_real_key(endpoint) else held)(text)


@lru_cache(maxsize=64)
def _key_redactor(keys: tuple[str, ...]) -> Callable[[str], str]:
    from hermes.safety.secrets.redactor import Redactor

    redact = Redactor({f"key{number or ''}": key for number, key in enumerate(keys)}).redact

    def redact_keys(text: str) -> str:
        for key in keys:
            text = text.replace(key, "[key]")
        return redact(text)

    return redact_keys


def _has_real_key(endpoint: Endpoint) -> bool:
    """Return whether the key is a real one: a short one is a placeholder, and its letters occur in other words."""
    return len(endpoint.api_key) >= _SHOWN_KEY


def _classify_report(
    report: "ErrorReport", headers: Mapping[str, str], message: str, now: float, size: RequestSize
) -> Failure:
    """Classify a report."""
    from hermes.llm.error_report import find_retry_after
    from hermes.llm.failure_rules import find_rule

    row = find_rule(report)
    if row is None and report.status == 400 and size.is_large:
        return _as_overflow(build_failure(FailureKind.FORMAT_ERROR, message, status=400))
    kind = row.kind if row else _kind_by_status(report.status)
    failure = build_failure(kind, message, status=report.status, rule=row)
    wait = find_retry_after(headers, report, now, limited=kind in _LIMIT_KINDS) if row is None or row.waits else None
    return structs.replace(failure, retry_after=wait)


def _kind_by_status(status: int) -> FailureKind:
    """Return the kind of a report that no rule knows."""
    if status >= 500:
        return FailureKind.SERVER_ERROR
    return FailureKind.FORMAT_ERROR if status >= 400 else FailureKind.UNKNOWN


def _as_overflow(failure: Failure, *, retryable: bool = False) -> Failure:
    """Return the failure as one of a request that is too long.

    A broken connection may be retried, a refusal not.
    """
    found = build_failure(FailureKind.CONTEXT_OVERFLOW, failure.message, status=failure.status)
    return structs.replace(found, retryable=retryable)
