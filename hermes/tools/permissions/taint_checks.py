"""Checks of what a call does while untrusted content is in the conversation, and of files that the session wrote."""

import os
import stat
from collections.abc import Iterator, Sequence

from hermes.execution.git_programs import is_hook_effect, list_git_programs
from hermes.i18n.messages import N_
from hermes.safety.autorun_files import is_autorun_file
from hermes.safety.globs import covers_subject, quote_argv
from hermes.safety.paths import is_or_below
from hermes.safety.shell.findings import CommandEffect, CommandFinding, EffectKind, Verdict
from hermes.tools.permissions.call_facts import PERSISTING_KINDS, CallFacts
from hermes.tools.permissions.code_targets import can_run_file
from hermes.tools.permissions.egress import EGRESS_KINDS, host_from_target
from hermes.tools.permissions.read_only import is_read_only_line
from hermes.tools.session import ToolContext
from hermes.tools.taint import format_host

_MAX_SHOWN = 3


def check_own_effects(facts: CallFacts, context: ToolContext) -> Iterator[CommandFinding]:
    """Yield a question for each host that a tool reaches by itself, and each thing that it keeps for later."""
    for effect in facts.own_effects if facts.sources else ():
        yield from _find_egress(effect, facts, context) if effect.kind in EGRESS_KINDS else _find_kept(effect, facts)


def check_confined_effects(facts: CallFacts, _: ToolContext) -> Iterator[CommandFinding]:
    """Yield a question for each thing that a confined command keeps for later. Its connections are asked about when it
    makes them, by the host that they really name, and the kernel confines what it runs.
    """
    for effect in facts.command_effects if facts.sources else ():
        yield from _find_kept(effect, facts)


def _ask(facts: CallFacts, rule: str, reason: str, subject: str) -> CommandFinding:
    reason = N_("{reason} while {because}", reason=reason, because=facts.because)
    return CommandFinding(Verdict.ASK, rule, reason, subject)


def _find_egress(effect: CommandEffect, facts: CallFacts, context: ToolContext) -> Iterator[CommandFinding]:
    """Yield a question about a connection, unless every host of it is known."""
    strange = [target for target in effect.targets if not is_known_host(target, context, facts.known_hosts)]
    if strange or not effect.targets:
        where = ", ".join(host_from_target(one) for one in strange[:_MAX_SHOWN]) or N_("a host that cannot be told")
        yield _ask(facts, "tainted-egress", N_("it reaches {where}", where=where), f"connect {where}")


def _find_kept(effect: CommandEffect, facts: CallFacts) -> Iterator[CommandFinding]:
    """Yield a question about something that is kept: of files, only those that run later count."""
    is_lasting = effect.kind is EffectKind.PERSISTS
    targets = effect.targets if effect.kind in PERSISTING_KINDS else ()
    if kept := [one for one in targets if is_lasting or is_autorun_file(one)]:
        named = ", ".join(kept[:_MAX_SHOWN])
        reason = N_("it keeps {named}, which acts later,", named=named)
        yield _ask(facts, "tainted-persistence", reason, f"keep {named}")


def is_known_host(host: str, context: ToolContext, hosts: Sequence[str], port: int = 0) -> bool:
    """Return whether this host needs no question though untrusted content is in the conversation.

    `port` is 0 where it is not known.
    """
    bare = host.rsplit("@", 1)[-1].lower()  # a command may call it with a user and a port
    bare = bare.rsplit(":", 1)[0] if bare.count(":") == 1 else bare
    names = (bare, f"{bare}:{port}") if port else (bare,)
    return context.state.taint.is_host_named(format_host(bare, port)) or any(
        covers_subject(pattern.lower(), name) for pattern in hosts for name in names
    )


def check_tainted_command(facts: CallFacts, context: ToolContext) -> Iterator[CommandFinding]:
    """Yield a question for a command while untrusted content is in the conversation and no kernel confines it.

    Which programs reach other hosts, run other files or keep something for later cannot be listed. So only those run
    without a question that look, and start nothing out of a folder that the person does not trust.
    """
    if not facts.sources:
        return
    reason = N_("it does more than look")
    if is_read_only_line(facts.judged):
        runs = (_describe_run(effect, context) for effect in facts.judged.effects)
        reason = next(filter(None, runs), "")
    if reason:
        yield _ask(facts, "tainted-command", reason, facts.subject)


def _describe_run(effect: CommandEffect, context: ToolContext) -> str:
    """Return the reason to ask about files that run; "" where the person trusts them or there are none."""
    if effect.kind is EffectKind.UNKNOWN:
        return N_("it runs untrusted files")
    files = list(effect.targets) if effect.kind is EffectKind.RUNS else []
    told_otherwise = any(name.startswith("GIT_") for name in context.state.environment)
    if is_hook_effect(effect) and not told_otherwise and (programs := list_git_programs(effect)) is not None:
        files = programs
    workspace, judge = context.places.workspace, context.trust.find_untrusted_folder
    strange = [one for one in files if one[:1] == "/" and judge(os.path.realpath(one), workspace)]
    named = _format_files(strange, workspace)
    return N_("it runs untrusted files{format_files}", format_files=named) if strange else ""


def _format_files(files: Sequence[str], workspace: str) -> str:
    named = [os.path.relpath(one, workspace) for one in files[:_MAX_SHOWN] if os.path.isfile(one)]
    return f": {', '.join(named)}" if named else ""


def check_own_file_runs(facts: CallFacts, context: ToolContext) -> Iterator[CommandFinding]:
    """Yield a question for each run of a file that this session wrote."""
    for effect in facts.judged.effects if context.state.written_files else ():
        found = _list_own_files(effect, context) if effect.kind is EffectKind.RUNS else ()
        if found:
            more = len(found) - _MAX_SHOWN
            shown = ", ".join(found[:_MAX_SHOWN]) + (f" and {more} more" if more > 0 else "")
            reason = N_("it runs what this session wrote: {shown}", shown=shown)
            yield CommandFinding(Verdict.ASK, "runs-own-file", reason, quote_argv(effect.argv))


def _list_own_files(effect: CommandEffect, context: ToolContext) -> Sequence[str]:
    """Return the files a command would run that this session wrote, or that were made since it began."""
    there = (path for path in context.state.written_files if any(_is_in(path, target) for target in effect.targets))
    found = [path for path in there if can_run_file(effect, path, context)]
    return found or [one for one in effect.targets if _has_changed_since(one, context.state.started_at)]


def _has_changed_since(path: str, started_at: float) -> bool:
    """Return whether a file was made, changed, linked or renamed since, by whatever program.

    Its change time cannot be set by a program.
    """
    if path[:1] != "/":
        return False
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return False
    return stat.S_ISREG(status.st_mode) and status.st_ctime >= started_at


def _is_in(path: str, target: str) -> bool:
    real = os.path.realpath(target)
    return is_or_below(path, target) or is_or_below(path, real)
