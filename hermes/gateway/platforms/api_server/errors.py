"""Errors of the API: OpenAI's error object, with the right status."""

from collections.abc import Iterable, Mapping

from hermes.core.errors import (
    BusyError,
    ConfigError,
    HermesError,
    NotFoundError,
    StoreError,
    UsageError,
)
from hermes.core.events import TurnEnded
from hermes.core.outcomes import ExitReason

_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    409: "conflict_error",
    422: "unprocessable_error",
    429: "rate_limit_error",
}


class ApiRequestError(HermesError):
    """An error response: its status, what is wrong, and the field that it is about."""

    def __init__(
        self, status: int, message: str, *, code: str = "", param: str = "", headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.param = param
        self.headers = dict(headers or {})

    @property
    def body(self) -> dict[str, object]:
        """The error object."""
        return {
            "error": {
                "message": str(self),
                "type": _TYPES.get(self.status, "server_error" if self.status >= 500 else "invalid_request_error"),
                "param": self.param or None,
                "code": self.code or None,
            }
        }


_STATUS: tuple[tuple[type[HermesError], int], ...] = (
    (NotFoundError, 404),
    (UsageError, 400),
    (BusyError, 409),
    (StoreError, 503),
    (ConfigError, 500),
)
_TURN_ERRORS = {
    ExitReason.SPEND_LIMIT: (429, "insufficient_quota"),
    ExitReason.PROVIDER_ERROR: (502, "provider_error"),
    ExitReason.RETRIES_EXHAUSTED: (502, "provider_error"),
    ExitReason.COMPRESSION_EXHAUSTED: (400, "context_length_exceeded"),
    ExitReason.INTERRUPTED: (409, "stopped"),
    **{
        reason: (422, reason.value)
        for reason in (
            ExitReason.EMPTY_RESPONSE,
            ExitReason.THINKING_EXHAUSTED,
            ExitReason.TRUNCATED,
            ExitReason.INVALID_CALLS,
        )
    },
}
_IS_FINAL = {"x-should-retry": "false"}
"""The header by which OpenAI's clients send a request once: a turn that ended has retried, and its tools have run."""


def check_supported(unsupported: Iterable[tuple[str, bool, str]]) -> None:
    """Raise ApiRequestError for the first option (its name, whether it is asked for, and why it cannot be) that would
    otherwise be ignored silently.
    """
    for param, is_wanted, why in unsupported:
        if is_wanted:
            raise ApiRequestError(400, why, param=param, code="unsupported_parameter")


def to_api_error(error: HermesError) -> ApiRequestError:
    """Convert any of Hermes' errors to an error response."""
    if isinstance(error, ApiRequestError):
        return error
    status = next((status for kind, status in _STATUS if isinstance(error, kind)), 500)
    return ApiRequestError(status, str(error), headers={"Retry-After": "5"} if status == 503 else None)


def turn_failure(ended: TurnEnded) -> ApiRequestError | None:
    """Return why a turn has no answer; None when it has one, even a partial one."""
    if ended.reason is ExitReason.CALLER_TOOLS or ended.reason.is_completed:
        return None
    if ended.text and ended.reason is not ExitReason.SPEND_LIMIT:
        return None
    status, code = _TURN_ERRORS.get(ended.reason, (500, ended.reason.value))
    said = ended.error or f"The turn ended without an answer ({ended.reason.value})."
    return ApiRequestError(status, said, code=code, headers=_IS_FINAL)
