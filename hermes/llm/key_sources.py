"""Where a key comes from: a value at hand, a variable, a program, the desktop's keyring."""

import asyncio
import contextlib
import os
import shlex
import signal
from collections.abc import Callable, Mapping
from typing import Protocol

from hermes.core.errors import ConfigError
from hermes.util.text import inert, one_line

PATIENCE = 30.0
"""Seconds that a program or a keyring may take."""
_MOST = 64 * 1024
"""Bytes of a program's output that are read."""


class KeySource(Protocol):
    """One place that a key comes from. Its `repr` shows no key."""

    renewable: bool
    """Whether another reading may give another key."""

    @property
    def shown(self) -> str:
        """What it is, in a word or two."""
        ...

    async def read(self) -> str:
        """The key as it is there now. Raises `ConfigError` that says why there is none, never what was read."""
        ...


class Given:
    """A key at hand."""

    renewable = False

    def __init__(self, key: str, shown: str) -> None:
        self._key = key
        self.shown = shown

    async def read(self) -> str:
        """The key."""
        return self._key


class Variable:
    """A variable of the environment or the home's `.env`; `current` reads both anew."""

    renewable = True

    def __init__(self, name: str, current: Callable[[], Mapping[str, str]], *, find: str = "") -> None:
        self.shown = f"variable {find or name}"
        self._name = name
        self._current = current

    async def read(self) -> str:
        """The variable's value."""
        found = (await asyncio.to_thread(self._current)).get(self._name, "").strip()
        if not found:
            raise ConfigError(f"The variable {self._name} is not set.", f"Set {self._name}.")
        return found


class Command:
    """A program that prints the key: `op read op://vault/item/field`, `pass show name`. It is run without a shell."""

    renewable = True

    def __init__(self, command: str, environ: Mapping[str, str], *, patience: float = PATIENCE) -> None:
        self._words = command_words(command)
        self._environ = environ
        self._patience = patience
        self.shown = f"command {os.path.basename(self._words[0])}"

    async def read(self) -> str:
        """What the program printed. It runs in a session of its own, so that all of it can be ended."""
        name = self.shown.removeprefix("command ")
        try:
            process = await asyncio.create_subprocess_exec(
                *self._words,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env=dict(self._environ),
                start_new_session=True,
            )
        except OSError as error:
            raise ConfigError(
                f"The key's program `{name}` cannot be started: {error.strerror}.", "Install it, or give its path."
            ) from None
        try:
            async with asyncio.timeout(self._patience):
                out, complaint = await _output(process)
        except TimeoutError:
            raise ConfigError(
                f"The key's program `{name}` did not end within {self._patience:g} s.", "Does it wait for an answer?"
            ) from None
        finally:
            if process.returncode is None:
                _end(process)
                with contextlib.suppress(TimeoutError):  # what left the session may hold the pipes open
                    async with asyncio.timeout(1.0):
                        await _output(process)
        return _checked(name, process.returncode, out, complaint)


class Keyring:
    """An entry of the desktop's keyring, through the optional package `keyring`."""

    renewable = True
    shown = "keyring"

    def __init__(self, service: str, user: str, *, patience: float = PATIENCE) -> None:
        self._service = service
        self._user = user
        self._patience = patience

    async def read(self) -> str:
        """The entry's password."""
        where = f"{self._service}/{self._user}"
        try:
            async with asyncio.timeout(self._patience):
                found = await asyncio.to_thread(_from_keyring, self._service, self._user)
        except TimeoutError:
            raise ConfigError(f"The keyring did not answer within {self._patience:g} s.", "Is it locked?") from None
        if not found:
            raise ConfigError(f"The keyring has no entry {where}.", f"Make one: keyring set {where.replace('/', ' ')}")
        return found.strip()


def command_words(command: str) -> list[str]:
    """The words of a command line, without a shell. Raises ConfigError for none, or an open quote."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise ConfigError(f"The command for a key cannot be read: {error}.", "Mend its quotes.") from None
    if not words:
        raise ConfigError("The command for a key is empty.", "Give a program, such as `op read op://vault/item/key`.")
    return words


async def _output(process: asyncio.subprocess.Process) -> tuple[bytes, bytes]:
    """Standard output and error, once both are closed; a program that prints without end is ended."""
    assert process.stdout is not None
    assert process.stderr is not None
    out, complaint = await asyncio.gather(_some(process.stdout, process), _some(process.stderr, process))
    await process.wait()
    return out, complaint


async def _some(stream: asyncio.StreamReader, process: asyncio.subprocess.Process) -> bytes:
    """What comes until the stream closes, cut at the limit; past it the program is killed, and the rest thrown away."""
    read = bytearray()
    while chunk := await stream.read(_MOST):
        if len(read) <= _MOST:
            read += chunk
        elif process.returncode is None:
            _end(process)
    return bytes(read[:_MOST])


def _end(process: asyncio.subprocess.Process) -> None:
    """Kill all of the program's session."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _checked(name: str, code: int | None, out: bytes, complaint: bytes) -> str:
    """The key that a program printed, or what it said on standard error; its output is shown to nobody."""
    said = one_line(inert(complaint.decode("utf-8", "replace")), 200)
    if code:
        raise ConfigError(
            f"The key's program `{name}` failed ({code}){f': {said}' if said else '.'}", "Run it by hand to see why."
        )
    key = out.decode("utf-8", "replace").strip()
    if not key:
        raise ConfigError(f"The key's program `{name}` printed nothing{f': {said}' if said else '.'}")
    return key


def _from_keyring(service: str, user: str) -> str | None:
    """The entry, or None. Raises ConfigError when there is no keyring."""
    try:
        import keyring
        from keyring.errors import KeyringError
    except ImportError:
        raise ConfigError(
            "Reading the keyring needs the package `keyring`.", "Install it: pip install 'hermes-anew[keyring]'."
        ) from None
    try:
        found: str | None = keyring.get_password(service, user)
    except KeyringError as error:
        raise ConfigError(f"The keyring cannot be read: {one_line(str(error))}.", "Unlock it.") from None
    return found
