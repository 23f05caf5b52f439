"""Evaluates a call: collects the facts that speak against it, from paths, command, addresses, taint and
files written before.

Recognizes commands that only read: no copy of the folder is made before those. An unknown command may write.
"""

import os
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct, structs

from hermes.core.messages import Provenance, Source
from hermes.i18n.messages import N_
from hermes.safety.autorun_files import is_autorun_file
from hermes.safety.globs import covers_subject, quote_argv
from hermes.safety.paths import CONFINED_REASON, is_or_below
from hermes.safety.policy import policy_subjects
from hermes.safety.shell.findings import (
    CommandEffect,
    CommandFinding,
    CommandJudgement,
    EffectKind,
    SimpleCommand,
    Verdict,
)
from hermes.safety.shell.words import word_set
from hermes.tools.permissions.code_targets import can_run_file, is_interpreter
from hermes.tools.permissions.egress import EGRESS_KINDS, host_from_target, name_egress_hosts
from hermes.tools.permissions.gate import HIDDEN, OUTSIDE, READ, WRITE
from hermes.tools.permissions.git_config import (
    evaluate_git_config,
    find_repository_settings,
    is_hook_effect,
    list_git_programs,
)
from hermes.tools.schema import Arguments
from hermes.tools.session import ToolContext
from hermes.tools.taint import format_host, name_source, provenance_from_sources
from hermes.tools.tool import PathUse, Tool

if TYPE_CHECKING:
    from hermes.safety.path_policy import Operation, PathJudgement
    from hermes.tools.path_access import PathTrace

_READ_ONLY_COMMANDS = word_set(
    """
    < ls cat head tail grep egrep fgrep rg wc pwd echo printf stat file du df which type true false : test [ [[ date
    whoami id uname basename dirname realpath readlink cut tr diff cmp comm nl tac rev column seq sleep cd
    pushd popd ps uptime free nproc printenv md5sum sha1sum sha256sum cksum od hexdump strings jq tree export sort
    less more whereis groups locale getconf fold fmt expand unexpand paste
    """
)


_READ_ONLY_GIT_COMMANDS = word_set(
    """
    status log diff show rev-parse ls-files blame describe shortlog ls-tree cat-file rev-list grep reflog merge-base
    name-rev for-each-ref count-objects
    """
)


_FIND_ACTIONS = word_set("-exec -execdir -ok -okdir -delete -fprint -fprint0 -fprintf -fls")


_OUTPUT_OPTIONS = {
    "tree": ("-o",),
    "sort": ("-o", "--output", "--compress"),
    "rg": ("--pre", "--hostname-bin"),
    "less": ("+", "-o", "-O", "--log"),
    "more": ("+",),
    "date": ("-s", "--set"),
    "file": ("-C", "--compile"),
    "git": ("--output", "-o", "--open-files-in-pager", "-O"),
}


_READ_ONLY_EFFECTS = (EffectKind.READS, EffectKind.FETCHES, EffectKind.SENDS)


_DISCARDING_TARGETS = ("/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty")


def is_read_only_line(judged: CommandJudgement) -> bool:
    """Return whether nothing of a command line writes a file, as far as its text tells for sure."""
    if not judged.commands or any(not one.subject for one in judged.findings):
        return False  # what cannot be told apart into commands is not known
    if any(
        one.kind not in _READ_ONLY_EFFECTS and one.argv[:1] != ("git",)
        for one in judged.effects
        if not _is_discarded(one.targets)
    ):
        return False
    return all(map(_is_read_only_command, judged.commands))


def _is_discarded(targets: tuple[str, ...]) -> bool:
    return bool(targets) and all(one in _DISCARDING_TARGETS for one in targets)


def _is_read_only_command(one: SimpleCommand) -> bool:
    name, rest = one.argv[0] if one.argv else "", one.argv[1:]
    if name == ">":
        return _is_discarded(rest)
    if any(word.startswith(_OUTPUT_OPTIONS.get(name, ("\0",))) for word in rest):
        return False
    if name == "git":
        return bool(rest) and rest[0] in _READ_ONLY_GIT_COMMANDS
    if name == "find":
        return _FIND_ACTIONS.isdisjoint(rest)
    if name == "env":
        return not rest
    return name in _READ_ONLY_COMMANDS


_CHANGING_KINDS = (EffectKind.WRITES, EffectKind.OVERWRITES, EffectKind.DELETES, EffectKind.PERSISTS)
_PERSISTING_KINDS = (EffectKind.PERSISTS, EffectKind.WRITES, EffectKind.OVERWRITES)
_MAX_SHOWN = 3
_FOLDER_READERS = frozenset(
    {
        *("grep", "egrep", "fgrep", "rg", "ag", "ack", "ugrep", "tar", "bsdtar", "zip", "7z", "7za", "cpio", "pax"),
        *("find", "strings", "git", "file", "scp", "rsync"),
    }
)
"""Programs that read, or take along, everything in a folder."""
_MAX_PATHS = 2_000
_MAX_PATH = 4_096
_MIN_LINKS = 2
"""The number of a file's names from which on another of them may be a protected one."""
_PLACEHOLDER = "it holds a placeholder of a secret, which is not put into commands: name the variable that holds it"


_LOCAL_REMOTE_VERBS = (("add",), ("set-url",), ("rename",), ("remove",), ("rm",), ("get-url",))


class CallFacts(Struct, frozen=True):
    """The facts about a call: the findings against it, its effects, and the subject that it is shown as."""

    findings: tuple[CommandFinding, ...]
    effects: tuple[CommandEffect, ...]
    subject: str
    cwd: str
    line: str
    """The pattern that allows the whole of it, where there is one."""
    subjects: tuple[str, ...]
    """The subjects that a person's own rules are matched against."""
    exported: Mapping[str, str] = {}
    """Variables that earlier commands of the session exported."""
    opened: tuple[str, ...] = ()
    """What it reads that commands do not see."""
    is_read_only: bool = False
    """Whether the command is known for sure to write no file."""


def evaluate_call(tool: Tool, arguments: Arguments, context: ToolContext, hosts: Sequence[str]) -> CallFacts:
    """Return everything that speaks against a call. `hosts` are patterns of hosts that the person's settings allow."""
    command, typed = _resolve_command(tool, arguments, context)
    addresses = tuple(tool.hosts(arguments))
    uses = tuple(tool.paths(arguments))
    findings = [*typed, *tool.doubts(arguments, context.state.taint.list_sources())]
    # A path is looked up once: what is judged is what may be written, whatever is swapped meanwhile.
    opened: list[str] = []
    written = [_judge_path_use(use, tool.name, context, findings, opened) for use in uses]
    findings += _judge_addresses(addresses, tool.name, context)
    own = (*(one for one in written if one is not None), *_list_own_effects(tool, arguments))
    findings += _find_tainted_effects(own, context, hosts, is_contained=False)
    if not command:
        named = (tool.name, *(use.path for use in uses[:1]), *addresses, tool.shown(arguments))
        subject = " ".join(one for one in named if one)
        subjects = policy_subjects(CommandJudgement(), own, subject)
        return CallFacts(tuple(findings), own, subject, "", "", subjects, opened=tuple(opened))
    cwd, line, judged = _analyze_command(command, arguments, context)
    held = context.backend.contained
    findings += judged.relevant_findings(sandboxed=held and not _is_changing_opened(judged, command, context))
    kept, settings = evaluate_git_config(judged, context)
    findings += kept
    findings += _find_placeholder(command, context)
    for side in (
        _find_linked_paths,
        _find_linked_deletions,
        _find_dot_file_writes,
        _find_secret_reads,
        _find_own_file_runs,
        find_repository_settings,
    ):
        findings += side(judged, context)
    findings += _find_closed_paths(judged, context, findings)
    reached = name_egress_hosts(judged, context)
    is_read_only = is_read_only_line(judged)
    if held:
        findings += _find_tainted_effects(reached, context, hosts, is_contained=True)
    else:
        findings += _find_tainted_command(judged, command, context, is_read_only=is_read_only)
    effects = (*own, *reached, *settings, *_find_read_files(judged))
    subjects = policy_subjects(judged, effects, command)
    exported = context.state.environment
    is_read_only = is_read_only and not tool.types_into(arguments)
    return CallFacts(
        tuple(findings), effects, command, cwd, line, subjects, exported, tuple(opened), is_read_only=is_read_only
    )


def _find_placeholder(command: str, context: ToolContext) -> Iterator[CommandFinding]:
    if context.redactor is not None and context.redactor.has_placeholder(command):
        yield CommandFinding(Verdict.DENY, "placeholder", _PLACEHOLDER, command)


def _find_closed_paths(
    judged: CommandJudgement, context: ToolContext, asked: Sequence[CommandFinding]
) -> Iterator[CommandFinding]:
    """Yield refusals for what a sandbox keeps closed whatever a person says, where a question would be asked about the
    line.
    """
    if context.backend.current_layout() is None or not (asked or context.state.taint.list_sources()):
        return
    from hermes.safety.paths import write_refusal

    changed = {target for effect in judged.effects if effect.kind in _PERSISTING_KINDS for target in effect.targets}
    for target in sorted(one for one in changed if one[:1] == "/"):
        real = os.path.realpath(target)
        why = write_refusal(real, context.places)
        if why and not context.backend.is_writable(real):
            yield CommandFinding(
                Verdict.DENY,
                "protected-path",
                N_("{target} is never opened to commands: {why}", target=target, why=why),
                target,
            )


def _is_changing_opened(judged: CommandJudgement, command: str, context: ToolContext) -> bool:
    """Return whether a sandboxed command changes an opened place outside of the workspace: the sandbox does
    not hold it there.
    """
    if command in context.state.one_time_writes:
        return True
    changed = (target for effect in judged.effects if effect.kind in _CHANGING_KINDS for target in effect.targets)
    outside = (one for one in changed if one[:1] == "/" and not is_or_below(one, context.places.workspace))
    return any(context.backend.is_writable(os.path.realpath(one.rstrip("*"))) for one in outside)


def _resolve_command(tool: Tool, arguments: Arguments, context: ToolContext) -> tuple[str, list[CommandFinding]]:
    """Return what a call would have a shell do, with all that was typed into its process where it types into one.

    The program that reads it need not be a shell, so where no kernel confines it a person is asked, once a process.
    """
    command = tool.command(arguments)
    process_id = tool.types_into(arguments)
    if not process_id or not command or context.backend.contained:
        return command, []
    runs, before = context.state.processes.find_typed_text(process_id)
    reason = N_("it types into {runs}, which may run it", runs=repr(runs[:200]))
    return before + command, [
        CommandFinding(Verdict.ASK, "types-into", reason, N_("input of {process_id}", process_id=process_id))
    ] if runs else []


def _find_read_files(judged: CommandJudgement) -> Iterator[CommandEffect]:
    """Yield an effect for the files that a command names, since it may read them: its output is as untrusted as they
    are.

    Not the interpreter that runs it: that prints what it is given.
    """
    programs = {os.path.join(one.cwd, one.argv[0]) for one in judged.commands if one.argv and is_interpreter(one)}
    named = _list_named_paths(judged) - programs
    there = tuple(sorted(path for path in named if path[:1] == "/" and os.path.isfile(path)))
    if there:
        yield CommandEffect(EffectKind.READS, (), there)


def _list_own_effects(tool: Tool, arguments: Arguments) -> Iterator[CommandEffect]:
    """Yield what a tool would do by itself, besides writing files and without a command."""
    for url in tool.hosts(arguments):
        yield CommandEffect(EffectKind.FETCHES, (tool.name, url), (_host_from_url(url),))
    kept = tool.keeps(arguments)
    if kept:
        yield CommandEffect(EffectKind.PERSISTS, (tool.name,), (kept,))


def _judge_path_use(
    use: PathUse, tool: str, context: ToolContext, findings: list[CommandFinding], opened: list[str]
) -> CommandEffect | None:
    """Judge one path; return its effect when it is written. To `opened` is added what is read and hidden."""
    from hermes.safety.path_policy import judge_path
    from hermes.tools.path_access import trace_path

    path, outside = use.path, str(context.resolve_path(use.path))
    op: Operation = "write" if use.write else "read"
    judged = judge_path(outside, op, str(context.state.cwd), context.places)
    if judged.verdict is Verdict.ALLOW and path.startswith(("file:", "$")):
        judged = judge_path(path, op, str(context.state.cwd), context.places)
    trace = trace_path(outside, context) if judged.verdict is Verdict.ALLOW else None
    real = trace.real if trace is not None else judged.real
    if judged.verdict is not Verdict.ALLOW:
        findings.append(_finding_from_path(path, judged))
    elif use.write:
        findings += _find_outside_write(real, context)
    elif trace is not None and trace.hidden:
        opened += trace.hidden
        findings += _find_hidden_read(path, trace, context)
    return CommandEffect(EffectKind.WRITES, (tool, path), (real or path,)) if use.write else None


def _find_outside_write(real: str, context: ToolContext) -> Iterator[CommandFinding]:
    """Yield a question for a file outside of the workspace, and for one of the home's dot files."""
    named = context.backend.to_command_path(real)
    if _is_home_dot_file(real, context):
        reason = N_("{named} is a setting of some program", named=named)
        yield CommandFinding(Verdict.ASK, "dot-file", reason, N_("write {real}", real=real))
    elif not context.backend.is_writable(real):
        reason = N_("{named} is outside the workspace", named=named)
        yield CommandFinding(Verdict.ASK, OUTSIDE, reason, quote_argv((WRITE, f"{os.path.dirname(real)}/*")))


def _find_hidden_read(path: str, trace: "PathTrace", context: ToolContext) -> Iterator[CommandFinding]:
    """Yield what speaks against reading what commands do not see: nothing where the person has named the file."""
    from hermes.tools.path_access import is_named_by_person, name_folder

    if context.places.confined:
        yield CommandFinding(
            Verdict.DENY, HIDDEN, N_("{path} is not open to tools: {reason}", path=path, reason=CONFINED_REASON)
        )
    elif not is_named_by_person(trace.real, trace.hidden, context):
        reason = N_("{named} is in a place that commands do not see", named=trace.real)
        for subject in dict.fromkeys(name_folder(one, context) for one in trace.hidden):
            yield CommandFinding(Verdict.ASK, HIDDEN, reason, quote_argv((READ, subject)))


def _finding_from_path(path: str, judged: "PathJudgement") -> CommandFinding:
    """Return what speaks against a path that is not simply open."""
    if judged.verdict is Verdict.DENY:
        return CommandFinding(
            judged.verdict, judged.rule, N_("{path} is not open to tools: {reason}", path=path, reason=judged.reason)
        )
    subject = quote_argv(("write", judged.real))
    return CommandFinding(
        judged.verdict, judged.rule, N_("it writes {real}: {reason}", real=judged.real, reason=judged.reason), subject
    )


def _is_home_dot_file(path: str, context: ToolContext) -> bool:
    """Return whether a path is one of the home's dot files, outside of the workspace: any program may run those."""
    home, workspace = context.places.home, context.places.workspace
    if not path.startswith(f"{home}/.") or is_or_below(path, context.places.hermes):
        return False
    return not is_or_below(path, workspace) or is_or_below(home, workspace)


def _analyze_command(command: str, arguments: Arguments, context: ToolContext) -> tuple[str, str, CommandJudgement]:
    from hermes.safety.shell.commands import analyze_command  # its tables are read when there is a command to judge

    folder = str(arguments.get("workdir") or ".")
    real = context.resolve_real_path(folder)
    cwd = real if real is not None and ".." in folder.split("/") else str(context.resolve_path(folder))
    places = context.places
    if real == places.workspace:
        places = structs.replace(places, workspace=cwd)  # the session's own folder by the name it goes by here
    line = command.strip() if cwd == places.workspace else f"cd {cwd} && {command.strip()}"
    state = context.state
    judged = analyze_command(command, cwd, places, state.environment, state.moved_paths)
    state.moved_paths.update(judged.moved)
    return cwd, line, judged


def _find_dot_file_writes(judged: CommandJudgement, context: ToolContext) -> Iterator[CommandFinding]:
    """Yield a question for each dot file of the home that a command writes, where no kernel confines it."""
    for effect in () if context.backend.contained else judged.effects:
        for target in effect.targets if effect.kind in _CHANGING_KINDS else ():
            if _is_home_dot_file(os.path.normpath(target), context) and "/.cache/" not in target:
                yield CommandFinding(
                    Verdict.ASK,
                    "dot-file",
                    N_("{target} is a setting of some program", target=target),
                    quote_argv((">", target)),
                )


def _find_secret_reads(judged: CommandJudgement, context: ToolContext) -> Iterator[CommandFinding]:
    """Yield a question for each program that reads a key, or a whole folder with keys in it, where keys can be read."""
    if context.backend.contained:
        return
    from hermes.safety.paths import read_refusal

    for simple in judged.commands:
        for path in _list_read_paths(simple, context):
            if is_or_below(context.places.home, path) or read_refusal(path, context.places):
                yield CommandFinding(
                    Verdict.ASK,
                    "reads-secret",
                    N_("it reads keys, or all of {path}", path=path),
                    quote_argv(simple.argv),
                )
                break


def _list_read_paths(simple: SimpleCommand, context: ToolContext) -> Iterator[str]:
    """Yield the paths that a program which reads whole folders is given."""
    name = simple.argv[0].rpartition("/")[2] if simple.argv else ""
    if name == "find" and not any("exec" in word or "-ok" in word for word in simple.argv):
        return
    for word in simple.argv[1:] if name in _FOLDER_READERS else ():
        if len(word) < _MAX_PATH:
            yield os.path.normpath(context.places.expand_path(word, simple.cwd))


def _find_linked_paths(judged: CommandJudgement, context: ToolContext) -> Iterator[CommandFinding]:
    """Yield findings for paths that lead to protected places through links, as they are now.

    The analysis of the text cannot see those. In a sandbox the kernel sees them.
    """
    if context.backend.contained:
        return
    from hermes.safety.path_policy import judge_path

    changed = {target for effect in judged.effects if effect.kind in _CHANGING_KINDS for target in effect.targets}
    for path in sorted(changed | _list_named_paths(judged))[:_MAX_PATHS]:
        real = _resolve_link(path)
        found = judge_path(path, "write" if path in changed else "read", "/", context.places) if real else None
        if found is not None and found.verdict is not Verdict.ALLOW:
            own = is_or_below(real, context.places.hermes)
            verdict = Verdict.DENY if own else Verdict.ASK
            yield CommandFinding(
                verdict,
                "protected-path",
                N_("{path} leads to {real}: {reason}", path=path, real=real, reason=found.reason),
                quote_argv((">", real)),
            )


def _find_linked_deletions(judged: CommandJudgement, context: ToolContext) -> Iterator[CommandFinding]:
    """Yield questions for deletions by a name in the session's folder, where a link on the way leads out of it now.

    A link that is named itself is only unlinked, unless a slash or a pattern follows it or a search starts there.
    """
    workspace = os.path.realpath(context.places.workspace)
    for effect in judged.effects if not context.backend.contained else ():
        searches = effect.argv[:1] in (("find",), ("gfind",)) or any(word[-1:] in "/*?]." for word in effect.argv)
        for target in effect.targets if effect.kind is EffectKind.DELETES else ():
            real = os.path.realpath(target if searches else os.path.dirname(target))
            if is_or_below(target, context.places.workspace) and not is_or_below(real, workspace):
                reason = N_("{target} leads to {real}, outside the session's folder", target=target, real=real)
                yield CommandFinding(
                    Verdict.ASK, "rm-outside", N_("it deletes there: {reason}", reason=reason), quote_argv(effect.argv)
                )


def _list_named_paths(judged: CommandJudgement) -> set[str]:
    """Return whatever in the words of a line may be a path, from the folder in which its command would run."""
    words = ((simple.cwd, word) for simple in judged.commands for word in simple.argv)
    return {os.path.join(cwd, part) for cwd, word in words for part in _split_path_candidates(word)}


def _resolve_link(path: str) -> str:
    """Return where a path leads when it is a link, or one of several names of a file; empty when it is neither."""
    if path[:1] != "/" or not os.path.lexists(path):
        return ""
    real = os.path.realpath(path)
    if real != os.path.normpath(path):
        return real
    status = os.lstat(real)
    return real if stat.S_ISREG(status.st_mode) and status.st_nlink >= _MIN_LINKS else ""


def _split_path_candidates(word: str) -> tuple[str, ...]:
    """Return what of a word may be a path: the whole of it, and what follows `=`, `@` or an option's letter."""
    if len(word) > _MAX_PATH or not word or "\0" in word:
        return ()
    behind = (word.partition(sign)[2] for sign in "=@")
    return tuple(dict.fromkeys(one for one in (word, *behind) if one))


def _find_own_file_runs(judged: CommandJudgement, context: ToolContext) -> Iterator[CommandFinding]:
    """Yield a question for each run of a file that this session wrote, where no kernel confines the command."""
    if not context.state.written_files or context.backend.contained:
        return
    for effect in judged.effects:
        found = _list_own_files(effect, context) if effect.kind is EffectKind.RUNS else ()
        if found:
            shown = ", ".join(found[:_MAX_SHOWN]) + (
                f" and {len(found) - _MAX_SHOWN} more" if len(found) > _MAX_SHOWN else ""
            )
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


def _judge_addresses(addresses: Sequence[str], tool: str, context: ToolContext) -> list[CommandFinding]:
    """Return the findings on the addresses. Where only some of several are refused, the
    tool itself leaves those out.
    """
    if not addresses:
        return []
    from hermes.safety.urls import UrlPolicy, judge_url

    policy = UrlPolicy(private=context.web.private if context.web is not None else ())
    judged = [(url, judge_url(url, policy)) for url in addresses]
    if any(one.verdict is Verdict.ALLOW for _, one in judged):
        return []
    return [CommandFinding(one.verdict, one.rule, one.reason, f"{tool} {url}") for url, one in judged]


def _host_from_url(url: str) -> str:
    from hermes.safety.urls import judge_url

    return judge_url(url).host


def _strip_host(host: str) -> str:
    """Return the name in what a command calls a host, which may come with a user and a port."""
    name = host.rsplit("@", 1)[-1].lower()
    return name.rsplit(":", 1)[0] if name.count(":") == 1 else name


def is_known_host(host: str, context: ToolContext, hosts: Sequence[str], port: int = 0) -> bool:
    """Return whether this host needs no question though untrusted content is in the conversation.

    `port` is 0 where it is not known.
    """
    bare = _strip_host(host)
    names = (bare, f"{bare}:{port}") if port else (bare,)
    return context.state.taint.is_host_named(format_host(bare, port)) or any(
        covers_subject(pattern.lower(), name) for pattern in hosts for name in names
    )


def _find_tainted_effects(
    effects: Sequence[CommandEffect], context: ToolContext, hosts: Sequence[str], *, is_contained: bool
) -> Iterator[CommandFinding]:
    """Yield a question for each effect that sends, persists or runs something while untrusted content is in
    the conversation.

    `is_contained` is for commands in a sandbox: their connections are asked about when they make them, by
    the host that they really name, and the kernel confines what they run.
    """
    sources = context.state.taint.list_sources()
    if not sources:
        return
    because = N_("untrusted content from {source} is in this conversation", source=sources[-1].partition(":")[2])
    for effect in effects:
        if effect.kind in EGRESS_KINDS:
            found = () if is_contained else _describe_egress(effect, context, hosts)
        else:
            found = _describe_persistence(effect) if effect.kind in _PERSISTING_KINDS else ()
        for rule, reason, subject in found:
            yield CommandFinding(
                Verdict.ASK,
                rule,
                N_("{reason} while {because}", reason=reason, because=because),
                subject or quote_argv(effect.argv),
            )


def _find_tainted_command(
    judged: CommandJudgement, command: str, context: ToolContext, *, is_read_only: bool
) -> Iterator[CommandFinding]:
    """Yield a question for a command while untrusted content is in the conversation and no kernel confines it.

    Which programs reach other hosts, run other files or keep something for later cannot be listed. So only those run
    without a question that look, and start nothing out of a folder that the person does not trust.
    """
    sources = context.state.taint.list_sources()
    if not sources:
        return
    because = N_("untrusted content from {source} is in this conversation", source=sources[-1].partition(":")[2])
    started = [found for effect in judged.effects for found in _describe_run(effect, context)] if is_read_only else []
    if not is_read_only or started:
        reason = started[0][1] if started else N_("it does more than look")
        yield CommandFinding(
            Verdict.ASK, "tainted-command", N_("{reason} while {because}", reason=reason, because=because), command
        )


_TaintReason = tuple[str, str, str]


def _describe_egress(effect: CommandEffect, context: ToolContext, hosts: Sequence[str]) -> tuple[_TaintReason, ...]:
    """Return the reason to ask about a connection, or nothing when every host of it is known."""
    strange = [target for target in effect.targets if not is_known_host(target, context, hosts)]
    if not strange and effect.targets:
        return ()
    where = ", ".join(host_from_target(one) for one in strange[:_MAX_SHOWN]) or "a host that cannot be told"
    return (("tainted-egress", N_("it reaches {where}", where=where), f"connect {where}"),)


def _describe_persistence(effect: CommandEffect) -> tuple[_TaintReason, ...]:
    """Return the reason to ask about something that is kept: of files, only those that run later count."""
    kept = (
        effect.targets
        if effect.kind is EffectKind.PERSISTS
        else [one for one in effect.targets if is_autorun_file(one)]
    )
    if not kept:
        return ()
    named = ", ".join(kept[:_MAX_SHOWN])
    return (("tainted-persistence", N_("it keeps {named}, which acts later,", named=named), f"keep {named}"),)


def _describe_run(effect: CommandEffect, context: ToolContext) -> tuple[_TaintReason, ...]:
    """Return the reason to ask about files that run, or nothing where the person trusts them or there are none."""
    if effect.kind is EffectKind.UNKNOWN:
        return (("tainted-run", "it runs untrusted files", ""),)
    if effect.kind is not EffectKind.RUNS:
        return ()
    files = list(effect.targets)
    told_otherwise = any(name.startswith("GIT_") for name in context.state.environment)
    if is_hook_effect(effect) and not told_otherwise and (programs := list_git_programs(effect)) is not None:
        files = programs
    strange = [one for one in files if one[:1] == "/" and _is_untrusted(one, context)]
    return (
        (
            (
                "tainted-run",
                N_("it runs untrusted files{format_files}", format_files=_format_files(strange, context)),
                "",
            ),
        )
        if strange
        else ()
    )


def _format_files(files: Sequence[str], context: ToolContext) -> str:
    named = [os.path.relpath(one, context.places.workspace) for one in files[:_MAX_SHOWN] if os.path.isfile(one)]
    return f": {', '.join(named)}" if named else ""


def _is_untrusted(path: str, context: ToolContext) -> bool:
    return bool(context.trust.find_untrusted_folder(os.path.realpath(path), context.places.workspace))


def find_provenance(
    effects: Sequence[CommandEffect],
    paths: Iterable[str],
    context: ToolContext,
    contacted_hosts: Collection[str] | None,
    *,
    runs: bool,
) -> Provenance | None:
    """Return where the text that a call returns is from, when it is untrusted; None when it can be trusted.

    Something came from the hosts in `contacted_hosts`; None: nobody saw that, and the text of the call is all there is.
    `runs`: a program made the text, which may hold whatever background processes have received.
    """
    spill = f"{os.path.realpath(context.spill_folder)}/"
    named = (os.path.realpath(one) for effect in effects if effect.kind is EffectKind.READS for one in effect.targets)
    files = (*paths, *named)
    processes = context.state.processes
    seen_hosts = (
        processes.list_contacted_hosts()
        if runs
        else set().union(*(processes.list_contacted_hosts(_get_change_time(one)) for one in files))
    )
    hosts = [
        *(_list_named_hosts(effects) if contacted_hosts is None else ()),
        *sorted(seen_hosts.union(contacted_hosts or ())),
    ]
    sources = dict.fromkeys(f"{Source.WEB}:{host}" for host in hosts)
    for path in files:
        sources |= dict.fromkeys(_list_file_sources(path, context, spill))
    return provenance_from_sources(sources)


def _list_named_hosts(effects: Iterable[CommandEffect]) -> Iterator[str]:
    """Yield the hosts that a call reaches by its own words."""
    for effect in effects:
        if effect.kind in EGRESS_KINDS and not _is_local_git_command(effect.argv):
            yield from map(host_from_target, effect.targets or ("a host that cannot be told",))


def _is_local_git_command(argv: Sequence[str]) -> bool:
    """Return whether a git command only stores an address, and reaches no host by it."""
    verb = argv[:3]
    return verb[:2] == ("git", "config") or (
        verb[:2] == ("git", "remote") and verb[2:] in _LOCAL_REMOTE_VERBS and not {*argv} & {"-f", "--fetch"}
    )


def _get_change_time(path: str) -> float:
    """Return when a file was changed, by whatever program; before all time when it is no file that exists."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return -1.0
    return status.st_ctime if stat.S_ISREG(status.st_mode) else -1.0


def _list_file_sources(path: str, context: ToolContext, spill: str) -> Sequence[str]:
    """Return the sources of the text that a file holds: none where the person trusts its folder."""
    if path.startswith(spill):
        # A result that was too long for the conversation is as strange as what stands in it.
        return context.state.taint.list_sources()
    made = context.state.written_files.get(path)
    if made:
        return made.split("\n")
    if made is None and (marked := context.taint_marks.find_sources(path)):
        return marked
    folder = context.trust.find_untrusted_folder(path, context.places.workspace) if made is None else ""
    return (name_source(Source.FILE, folder),) if folder else ()
