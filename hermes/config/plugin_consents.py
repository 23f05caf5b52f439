"""What a person has enabled of other people's code: a file of the home that only `hermes plugins` and `hermes import`
write.

Each entry holds the digest of all files that would run. Code whose digest is another one now is off until the person
has enabled it again.
"""

import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

from hermes.core.encoding import to_json
from hermes.core.errors import ConfigError
from hermes.i18n.messages import N_
from hermes.plugins import InstalledPackage
from hermes.util.atomic_write import write_atomic
from hermes.util.file_lock import hold_file_lock

_MAX_BYTES = 1 << 20
_LOCK_SECONDS = 5.0


class PluginConsent(Struct, frozen=True, omit_defaults=True):
    """That a person has enabled something: its version and the digest of its files at that time."""

    version: str
    digest: str
    guards: tuple[str, ...] = ()
    """The events at which a folder plug-in may refuse, by their names: all is refused there once it is another one."""


class _ConsentDocument(Struct):
    enabled: dict[str, PluginConsent] = {}


class PluginConsents:
    """The consents of a home. The file is read again when it has changed."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._stamp = (0, 0, 0)
        self._enabled: Mapping[str, PluginConsent] = {}

    def get(self, key: str) -> PluginConsent | None:
        """Return the consent for a key such as `folder:notes`, or None. Raises ConfigError for a damaged file."""
        return self._read().get(key)

    def is_enabled_package(self, package: InstalledPackage) -> bool:
        """Return whether a package is enabled in this version; a damaged file enables none."""
        try:
            return self.get(package.key) == PluginConsent(package.version, package.digest)
        except ConfigError:
            return False

    def list_all(self) -> Mapping[str, PluginConsent]:
        """Return all consents by key. Raises ConfigError for a damaged file."""
        return dict(self._read())

    def enable(self, key: str, consent: PluginConsent) -> None:
        """Keep a consent. Raises ConfigError."""
        with self._hold_lock():
            self._write({**self._read(), key: consent})

    def disable(self, key: str) -> bool:
        """Take a consent back; return False where there was none. Raises ConfigError."""
        if key not in self._read():
            return False
        with self._hold_lock():
            self._write({name: one for name, one in self._read().items() if name != key})
        return True

    @contextlib.contextmanager
    def _hold_lock(self) -> Iterator[None]:
        """Let no other process write between the look and the write: what it takes back would come back."""
        self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            with hold_file_lock(self._file.with_name(f".{self._file.name}.lock"), _LOCK_SECONDS):
                yield
        except (TimeoutError, OSError) as error:
            reason = getattr(error, "strerror", None) or N_("another Hermes writes it")
            raise ConfigError(
                N_("{file} cannot be written: {reason}.", file=self._file, reason=reason), N_("Try again.")
            ) from None

    def _read(self) -> Mapping[str, PluginConsent]:
        try:
            status = os.stat(self._file)
        except (FileNotFoundError, NotADirectoryError):
            return {}
        stamp = (status.st_ino, status.st_mtime_ns, status.st_size)
        if stamp == self._stamp:
            return self._enabled
        try:
            raw = self._file.read_bytes()
            self._enabled = msgspec.json.decode(raw[:_MAX_BYTES], type=_ConsentDocument).enabled
        except (OSError, msgspec.MsgspecError) as error:
            reason = getattr(error, "strerror", None) or N_("it is damaged")
            raise ConfigError(
                N_("{file} cannot be read: {reason}.", file=self._file, reason=reason),
                N_("Remove it, and enable your plug-ins again."),
            ) from None
        self._stamp = stamp
        return self._enabled

    def _write(self, enabled: Mapping[str, PluginConsent]) -> None:
        write_atomic(self._file, to_json(_ConsentDocument(dict(sorted(enabled.items())))), mode=0o600)
        self._stamp = (0, 0, 0)
