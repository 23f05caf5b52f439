"""The call by which code is run by Python itself: a command like any other, judged as a script that is run."""

import asyncio
import contextlib
import hashlib
from collections.abc import Callable, Coroutine, Sequence
from typing import Annotated, Protocol

from msgspec import Struct, structs

from hermes.core.encoding import to_json
from hermes.core.errors import ToolError
from hermes.core.messages import ToolStatus
from hermes.execution.base import CommandExit, Permit, RunningCommand, ShellCommand
from hermes.execution.code.python_engine import PythonChannel, build_command, start_code
from hermes.execution.code.steps import CallAnswer, CallsWanted, CodeEnded, CodeStep, PrintedText
from hermes.tools.schema import Arguments, parameters_from_function
from hermes.tools.session import ToolContext
from hermes.tools.shell_commands import build_shell_command, get_folder, list_opened_places
from hermes.tools.tool import Tool, ToolOutput
from hermes.util.cancellation import cancel_tasks

TOOL_NAME = "python_script"
_END_SECONDS = 2.0
"""Seconds in which the program ends after it has said so."""


class ScriptRun(Protocol):
    """The run of code whose calls are made."""

    printed: PrintedText

    def explain_limit(self, wanted: CallsWanted) -> CodeEnded | None:
        """Return the end of a run that makes more calls than it may; None where it does not."""
        ...

    async def make_calls(self, wanted: CallsWanted) -> list[CallAnswer]:
        """Make the calls that the code waits for, and return the answers."""
        ...


def format_script_command(code: str) -> str:
    """Return the command that does what the call does, as the gate judges it and a person is shown it."""
    mark = "CODE"
    while mark in code:  # the same each time: an answer is for this very command
        mark = f"CODE_{hashlib.sha256(f'{mark}{code}'.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"
    return f"python3 - <<'{mark}'\n{code}\n{mark}"


class PythonScriptTool(Struct, frozen=True):
    """The tool of one run of code."""

    tool: Tool

    @property
    def name(self) -> str:
        """Its name."""
        return self.tool.name

    def encode_code(self, code: str) -> str:
        """Return the arguments of the call that runs this code."""
        return to_json({"code": code}).decode()


def build_python_tool(run: ScriptRun, names: Sequence[str], end: Callable[[CodeStep], None]) -> PythonScriptTool:
    """Return the tool that runs the code of a run and makes its calls; `end` is told how the code ended."""

    async def python_script(ctx: ToolContext, code: Annotated[str, "The code."]) -> ToolOutput:
        """Run code by Python itself."""
        judged = build_shell_command(ctx, format_script_command(code), get_folder(ctx), interactive=True)
        return await _run_command(ctx, judged, PythonChannel(code, names, run.printed), run, end)

    return PythonScriptTool(
        Tool(
            name=TOOL_NAME,
            toolset="code_execution",
            description="Run code by Python itself.",
            parameters=parameters_from_function(python_script),
            function=python_script,
            command=_describe,
            summary=lambda args: str(args["code"]).strip().partition("\n")[0],
        )
    )


def _describe(args: Arguments) -> str:
    return format_script_command(str(args["code"]))


async def _run_command(
    ctx: ToolContext, command: ShellCommand, channel: PythonChannel, run: ScriptRun, end: Callable[[CodeStep], None]
) -> ToolOutput:
    """Run the program in the place of the command that it was judged as."""
    running = await ctx.backend.start(structs.replace(command, text=build_command()), channel.take_output)
    ending = asyncio.ensure_future(running.wait())
    try:
        step = await _drive(ctx, channel, run, running, ending)
        exited = await _finish(running, ending, seconds=_END_SECONDS if channel.has_ended else 0.0)
    finally:
        ending.cancel()
        if not ending.done() or ending.cancelled():
            await running.stop()
    end(step)
    if exited is not None and exited.left_running:
        ctx.state.processes.adopt(command, running, exited, ctx.clock.now())
    return ToolOutput(
        text="",  # the run has it; what is added to this result is what the executor has to say of its effects
        status=ToolStatus.OK,
        failed=isinstance(step, CodeEnded) and bool(step.error),
        contacted_hosts=running.contacted_hosts,
        opened_paths=list_opened_places(ctx, command),
    )


async def _drive(
    ctx: ToolContext,
    channel: PythonChannel,
    run: ScriptRun,
    running: RunningCommand,
    ending: "asyncio.Task[CommandExit]",
) -> CodeStep:
    """Make the calls that the code asks for until it ends; only the time of the code itself counts."""
    left, sending = ctx.code.timeout, start_code(channel, running)
    while True:
        started = ctx.clock.monotonic()
        try:
            async with asyncio.timeout(left):
                await _wait_until_sent(sending, ending)
                step = await channel.next_step(running, ending)
        except TimeoutError:
            return CodeEnded(
                f"The code was stopped: it took more than {ctx.code.timeout:g} s (`code_execution.timeout`)."
            )
        left -= ctx.clock.monotonic() - started
        if not isinstance(step, CallsWanted):
            return step
        if (over := run.explain_limit(step)) is not None:
            return over
        if ending.done():
            return CodeEnded("Python has ended.")
        known = ctx.state.taint.list_sources()
        answers = await run.make_calls(step)
        if ctx.state.taint.list_sources() != known and (why := await _explain_stop(ctx)):
            return CodeEnded(why)
        sending = channel.send_answers(running, answers)


async def _wait_until_sent(sending: Coroutine[None, None, None], ending: "asyncio.Task[CommandExit]") -> None:
    """Wait until the program has taken what is sent to it, has closed its input, or has ended."""
    task = asyncio.ensure_future(sending)
    try:
        await asyncio.wait((task, ending), return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            with contextlib.suppress(ToolError):  # one that takes no input has ended, or loses its own time
                task.result()
    finally:
        await cancel_tasks((task,))


async def _explain_stop(ctx: ToolContext) -> str:
    """Return why the code may not go on with what its calls have brought; empty where it may.

    What it does to files by itself was judged before that was known.
    """
    permit = await ctx.confirm_call() if ctx.confirm_call is not None else Permit(True)
    return "" if permit.allowed else f"The code was stopped before it got the result of its last call: {permit.reason}."


async def _finish(
    running: RunningCommand, ending: "asyncio.Task[CommandExit]", *, seconds: float
) -> CommandExit | None:
    """Return how the program ended; it is stopped where it does not within so many seconds."""
    done, _ = await asyncio.wait((ending,), timeout=seconds)
    if done:
        return ending.result()
    await running.stop()
    return None
