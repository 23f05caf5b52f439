"""`auth.json`: the keys that `hermes auth add` wrote down, or where to find them.

Ours is the member `keys`, a list of entries for each provider; everything else in the file is kept as it is. The file
belongs to its owner alone (0600), is replaced as a whole, under a lock, and is never reached through a symbolic link.
"""

import contextlib
import fcntl
import os
import stat
import time
from collections.abc import Iterator, Mapping

import msgspec
from msgspec import structs

from hermes.config.home import Home
from hermes.core.errors import BusyError, ConfigError, StoreError
from hermes.core.secret import KeyHolder
from hermes.util.atomic import write_atomic

KINDS = ("key", "env", "command", "keyring")
_LIMIT = 1 << 20
_PATIENCE = 10.0
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


def read_entries(home: Home) -> dict[str, tuple[AuthEntry, ...]]:
    """The entries of each provider, in order; none when there is no file. Raises ConfigError."""
    return {
        provider: tuple(_entry(one, home) for one in rows) for provider, rows in _rows(_document(home), home).items()
    }


def add_entry(home: Home, provider: str, entry: AuthEntry) -> None:
    """Write one entry more. Raises ConfigError, BusyError, StoreError."""
    with _changing(home) as document:
        keys = document.setdefault("keys", {})
        assert isinstance(keys, dict)
        keys.setdefault(provider, []).append(msgspec.to_builtins(entry))


def remove_entry(home: Home, provider: str, entry_id: str) -> None:
    """Take one entry out. Raises ConfigError, BusyError, StoreError."""
    with _changing(home) as document:
        keys = document.get("keys", {})
        assert isinstance(keys, dict)
        left = [row for row in keys.get(provider, []) if row.get("id") != entry_id]
        keys[provider] = left
        if not left:
            del keys[provider]


@contextlib.contextmanager
def _changing(home: Home) -> Iterator[dict[str, object]]:
    """The file's document, alone among all processes; what it is at the end is written."""
    with _lock(home):
        document = _document(home)
        _rows(document, home)
        yield document
        data = msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n"
        try:
            write_atomic(home.auth_file, data, mode=0o600)
        except OSError as error:
            raise StoreError(f"{home.auth_file} cannot be written: {error.strerror}.") from None


@contextlib.contextmanager
def _lock(home: Home) -> Iterator[None]:
    try:
        home.locks.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(home.locks / "auth.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise StoreError(
            f"The lock of {home.auth_file} cannot be made: {error.strerror}.", f"Make {home.locks} writable."
        ) from None
    deadline = time.monotonic() + _PATIENCE
    try:
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    raise BusyError(f"{home.auth_file} is being changed by another process.", "Try again.") from None
                time.sleep(0.02)
        yield
    finally:
        os.close(handle)


def _document(home: Home) -> dict[str, object]:
    """The file's content; empty when there is no file. One that others may read is closed to them."""
    file = home.auth_file
    try:
        handle = os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return {}
    except OSError as error:
        if file.is_symlink():
            raise ConfigError(
                f"{file} is a symbolic link, and keys follow none.", "Put the file itself there."
            ) from None
        raise ConfigError(f"{file} cannot be read: {error.strerror}.", "Mend its permissions.") from None
    with open(handle, "rb") as source:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise ConfigError(f"{file} is not a file.", "Move it away.")
        if status.st_mode & 0o077:
            with contextlib.suppress(OSError):  # not ours to change: it can be read all the same
                os.fchmod(handle, 0o600)
        raw = source.read(_LIMIT + 1)
    if len(raw) > _LIMIT:
        raise ConfigError(f"{file} is larger than 1 MB.", "It should hold keys only.")
    try:
        return msgspec.json.decode(raw or b"{}", type=dict[str, object])
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        raise ConfigError(f"{file} is not a JSON object.", "Mend it, or move it away.") from None


def _rows(document: Mapping[str, object], home: Home) -> dict[str, list[dict[str, object]]]:
    """Our member of the document."""
    try:
        return msgspec.convert(document.get("keys", {}), dict[str, list[dict[str, object]]])
    except msgspec.ValidationError:
        raise ConfigError(f"{home.auth_file}: `keys` must hold a list for each provider.", "Mend it.") from None


def _entry(row: dict[str, object], home: Home) -> AuthEntry:
    try:
        entry = msgspec.convert(row, AuthEntry)
    except msgspec.ValidationError as error:
        raise ConfigError(
            f"{home.auth_file}: an entry of `keys`: {error}.", "Mend it, or move the file away."
        ) from None
    return structs.replace(entry, kind=entry.kind.lower())
