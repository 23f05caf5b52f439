"""The interpreter whose state can be stored: code stops at each call of a tool, and may go on in another process.

It is pydantic-monty (the extra `code`), a Python of its own without files, processes and packages. It runs in a worker
of its own for each run of code.
"""

import asyncio
import contextlib
import hashlib
import importlib.metadata
import os
import signal
from collections.abc import Awaitable, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from hermes.config.settings import Settings
from hermes.core.encoding import to_json
from hermes.execution.code import monty_prelude
from hermes.execution.code.steps import (
    MAX_ARGUMENTS,
    CallAnswer,
    CallsWanted,
    CodeEnded,
    CodeStep,
    InvalidCallsError,
    PrintedText,
    UnsupportedCodeError,
    build_calls,
    find_needs,
    show_last_value,
)
from hermes.execution.code.worker_wall import WorkerWall, choose_wall, find_worker_program, make_launcher
from hermes.i18n.messages import N_

if TYPE_CHECKING:
    import pydantic_monty

NAME = "monty"
PACKAGE = "pydantic-monty"
EXTRA = "code"
MAX_MEMORY = 64_000_000
"""The bytes of the code's own values."""
_MAX_RECURSION = 500
_SPARE_SUSPENSIONS = 200
"""How often code may look for names that do not exist, beside its calls."""
_CHECKOUT_SECONDS = 20.0
_MAX_TRACE_LINES = 12
_UNPARSED = "NotImplementedError: The monty syntax parser does not yet support "
_OUT_OF_TIME = "TimeoutError: feed time limit exceeded"
_CALLS = msgspec.json.Decoder(list[tuple[str, dict[str, msgspec.Raw]]])


class MontyLimits(Struct, frozen=True, kw_only=True):
    """The limits of one run: the seconds that the code itself may take, and its calls."""

    seconds: float
    calls: int


def find_version() -> str:
    """Return the exact version of the installed interpreter; empty without it. Nothing of it is imported."""
    try:
        return importlib.metadata.version(PACKAGE)
    except importlib.metadata.PackageNotFoundError:
        return ""


def explain_missing(environ: Mapping[str, str], settings: Settings) -> str:
    """Return why no code can be run with the engine that the settings name; empty where it can."""
    del environ
    if settings.code_execution.engine != NAME or find_version():
        return ""
    return N_("`code_execution.engine` names {engine}, and {package} is not installed", engine=NAME, package=PACKAGE)


class MontyRun:
    """One run of code in a worker of its own. `close` ends the worker; nothing outlives it.

    `wall` is the best one that there is, unless it is given.
    """

    def __init__(
        self,
        code: str,
        limits: MontyLimits,
        printed: PrintedText,
        environ: Mapping[str, str],
        *,
        wall: WorkerWall | None = None,
    ) -> None:
        self._code = code
        self.printed = printed
        self.wall = wall
        self.worker_pid = 0
        self._limits = limits
        self._environ = environ
        self._stack = AsyncExitStack()
        self._session: pydantic_monty.AsyncMontySession | None = None
        self._waiting: pydantic_monty.AsyncFunctionSnapshot | None = None
        self._has_called = False

    async def start(self, tools: Sequence[str], seed: str) -> CodeStep:
        """Run the code until it calls a tool or ends. Raises `UnsupportedCodeError` for what this interpreter cannot
        do, and has made no call then.

        `seed` is what its random numbers begin with.
        """
        needs = find_needs(self._code)
        if needs.files:
            raise UnsupportedCodeError(f"it uses {needs.files}")
        await self._open_worker(seed)
        session = self._require_session()
        functions = monty_prelude.list_functions(self._code, list(tools))
        await self._advance(session.feed_start(monty_prelude.build_prelude(functions)))
        for module in needs.modules:
            await self._advance(session.feed_start(f"import {module}"))
        shown = show_last_value(self._code, monty_prelude.SHOW_FUNCTION)
        return await self._advance(session.feed_start(shown, print_callback=self._take_print))

    async def load(self, dump: bytes) -> CodeStep:
        """Go on from a stored state: return the very calls that it waited for. Raises `UnsupportedCodeError` where it
        cannot be read.
        """
        import pydantic_monty as monty

        await self._open_worker("")
        self._has_called = True
        try:
            snapshot = await self._require_session().load_snapshot(dump, print_callback=self._take_print)
        except (monty.MontyError, RuntimeError, ValueError) as error:
            raise UnsupportedCodeError(f"its stored state cannot be read ({error})") from None
        if not isinstance(snapshot, monty.AsyncFunctionSnapshot):
            raise UnsupportedCodeError("its stored state waits for no call")
        step = self._read_calls(snapshot)
        if not isinstance(step, CallsWanted):
            raise UnsupportedCodeError("its stored state waits for no call")
        self._waiting = snapshot
        return step

    async def answer(self, answers: Sequence[CallAnswer]) -> CodeStep:
        """Give the code the results of the calls that it waits for, and run it until its next ones or its end."""
        waiting, self._waiting = self._waiting, None
        assert waiting is not None
        told = to_json([(one.kind.value, one.text) for one in answers]).decode()
        return await self._advance(waiting.resume({"return_value": told}))

    async def close(self) -> None:
        """End the worker."""
        self._waiting = self._session = None
        await self._stack.aclose()

    async def _open_worker(self, seed: str) -> None:
        try:
            import pydantic_monty as monty
        except ImportError as error:
            raise UnsupportedCodeError(f"the interpreter is not usable here ({error})") from None
        program, path = find_worker_program(), self._environ.get("PATH", os.defpath)
        if program is None:
            raise UnsupportedCodeError("the interpreter's program is missing")
        if self.wall is None:
            self.wall = await asyncio.to_thread(choose_wall, program, path)
        try:
            with make_launcher(program, path, self.wall) as launcher:
                pool = monty.AsyncMonty(
                    binary_path=launcher, min_processes=1, max_processes=1, checkout_timeout=_CHECKOUT_SECONDS
                )
                await self._stack.enter_async_context(pool)
                checkout = pool.checkout(limits=self._build_limits(), os_policy=_build_policy(seed))
                self._session = await self._stack.enter_async_context(checkout)
        except (OSError, monty.MontyError) as error:
            raise UnsupportedCodeError(f"the interpreter did not start ({error})") from None
        self.worker_pid = self._session.worker_pid or 0

    def _build_limits(self) -> "pydantic_monty.ResourceLimits":
        seconds = self._limits.seconds
        return {
            "max_feed_duration_secs": seconds,
            "max_total_sleep_secs": seconds,
            "max_memory": MAX_MEMORY,
            "max_recursion_depth": _MAX_RECURSION,
            "max_suspensions": self._limits.calls + _SPARE_SUSPENSIONS,
        }

    def _require_session(self) -> "pydantic_monty.AsyncMontySession":
        assert self._session is not None
        return self._session

    def _take_print(self, _stream: str, text: str) -> None:
        self.printed.add(text)
        if self.printed.is_flooded and self.worker_pid:
            with contextlib.suppress(OSError):
                os.kill(self.worker_pid, signal.SIGKILL)

    async def _advance(self, coming: "Awaitable[pydantic_monty.AsyncSnapshot]") -> CodeStep:
        """Answer what the interpreter itself asks, until the code calls a tool or ends."""
        import pydantic_monty as monty

        try:
            while not isinstance(snapshot := await coming, monty.MontyComplete):
                if isinstance(snapshot, monty.AsyncNameLookupSnapshot):
                    coming = snapshot.resume()
                elif not isinstance(snapshot, monty.AsyncFunctionSnapshot):
                    return CodeEnded("The code waits for something that never comes.")
                elif snapshot.is_os_function:
                    coming = self._answer_system(snapshot)
                elif isinstance(step := self._read_calls(snapshot), CallsWanted):
                    self._waiting, self._has_called = snapshot, True
                    return step
                else:
                    coming = snapshot.resume(step)
            return CodeEnded()
        except monty.MontyCrashedError:
            why = "it printed too much" if self.printed.is_flooded else "it took too much time or memory"
            return CodeEnded(f"The code was stopped: {why}.")
        except monty.MontyError as error:
            return CodeEnded(self._explain_error(error))

    def _answer_system(
        self, snapshot: "pydantic_monty.AsyncFunctionSnapshot"
    ) -> "Awaitable[pydantic_monty.AsyncSnapshot]":
        """Refuse what reaches the system. Raises `UnsupportedCodeError` where the code has made no call yet."""
        if snapshot.function_name == "system.sleep":
            return snapshot.resume_auto()
        if not self._has_called:
            raise UnsupportedCodeError(_name_need(snapshot))
        return snapshot.resume_not_handled()

    def _read_calls(
        self, snapshot: "pydantic_monty.AsyncFunctionSnapshot"
    ) -> "CallsWanted | pydantic_monty.ExternalExceptionData":
        """Return the calls that the code makes; an error for it, where they are none."""
        given = snapshot.args
        if snapshot.function_name != monty_prelude.CALL_FUNCTION or len(given) != 1 or not isinstance(given[0], str):
            return {"exc_type": "NameError", "message": f"name {str(snapshot.function_name)[:80]!r} is not defined"}
        if len(given[0]) > MAX_ARGUMENTS:
            return {"exc_type": "ValueError", "message": f"The arguments have over {MAX_ARGUMENTS} characters."}
        try:
            asked = _CALLS.decode(given[0])
            calls = build_calls(asked)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            return {"exc_type": "TypeError", "message": "A call is a name and a dict of arguments."}
        except InvalidCallsError as error:
            return {"exc_type": "ValueError", "message": str(error)}
        return CallsWanted(calls, snapshot.dump())

    def _explain_error(self, error: "pydantic_monty.MontyError") -> str:
        """Return an error of the code with the lines that led to it.

        Raises `UnsupportedCodeError` where the code could not be parsed.
        """
        import pydantic_monty as monty

        if not isinstance(error, monty.MontyRuntimeError | monty.MontySyntaxError):
            return str(error)
        said = error.display("type-msg")
        if said.startswith(_OUT_OF_TIME):
            return f"The code was stopped: it took more than {self._limits.seconds:g} s (`code_execution.timeout`)."
        if not self._has_called and said.startswith(_UNPARSED):
            raise UnsupportedCodeError(f"it has {said.removeprefix(_UNPARSED)}")
        kind, _, text = said.partition(": ")
        written = self._code.split("\n")
        numbers = [one.line for one in error.traceback() if one.filename != "<python-input-0>"]
        lines = [f"line {number}: {written[number - 1].strip()}" for number in numbers if number <= len(written)]
        lines = list(dict.fromkeys(lines))
        name = monty_prelude.ERROR_NAMES.get(kind, kind)
        return "\n".join((*lines[-_MAX_TRACE_LINES:], f"{name}: {text}" if text else name))


def _name_need(snapshot: "pydantic_monty.AsyncFunctionSnapshot") -> str:
    what = str(snapshot.function_name)
    return f"it imports {str(snapshot.args[0])[:80]}" if what == "import" and snapshot.args else f"it uses {what}"


def _build_policy(seed: str) -> "pydantic_monty.OSPolicy":
    digest = hashlib.sha256(seed.encode("utf-8", "surrogatepass")).hexdigest()
    return {"sleep": "system", "sleep_system_max": 10.0, "random_start": {"seed": digest}}
