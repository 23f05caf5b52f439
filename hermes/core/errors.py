"""The tree of errors. Each says what happened and what to do; none is shown with a traceback.

HermesError ├── UsageError          the command line or a call's arguments are wrong           exit 2 ├── ConfigError
settings, keys or the home cannot be used as they are      exit 78 ├── BusyError           somebody else owns what was
asked for                      exit 75 ├── NotFoundError       a session, model or file of that name does not exist
exit 1 ├── StoreError          the database cannot be read or written                     exit 1 │   └── StoreFullError
no room left on the device or under the process's limit ├── TurnError           a turn ended without an answer (for
callers who want text)     exit 1 ├── ToolError           a tool could not do what was asked; the model is told │   └──
BrowserError    the browser could not do what was asked │       └── BrowserGoneError    it has ended, or its connection
has └── TransportError      an HTTP exchange failed; the model client turns it into a `Failure`
"""

from hermes.core.outcomes import FailureKind
from hermes.util.localizable import join_localizable


class HermesError(Exception):
    """The base class of all errors: `message` is what happened, `hint` what the person can do about it."""

    exit_code = 1

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return join_localizable(" ", (self.message, self.hint))


class UsageError(HermesError):
    """The command line or a call's arguments are wrong."""

    exit_code = 2


class ConfigError(HermesError):
    """Settings, keys or the home cannot be used as they are."""

    exit_code = 78


class BusyError(HermesError):
    """Another process or session owns what was asked for; trying again later can work."""

    exit_code = 75


class NotFoundError(HermesError):
    """A session, model or file of that name does not exist."""


class StoreError(HermesError):
    """The database cannot be read or written."""


class StoreFullError(StoreError):
    """No room left on the device, or under the process's file size limit."""


class TurnError(HermesError):
    """A turn ended without an answer."""


class ToolError(HermesError):
    """A tool could not do what was asked. The message goes to the model as the call's result.

    `quotes` is true when the message holds text of files or folders, such as names of other files.
    """

    def __init__(self, message: str, hint: str = "", *, quotes: bool = False) -> None:
        super().__init__(message, hint)
        self.quotes = quotes


class BrowserError(ToolError):
    """A browser could not do what was asked."""


class BrowserGoneError(BrowserError):
    """A browser has ended, or the connection to it has. Another one can be started."""


class TransportError(HermesError):
    """An HTTP exchange failed before its answer was whole.

    `kind` says how, `lasting` that waiting will not help, `wait` (seconds) when trying again makes sense.
    """

    def __init__(
        self, kind: FailureKind, message: str, hint: str = "", *, lasting: bool = False, wait: float | None = None
    ) -> None:
        super().__init__(message, hint)
        self.kind = kind
        self.lasting = lasting
        self.wait = wait
