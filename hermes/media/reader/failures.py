"""What may be wrong with a file, by name: the words for people are made outside of the box."""

ENCRYPTED = "encrypted"
DAMAGED = "damaged"
TOO_LARGE = "too_large"
"""It unpacks to more than is read."""
MEMORY = "memory"
UNSUPPORTED = "unsupported"
"""Nothing here reads this kind of file."""
MISSING = "missing"
"""A package is needed that is not installed; the detail is the extra that brings it."""
RANGE = "range"
"""It has no such pages or lines."""


class UnreadableError(Exception):
    """A file cannot be read: `code` is one of the names above, `detail` says more."""

    def __init__(self, code: str, detail: str = "") -> None:
        super().__init__(code, detail)
        self.code = code
        self.detail = detail


def import_failure(error: ImportError, extra: str) -> UnreadableError:
    """Return the failure of a library that is not there, or that cannot be loaded within the limit of memory."""
    is_absent = isinstance(error, ModuleNotFoundError)
    return UnreadableError(MISSING if is_absent else DAMAGED, extra if is_absent else f"{extra}: {error}")
