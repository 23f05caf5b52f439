"""Where a key comes from: a value at hand, a variable, a program, the desktop's keyring."""

import asyncio
import contextlib
import functools
import os
import shlex
import signal
import threading
from collections.abc import Callable, Mapping
from typing import Protocol

from hermes.core.errors import ConfigError
from hermes.util.text import inert, one_line

PATIENCE = 30.0
"""Seconds that a program or a keyring may take."""
_MOST = 64 * 1024
"""Bytes of a program's output that are read."""
_DRAIN = 0.2
"""Seconds to wait for the end of a program's output once it has ended itself."""


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
            transport, answer = await asyncio.get_running_loop().subprocess_exec(
                _Answer,
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
                await answer.exited.wait()
            with contextlib.suppress(TimeoutError):  # what it left running may hold the pipes open
                async with asyncio.timeout(_DRAIN):
                    await answer.closed.wait()
        except TimeoutError:
            raise ConfigError(
                f"The key's program `{name}` did not end within {self._patience:g} s.", "Does it wait for an answer?"
            ) from None
        finally:
            _end(transport.get_pid())
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(1.0):
                    await answer.exited.wait()
            transport.close()
        return _checked(name, transport.get_returncode(), bytes(answer.said[1]), bytes(answer.said[2]))


class _Answer(asyncio.SubprocessProtocol):
    """What a program says, cut at the limit; past it all of its session is killed. Its end is told apart from theirs
    who hold its pipes, which `asyncio.subprocess` does not do."""

    def __init__(self) -> None:
        self.said = {1: bytearray(), 2: bytearray()}
        self.exited = asyncio.Event()
        self.closed = asyncio.Event()
        self._open = set(self.said)
        self._pid = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """It has begun."""
        assert isinstance(transport, asyncio.SubprocessTransport)
        self._pid = transport.get_pid()

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        """It has said something."""
        said = self.said[fd]
        said += data[: _MOST - len(said)]
        if len(said) >= _MOST and not self.exited.is_set():
            _end(self._pid)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        """One of its streams is closed by all who had it."""
        self._open.discard(fd)
        if not self._open:
            self.closed.set()

    def process_exited(self) -> None:
        """It has ended."""
        self.exited.set()


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
                found = await _in_a_thread_of_its_own(lambda: _from_keyring(self._service, self._user))
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


async def _in_a_thread_of_its_own(read: Callable[[], str | None]) -> str | None:
    """What a call gives that may never end: it holds up neither the pool of threads nor the end of the process."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[str | None] = loop.create_future()

    def run() -> None:
        try:
            settle = functools.partial(answer.set_result, read())
        except Exception as error:  # noqa: BLE001 - handed to the one who waits
            settle = functools.partial(answer.set_exception, error)
        with contextlib.suppress(RuntimeError):  # the loop has ended, and nobody waits
            loop.call_soon_threadsafe(lambda: answer.done() or settle())

    threading.Thread(target=run, daemon=True, name="keyring").start()
    return await answer


def _end(pid: int) -> None:
    """Kill all of a program's session: what it left running too, which may have read a key."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


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
