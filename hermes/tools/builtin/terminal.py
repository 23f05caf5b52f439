"""`terminal`: shell commands, in the foreground with a limit of time or in the background."""

import asyncio
import re
from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct

from hermes.core.errors import ToolError
from hermes.core.parts import ToolStatus
from hermes.execution.base import Command, Exit, Network, Running, Stopped
from hermes.tools.output import HeadTail, cut
from hermes.tools.session import Opening, ToolContext, ToolState
from hermes.tools.tool import ToolOutput, tool

MAX_TIMEOUT = 600
_BRANCH_DONE = re.compile(r"(?m)^(warning: Update|fatal: [Bb]ranch is renamed, but update) of config-file failed$")
_SETTINGS_KEPT = re.compile(r"could not (?:lock|write) config file")


class Order(Struct, frozen=True, forbid_unknown_fields=True):
    """The parameters."""

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
async def terminal(ctx: ToolContext, args: Order) -> ToolOutput:
    """Run a shell command. The folder and exported variables stay for the next one. Output is both streams, shortened
    in the middle if long. There is no input: pass answers as options. Use background for servers and long work. Read
    and change files with the file tools."""
    if not args.command.strip():
        raise ToolError("The command is empty.")
    state = ctx.state
    cwd = ctx.places.expand(args.workdir, str(state.cwd)) if args.workdir else _folder(ctx)
    opened = state.openings.pop(args.command, None)
    command = Command(
        text=args.command,
        cwd=cwd,
        environment=state.environment,
        unset=state.unset,
        interactive=args.background,
        pty=args.pty,
        hold_state=not args.background,
        network=_reach(ctx),
        door=ctx.door,
        writable=opened.paths if opened is not None and opened.cwd == cwd else (),
        settings=ctx.settings,
    )
    if not args.background:
        seconds = min(args.timeout if args.timeout > 0 else ctx.limits.command_seconds, MAX_TIMEOUT)
        return await _foreground(ctx, command, seconds, keep_folder=bool(args.workdir))
    process = await state.processes.start(
        ctx.backend, command, ctx.clock.now(), notify=args.notify_on_complete, patterns=args.watch_patterns or ()
    )
    pid = process.running.pid if process.running else 0
    return ToolOutput(
        text=f"Started {process.process_id} (pid {pid}) in {cwd}. See its output with process.",
        reached=process.heard,
    )


def _reach(ctx: ToolContext) -> Network:
    """The most that a command may reach: nothing when nobody can tell what it runs, and, while a stranger's text stands
    in the conversation, no host that was not allowed."""
    if ctx.offline:
        return Network.OFF
    return Network.ALLOWLIST if ctx.state.taint.sources() else Network.ON


async def _foreground(ctx: ToolContext, order: Command, seconds: float, *, keep_folder: bool) -> ToolOutput:
    output = HeadTail()
    started = ctx.clock.monotonic()
    running = await ctx.backend.start(order, output.feed)
    ended = await _ended(ctx.state, order, running, seconds)
    text = cut(output.text().strip("\n"))
    notes: list[str] = []
    if isinstance(ended, Stopped):
        notes.append(
            f"stopped after {seconds:g} s: it had not ended; run it in the background, or with a longer timeout"
        )
        if ended is Stopped.UNCERTAIN:
            notes.append("it may still be running there")
        return ToolOutput(text=_with_notes(text, notes), status=ToolStatus.ERROR, reached=running.heard)
    reached = _reached(running, ended, order, text)
    notes.append(f"exit code {ended.code}" if ended.code >= 0 else f"ended by signal {-ended.code}")
    took = ctx.clock.monotonic() - started
    if took >= 5:
        notes.append(f"{took:.0f} s")
    moved = _keep(ctx.state, ended, order, keep_folder=keep_folder)
    if moved:
        notes.append(f"now in {moved}")
    if ended.left_running:
        ctx.state.processes.adopt(order, running, ended, ctx.clock.now())
        notes.append("it left processes running, whose output is lost; use background for those")
    if ctx.backend.name == "sandbox" and _SETTINGS_KEPT.search(text):
        from hermes.tools.permissions.git_config import BRANCH_DONE, WHAT_TO_DO

        notes.append(BRANCH_DONE if _BRANCH_DONE.search(text) else WHAT_TO_DO)
    if ended.code != 0:
        notes += await _opened(ctx, text, order)
    return ToolOutput(text=_with_notes(text, notes), failed=ended.code != 0, code=ended.code, reached=reached)


def _reached(running: Running, ended: Exit, order: Command, text: str) -> frozenset[str] | None:
    """The hosts that something came from; None where nobody saw that."""
    if running.heard is not None or not ended.code:
        return running.heard
    from hermes.tools.exit_hints import reached_nobody

    return frozenset() if reached_nobody(order.text, ended.code, text) else None


async def _opened(ctx: ToolContext, output: str, order: Command) -> list[str]:
    """Ask the person about a write that the sandbox refused. The command is not run again: part of it was done."""
    path = ctx.backend.denied_path(output, order.cwd)
    if not path and (closed := ctx.backend.never_opened(output, order.cwd)):
        return [closed]
    if not path or ctx.door is None:
        return []
    permit = await ctx.door.write(path)
    if not permit.allowed:
        return [f"the sandbox keeps {path} from being written ({permit.why}); do not try again"]
    if permit.once:
        paths = dict.fromkeys((*order.writable, path))
        ctx.state.openings[order.text] = Opening(order.cwd, tuple(paths))
        return [f"the sandbox kept {path} from being written; it is open for one more run of this very command"]
    ctx.backend.grant(path)
    return [f"the sandbox kept {path} from being written; it is allowed now: run what is left again"]


async def _ended(state: ToolState, order: Command, running: Running, seconds: float) -> Exit | Stopped:
    """How it ended, or that it was stopped: when it is not over in time its whole tree is ended, when cancelled too."""
    try:
        async with asyncio.timeout(seconds):
            return await running.wait()
    except TimeoutError:
        return await running.stop()
    except asyncio.CancelledError:
        if await running.stop() is Stopped.UNCERTAIN:
            state.processes.tell(f"{order.text[:80]!r} was stopped, and may still be running there.")
        raise


def _keep(state: ToolState, ended: Exit, order: Command, *, keep_folder: bool) -> str:
    """Carry the shell's folder and variables over to the next command; the new folder if it is another."""
    if ended.state is None:
        return ""
    state.environment = ended.state.environment
    state.unset = ended.state.unset
    if keep_folder or ended.state.cwd == order.cwd:
        return ""
    state.cwd = Path(ended.state.cwd)
    return ended.state.cwd


def _folder(ctx: ToolContext) -> str:
    """The current folder; the workspace again when it is gone."""
    if ctx.backend.gone(str(ctx.state.cwd)):
        ctx.state.cwd = Path(ctx.places.workspace)
    return str(ctx.state.cwd)


def _with_notes(text: str, notes: list[str]) -> str:
    return f"{text}\n[{'; '.join(notes)}]".lstrip("\n")
