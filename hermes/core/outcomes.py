"""The outcomes of turns, calls and approvals. Every turn ends with exactly one exit reason."""

from enum import StrEnum


class ExitReason(StrEnum):
    """The reason why a turn ended."""

    TEXT_RESPONSE = "text_response"
    INTERRUPTED = "interrupted_by_user"
    BUDGET_EXHAUSTED = "budget_exhausted"
    GUARDRAIL_HALT = "guardrail_halt"
    PARTIAL_STREAM = "partial_stream_recovery"
    PRIOR_CONTENT = "fallback_prior_turn_content"
    """The answer was in the message before, whose calls only did housekeeping."""
    EMPTY_RESPONSE = "empty_response_exhausted"
    COMPRESSION_EXHAUSTED = "compression_exhausted"
    THINKING_EXHAUSTED = "thinking_budget_exhausted"
    TRUNCATED = "truncation_exhausted"
    INVALID_CALLS = "invalid_tool_calls_exhausted"
    PROVIDER_ERROR = "provider_error"
    RETRIES_EXHAUSTED = "all_retries_exhausted_no_response"
    SPEND_LIMIT = "spend_limit_reached"
    HOOK_STOPPED = "stopped_by_hook"
    """A hook of the person's refused the message, or wanted the turn to end."""
    CALLER_TOOLS = "awaiting_caller_tools"
    """The program that asks runs the calls that are left; the next message brings their results."""
    LOCAL_ERROR = "local_processing_error"

    @property
    def is_completed(self) -> bool:
        """Return whether the person got the answer that the model meant to give."""
        return self in (ExitReason.TEXT_RESPONSE, ExitReason.PRIOR_CONTENT)


class FailureKind(StrEnum):
    """The kind of a failure between Hermes and a model."""

    AUTH = "auth"
    """The key is not accepted here; another one may be."""
    AUTH_PERMANENT = "auth_permanent"
    """The key is revoked, or its account is closed."""
    BILLING = "billing"
    RATE_LIMIT = "rate_limit"
    UPSTREAM_RATE_LIMIT = "upstream_rate_limit"
    """A router's own supplier is at its limit; the key is not to blame."""
    OVERLOADED = "overloaded"
    SERVER_ERROR = "server_error"
    TIMEOUT = "timeout"
    UNREACHABLE = "unreachable"
    TLS = "ssl_cert_verification"
    CUT = "stream_cut"
    CONTEXT_OVERFLOW = "context_overflow"
    LONG_CONTEXT_TIER = "long_context_tier"
    """The request is in a price tier for long prompts that this account has no use of."""
    PAYLOAD_TOO_LARGE = "payload_too_large"
    IMAGE_TOO_LARGE = "image_too_large"
    IMAGES_UNSUPPORTED = "images_unsupported"
    """The model takes no pictures."""
    CONTENT_POLICY = "content_policy_blocked"
    PROVIDER_POLICY = "provider_policy_blocked"
    """The account's own privacy or routing settings leave no provider that may serve the request."""
    MODEL_NOT_FOUND = "model_not_found"
    THINKING_SIGNATURE = "thinking_signature"
    ENCRYPTED_CONTENT = "invalid_encrypted_content"
    TOOL_CONTENT = "multimodal_tool_content_unsupported"
    STREAMING = "streaming_unsupported"
    """The server does not give answers as streams."""
    GRAMMAR = "llama_cpp_grammar_pattern"
    """A tool's schema holds a pattern that the server cannot turn into a grammar."""
    ROLE_ORDER = "role_order"
    """The server's chat template or validator does not take messages in this order of roles."""
    REASONING_MISSING = "reasoning_missing"
    """The server demands the reasoning of earlier answers."""
    SYSTEM_ROLE = "system_role_unsupported"
    TOOL_ROLE = "tool_role_unsupported"
    PARALLEL_CALLS = "parallel_calls_unsupported"
    """The server takes one call an answer only."""
    CALLS_WITH_TEXT = "calls_with_text_unsupported"
    """The server takes no answer that has both text and calls."""
    FORMAT_ERROR = "format_error"
    """The request is wrong in a way that has no finer name."""
    BAD_RESPONSE = "bad_response"
    """The response is not a valid response of this API."""
    SPEND_LIMIT = "spend_limit"
    """A cap of the person's own leaves no room for the call; nothing was sent."""
    UNKNOWN = "unknown"


class Scope(StrEnum):
    """The scope that a failure is charged to: everything in it fails in the same way until the failure is over."""

    REQUEST = "request"
    KEY = "key"
    MODEL = "model"
    """This model with this key; other models may still answer."""
    ORGANISATION = "organisation"
    """Every key of the account."""
    UPSTREAM = "upstream"
    """The provider, or a router's supplier, whatever the key."""


class AnswerScope(StrEnum):
    """The scope of a person's answer to an approval question. Every yes covers the one call."""

    DENY = "deny"
    ONCE = "once"
    SESSION = "session"
    """It also covers what the question shows for it, until the session is closed."""
    ALWAYS = "always"
    """It also covers what the question shows for it from now on, by an entry in the person's settings."""
