"""Collects the facts about a call, once: the command line as it was analyzed, paths, hosts, effects, provenance."""

import os
from collections.abc import Collection, Iterator, Mapping, Sequence

from msgspec import Struct, structs

from hermes.execution.base import DeniedPath
from hermes.i18n.messages import N_
from hermes.safety.policy import policy_subjects
from hermes.safety.shell.findings import CommandEffect, CommandFinding, CommandJudgement, EffectKind
from hermes.tools.named_paths import list_command_paths, list_targets
from hermes.tools.open_folders import list_open_folders
from hermes.tools.path_facts import PathFacts, list_closed_paths, trace_use
from hermes.tools.permissions.code_targets import is_interpreter
from hermes.tools.permissions.egress import name_egress_hosts
from hermes.tools.permissions.gate import GIT_SETTINGS
from hermes.tools.permissions.git_config import find_changed_settings
from hermes.tools.permissions.losses import AskedLoss, list_losses
from hermes.tools.permissions.read_only import is_read_only_command, is_read_only_line
from hermes.tools.schema import Arguments
from hermes.tools.session import ToolContext
from hermes.tools.taint import describe_source
from hermes.tools.tool import Tool
from hermes.util.text import escape_line_breaks

PERSISTING_KINDS = (EffectKind.PERSISTS, EffectKind.WRITES, EffectKind.OVERWRITES)


class CallFacts(Struct, frozen=True, kw_only=True):
    """The facts about a call, which the checks judge and a person's rules are matched against."""

    tool: str = ""
    subject: str
    """What the call is shown as: its command, or the tool with what it would touch."""
    subjects: tuple[str, ...] = ()
    """The subjects that a person's own rules are matched against."""
    cwd: str = ""
    line: str = ""
    """The pattern that allows the whole command, where there is one."""
    judged: CommandJudgement = CommandJudgement()
    process_id: str = ""
    """The process that the call types into."""
    reader: str = ""
    """The command of that process, where no kernel confines it."""
    paths: tuple[PathFacts, ...] = ()
    addresses: tuple[str, ...] = ()
    doubts: tuple[CommandFinding, ...] = ()
    """The tool owner's own findings."""
    own_effects: tuple[CommandEffect, ...] = ()
    """What the tool would do by itself."""
    command_effects: tuple[CommandEffect, ...] = ()
    """What its command would do, with the hosts by their names."""
    effects: tuple[CommandEffect, ...] = ()
    """All of these, and what the command may read."""
    settings_file: str = ""
    """The repository's settings that the command may change once a person has said yes."""
    known_hosts: tuple[str, ...] = ()
    """The patterns of hosts that need no question."""
    folders: tuple[str, ...] = ()
    """The folders outside of the workspace that its command may write."""
    losses: tuple[AskedLoss, ...] = ()
    """What its command would lose where copies are kept."""
    sources: tuple[str, ...] = ()
    """The untrusted sources whose text is in the conversation."""
    exported: Mapping[str, str] = {}
    """Variables that earlier commands of the session exported."""
    is_read_only: bool = False
    """Whether nothing of the command writes a file, as far as its text tells for sure."""
    findings: tuple[CommandFinding, ...] = ()
    """What the checks found."""

    @property
    def opened(self) -> tuple[DeniedPath, ...]:
        """What it reads that commands do not see, and where it writes and they may not."""
        read = [DeniedPath(one, is_write=False) for path in self.paths if not path.use.write for one in path.hidden]
        return (*read, *(DeniedPath(one, is_write=True) for one in sorted({path.kept for path in self.paths} - {""})))

    @property
    def because(self) -> str:
        """The reason of a question that is asked for the untrusted text in the conversation."""
        return N_("untrusted content from {source} is in this conversation", source=describe_source(self.sources[-1]))


def collect_facts(tool: Tool, arguments: Arguments, context: ToolContext) -> CallFacts:
    """Return the facts about a call. Symlinks are followed as they are now."""
    # A path is looked up once: what is judged is what may be written, whatever is swapped meanwhile.
    paths = tuple(trace_use(use, context) for use in tool.paths(arguments))
    addresses, sources = tuple(tool.hosts(arguments)), tuple(context.state.taint.list_sources())
    own = tuple(_list_own_effects(tool, arguments, paths))
    named = (tool.name, *(escape_line_breaks(one.use.path) for one in paths[:1]), *addresses, tool.shown(arguments))
    facts = CallFacts(
        tool=tool.name,
        subject=" ".join(one for one in named if one),
        paths=paths,
        addresses=addresses,
        doubts=tuple(tool.doubts(arguments, sources)),
        own_effects=own,
        effects=own,
        sources=sources,
    )
    command, reader = _resolve_command(tool, arguments, context)
    if not command:
        return structs.replace(facts, subjects=policy_subjects(CommandJudgement(), own, facts.subject))
    cwd, line, judged = _analyze_command(command, arguments, context)
    reached, settings = name_egress_hosts(judged, context), find_changed_settings(command, judged, context)
    kept = [CommandEffect(EffectKind.PERSISTS, GIT_SETTINGS, (settings,))] if settings else []
    words = list_command_paths(judged.commands, context.places)
    changing = [one for one in judged.commands if not is_read_only_command(one)]
    effects = (*own, *reached, *kept, *_find_read_files(judged, words, context.places.home))
    facts = structs.replace(
        facts,
        paths=(*paths, *list_closed_paths(structs.replace(judged, effects=reached), words, changing, context)),
        subject=command,
        subjects=policy_subjects(judged, effects, command),
        cwd=cwd,
        line=line,
        process_id=tool.types_into(arguments),
        judged=judged,
        reader=reader,
        command_effects=reached,
        effects=effects,
        settings_file=settings,
        exported=context.state.environment,
        is_read_only=is_read_only_line(judged) and not tool.types_into(arguments),
    )
    if facts.is_read_only or not context.backend.contained:
        return facts
    folders, answered = list_open_folders(context, facts.opened, command)
    return structs.replace(facts, folders=folders, losses=list_losses(judged, context, folders, answered))


def _list_own_effects(tool: Tool, arguments: Arguments, paths: Sequence[PathFacts]) -> Iterator[CommandEffect]:
    """Yield what a tool would do by itself, without a command."""
    from hermes.safety.urls import judge_url

    for one in paths:
        if one.use.write:
            yield CommandEffect(EffectKind.WRITES, (tool.name, one.use.path), (one.real or one.use.path,))
    for url in tool.hosts(arguments):
        yield CommandEffect(EffectKind.FETCHES, (tool.name, url), (judge_url(url).host,))
    kept = tool.keeps(arguments)
    if kept:
        yield CommandEffect(EffectKind.PERSISTS, (tool.name,), (kept,))


def _resolve_command(tool: Tool, arguments: Arguments, context: ToolContext) -> tuple[str, str]:
    """Return what a call would have a shell do, with all that was typed into its process where it types into one, and
    the command of that process where no kernel confines it: it need not be a shell.
    """
    command, process_id = tool.command(arguments), tool.types_into(arguments)
    if not process_id or not command or context.backend.contained:
        return command, ""
    runs, before = context.state.processes.find_typed_text(process_id)
    return before + command, runs


def _analyze_command(command: str, arguments: Arguments, context: ToolContext) -> tuple[str, str, CommandJudgement]:
    """Return the folder of a command, the pattern that allows all of it, and the analysis of its text."""
    from hermes.safety.shell.commands import analyze_command  # its tables are read when there is a command to judge

    folder = str(arguments.get("workdir") or ".")
    real = context.resolve_real_path(folder)
    cwd = real if real is not None and ".." in folder.split("/") else context.resolve_path(folder)
    places = context.places
    if real == places.workspace:
        places = structs.replace(places, workspace=cwd)  # the session's own folder by the name it goes by here
    line = command.strip() if cwd == places.workspace else f"cd {cwd} && {command.strip()}"
    state = context.state
    return cwd, line, analyze_command(command, cwd, places, state.environment, state.moved_paths)


def _find_read_files(judged: CommandJudgement, named: Collection[str], home: str) -> Iterator[CommandEffect]:
    """Yield an effect for the files that a command names, and the person's folders, since it may read them: its output
    is as untrusted as they are.

    Not the interpreter that runs it: that prints what it is given.
    """
    programs = {os.path.join(one.cwd, one.argv[0]) for one in judged.commands if one.argv and is_interpreter(one)}
    made = list_targets(judged.effects)
    there = tuple(sorted(path for path in named if path not in programs and _is_read(path, made, home)))
    if there:
        yield CommandEffect(EffectKind.READS, (), there)


def _is_read(path: str, made: Collection[str], home: str) -> bool:
    # Of folders only those of the person's: the system's, and what programs keep in a home, are named for other ends.
    is_own = path.startswith(f"{home}/") and not path.startswith(f"{home}/.")
    return (path[:1] == "/" and os.path.isfile(path)) or (is_own and path not in made and os.path.isdir(path))
