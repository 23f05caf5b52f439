"""The tokens of sign-ins: in `oauth.json`, which is its owner's alone (0600) and replaced at once, or in the keyring.

A refresh token is good for one use. So whoever refreshes holds the lock of that sign-in over reading, asking and
writing, and reads the store again once the lock is there: another process may have been first.
"""

import asyncio
import contextlib
import hashlib
import os
import stat
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from pathlib import Path

import msgspec
from msgspec import structs

from hermes.core.encoding import to_json
from hermes.core.errors import BusyError, ConfigError, StoreError
from hermes.core.secret import KeyHolder
from hermes.i18n.disk_errors import advise_on_write_error
from hermes.i18n.messages import N_
from hermes.oauth.sign_in import KEYRING, SignIn
from hermes.oauth.token_vault import TokenVault, TokenVaultError
from hermes.util.atomic_write import write_atomic
from hermes.util.core_files import forbid_core_files
from hermes.util.file_lock import hold_file_lock, open_lock_file, try_lock

SEEN_TOKENS: set[str] = set()
"""What this process has read or written of tokens, wherever they are kept: what a report of a crash must not show."""
_MAX_BYTES = 4 << 20
_WRITE_SECONDS = 10.0
"""Seconds that a writer waits for another one."""
_POLL_SECONDS = 0.02


class _Document(KeyHolder, frozen=True):
    sign_ins: Mapping[str, SignIn] = {}


class TokenStore:
    """The sign-ins of a home, by name. `on_secret` is told each token that is read or written, to be redacted.

    A sign-in is in the file, or whole in the keyring with a mark in the file. Whoever signs in decides, by
    `prefers_keyring`; a refresh leaves it where it is. A keyring that cannot take it leaves it in the file, with the
    reason: what a vendor has given must be kept somewhere.
    """

    def __init__(
        self,
        file: Path,
        locks: Path,
        on_secret: Callable[[str], None] = lambda _: None,
        *,
        prefers_keyring: bool = False,
    ) -> None:
        self._file = file
        self._locks = locks
        self._on_secret = on_secret
        self._prefers_keyring = prefers_keyring
        self._vault = TokenVault(file.parent)

    def read(self, name: str) -> SignIn | None:
        """Return a sign-in, or None. Raises ConfigError for a file or a keyring that cannot be used."""
        found = self._read_document().sign_ins.get(name)
        if found is not None and found.place == KEYRING:
            found = self._vault.read(name) or SignIn(ended_because=N_("the keyring has lost it"))
        if found is not None:
            self._announce_secrets(found)
        return found

    def announce_tokens(self) -> None:
        """Tell `on_secret` all tokens of the file; the keyring is not opened for that. Raises ConfigError."""
        for sign_in in self._read_document().sign_ins.values():
            self._announce_secrets(sign_in)

    def list_fallbacks(self) -> dict[str, str]:
        """Return why sign-ins are in the file that should be in the keyring, by name. Raises ConfigError."""
        return {name: one.here_because for name, one in self._read_document().sign_ins.items() if one.here_because}

    def list_names(self) -> list[str]:
        """Return the names of all sign-ins, sorted. Raises ConfigError."""
        return sorted(self._read_document().sign_ins)

    def write(self, name: str, sign_in: SignIn, *, is_new: bool = False) -> None:
        """Store a sign-in in the place of an earlier one, durably. Raises ConfigError, BusyError, StoreError.

        `is_new`: the person has just signed in, so it goes where they want it.
        """
        self._announce_secrets(sign_in)
        before = self._read_document().sign_ins.get(name)
        was_in_keyring = before is not None and before.place == KEYRING
        entry = structs.replace(sign_in, here_because="") if is_new else sign_in
        if self._prefers_keyring if is_new else was_in_keyring:
            entry = self._write_to_keyring(name, entry)
        if entry != before:
            with self._edit_document() as sign_ins:
                sign_ins[name] = entry
        if was_in_keyring and entry.place != KEYRING:
            with contextlib.suppress(TokenVaultError):  # the file counts from now on
                self._vault.delete(name)

    def rewrite_file(self) -> None:
        """Write the file as it is, which shows that what comes can be stored: a keyring that fails falls back to it.

        Raises ConfigError, BusyError, StoreError.
        """
        with self._edit_document():
            pass

    def delete(self, name: str) -> bool:
        """Delete a sign-in; return whether there was one. Raises ConfigError, BusyError, StoreError."""
        found = self._read_document().sign_ins.get(name)
        if found is not None and found.place == KEYRING:
            self._vault.delete(name)
        with self._edit_document() as sign_ins:
            return sign_ins.pop(name, None) is not None

    def _write_to_keyring(self, name: str, sign_in: SignIn) -> SignIn:
        """Put a sign-in into the keyring; return what the file holds of it then."""
        try:
            self._vault.write(name, sign_in)
        except TokenVaultError as error:
            return structs.replace(sign_in, here_because=error.message)
        return SignIn(place=KEYRING)

    @contextlib.asynccontextmanager
    async def hold_refresh_lock(self, name: str, seconds: float) -> AsyncIterator[None]:
        """Hold the lock of one sign-in, between processes and tasks. Raises BusyError when it is not free in time.

        A process that dies releases it. Cancelling ends the wait.
        """
        mark = hashlib.sha256(name.encode()).hexdigest()[:16]
        with contextlib.ExitStack() as stack:
            try:
                self._locks.mkdir(mode=0o700, parents=True, exist_ok=True)
                handle = stack.enter_context(open_lock_file(self._locks / f"oauth-{mark}.lock"))
            except OSError as error:
                raise self._make_lock_error(error) from None
            try:
                async with asyncio.timeout(seconds):
                    while not try_lock(handle):  # noqa: ASYNC110 - a lock of the kernel between processes
                        await asyncio.sleep(_POLL_SECONDS)
            except TimeoutError:
                raise BusyError(N_("Another process is refreshing this sign-in."), N_("Try again.")) from None
            yield

    @contextlib.contextmanager
    def _edit_document(self) -> Iterator[dict[str, SignIn]]:
        with contextlib.ExitStack() as stack:
            try:
                self._locks.mkdir(mode=0o700, parents=True, exist_ok=True)
                stack.enter_context(hold_file_lock(self._locks / "oauth.lock", _WRITE_SECONDS))
            except TimeoutError:
                raise BusyError(
                    N_("{file} is being changed by another process.", file=self._file), N_("Try again.")
                ) from None
            except OSError as error:
                raise self._make_lock_error(error) from None
            sign_ins = dict(self._read_document().sign_ins)
            yield sign_ins
            try:
                self._remove_leftovers()
                write_atomic(self._file, to_json(_Document(sign_ins)) + b"\n", mode=0o600)
            except OSError as error:
                raise StoreError(
                    N_("{file} cannot be written: {reason}.", file=self._file, reason=error.strerror),
                    advise_on_write_error(error),
                ) from None

    def _remove_leftovers(self) -> None:
        """Remove what writers have left that were killed: it holds tokens, too. Whoever holds the lock is alone."""
        for left in self._file.parent.glob(f".{self._file.name}.*"):
            left.unlink(missing_ok=True)

    def _make_lock_error(self, error: OSError) -> StoreError:
        return StoreError(
            N_("The lock of {file} cannot be made: {reason}.", file=self._file, reason=error.strerror),
            N_("Make {folder} writable.", folder=self._locks),
        )

    def _read_document(self) -> _Document:
        """Read the file; empty when there is none. Permissions of other users are removed, links are refused."""
        try:
            handle = os.open(self._file, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        except FileNotFoundError:
            return _Document()
        except OSError as error:
            raise ConfigError(
                N_("{file} cannot be read: {reason}.", file=self._file, reason=error.strerror),
                N_("Put the file itself there, and fix its permissions."),
            ) from None
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            os.close(handle)
            raise ConfigError(N_("{file} is not a file.", file=self._file), N_("Move it away."))
        with open(handle, "rb") as source:
            if status.st_mode & 0o077:
                with contextlib.suppress(OSError):  # not ours to change: it can be read all the same
                    os.fchmod(handle, 0o600)
            raw = source.read(_MAX_BYTES + 1)
        try:
            return msgspec.json.decode(raw or b"{}", type=_Document)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            raise ConfigError(
                N_("{file} holds no sign-ins that can be read.", file=self._file),
                N_("Move it away, and sign in again."),
            ) from None

    def _announce_secrets(self, sign_in: SignIn) -> None:
        secrets = [one for one in (sign_in.access_token, sign_in.refresh_token, sign_in.client_secret) if one]
        if not SEEN_TOKENS.issuperset(secrets):
            forbid_core_files()
            SEEN_TOKENS.update(secrets)
        for secret in secrets:
            self._on_secret(secret)
