"""`terminal`: runs shell commands, in the foreground with a time limit or in the background."""

import asyncio
import os
from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct

from hermes.core.errors import ToolError
from hermes.core.messages import ToolStatus
from hermes.execution.base import CommandExit, DeniedPath, RunningCommand, ShellCommand, StopOutcome
from hermes.execution.layout import PathAccess
from hermes.i18n.messages import N_
from hermes.safety.paths import is_or_below
from hermes.tools.failed_connections import has_reached_nobody
from hermes.tools.output import ForegroundCommand, HeadTailBuffer, truncate_text
from hermes.tools.session import OneTimePaths, ToolContext, ToolState
from hermes.tools.shell_commands import build_shell_command, fingerprint_code, get_folder, list_opened_places
from hermes.tools.tool import ToolOutput, tool
from hermes.util.cancellation import cancel_tasks

MAX_TIMEOUT = 600


class TerminalParams(Struct, frozen=True, forbid_unknown_fields=True):
    """The parameters of `terminal`."""

    command: Annotated[str, Meta(description="Shell command.")]
    background: Annotated[bool, Meta(description="Return at once with an id for process.")] = False
    timeout: Annotated[int, Meta(description="Seconds, at most 600; 0: the usual time.")] = 0
    workdir: Annotated[str, Meta(description="Folder to run in, for this command only.")] = ""
    pty: Annotated[bool, Meta(description="Run in a terminal, for programs that want one.")] = False
    notify_on_complete: Annotated[bool, Meta(description="Say when it ends (background).")] = False
    watch_patterns: Annotated[
        list[str] | None, Meta(description="Say when its output has one of these (background).")
    ] = None


@tool("terminal", summary=lambda args: str(args["command"]), command=lambda args: str(args["command"]))
async def terminal(ctx: ToolContext, args: TerminalParams) -> ToolOutput:
    """Run a shell command. The folder and exported variables stay for the next one. There is no input: pass
    answers as options. Use background for servers and long work. Read and change files with the file tools."""
    if not args.command.strip():
        raise ToolError("The command is empty.")
    state = ctx.state
    cwd = ctx.places.expand_path(args.workdir, str(state.cwd)) if args.workdir else get_folder(ctx)
    command = build_shell_command(
        ctx, args.command, cwd, interactive=args.background, pty=args.pty, report_state=not args.background
    )
    if not args.background:
        seconds = min(args.timeout if args.timeout > 0 else ctx.limits.command_seconds, MAX_TIMEOUT)
        return await _run_foreground(ctx, command, seconds, keep_folder=bool(args.workdir))
    process = await state.processes.start(
        ctx.backend, command, ctx.clock.now(), notify=args.notify_on_complete, patterns=args.watch_patterns or ()
    )
    pid = process.running.pid if process.running else 0
    return ToolOutput(
        text=f"Started {process.process_id} (pid {pid}) in {cwd}. See its output with process.",
        contacted_hosts=process.contacted_hosts,
        opened_paths=list_opened_places(ctx, command),
    )


async def _run_foreground(ctx: ToolContext, command: ShellCommand, seconds: float, *, keep_folder: bool) -> ToolOutput:
    output = HeadTailBuffer()
    started = ctx.clock.monotonic()
    foreground = ctx.state.foreground = ForegroundCommand(output.feed)
    try:
        running = await ctx.backend.start(command, foreground.take_output)
        ended = await _wait_or_stop(ctx.state, command, running, seconds, foreground)
    finally:
        ctx.state.foreground = None
    if ended is None:
        return _leave_running(ctx, command, running, foreground, output)
    text = truncate_text(output.to_text().strip("\n"))
    notes: list[str] = []
    if isinstance(ended, StopOutcome):
        notes.append(
            f"stopped after {seconds:g} s: it had not ended; run it in the background, or with a longer timeout"
        )
        if ended is StopOutcome.UNCERTAIN:
            notes.append("it may still be running there")
        return ToolOutput(
            text=_append_notes(text, notes),
            status=ToolStatus.ERROR,
            contacted_hosts=running.contacted_hosts,
            opened_paths=list_opened_places(ctx, command),
        )
    reached = _find_contacted_hosts(running, ended, command, text)
    notes.append(f"exit code {ended.code}" if ended.code >= 0 else f"ended by signal {-ended.code}")
    took = ctx.clock.monotonic() - started
    if took >= 5:
        notes.append(f"{took:.0f} s")
    moved = _carry_state(ctx, ended, command, keep_folder=keep_folder)
    notes += [moved] if moved else []
    if ended.left_running:
        ctx.state.processes.adopt(command, running, ended, ctx.clock.now())
        notes.append("it left processes running, whose output is lost; use background for those")
    if ended.code != 0:
        notes += await _request_opening(ctx, text, command)
    notes += ctx.backend.explain_denials(command.text, command.cwd, text, failed=ended.code != 0)
    return ToolOutput(
        text=_append_notes(text, notes),
        failed=ended.code != 0,
        code=ended.code,
        contacted_hosts=reached,
        opened_paths=list_opened_places(ctx, command),
    )


def _leave_running(
    ctx: ToolContext,
    command: ShellCommand,
    running: RunningCommand,
    foreground: ForegroundCommand,
    output: HeadTailBuffer,
) -> ToolOutput:
    """Return what a command has printed so far that goes on in the background, as the person wants."""
    process = ctx.state.processes.keep_running(command, running, foreground, ctx.clock.now())
    note = f"the person sent it into the background: it runs on as {process.process_id}; you are told when it ends"
    return ToolOutput(
        text=_append_notes(truncate_text(output.to_text().strip("\n")), [note]),
        contacted_hosts=running.contacted_hosts,
        opened_paths=list_opened_places(ctx, command),
    )


def _find_contacted_hosts(
    running: RunningCommand, ended: CommandExit, command: ShellCommand, text: str
) -> frozenset[str] | None:
    """Return the hosts that something came from, or None where nobody saw that."""
    if running.contacted_hosts is not None or not ended.code:
        return running.contacted_hosts

    return frozenset() if has_reached_nobody(command.text, ended.code, text) else None


async def _request_opening(ctx: ToolContext, output: str, command: ShellCommand) -> list[str]:
    """Ask the person about a path that the sandbox kept the command from. The command is not run again: part of it was
    done.
    """
    denied = ctx.backend.find_denied_path(command.text, command.cwd, output)
    if denied is None or ctx.permissions is None or _was_open(denied, command):
        return []
    kept = f"{denied.path} from {'being written' if denied.is_write else 'commands'}"
    permit = await ctx.permissions.open_path(denied)
    if not permit.allowed:
        return [f"the sandbox keeps {kept} ({permit.reason}); do not try again"]
    if permit.once:
        paths = dict.fromkeys((*command.opened_paths, denied))
        ctx.state.one_time_paths[command.text] = OneTimePaths(command.cwd, tuple(paths), fingerprint_code(ctx))
        return [f"the sandbox kept {kept}; it is open for one more run of this very command"]
    try:
        (ctx.backend.grant_write if denied.is_write else ctx.backend.grant_read)(denied.path)
    except ToolError as error:  # it is another than it was; what the command did is told all the same
        return [f"the sandbox kept {kept}: {error}"]
    return [f"the sandbox kept {kept}; it is allowed now: run what is left again"]


def _was_open(denied: DeniedPath, command: ShellCommand) -> bool:
    """Return whether a command failed on a place that was opened to it, so that no answer opens more."""
    opened = (one for one in command.opened_paths if one.is_write or not denied.is_write)
    return any(is_or_below(denied.path, one.path) for one in opened)


async def _wait_or_stop(
    state: ToolState, command: ShellCommand, running: RunningCommand, seconds: float, foreground: ForegroundCommand
) -> CommandExit | StopOutcome | None:
    """Wait for the end of a command, or stop it; return which, or None where it is to run on in the background.

    When it is not over in time its whole process tree is ended, and when cancelled too.
    """
    try:
        async with asyncio.timeout(seconds):
            return await _wait_in_foreground(running, foreground)
    except TimeoutError:
        return await running.stop()
    except asyncio.CancelledError:
        if await running.stop() is StopOutcome.UNCERTAIN:
            state.processes.add_notice(
                N_("{text} was stopped, and may still be running there.", text=repr(command.text[:80]))
            )
        raise


async def _wait_in_foreground(running: RunningCommand, foreground: ForegroundCommand) -> CommandExit | None:
    ended, left = asyncio.ensure_future(running.wait()), asyncio.ensure_future(foreground.is_left.wait())
    try:
        await asyncio.wait((ended, left), return_when=asyncio.FIRST_COMPLETED)
        return ended.result() if ended.done() else None
    finally:
        await cancel_tasks((ended, left))


def _carry_state(ctx: ToolContext, ended: CommandExit, command: ShellCommand, *, keep_folder: bool) -> str:
    """Carry the shell's folder and variables over to the next command; return in words where that is, if elsewhere."""
    if ended.state is None:
        return ""
    if not command.git_settings:
        ctx.state.environment = ended.state.environment
        ctx.state.unset = ended.state.unset
    folder = ended.state.cwd
    if keep_folder or folder == command.cwd:
        return ""
    if _is_hidden_folder(ctx, folder):
        return f"the next command is in {ctx.state.cwd} again: {folder} is hidden from it"
    ctx.state.cwd = Path(folder)
    return f"now in {folder}"


def _is_hidden_folder(ctx: ToolContext, folder: str) -> bool:
    """Return whether a command to which nothing more is opened sees neither a folder nor anything in it."""
    layout = ctx.backend.current_layout()
    if layout is None:
        return False
    real = os.path.realpath(ctx.backend.to_local_path(folder))
    is_hidden = layout.access_of(real) is PathAccess.HIDDEN
    return is_hidden and not any(is_or_below(one, real) for one in layout.access_by_path)


def _append_notes(text: str, notes: list[str]) -> str:
    return f"{text}\n[{'; '.join(notes)}]".lstrip("\n")
