"""The sources of a key: a given value, a variable, a program, the desktop's keyring."""

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
from hermes.i18n.messages import N_
from hermes.util.text import strip_control_characters, to_one_line

READ_SECONDS = 30.0
"""Seconds that a program or a keyring may take."""
SIGN_IN_SOURCE = "sign-in"
"""How the source of a key is called in lists that is the token of an account."""
_MAX_OUTPUT = 64 * 1024
"""Bytes of a program's output that are read."""
_DRAIN = 0.2
"""Seconds to wait for the end of a program's output once it has ended itself."""


class KeySource(Protocol):
    """A source of a key. Its `repr` shows no key."""

    renewable: bool
    """Whether another reading may give another key."""

    @property
    def description(self) -> str:
        """Return what it is, in a word or two."""
        ...

    async def read_key(self) -> str:
        """Return the key as it is now. Raises `ConfigError` that says why there is none, never what was read."""
        ...


class LiteralKeySource:
    """A key that was given as it is."""

    renewable = False

    def __init__(self, key: str, description: str) -> None:
        self._key = key
        self.description = description

    async def read_key(self) -> str:
        """Return the key."""
        return self._key


class VariableKeySource:
    """A variable of the environment or the home's `.env`; `current` reads both afresh."""

    renewable = True

    def __init__(self, name: str, current: Callable[[], Mapping[str, str]], *, find: str = "") -> None:
        self.description = f"variable {find or name}"
        self._name = name
        self._current = current

    async def read_key(self) -> str:
        """Return the variable's value."""
        found = (await asyncio.to_thread(self._current)).get(self._name, "").strip()
        if not found:
            raise ConfigError(
                N_("The variable {name} is not set.", name=self._name), N_("Set {name}.", name=self._name)
            )
        return found


class CommandKeySource:
    """A program that prints the key: `op read op://vault/item/field`, `pass show name`. It is run without a shell."""

    renewable = True

    def __init__(self, command: str, environ: Mapping[str, str], *, patience: float = READ_SECONDS) -> None:
        self._words = split_command(command)
        self._environ = environ
        self._patience = patience
        self.description = f"command {os.path.basename(self._words[0])}"

    async def read_key(self) -> str:
        """Return what the program printed. It runs in a session of its own, so that all of it can be ended."""
        name = self.description.removeprefix("command ")
        try:
            transport, answer = await asyncio.get_running_loop().subprocess_exec(
                _ProgramOutput,
                *self._words,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env=dict(self._environ),
                start_new_session=True,
            )
        except OSError as error:
            raise ConfigError(
                N_("The key's program `{name}` cannot be started: {strerror}.", name=name, strerror=error.strerror),
                "Install it, or give its path.",
            ) from None
        try:
            async with asyncio.timeout(self._patience):
                await answer.exited.wait()
            with contextlib.suppress(TimeoutError):  # what it left running may hold the pipes open
                async with asyncio.timeout(_DRAIN):
                    await answer.closed.wait()
        except TimeoutError:
            raise ConfigError(
                N_(
                    "The key's program `{name}` did not end within {patience} s.",
                    name=name,
                    patience=format(self._patience, "g"),
                ),
                "Does it wait for an answer?",
            ) from None
        finally:
            _kill_session(transport.get_pid())
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(1.0):
                    await answer.exited.wait()
            transport.close()
        return _parse_output(name, transport.get_returncode(), bytes(answer.said[1]), bytes(answer.said[2]))


class _ProgramOutput(asyncio.SubprocessProtocol):
    """A program's output, cut at the limit; past it all of its session is killed.

    The program's end is told apart from the end of others who hold its pipes, which `asyncio.subprocess` does not do.
    """

    def __init__(self) -> None:
        self.said = {1: bytearray(), 2: bytearray()}
        self.exited = asyncio.Event()
        self.closed = asyncio.Event()
        self._open = set(self.said)
        self._pid = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Note that the program has started."""
        assert isinstance(transport, asyncio.SubprocessTransport)
        self._pid = transport.get_pid()

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        """Note output of the program."""
        said = self.said[fd]
        said += data[: _MAX_OUTPUT - len(said)]
        if len(said) >= _MAX_OUTPUT and not self.exited.is_set():
            _kill_session(self._pid)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        """Note that everyone has closed one of its streams."""
        self._open.discard(fd)
        if not self._open:
            self.closed.set()

    def process_exited(self) -> None:
        """Note that the program has ended."""
        self.exited.set()


class KeyringKeySource:
    """An entry of the desktop's keyring, through the optional package `keyring`."""

    renewable = True
    description = "keyring"

    def __init__(self, service: str, user: str, *, patience: float = READ_SECONDS) -> None:
        self._service = service
        self._user = user
        self._patience = patience

    async def read_key(self) -> str:
        """Return the entry's password."""
        where = f"{self._service}/{self._user}"
        try:
            async with asyncio.timeout(self._patience):
                found = await _run_in_own_thread(lambda: _read_keyring(self._service, self._user))
        except TimeoutError:
            raise ConfigError(
                N_("The keyring did not answer within {patience} s.", patience=format(self._patience, "g")),
                "Is it locked?",
            ) from None
        if not found:
            raise ConfigError(
                N_("The keyring has no entry {where}.", where=where),
                N_("Make one: keyring set {replace}", replace=where.replace("/", " ")),
            )
        return found.strip()


def split_command(command: str) -> list[str]:
    """Return the words of a command line, without a shell. Raises ConfigError for none, or an open quote."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise ConfigError(
            N_("The command for a key cannot be read: {error}.", error=error), "Fix its quotes."
        ) from None
    if not words:
        raise ConfigError("The command for a key is empty.", "Give a program, such as `op read op://vault/item/key`.")
    return words


async def _run_in_own_thread(read: Callable[[], str | None]) -> str | None:
    """Return the result of a call that may never end.

    It holds up neither the pool of threads nor the end of the process.
    """
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[str | None] = loop.create_future()

    def read_and_settle() -> None:
        try:
            settle = functools.partial(answer.set_result, read())
        except Exception as error:  # noqa: BLE001 - handed to the one who waits
            settle = functools.partial(answer.set_exception, error)
        with contextlib.suppress(RuntimeError):  # the loop has ended, and nobody waits
            loop.call_soon_threadsafe(lambda: answer.done() or settle())

    threading.Thread(target=read_and_settle, daemon=True, name="keyring").start()
    return await answer


def _kill_session(pid: int) -> None:
    """Kill all of a program's session: what it left running too, which may have read a key."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def _parse_output(name: str, code: int | None, out: bytes, complaint: bytes) -> str:
    """Return the key that a program printed; raise ConfigError with what it said on standard error.

    Its output is shown to nobody.
    """
    said = to_one_line(strip_control_characters(complaint.decode("utf-8", "replace")), 200)
    if code:
        raise ConfigError(
            N_(
                "The key's program `{name}` failed ({code}){said}",
                name=name,
                code=code,
                said=f": {said}" if said else ".",
            ),
            "Run it by hand to see why.",
        )
    key = out.decode("utf-8", "replace").strip()
    if not key:
        raise ConfigError(
            N_("The key's program `{name}` printed nothing{said}", name=name, said=f": {said}" if said else ".")
        )
    return key


def _read_keyring(service: str, user: str) -> str | None:
    """Return the entry, or None. Raises ConfigError when there is no keyring."""
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
        raise ConfigError(
            N_("The keyring cannot be read: {error}.", error=to_one_line(str(error))), "Unlock it."
        ) from None
    return found
