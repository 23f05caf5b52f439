"""The errors of the client: what the server answers that is no success, by its status."""

from hermes.core.errors import BusyError, ConfigError, HermesError, NotFoundError


class ServerAnswerError(HermesError):
    """The server refused a request, or failed. `status` is the HTTP status, `code` the server's own word for it
    (`run_not_found`), which may be empty.
    """

    def __init__(self, message: str, hint: str = "", *, status: int = 0, code: str = "") -> None:
        super().__init__(message, hint)
        self.status = status
        self.code = code


class KeyRejectedError(ServerAnswerError, ConfigError):
    """The key is not valid there, or not for that (401, 403)."""


class ObjectNotFoundError(ServerAnswerError, NotFoundError):
    """There is no run or session of that name (404)."""


class StateConflictError(ServerAnswerError, BusyError):
    """It cannot be done as things stand: answered already, or the idempotency key was used for something else (409)."""


_KINDS: dict[int, type[ServerAnswerError]] = {
    401: KeyRejectedError,
    403: KeyRejectedError,
    404: ObjectNotFoundError,
    409: StateConflictError,
}


def build_answer_error(status: int, message: str, code: str) -> ServerAnswerError:
    """Return the error of a status."""
    return _KINDS.get(status, ServerAnswerError)(message, status=status, code=code)
