"""Runs code in a Python of the place where commands run: with its packages and files, and without a state to store."""

import asyncio
import functools
import secrets
import shlex
from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from hermes.core.encoding import to_json
from hermes.core.errors import ToolError
from hermes.execution.base import CommandExit, RunningCommand
from hermes.execution.code.monty_prelude import SHOW_FUNCTION, list_functions
from hermes.execution.code.steps import (
    MAX_ARGUMENTS,
    CallAnswer,
    CallsWanted,
    CodeEnded,
    CodeStep,
    InvalidCallsError,
    PrintedText,
    build_calls,
    show_last_value,
)
from hermes.util.cancellation import cancel_tasks

NAME = "python"
_SEPARATOR = b"\x1e"
_MAX_LINE = 4 * MAX_ARGUMENTS
_MAX_WAITING = 4
"""The messages that wait: code has one call under way at most, and its end."""


class _Message(Struct, frozen=True):
    """A message of the program's; one of the fields is set."""

    printed: str = ""
    calls: list[tuple[str, dict[str, msgspec.Raw]]] | None = None
    ended: str | None = None


_MESSAGE = msgspec.json.Decoder(_Message)


@functools.cache
def _read_bootstrap() -> str:
    return Path(__file__).with_name("python_bootstrap.py").read_text("utf-8")


def build_command(program: str = "python3") -> str:
    """Return the shell command that starts the program in which code is run."""
    return f"exec {program} -c {shlex.quote(_read_bootstrap())}"


class PythonChannel:
    """The messages of one run: feeds on the command's output, and writes answers to its input."""

    def __init__(self, code: str, tools: Sequence[str], printed: PrintedText) -> None:
        self.printed = printed
        self._code = code
        self._tools = list_functions(code, list(tools))
        self._mark = secrets.token_hex(16)
        self._prefix = _SEPARATOR + self._mark.encode()
        self._rest = b""
        self._messages: asyncio.Queue[_Message] = asyncio.Queue(maxsize=_MAX_WAITING)
        self._stopping = asyncio.Event()
        self._stopped_by = ""
        self.has_ended = False
        """Whether the code has said how it ended, so that its program ends by itself."""

    def take_output(self, data: bytes) -> None:
        """Take output of the command: messages by their mark, anything else is print like any other."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._take_line(line)
        if self.printed.is_flooded:
            self._stopped_by = "it printed too much"
            self._stopping.set()
        if len(self._rest) > _MAX_LINE:
            self._take_line(self._rest)
            self._rest = b""

    def _take_line(self, line: bytes) -> None:
        before, found, body = line.partition(self._prefix)
        if not found:
            self.printed.add(line.decode("utf-8", "replace") + "\n")
            return
        self.printed.add(before.decode("utf-8", "replace"))
        try:
            message = _MESSAGE.decode(body)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            message = _Message(ended="What the code sent cannot be read.")
        if message.printed:
            self.printed.add(message.printed)
        elif not self._messages.full():
            self._messages.put_nowait(message)
        else:
            self._stopped_by = self._stopped_by or "it makes calls before it has the results of those before"
            self._stopping.set()

    async def begin(self, running: RunningCommand) -> None:
        """Send the code. Raises ToolError where the command takes no input."""
        first = {
            "mark": self._mark,
            "code": show_last_value(self._code, SHOW_FUNCTION),
            "original": self._code,
            "tools": self._tools,
            "show": SHOW_FUNCTION,
        }
        await running.write(to_json(first) + b"\n")

    async def send_answers(self, running: RunningCommand, answers: Sequence[CallAnswer]) -> None:
        """Send the results of the calls that the code waits for."""
        await running.write(self._mark.encode() + to_json([(one.kind.value, one.text) for one in answers]) + b"\n")

    async def next_step(self, running: RunningCommand, ending: "asyncio.Task[CommandExit]") -> CodeStep:
        """Wait until the code calls a tool or ends, or the program does."""
        coming, stopping = asyncio.ensure_future(self._messages.get()), asyncio.ensure_future(self._stopping.wait())
        try:
            await asyncio.wait((coming, stopping, ending), return_when=asyncio.FIRST_COMPLETED)
            if stopping.done():
                return CodeEnded(f"The code was stopped: {self._stopped_by}.")
            if coming.done():
                return self._read_message(coming.result())
        finally:
            await cancel_tasks((coming, stopping))
        while not self._messages.empty():
            step = self._read_message(self._messages.get_nowait())
            if isinstance(step, CodeEnded):
                return step
        if self._rest:
            self._take_line(self._rest)
            self._rest = b""
        code = ending.result().code
        return CodeEnded(f"Python ended by signal {-code}." if code < 0 else f"Python ended with exit code {code}.")

    def _read_message(self, message: _Message) -> CodeStep:
        if message.ended is not None:
            self.has_ended = True
            return CodeEnded(message.ended)
        try:
            return CallsWanted(build_calls(message.calls or []))
        except InvalidCallsError as error:
            return CodeEnded(str(error))


async def start_code(channel: PythonChannel, running: RunningCommand) -> None:
    """Send the code to the program. A program that is gone already says itself why."""
    try:
        await channel.begin(running)
    except ToolError:
        return
