"""`terminal`: runs shell commands, in the foreground with a time limit or in the background.

Tells from a failed command's own output whether it reached no host at all.
"""

import asyncio
import os
import re
from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct

from hermes.core.errors import ToolError
from hermes.core.messages import ToolStatus
from hermes.execution.base import CommandExit, NetworkMode, RunningCommand, ShellCommand, StopOutcome
from hermes.i18n.messages import N_
from hermes.tools.output import HeadTailBuffer, truncate_text
from hermes.tools.session import OneTimeWrites, ToolContext, ToolState
from hermes.tools.tool import ToolOutput, tool

_SHELL = re.compile(r"[|&;<>$`(){}\[\]*?\\\n]")


_PLAIN_OPTION = re.compile(r"-[sSfgk46#]+|--silent|--show-error|--fail|-m|--max-time|--connect-timeout|\d+")


_CURL_CODES = (5, 6, 7)
"""curl's exit codes where there was no connection (its manual, EXIT CODES)."""


_NO_HOST = r"Could not resolve host|Failed to connect to|Couldn't connect to server|Name or service not known"


_NO_CONNECTION_OUTPUT = {
    "wget": (
        r"(failed|unable to resolve host address)\b",
        (
            r"(--[\d: -]+--  \S+|Resolving \S+ \(\S+\)\.\.\. .*|Connecting to \S+\.\.\. failed: Connection refused\."
            r"|Connecting to \S+ \(\S+\)\|[\d.:a-f]+\|:\d+\.\.\. failed: Connection refused\."
            r"|Retrying\.|\s*|wget: unable to resolve host address [‘'][^‘’']*[’'])"
        ),
    ),
    "git": (
        rf"^fatal: unable to access '[^']+': ({_NO_HOST})|^ssh: (Could not resolve hostname|connect to host)",
        (
            rf"(Cloning into '[^']*'\.\.\.|fatal: unable to access '[^']+': ({_NO_HOST})[^<>]*|\s*"
            r"|ssh: (Could not resolve hostname|connect to host) .*|fatal: Could not read from remote repository\."
            r"|Please make sure you have the correct access rights|and the repository exists\.)"
        ),
    ),
    "pip": (
        r"NewConnectionError|NameResolutionError",
        (
            r"(WARNING: Retrying \(Retry\(total=\d.*(NewConnectionError|NameResolutionError)\(.*"
            r"|ERROR: Could not find a version that satisfies the requirement \S+ \(from versions: none\)"
            r"|ERROR: No matching distribution found for \S+|Defaulting to user installation .*|\s*)"
        ),
    ),
}
"""For each program its output when no host was reached, and all that it may print besides."""


_EXIT_CODES = {"wget": (4,), "git": (1, 128), "pip": (1,)}


_MAX_CHARACTERS = 20_000


def _has_one_host(words: list[str]) -> bool:
    hosts = [word for word in words[1:] if not _PLAIN_OPTION.fullmatch(word)]
    return len(hosts) == 1 and not hosts[0].startswith("-")


def has_reached_nobody(command: str, code: int, output: str) -> bool:
    """Return whether one plain command is known to have had no connection at all. `output` is all of its output.

    Output that says more than that it could not connect may hold untrusted content: an error page does, too.
    """
    words = command.split()
    if not words or len(output) > _MAX_CHARACTERS:
        return False
    name = words[0].removesuffix("3")
    if _SHELL.search(command):
        return False
    if name == "curl":
        return code in _CURL_CODES and _has_one_host(words)
    if code not in _EXIT_CODES.get(name, ()):
        return False
    says, besides = _NO_CONNECTION_OUTPUT[name]
    lines = output.splitlines()
    return re.search(says, output, re.MULTILINE) is not None and all(re.fullmatch(besides, one) for one in lines)


MAX_TIMEOUT = 600
_BRANCH_DONE = re.compile(r"(?m)^(warning: Update|fatal: [Bb]ranch is renamed, but update) of config-file failed$")
_SETTINGS_KEPT = re.compile(r"could not (?:lock|write) config file")


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
    """Run a shell command. The folder and exported variables stay for the next one. Output is both streams, shortened
    in the middle if long. There is no input: pass answers as options. Use background for servers and long work. Read
    and change files with the file tools."""
    if not args.command.strip():
        raise ToolError("The command is empty.")
    state = ctx.state
    cwd = ctx.places.expand_path(args.workdir, str(state.cwd)) if args.workdir else _get_folder(ctx)
    opened = state.one_time_writes.pop(args.command, None)
    is_same = opened is not None and opened.cwd == cwd and opened.code == _fingerprint_code(ctx)
    command = ShellCommand(
        text=args.command,
        cwd=cwd,
        environment=state.environment,
        unset=state.unset,
        interactive=args.background,
        pty=args.pty,
        report_state=not args.background,
        network=_choose_network(ctx),
        permissions=ctx.permissions,
        writable_paths=opened.paths if opened is not None and is_same else (),
        git_settings=ctx.git_settings,
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
    )


def _fingerprint_code(ctx: ToolContext) -> str:
    """Return a hash of the files that the call's command runs, as they are now."""
    from hermes.tools.permissions.fingerprint import fingerprint_files, list_code_files

    found: list[str] = []
    for path in ctx.run_files:
        listed = list_code_files(path) if os.path.isdir(path) else [path]
        if listed is None:
            return os.urandom(8).hex()  # too many to tell: nothing is as it was
        found += listed
    return fingerprint_files(found)


def _choose_network(ctx: ToolContext) -> NetworkMode:
    """Return the most that a command may reach.

    Nothing when nobody can tell what it runs, and, while untrusted content is in the conversation, no host
    that was not allowed.
    """
    if ctx.offline:
        return NetworkMode.OFF
    return NetworkMode.ALLOWLIST if ctx.state.taint.list_sources() else NetworkMode.ON


async def _run_foreground(ctx: ToolContext, command: ShellCommand, seconds: float, *, keep_folder: bool) -> ToolOutput:
    output = HeadTailBuffer()
    started = ctx.clock.monotonic()
    running = await ctx.backend.start(command, output.feed)
    ended = await _wait_or_stop(ctx.state, command, running, seconds)
    text = truncate_text(output.to_text().strip("\n"))
    notes: list[str] = []
    if isinstance(ended, StopOutcome):
        notes.append(
            f"stopped after {seconds:g} s: it had not ended; run it in the background, or with a longer timeout"
        )
        if ended is StopOutcome.UNCERTAIN:
            notes.append("it may still be running there")
        return ToolOutput(
            text=_append_notes(text, notes), status=ToolStatus.ERROR, contacted_hosts=running.contacted_hosts
        )
    reached = _find_contacted_hosts(running, ended, command, text)
    notes.append(f"exit code {ended.code}" if ended.code >= 0 else f"ended by signal {-ended.code}")
    took = ctx.clock.monotonic() - started
    if took >= 5:
        notes.append(f"{took:.0f} s")
    moved = _carry_state(ctx.state, ended, command, keep_folder=keep_folder)
    if moved:
        notes.append(f"now in {moved}")
    if ended.left_running:
        ctx.state.processes.adopt(command, running, ended, ctx.clock.now())
        notes.append("it left processes running, whose output is lost; use background for those")
    if ctx.backend.current_layout() is not None and _SETTINGS_KEPT.search(text):
        from hermes.tools.permissions.git_config import BRANCH_DONE, WHAT_TO_DO

        notes.append(BRANCH_DONE if _BRANCH_DONE.search(text) else WHAT_TO_DO)
    if ended.code != 0:
        notes += await _request_write(ctx, text, command)
    dropped = ctx.backend.explain_dropped_variables(f"{command.text}\n{text if ended.code else ''}")
    notes += filter(None, [dropped])
    return ToolOutput(text=_append_notes(text, notes), failed=ended.code != 0, code=ended.code, contacted_hosts=reached)


def _find_contacted_hosts(
    running: RunningCommand, ended: CommandExit, command: ShellCommand, text: str
) -> frozenset[str] | None:
    """Return the hosts that something came from, or None where nobody saw that."""
    if running.contacted_hosts is not None or not ended.code:
        return running.contacted_hosts

    return frozenset() if has_reached_nobody(command.text, ended.code, text) else None


async def _request_write(ctx: ToolContext, output: str, command: ShellCommand) -> list[str]:
    """Ask the person about a write that the sandbox refused. The command is not run again: part of it was
    done.
    """
    path = ctx.backend.find_denied_path(output, command.cwd)
    if not path and (closed := ctx.backend.explain_closed_path(output, command.cwd)):
        return [closed]
    if not path or ctx.permissions is None:
        return []
    permit = await ctx.permissions.write(path)
    if not permit.allowed:
        return [f"the sandbox keeps {path} from being written ({permit.reason}); do not try again"]
    if permit.once:
        paths = dict.fromkeys((*command.writable_paths, path))
        ctx.state.one_time_writes[command.text] = OneTimeWrites(command.cwd, tuple(paths), _fingerprint_code(ctx))
        return [f"the sandbox kept {path} from being written; it is open for one more run of this very command"]
    ctx.backend.grant_write(path)
    return [f"the sandbox kept {path} from being written; it is allowed now: run what is left again"]


async def _wait_or_stop(
    state: ToolState, command: ShellCommand, running: RunningCommand, seconds: float
) -> CommandExit | StopOutcome:
    """Wait for the end of a command, or stop it; return which.

    When it is not over in time its whole process tree is ended, and when cancelled too.
    """
    try:
        async with asyncio.timeout(seconds):
            return await running.wait()
    except TimeoutError:
        return await running.stop()
    except asyncio.CancelledError:
        if await running.stop() is StopOutcome.UNCERTAIN:
            state.processes.add_notice(
                N_("{text} was stopped, and may still be running there.", text=repr(command.text[:80]))
            )
        raise


def _carry_state(state: ToolState, ended: CommandExit, command: ShellCommand, *, keep_folder: bool) -> str:
    """Carry the shell's folder and variables over to the next command; return the new folder if it is another."""
    if ended.state is None:
        return ""
    state.environment = ended.state.environment
    state.unset = ended.state.unset
    if keep_folder or ended.state.cwd == command.cwd:
        return ""
    state.cwd = Path(ended.state.cwd)
    return ended.state.cwd


def _get_folder(ctx: ToolContext) -> str:
    """Return the current folder; the workspace again when it is gone."""
    if ctx.backend.is_missing_folder(str(ctx.state.cwd)):
        ctx.state.cwd = Path(ctx.places.workspace)
    return str(ctx.state.cwd)


def _append_notes(text: str, notes: list[str]) -> str:
    return f"{text}\n[{'; '.join(notes)}]".lstrip("\n")
