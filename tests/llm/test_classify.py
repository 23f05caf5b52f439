"""Bodies that vendors really send, each with the kind it must get; what outranks what; what judging costs."""

import itertools
import json
from collections.abc import Callable

import pytest

from hermes.core.errors import TransportError
from hermes.core.outcomes import FailureKind as Kind
from hermes.core.outcomes import Scope
from hermes.core.stream import Failure
from hermes.llm.classify import (
    RequestSize,
    failure_from_page,
    failure_from_response,
    failure_from_stream,
    failure_from_transport,
)
from hermes.llm.failure_rules import ADVICE, FAILURE_RULES
from hermes.providers.resolve import ModelChoice, resolve_endpoint
from hermes.providers.wire import WireError
from tests.case_tables import each_case
from tests.cpu_cost import count_cpu_units, measure_growth

ENDPOINT = resolve_endpoint(ModelChoice("m", "custom", base_url="http://h.example"), {})

QUOTA = "You exceeded your current quota, please check your plan and billing details."
CASES = [
    (401, {"error": {"message": "Incorrect API key provided", "code": "invalid_api_key"}}, Kind.AUTH, False),
    (402, {"error": {"message": "Insufficient credits", "code": 402}}, Kind.BILLING, False),
    (402, {"error": {"message": "Quota resets at 12:00, try again later"}}, Kind.RATE_LIMIT, True),
    (403, {"error": {"message": "Key limit exceeded (total limit)", "code": 403}}, Kind.BILLING, False),
    (403, {"error": {"message": "Your request was flagged by moderation"}}, Kind.CONTENT_POLICY, False),
    (403, {"type": "error", "error": {"type": "permission_error", "message": "no"}}, Kind.AUTH, False),
    (404, {"error": {"message": "The model `x` does not exist"}}, Kind.MODEL_NOT_FOUND, False),
    (404, {"error": "model 'x' not found, try pulling it first"}, Kind.MODEL_NOT_FOUND, False),
    (413, {"type": "error", "error": {"type": "request_too_large", "message": "x"}}, Kind.PAYLOAD_TOO_LARGE, False),
    (429, {"error": {"message": QUOTA, "code": "insufficient_quota"}}, Kind.BILLING, False),
    (429, [{"error": {"code": 429, "message": QUOTA, "status": "RESOURCE_EXHAUSTED"}}], Kind.RATE_LIMIT, True),
    (429, {"error": {"message": "Rate limit reached on tokens per min (TPM)"}}, Kind.RATE_LIMIT, True),
    (400, {"error": {"code": "context_length_exceeded", "message": "too long"}}, Kind.CONTEXT_OVERFLOW, False),
    (400, {"error": {"message": "prompt is too long: 210000 tokens > 200000"}}, Kind.CONTEXT_OVERFLOW, False),
    (400, {"message": "This model's maximum context length is 8192 tokens."}, Kind.CONTEXT_OVERFLOW, False),
    (400, {"error": {"type": "exceed_context_size_error", "message": "x"}}, Kind.CONTEXT_OVERFLOW, False),
    (400, {"error": {"message": "Your credit balance is too low"}}, Kind.BILLING, False),
    (400, {"error": {"message": "API key not valid. Please pass a valid API key."}}, Kind.AUTH, False),
    (400, {"error": {"message": "x", "code": "content_filter"}}, Kind.CONTENT_POLICY, False),
    (400, {"error": {"message": "x is not a valid model ID"}}, Kind.MODEL_NOT_FOUND, False),
    (400, {"error": {"message": "messages.1.content: Field required"}}, Kind.FORMAT_ERROR, False),
    (422, {"detail": [{"loc": ["body"], "msg": "Field required"}]}, Kind.FORMAT_ERROR, False),
    (500, {"error": {"message": "oops"}}, Kind.SERVER_ERROR, True),
    (500, {"type": "error", "error": {"type": "api_error", "message": "Overloaded"}}, Kind.OVERLOADED, True),
    (503, "Service Unavailable", Kind.OVERLOADED, True),
    (529, {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}, Kind.OVERLOADED, True),
    (520, "<html><style>x{}</style><h1>Web server is returning an error</h1></html>", Kind.SERVER_ERROR, True),
    (429, {"error": {"code": "\u00b2\u00b2\u00b2", "message": "slow down"}}, Kind.RATE_LIMIT, True),
    (418, None, Kind.FORMAT_ERROR, False),
]


@each_case(("status", "body", "kind", "retryable"), CASES)
def test_the_kind_of_an_answer(status: int, body: object, kind: Kind, retryable: bool) -> None:
    raw = body.encode() if isinstance(body, str) else b"" if body is None else json.dumps(body).encode()
    failure = failure_from_response(status, {}, raw, ENDPOINT, 0.0)
    assert (failure.kind, failure.retryable, failure.status) == (kind, retryable, status)
    assert failure.message.startswith(f"The server at h.example answered {status}")
    assert "\n" not in failure.message and "<" not in failure.message and len(failure.message) < 500


@pytest.mark.parametrize(
    ("error", "kind", "retryable"),
    [
        (WireError("Overloaded", error_type="overloaded_error"), Kind.OVERLOADED, True),
        (WireError("x", code="rate_limit_exceeded"), Kind.RATE_LIMIT, True),
        (WireError("x", code="server_error"), Kind.SERVER_ERROR, True),
        (WireError("x", code="context_length_exceeded"), Kind.CONTEXT_OVERFLOW, False),
        (WireError("Provider returned error", code="429", status=429), Kind.UPSTREAM_RATE_LIMIT, True),
        (WireError("x", error_type="authentication_error"), Kind.AUTH, False),
        (WireError("x", code="bio_policy"), Kind.CONTENT_POLICY, False),
        (WireError("x", code="not_json"), Kind.BAD_RESPONSE, True),
        (WireError("odd"), Kind.UNKNOWN, False),
    ],
)
def test_the_kind_of_an_error_inside_a_stream(error: WireError, kind: Kind, retryable: bool) -> None:
    failure = failure_from_stream(error, ENDPOINT)
    assert (failure.kind, failure.retryable) == (kind, retryable)


def judged(status: int, body: object, *, tokens: int = 0, window: int | None = None) -> Failure:
    return failure_from_response(status, {}, json.dumps(body).encode(), ENDPOINT, 0.0, RequestSize(tokens, window))


@pytest.mark.parametrize(
    ("status", "code", "message", "kind"),
    [
        # The status outranks the code and the words.
        (401, "rate_limit_exceeded", "context length exceeded", Kind.AUTH),
        (404, "rate_limit_exceeded", "overloaded", Kind.MODEL_NOT_FOUND),
        (413, "rate_limit_exceeded", "try again", Kind.PAYLOAD_TOO_LARGE),
        (503, "x", "maximum context length is 8", Kind.OVERLOADED),
        # The code outranks the words.
        (400, "context_length_exceeded", "your request was flagged", Kind.CONTEXT_OVERFLOW),
        (400, "content_filter", "prompt is too long", Kind.CONTENT_POLICY),
        (429, "insufficient_quota", "Rate limit reached for gpt-4o", Kind.BILLING),
        # The words outrank the size, and only what nobody knows is judged by it.
        (400, None, "your request was flagged", Kind.CONTENT_POLICY),
        (400, None, "messages.1: Extra inputs are not permitted", Kind.FORMAT_ERROR),
        (400, "invalid_request_error", "Error", Kind.CONTEXT_OVERFLOW),
        (422, None, "Error", Kind.FORMAT_ERROR),
    ],
)
def test_what_outranks_what(status: int, code: str | None, message: str, kind: Kind) -> None:
    assert judged(status, {"error": {"message": message, "code": code}}, tokens=90, window=100).kind is kind


@pytest.mark.parametrize(
    ("tokens", "window", "kind"),
    [
        (60, 100, Kind.FORMAT_ERROR),
        (61, 100, Kind.CONTEXT_OVERFLOW),
        (120_000, None, Kind.FORMAT_ERROR),
        (120_001, None, Kind.CONTEXT_OVERFLOW),
        (120_001, 1_000_000, Kind.CONTEXT_OVERFLOW),
        (0, None, Kind.FORMAT_ERROR),
    ],
)
def test_a_refusal_without_a_reason_is_judged_by_the_size_of_the_request(
    tokens: int, window: int | None, kind: Kind
) -> None:
    failure = judged(400, {"error": {"message": "Error"}}, tokens=tokens, window=window)
    assert (failure.kind, failure.compress, failure.retryable) == (kind, kind is Kind.CONTEXT_OVERFLOW, False)
    broken = WireError("Bad request", code="invalid_request_error")
    assert failure_from_stream(broken, ENDPOINT, 0.0, RequestSize(tokens, window)).kind is kind


@pytest.mark.parametrize(("tokens", "kind"), [(60, Kind.CUT), (61, Kind.CONTEXT_OVERFLOW), (0, Kind.CUT)])
def test_a_server_that_hangs_up_on_a_large_request(tokens: int, kind: Kind) -> None:
    cut = TransportError(Kind.CUT, "The server closed the connection.")
    failure = failure_from_transport(cut, ENDPOINT, RequestSize(tokens, 100))
    assert (failure.kind, failure.retryable, failure.compress) == (kind, True, kind is Kind.CONTEXT_OVERFLOW)
    assert failure_from_transport(cut, ENDPOINT, RequestSize(10**9)).kind is Kind.CUT
    slow = TransportError(Kind.TIMEOUT, "The server sent nothing.")
    assert failure_from_transport(slow, ENDPOINT, RequestSize(tokens, 100)).kind is Kind.TIMEOUT


def test_every_kind_has_advice_and_every_provider_made_kind_can_fall_back() -> None:
    assert set(ADVICE) == set(Kind)
    assert {kind for kind, advice in ADVICE.items() if not advice.fall_back} == {Kind.SPEND_LIMIT}
    assert not any(advice.rotate and advice.scope is Scope.UPSTREAM for advice in ADVICE.values())


def test_every_row_of_the_table_can_be_reached() -> None:
    for number, row in enumerate(FAILURE_RULES):
        bare = bool(row.statuses) and not (row.code or row.says)
        hidden = [
            after
            for after in FAILURE_RULES[number + 1 :]
            if bare and set(after.statuses) and set(after.statuses) <= set(row.statuses)
        ]
        assert hidden == [], f"rows after {row} never fit"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            {"error": {"message": "Provider returned error", "metadata": {"raw": "x is slow"}}},
            "Provider returned error: x is slow",
        ),
        ({"error": {"message": '{"error":{"message":"inner","code":400}}'}}, "inner"),
        ({"message": {"detail": [{"loc": ["body", "n"], "msg": "Field required"}]}}, "body.n: Field required"),
        ({"error": "plain"}, "plain"),
        ({"odd": 1}, '{"odd":1}'),
        ("text", "text"),
        ({"type": "error", "error": {"type": "t", "message": "m"}}, "m"),
    ],
)
def test_what_the_person_is_told(body: object, message: str) -> None:
    assert judged(400, body).message == f"The server at h.example answered 400: {message}"


RUNAWAYS = [
    "<" * 65536,
    "<script" * 9000,
    "<script>" * 9000 + "</style>",
    "a" * 262_144,
    "model " * 20_000,
    "limit 1, " * 20_000,
]
RUNAWAYS += [
    "resource_exhausted" * 3000,
    "thinking signature" * 9000,
    "account " * 9000,
    "image tool role " * 9000,
    "1" * 262_144,
]
RUNAWAYS += [
    "encrypted content " * 9000,
    "try again in " + "9" * 262_144,
    "try again in " * 9000,
    "[" * 262_144,
    '{"a":' * 40_000,
]


@pytest.mark.parametrize("said", RUNAWAYS, ids=lambda said: said[:16])
def test_no_body_makes_a_pattern_run_away(said: str) -> None:
    def make_judging(size: int) -> Callable[[], object]:
        part = said[:size]
        headers = {"retry-after": part[:64], "x-ratelimit-reset": part[:64]}
        error = {"message": part, "code": part, "type": part, "metadata": {"raw": part}}
        body = (json.dumps({"error": error}) if inside else part).encode()
        return lambda: failure_from_response(status, headers, body, ENDPOINT, 0.0)

    sizes = ((1_000, 16_000), (len(said) // 16, len(said)))  # below the length that is looked at, and beyond it
    for inside, status, (small, large) in itertools.product((False, True), (400, 403, 429, 500), sizes):
        growth = measure_growth(make_judging, small, large, tries=3)
        assert growth < 3 * large / small, (inside, status)  # quadratic would be 256 for the 16 of linear work


def test_judging_a_body_of_20_kb_costs_little() -> None:
    noise = [
        {"loc": ["body", "messages", index], "msg": f"Input {index} is fine", "input": "x" * 60} for index in range(170)
    ]
    bodies = [
        json.dumps({"error": {"message": "m" * 20_000, "type": "t"}}),
        json.dumps({"detail": noise}),
        "<p>hello</p>" * 1700,
    ]
    for body in bodies:
        raw = body.encode()
        assert len(raw) > 18_000
        failure_from_response(400, {}, raw, ENDPOINT, 0.0)
        assert count_cpu_units(lambda raw=raw: failure_from_response(400, {}, raw, ENDPOINT, 0.0)) < 10  # type: ignore[misc]


def test_a_key_is_nowhere_in_a_failure() -> None:
    key = "sk-" + "7" * 24
    endpoint = resolve_endpoint(ModelChoice("m", "custom", base_url="http://h.example", api_key=key), {})
    body = {"error": {"message": f"Incorrect API key provided: {key}.", "metadata": {"raw": "x" * 385 + key}}}
    error = WireError(f"bad {key}", error={"message": f"bad {key}", "detail": key})
    failures = [
        failure_from_response(401, {}, json.dumps(body).encode(), endpoint, 0.0),
        failure_from_response(308, {"location": f"https://h.example/?key={key}"}, b"", endpoint, 0.0),
        failure_from_stream(error, endpoint),
        failure_from_transport(TransportError(Kind.CUT, f"cut at {key}"), endpoint),
        failure_from_page(f"<p>{key}</p>".encode(), "text/html", f"http://h/{key}", endpoint, 200),
    ]
    for failure in failures:
        assert key not in repr(failure) and key[:12] not in repr(failure)


def test_a_page_in_the_place_of_an_answer() -> None:
    busy = failure_from_page(b"<html><title>502 Bad Gateway</title>", "text/html; x", "http://h/v1", ENDPOINT, 200)
    assert (busy.kind, busy.retryable) == (Kind.SERVER_ERROR, True)
    login = failure_from_page(b"<html><title>Sign in</title>", "text/html", "http://h/v1", ENDPOINT, 200)
    assert (login.kind, login.retryable) == (Kind.BAD_RESPONSE, False) and "base_url" in login.hint
