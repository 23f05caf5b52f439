"""How things end. Every turn ends in exactly one of these; nothing ends without a name."""

from enum import StrEnum


class ExitReason(StrEnum):
    """Why a turn ended (rows FZ-03 and B-28 of the feature list name most of them)."""

    TEXT_RESPONSE = "text_response"
    INTERRUPTED = "interrupted_by_user"
    BUDGET_EXHAUSTED = "budget_exhausted"
    GUARDRAIL_HALT = "guardrail_halt"
    PARTIAL_STREAM = "partial_stream_recovery"
    EMPTY_RESPONSE = "empty_response_exhausted"
    COMPRESSION_EXHAUSTED = "compression_exhausted"
    THINKING_EXHAUSTED = "thinking_budget_exhausted"
    TRUNCATED = "truncation_exhausted"
    INVALID_CALLS = "invalid_tool_calls_exhausted"
    PROVIDER_ERROR = "provider_error"
    RETRIES_EXHAUSTED = "all_retries_exhausted_no_response"
    LOCAL_ERROR = "local_processing_error"

    @property
    def completed(self) -> bool:
        """Whether the person got the answer that the model meant to give."""
        return self is ExitReason.TEXT_RESPONSE


class FailureKind(StrEnum):
    """What went wrong between Hermes and a model."""

    AUTH = "auth"
    BILLING = "billing"
    RATE_LIMIT = "rate_limit"
    OVERLOADED = "overloaded"
    SERVER_ERROR = "server_error"
    TIMEOUT = "timeout"
    UNREACHABLE = "unreachable"
    TLS = "ssl_cert_verification"
    CUT = "stream_cut"
    CONTEXT_OVERFLOW = "context_overflow"
    PAYLOAD_TOO_LARGE = "payload_too_large"
    CONTENT_POLICY = "content_policy_blocked"
    MODEL_NOT_FOUND = "model_not_found"
    BAD_REQUEST = "bad_request"
    BAD_RESPONSE = "bad_response"
    UNKNOWN = "unknown"
