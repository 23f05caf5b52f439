"""The folders that the person trusts: a file of the home that only `hermes trust` writes."""

import os
from collections.abc import Sequence
from pathlib import Path

import msgspec

from hermes.core.encoding import to_json
from hermes.core.errors import ConfigError
from hermes.i18n.messages import N_
from hermes.util.atomic_write import write_atomic

_MAX_BYTES = 1 << 20
_SYSTEM_BELOW = ("/bin", "/boot", "/dev", "/etc", "/lib", "/lib64", "/proc", "/run", "/sbin", "/sys", "/System")
_SYSTEM_ONLY = ("/usr", "/usr/bin", "/usr/lib", "/usr/share", "/var", "/var/lib", "/opt", "/Library", "/private")


class _TrustDocument(msgspec.Struct):
    folders: tuple[str, ...] = ()


def read_trusted_folders(file: Path) -> tuple[str, ...]:
    """Return the trusted folders, absolute and resolved. Raises ConfigError for a file that cannot be read; it
    trusts none.
    """
    try:
        raw = file.read_bytes()
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise ConfigError(
            N_("{file} cannot be read: {strerror}.", file=file, strerror=error.strerror),
            "Fix its permissions, or remove it.",
        ) from None
    try:
        return msgspec.json.decode(raw[:_MAX_BYTES], type=_TrustDocument).folders
    except msgspec.MsgspecError:
        raise ConfigError(N_("{file} is damaged.", file=file), "Remove it and trust your folders again.") from None


class TrustFile:
    """The trusted folders as they are now: the file is read again when it has changed. `more` are trusted beside it."""

    def __init__(self, file: Path, more: Sequence[str] = ()) -> None:
        self._file = file
        self._more = tuple(more)
        self._stamp = (0, 0, 0)
        self._folders: tuple[str, ...] = ()

    def is_trusted_folder(self, folder: str) -> bool:
        """Return whether the person trusts a folder, absolute and resolved; a damaged file trusts none."""
        if self._more and is_trusted(folder, self._more):
            return True
        try:
            status = os.stat(self._file)
        except OSError:
            return False
        stamp = (status.st_ino, status.st_mtime_ns, status.st_size)
        if stamp != self._stamp:
            try:
                self._folders = read_trusted_folders(self._file)
            except ConfigError:
                self._folders = ()
            self._stamp = stamp
        return is_trusted(folder, self._folders)


def set_trust(file: Path, folder: str, *, trusted: bool) -> bool:
    """Trust a folder and all below it, or no longer. Return False when nothing changed. Raises ConfigError."""
    real = os.path.realpath(os.path.expanduser(folder))
    if trusted and not os.path.isdir(real):
        raise ConfigError(N_("{real} is not a folder.", real=real), "Name the project's folder.")
    before = read_trusted_folders(file)
    after = tuple(one for one in before if one != real) + ((real,) if trusted else ())
    if set(after) == set(before):
        return False
    write_atomic(file, to_json(_TrustDocument(after)), mode=0o600)
    return True


def check_trust_scope(folder: str, home: str) -> tuple[str, bool]:
    """Return why trusting a folder covers more than intended, and whether a person may insist; empty when it
    does not.
    """
    real, home = os.path.realpath(os.path.expanduser(folder)), os.path.realpath(home)
    if real == "/" or real in _SYSTEM_ONLY or is_trusted(real, _SYSTEM_BELOW):
        return "it is the system's: text that anybody left there would count as yours", False
    if is_trusted(home, (real,)):
        what = "your home as a whole" if real == home else "a folder with your home in it"
        return N_("it is {what}: downloads, mail and every project in it would count as yours", what=what), True
    return "", False


def is_trusted(path: str, folders: Sequence[str]) -> bool:
    """Return whether a resolved path is one of these folders or lies below one."""
    return any(path == one or path.startswith(one.rstrip("/") + "/") for one in folders)
