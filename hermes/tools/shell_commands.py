"""Builds the shell commands that calls run: with the shell's state, and with what the gate has allowed the call."""

import os
from pathlib import Path

from hermes.core.work_mode import WorkMode
from hermes.execution.base import DeniedPath, NetworkMode, ShellCommand
from hermes.tools.session import ToolContext

_NO_EDITORS = dict.fromkeys(("GIT_EDITOR", "GIT_SEQUENCE_EDITOR", "VISUAL", "EDITOR"), "false")
"""Variables by which git starts no editor, into which commands could be typed."""


def build_shell_command(
    ctx: ToolContext, text: str, cwd: str, *, interactive: bool, pty: bool = False, report_state: bool = False
) -> ShellCommand:
    """Return the command that a call runs, with what the gate has allowed that call."""
    state = ctx.state
    opened = state.one_time_paths.pop(text, None)
    is_same = opened is not None and opened.cwd == cwd and opened.code == fingerprint_code(ctx)
    # What may change settings of git is run by the person's own programs, whatever earlier commands exported.
    is_plain = bool(ctx.git_settings)
    return ShellCommand(
        text=text,
        cwd=cwd,
        environment=_NO_EDITORS if is_plain else state.environment,
        unset=frozenset() if is_plain else state.unset,
        interactive=interactive,
        pty=pty,
        report_state=report_state,
        network=_choose_network(ctx),
        permissions=ctx.permissions,
        opened_paths=(*ctx.opened, *(opened.paths if opened is not None and is_same else ())),
        git_settings=ctx.git_settings,
        keeps_files=state.mode is WorkMode.PLAN,
    )


def list_opened_places(ctx: ToolContext, command: ShellCommand) -> tuple[DeniedPath, ...]:
    """Return what is open to a command alone, and what a person has opened to all of the session's."""
    return (*command.opened_paths, *ctx.backend.list_opened())


def fingerprint_code(ctx: ToolContext) -> str:
    """Return a hash of what the call's command runs by: its files as they are now, and the shell's variables."""
    from hermes.tools.permissions.fingerprint import fingerprint_files, fingerprint_texts, list_run_files

    found = list_run_files(ctx.run_files)
    if found is None:
        return os.urandom(8).hex()  # too many to tell: nothing is as it was
    variables = (f"{name}={value}" for name, value in sorted(ctx.state.environment.items()))
    return fingerprint_texts(fingerprint_files(found), *variables, *sorted(ctx.state.unset))


def _choose_network(ctx: ToolContext) -> NetworkMode:
    """Return the most that a command may reach.

    Nothing when nobody can tell what it runs, and no host that was not allowed while untrusted content is in the
    conversation, or a plan is made.
    """
    if ctx.offline:
        return NetworkMode.OFF
    is_plan = ctx.state.mode is WorkMode.PLAN
    return NetworkMode.ALLOWLIST if is_plan or ctx.state.taint.list_sources() else NetworkMode.ON


def get_folder(ctx: ToolContext) -> str:
    """Return the current folder; the workspace again when it is gone."""
    if ctx.backend.is_missing_folder(str(ctx.state.cwd)):
        ctx.state.cwd = Path(ctx.places.workspace)
    return str(ctx.state.cwd)
