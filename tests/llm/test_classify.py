"""Bodies that vendors really send, each with the kind it must get; waiting times."""

import json

import pytest

from hermes.core.outcomes import FailureKind as Kind
from hermes.llm.classify import from_answer, from_stream
from hermes.providers.resolve import ModelChoice, resolve
from hermes.providers.wire import WireError

ENDPOINT = resolve(ModelChoice("m", "custom", base_url="http://h.example"), {})

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
    (418, None, Kind.FORMAT_ERROR, False),
]


@pytest.mark.parametrize(("status", "body", "kind", "retryable"), CASES)
def test_the_kind_of_an_answer(status: int, body: object, kind: Kind, retryable: bool) -> None:
    raw = body.encode() if isinstance(body, str) else b"" if body is None else json.dumps(body).encode()
    failure = from_answer(status, {}, raw, ENDPOINT, 0.0)
    assert (failure.kind, failure.retryable, failure.status) == (kind, retryable, status)
    assert failure.message.startswith(f"The configured server answered {status}")
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
    failure = from_stream(error, ENDPOINT)
    assert (failure.kind, failure.retryable) == (kind, retryable)
