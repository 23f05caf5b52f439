"""Sign-ins in the desktop's keyring, through the optional package `keyring`.

A keyring may ask the person, or hang. So each call has a thread of its own, which is left behind when its time is up.
"""

import contextlib
import queue
import threading
from collections.abc import Callable
from pathlib import Path

import msgspec

from hermes.core.encoding import to_json
from hermes.core.errors import ConfigError
from hermes.i18n.messages import N_
from hermes.oauth.sign_in import SignIn
from hermes.util.text import to_one_line

SERVICE = "hermes sign-in"
"""What the entries of the keyring are called. Their user is the home's folder and the name of the sign-in."""
_SECONDS = 30.0
"""Seconds that one call of the keyring may take: a person may be asked to unlock it."""
_MIN_PRIORITY = 1.0
"""The least priority of a back end that the package recommends; lower ones keep passwords in the open, or nowhere."""


class TokenVaultError(ConfigError):
    """The keyring cannot be used now."""


class TokenVault:
    """The sign-ins of one home in the keyring. Every call may block for `seconds`; none is for the event loop."""

    def __init__(self, home: Path, *, seconds: float = _SECONDS) -> None:
        self._home = home
        self._seconds = seconds

    def read(self, name: str) -> SignIn | None:
        """Return a sign-in, or None. Raises TokenVaultError."""
        text = self._call(lambda: _read_entry(self._name_entry(name)))
        if not text:
            return None
        with contextlib.suppress(msgspec.MsgspecError, UnicodeError, RecursionError):
            return msgspec.json.decode(text, type=SignIn)
        return None

    def write(self, name: str, sign_in: SignIn) -> None:
        """Store a sign-in, and read it back: some back ends keep nothing. Raises TokenVaultError."""
        text = to_json(sign_in).decode()
        if self._call(lambda: _write_entry(self._name_entry(name), text)) != text:
            raise TokenVaultError(N_("The keyring does not keep what it is given."))

    def delete(self, name: str) -> None:
        """Delete a sign-in, if it is there. Raises TokenVaultError."""
        self._call(lambda: _delete_entry(self._name_entry(name)))

    def _name_entry(self, name: str) -> str:
        return f"{self._home} {name}"

    def _call(self, work: Callable[[], str | None]) -> str | None:
        answers: queue.SimpleQueue[tuple[str | None, Exception | None]] = queue.SimpleQueue()

        def run() -> None:
            try:
                answers.put((work(), None))
            except Exception as error:  # noqa: BLE001 - handed to the one who waits
                answers.put((None, error))

        threading.Thread(target=run, daemon=True, name="keyring").start()
        try:
            found, problem = answers.get(timeout=self._seconds)
        except queue.Empty:
            raise TokenVaultError(
                N_("The keyring did not answer within {seconds} s.", seconds=format(self._seconds, "g")),
                N_("Is it locked?"),
            ) from None
        if problem is not None:
            raise _name_problem(problem) from None
        return found


def _name_problem(error: Exception) -> TokenVaultError:
    """Return the error for whatever a back end, or its bus, has raised."""
    if isinstance(error, TokenVaultError):
        return error
    if isinstance(error, ImportError):
        hint = N_("Install it: pip install 'hermes-anew[keyring]'.")
        return TokenVaultError(N_("The keyring needs the package `keyring`."), hint)
    reason = to_one_line(str(error) or type(error).__name__)
    return TokenVaultError(N_("The keyring cannot be used: {reason}.", reason=reason.rstrip(".")), N_("Unlock it."))


def _read_entry(user: str) -> str | None:
    import keyring

    found: str | None = keyring.get_password(SERVICE, user)
    return found


def _write_entry(user: str, text: str) -> str | None:
    import keyring

    backend = keyring.get_keyring()
    if backend.priority < _MIN_PRIORITY:
        name = f"{type(backend).__module__}.{type(backend).__name__}"
        raise TokenVaultError(N_("There is no keyring here that keeps secrets ({name}).", name=name))
    keyring.set_password(SERVICE, user, text)
    return _read_entry(user)


def _delete_entry(user: str) -> None:
    import keyring

    if keyring.get_password(SERVICE, user) is not None:
        keyring.delete_password(SERVICE, user)
