"""`auth.json`: the keys that `hermes auth add` stored, or references to them.

Hermes owns the member `keys`, a list of entries for each provider; everything else in the file is kept
as it is. The
file belongs to its owner alone (0600), is replaced atomically under a lock, and symbolic links to it
are refused.
"""

import contextlib
import os
import stat
from collections.abc import Iterator, Mapping

import msgspec
from msgspec import structs

from hermes.config.home import HermesHome
from hermes.core.encoding import to_json, to_plain
from hermes.core.errors import BusyError, ConfigError, StoreError
from hermes.core.secret import KeyHolder
from hermes.i18n.disk_errors import advise_on_write_error
from hermes.i18n.messages import N_
from hermes.util.atomic_write import write_atomic
from hermes.util.file_lock import hold_file_lock

_MAX_BYTES = 1 << 20
_LOCK_TIMEOUT = 10.0
"""Seconds that a writer waits for another one."""


class AuthEntry(KeyHolder, frozen=True, kw_only=True, omit_defaults=True):
    """One key of a provider, by kind: the `key` itself, the `name` of a variable, a `command`, a keyring's entry."""

    id: str
    kind: str
    label: str
    organisation: str = ""
    key: str = ""
    name: str = ""
    command: str = ""
    service: str = ""
    user: str = ""


def read_entries(home: HermesHome) -> dict[str, tuple[AuthEntry, ...]]:
    """Return the entries of each provider, in order; none when there is no file. Raises ConfigError."""
    return {
        provider: tuple(_parse_entry(one, home) for one in rows)
        for provider, rows in _parse_rows(_read_document(home), home).items()
    }


def add_entry(home: HermesHome, provider: str, entry: AuthEntry) -> None:
    """Add one entry. Raises ConfigError, BusyError, StoreError."""
    with _edit_document(home) as document:
        keys = document.setdefault("keys", {})
        assert isinstance(keys, dict)
        keys.setdefault(provider, []).append(to_plain(entry))


def remove_entry(home: HermesHome, provider: str, entry_id: str) -> None:
    """Remove one entry. Raises ConfigError, BusyError, StoreError."""
    with _edit_document(home) as document:
        keys = document.get("keys", {})
        assert isinstance(keys, dict)
        left = [row for row in keys.get(provider, []) if row.get("id") != entry_id]
        keys[provider] = left
        if not left:
            del keys[provider]


@contextlib.contextmanager
def _edit_document(home: HermesHome) -> Iterator[dict[str, object]]:
    """Yield the file's document under a lock between processes, and write it at the end."""
    with _hold_lock(home):
        document = _read_document(home)
        _parse_rows(document, home)
        yield document
        data = msgspec.json.format(to_json(document), indent=2) + b"\n"
        try:
            write_atomic(home.auth_file, data, mode=0o600)
        except OSError as error:
            raise StoreError(
                N_("{auth_file} cannot be written: {strerror}.", auth_file=home.auth_file, strerror=error.strerror),
                advise_on_write_error(error),
            ) from None


@contextlib.contextmanager
def _hold_lock(home: HermesHome) -> Iterator[None]:
    """Hold the lock between processes on the file. Raises BusyError and StoreError."""
    with contextlib.ExitStack() as stack:
        try:
            home.locks.mkdir(mode=0o700, parents=True, exist_ok=True)
            stack.enter_context(hold_file_lock(home.locks / "auth.lock", _LOCK_TIMEOUT))
        except TimeoutError:
            raise BusyError(
                N_("{auth_file} is being changed by another process.", auth_file=home.auth_file), "Try again."
            ) from None
        except OSError as error:
            raise StoreError(
                N_(
                    "The lock of {auth_file} cannot be made: {strerror}.",
                    auth_file=home.auth_file,
                    strerror=error.strerror,
                ),
                N_("Make {locks} writable.", locks=home.locks),
            ) from None
        yield


def _read_document(home: HermesHome) -> dict[str, object]:
    """Read the file's document; empty when there is no file. Permissions of other users are removed."""
    file = home.auth_file
    try:
        handle = os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return {}
    except OSError as error:
        if file.is_symlink():
            raise ConfigError(
                N_("{file} is a symbolic link, and keys follow none.", file=file), "Put the file itself there."
            ) from None
        raise ConfigError(
            N_("{file} cannot be read: {strerror}.", file=file, strerror=error.strerror), "Fix its permissions."
        ) from None
    with open(handle, "rb") as source:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise ConfigError(N_("{file} is not a file.", file=file), "Move it away.")
        if status.st_mode & 0o077:
            with contextlib.suppress(OSError):  # not ours to change: it can be read all the same
                os.fchmod(handle, 0o600)
        raw = source.read(_MAX_BYTES + 1)
    if len(raw) > _MAX_BYTES:
        raise ConfigError(N_("{file} is larger than 1 MB.", file=file), "It should hold keys only.")
    try:
        return msgspec.json.decode(raw or b"{}", type=dict[str, object])
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        raise ConfigError(N_("{file} is not a JSON object.", file=file), "Fix it, or move it away.") from None


def _parse_rows(document: Mapping[str, object], home: HermesHome) -> dict[str, list[dict[str, object]]]:
    """Return the `keys` member of the document. Raises ConfigError."""
    try:
        return msgspec.convert(document.get("keys", {}), dict[str, list[dict[str, object]]])
    except msgspec.ValidationError:
        raise ConfigError(
            N_("{auth_file}: `keys` must hold a list for each provider.", auth_file=home.auth_file), "Fix it."
        ) from None


def _parse_entry(row: dict[str, object], home: HermesHome) -> AuthEntry:
    """Parse one row as an entry. Raises ConfigError."""
    try:
        entry = msgspec.convert(row, AuthEntry)
    except msgspec.ValidationError as error:
        raise ConfigError(
            N_("{auth_file}: an entry of `keys`: {error}.", auth_file=home.auth_file, error=error),
            "Fix it, or move the file away.",
        ) from None
    return structs.replace(entry, kind=entry.kind.lower())
