"""What speaks against a call, from each side that there is: paths, command, addresses, taint, files written before."""

import os
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct, structs

from hermes.core.parts import Provenance, Source
from hermes.safety.autorun_files import runs_later
from hermes.safety.globs import covers, spelled
from hermes.safety.paths import is_or_below
from hermes.safety.policy import subjects_of
from hermes.safety.shell.findings import Effect, EffectKind, Finding, Judgement, Simple, Verdict
from hermes.tools.permissions.code_targets import is_interpreter, narrowed
from hermes.tools.permissions.egress import LEAVES, plain_host, sends_outside, told
from hermes.tools.permissions.git_config import changes
from hermes.tools.permissions.git_hooks import is_hooks, programs_of
from hermes.tools.permissions.read_only import only_looks
from hermes.tools.schema import Arguments
from hermes.tools.session import ToolContext
from hermes.tools.taint import derived, placed
from hermes.tools.tool import PathUse, Tool

if TYPE_CHECKING:
    from hermes.safety.path_policy import PathJudgement

_CHANGES = (EffectKind.WRITES, EffectKind.OVERWRITES, EffectKind.DELETES, EffectKind.PERSISTS)
_STAYS = (EffectKind.PERSISTS, EffectKind.WRITES, EffectKind.OVERWRITES)
_SHOWN = 3
_READ_FOLDERS = frozenset(
    {
        *("grep", "egrep", "fgrep", "rg", "ag", "ack", "ugrep", "tar", "bsdtar", "zip", "7z", "7za", "cpio", "pax"),
        *("find", "strings", "git", "file", "scp", "rsync"),
    }
)
"""Programs that read, or take along, all that is in a folder."""
_MOST_PATHS = 2_000
_LONGEST_PATH = 4_096
_LINKED = 2
"""Names of a file from which on another of them may be a protected one."""
_PLACEHOLDER = "it holds a placeholder of a secret, which is not put into commands: name the variable that holds it"


_NOTES = (("add",), ("set-url",), ("rename",), ("remove",), ("rm",), ("get-url",))


class Weighed(Struct, frozen=True):
    """All that was found about a call: what speaks against it, what it would do, and what it is shown as."""

    findings: tuple[Finding, ...]
    effects: tuple[Effect, ...]
    subject: str
    cwd: str
    line: str
    """The pattern that allows the whole of it, where there is one."""
    subjects: tuple[str, ...]
    """What a person's own rules are matched against."""
    exported: Mapping[str, str] = {}
    """Variables that earlier commands of the session exported."""
    looks: bool = False
    """Whether the command writes no file, for sure."""


def weigh(tool: Tool, arguments: Arguments, context: ToolContext, hosts: Sequence[str]) -> Weighed:
    """Everything that speaks against a call. `hosts` are patterns of hosts that the person's settings allow."""
    command, typed = _typed(tool, arguments, context)
    addresses = tuple(tool.hosts(arguments))
    uses = tuple(tool.paths(arguments))
    findings = [*typed, *tool.doubts(arguments, context.state.taint.sources())]
    # A path is looked up once: what is judged is what may be written, whatever is swapped meanwhile.
    written = [_path(use, tool.name, context, findings) for use in uses]
    findings += _addresses(addresses, tool.name, context)
    own = (*(one for one in written if one is not None), *_own_effects(tool, arguments))
    findings += _tainted(own, context, hosts, held=False)
    if not command:
        named = (tool.name, *(use.path for use in uses[:1]), *addresses, tool.shown(arguments))
        subject = " ".join(one for one in named if one)
        return Weighed(tuple(findings), own, subject, "", "", subjects_of(Judgement(), own, subject))
    cwd, line, judged = _command(command, arguments, context)
    held = context.backend.contained
    findings += judged.held(sandboxed=held and not _touches_opened(judged, command, context))
    kept, settings = changes(judged, context)
    findings += kept
    findings += _placeholder(command, context)
    for side in (_led_elsewhere, _deletes_elsewhere, _dot_files, _reads_all, _written_before, sends_outside):
        findings += side(judged, context)
    findings += _never_opened(judged, context, findings)
    reached = told(judged, context)
    findings += _tainted(reached, context, hosts, held=held)
    effects = (*own, *reached, *settings, *_read(judged))
    subjects = subjects_of(judged, effects, command)
    exported = context.state.environment
    looks = tool.name == "terminal" and only_looks(judged)
    return Weighed(tuple(findings), effects, command, cwd, line, subjects, exported, looks)


def _placeholder(command: str, context: ToolContext) -> Iterator[Finding]:
    if context.redactor is not None and context.redactor.holds_placeholder(command):
        yield Finding(Verdict.DENY, "placeholder", _PLACEHOLDER, command)


def _never_opened(judged: Judgement, context: ToolContext, asked: Sequence[Finding]) -> Iterator[Finding]:
    """What a sandbox keeps closed whatever a person says is refused where a question would be asked about the line."""
    if context.backend.name != "sandbox" or not (asked or context.state.taint.sources()):
        return
    from hermes.safety.paths import write_refused

    changed = {target for effect in judged.effects if effect.kind in _STAYS for target in effect.targets}
    for target in sorted(one for one in changed if one[:1] == "/"):
        real = os.path.realpath(target)
        why = write_refused(real, context.places)
        if why and not context.backend.writable(real):
            yield Finding(Verdict.DENY, "protected-path", f"{target} is never opened to commands: {why}", target)


def _touches_opened(judged: Judgement, command: str, context: ToolContext) -> bool:
    """Whether a sandboxed command changes a place outside of the workspace that was opened: nothing holds it there."""
    if command in context.state.openings:
        return True
    changed = (target for effect in judged.effects if effect.kind in _CHANGES for target in effect.targets)
    outside = (one for one in changed if one[:1] == "/" and not is_or_below(one, context.places.workspace))
    return any(context.backend.writable(os.path.realpath(one.rstrip("*"))) for one in outside)


def _typed(tool: Tool, arguments: Arguments, context: ToolContext) -> tuple[str, list[Finding]]:
    """What a call would have a shell do: with all that was typed into its process, where it types into one.

    What reads it need not be a shell, so where no kernel holds it back a person is asked, once a process.
    """
    command = tool.command(arguments)
    if tool.name != "process" or not command or context.backend.contained:
        return command, []
    process_id = str(arguments["session_id"])
    runs, before = context.state.processes.typed(process_id)
    reason = f"it types into {runs[:200]!r}, which may run it"
    return before + command, [Finding(Verdict.ASK, "types-into", reason, f"input of {process_id}")] if runs else []


def _read(judged: Judgement) -> Iterator[Effect]:
    """Whatever a command names and is there it may read: what it prints is as strange as that.

    Not the interpreter that it is run by: what that prints is of what it is given.
    """
    programs = {os.path.join(one.cwd, one.argv[0]) for one in judged.commands if one.argv and is_interpreter(one)}
    named = _named(judged) - programs
    there = tuple(sorted(path for path in named if path[:1] == "/" and os.path.isfile(path)))
    if there:
        yield Effect(EffectKind.READS, (), there)


def _own_effects(tool: Tool, arguments: Arguments) -> Iterator[Effect]:
    """What a tool would do by itself, besides writing files and without a command."""
    for url in tool.hosts(arguments):
        yield Effect(EffectKind.FETCHES, (tool.name, url), (_host(url),))
    kept = tool.keeps(arguments)
    if kept:
        yield Effect(EffectKind.PERSISTS, (tool.name,), (kept,))


def _path(use: PathUse, tool: str, context: ToolContext, findings: list[Finding]) -> Effect | None:
    """Judge one path; what it is written as, when it is."""
    from hermes.safety.path_policy import judge_path

    path, outside = use.path, str(context.resolve(use.path))
    judged = judge_path(outside, "write" if use.write else "read", str(context.state.cwd), context.places)
    if judged.verdict is Verdict.ALLOW and path.startswith(("file:", "$")):
        judged = judge_path(path, "write" if use.write else "read", str(context.state.cwd), context.places)
    real = judged.real
    named = context.backend.inside(real)
    if judged.verdict is not Verdict.ALLOW:
        findings.append(_closed(path, judged))
    elif use.write and _starts_something(real, context):
        findings.append(Finding(Verdict.ASK, "dot-file", f"{named} is a setting of some program", f"write {real}"))
    elif use.write and not context.backend.writable(real):
        subject = spelled(("write", f"{os.path.dirname(real)}/*"))
        findings.append(Finding(Verdict.ASK, "outside-workspace", f"{named} is outside the workspace", subject))
    return Effect(EffectKind.WRITES, (tool, path), (real or path,)) if use.write else None


def _closed(path: str, judged: "PathJudgement") -> Finding:
    """What speaks against a path that is not simply open."""
    if judged.verdict is Verdict.DENY:
        return Finding(judged.verdict, judged.rule, f"{path} is not open to tools: {judged.reason}")
    subject = spelled(("write", judged.real))
    return Finding(judged.verdict, judged.rule, f"it writes {judged.real}: {judged.reason}", subject)


def _starts_something(path: str, context: ToolContext) -> bool:
    """Whether a path is one of the home's dot files, outside of the workspace: nobody knows all that run them."""
    home, workspace = context.places.home, context.places.workspace
    if not path.startswith(f"{home}/.") or is_or_below(path, context.places.hermes):
        return False
    return not is_or_below(path, workspace) or is_or_below(home, workspace)


def _command(command: str, arguments: Arguments, context: ToolContext) -> tuple[str, str, Judgement]:
    from hermes.safety.shell.commands import analyse  # its tables are read when there is a command to judge

    folder = str(arguments.get("workdir") or ".")
    real = context.real(folder)
    cwd = real if real is not None and ".." in folder.split("/") else str(context.resolve(folder))
    places = context.places
    if real == places.workspace:
        places = structs.replace(places, workspace=cwd)  # the session's own folder by the name it goes by here
    line = command.strip() if cwd == places.workspace else f"cd {cwd} && {command.strip()}"
    state = context.state
    judged = analyse(command, cwd, places, state.environment, state.moved)
    state.moved.update(judged.moved)
    return cwd, line, judged


def _dot_files(judged: Judgement, context: ToolContext) -> Iterator[Finding]:
    """Where no kernel holds them back, commands that write the home's dot files ask, whichever program reads those."""
    for effect in () if context.backend.contained else judged.effects:
        for target in effect.targets if effect.kind in _CHANGES else ():
            if _starts_something(os.path.normpath(target), context) and "/.cache/" not in target:
                yield Finding(Verdict.ASK, "dot-file", f"{target} is a setting of some program", spelled((">", target)))


def _reads_all(judged: Judgement, context: ToolContext) -> Iterator[Finding]:
    """Where keys can be read, programs that read a whole folder with keys in it, or a key that they are given, ask."""
    if context.backend.contained:
        return
    from hermes.safety.paths import read_refused

    for simple in judged.commands:
        for path in _taken(simple, context):
            if is_or_below(context.places.home, path) or read_refused(path, context.places):
                yield Finding(Verdict.ASK, "reads-secret", f"it reads keys, or all of {path}", spelled(simple.argv))
                break


def _taken(simple: Simple, context: ToolContext) -> Iterator[str]:
    """The paths that a program which reads whole folders is given."""
    name = simple.argv[0].rpartition("/")[2] if simple.argv else ""
    if name == "find" and not any("exec" in word or "-ok" in word for word in simple.argv):
        return
    for word in simple.argv[1:] if name in _READ_FOLDERS else ():
        if len(word) < _LONGEST_PATH:
            yield os.path.normpath(context.places.expand(word, simple.cwd))


def _led_elsewhere(judged: Judgement, context: ToolContext) -> Iterator[Finding]:
    """What the analysis of the text cannot see: paths that lead to protected places through links, as they are now.

    In a sandbox the kernel sees it.
    """
    if context.backend.contained:
        return
    from hermes.safety.path_policy import judge_path

    changed = {target for effect in judged.effects if effect.kind in _CHANGES for target in effect.targets}
    for path in sorted(changed | _named(judged))[:_MOST_PATHS]:
        real = _other_name(path)
        found = judge_path(path, "write" if path in changed else "read", "/", context.places) if real else None
        if found is not None and found.verdict is not Verdict.ALLOW:
            own = is_or_below(real, context.places.hermes)
            verdict = Verdict.DENY if own else Verdict.ASK
            yield Finding(verdict, "protected-path", f"{path} leads to {real}: {found.reason}", spelled((">", real)))


def _deletes_elsewhere(judged: Judgement, context: ToolContext) -> Iterator[Finding]:
    """What is deleted by a name in the session's folder, though a link on the way leads out of it as things are now.

    A link that is named itself is only unlinked, unless a slash or a pattern stands behind it or a search starts there.
    """
    workspace = os.path.realpath(context.places.workspace)
    for effect in judged.effects if not context.backend.contained else ():
        searches = effect.argv[:1] in (("find",), ("gfind",)) or any(word[-1:] in "/*?]." for word in effect.argv)
        for target in effect.targets if effect.kind is EffectKind.DELETES else ():
            real = os.path.realpath(target if searches else os.path.dirname(target))
            if is_or_below(target, context.places.workspace) and not is_or_below(real, workspace):
                reason = f"{target} leads to {real}, outside the session's folder"
                yield Finding(Verdict.ASK, "rm-outside", f"it deletes there: {reason}", spelled(effect.argv))


def _named(judged: Judgement) -> set[str]:
    """Whatever in the words of a line may be a path, from the folder in which its command would run."""
    words = ((simple.cwd, word) for simple in judged.commands for word in simple.argv)
    return {os.path.join(cwd, part) for cwd, word in words for part in _paths(word)}


def _other_name(path: str) -> str:
    """Where a path leads when it is a link, or one of several names of a file; empty when it is neither."""
    if path[:1] != "/" or not os.path.lexists(path):
        return ""
    real = os.path.realpath(path)
    if real != os.path.normpath(path):
        return real
    status = os.lstat(real)
    return real if stat.S_ISREG(status.st_mode) and status.st_nlink >= _LINKED else ""


def _paths(word: str) -> tuple[str, ...]:
    """What of a word may be a path: the whole of it, and what stands behind `=`, `@` or an option's letter."""
    if len(word) > _LONGEST_PATH or not word or "\0" in word:
        return ()
    behind = (word.partition(sign)[2] for sign in "=@")
    return tuple(dict.fromkeys(one for one in (word, *behind) if one))


def _written_before(judged: Judgement, context: ToolContext) -> Iterator[Finding]:
    """Where no kernel holds a command back, running what this session wrote needs a person."""
    if not context.state.wrote or context.backend.contained:
        return
    for effect in judged.effects:
        found = _own_files(effect, context) if effect.kind is EffectKind.RUNS else ()
        if found:
            shown = ", ".join(found[:_SHOWN]) + (f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else "")
            reason = f"it runs what this session wrote: {shown}"
            yield Finding(Verdict.ASK, "runs-own-file", reason, spelled(effect.argv))


def _own_files(effect: Effect, context: ToolContext) -> Sequence[str]:
    """What a command would run of the files that this session wrote, or that were made since it began."""
    there = (path for path in context.state.wrote if any(_is_in(path, target) for target in effect.targets))
    found = [path for path in there if narrowed(effect, path, context)]
    return found or [one for one in effect.targets if _made_since(one, context.state.began)]


def _made_since(path: str, began: float) -> bool:
    """Whether a file was made, changed, linked or renamed since, by whatever program; its change time cannot be set."""
    if path[:1] != "/":
        return False
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return False
    return stat.S_ISREG(status.st_mode) and status.st_ctime >= began


def _is_in(path: str, target: str) -> bool:
    real = os.path.realpath(target)
    return is_or_below(path, target) or is_or_below(path, real)


def _addresses(addresses: Sequence[str], tool: str, context: ToolContext) -> list[Finding]:
    """What is wrong with the addresses. Where only some of several are refused, the tool itself leaves those out."""
    if not addresses:
        return []
    from hermes.safety.urls import UrlPolicy, judge_url

    policy = UrlPolicy(private=context.web.private if context.web is not None else ())
    judged = [(url, judge_url(url, policy)) for url in addresses]
    if any(one.verdict is Verdict.ALLOW for _, one in judged):
        return []
    return [Finding(one.verdict, one.rule, one.reason, f"{tool} {url}") for url, one in judged]


def _host(url: str) -> str:
    from hermes.safety.urls import judge_url

    return judge_url(url).host


def _bare(host: str) -> str:
    """The name in what a command calls a host, which may come with a user and a port."""
    name = host.rsplit("@", 1)[-1].lower()
    return name.rsplit(":", 1)[0] if name.count(":") == 1 else name


def known_host(host: str, context: ToolContext, hosts: Sequence[str], port: int = 0) -> bool:
    """Whether this host needs no question though text from a stranger stands in the conversation.

    `port` is 0 where it is not known.
    """
    bare = _bare(host)
    names = (bare, f"{bare}:{port}") if port else (bare,)
    return context.state.taint.named(placed(bare, port)) or any(
        covers(pattern.lower(), name) for pattern in hosts for name in names
    )


def _tainted(effects: Sequence[Effect], context: ToolContext, hosts: Sequence[str], *, held: bool) -> Iterator[Finding]:
    """While a stranger's text stands in what is sent: what leaves, what stays, and what it would run, need a person.

    `held` is for commands in a sandbox: their connections are asked about when they make them, by the host that they
    really name, and what they run is held by the kernel.
    """
    sources = context.state.taint.sources()
    if not sources:
        return
    because = f"text from {sources[-1].partition(':')[2]} stands in this conversation"
    for effect in effects:
        if effect.kind in LEAVES:
            found = () if held else _leaving(effect, context, hosts)
        elif effect.kind in _STAYS:
            found = _staying(effect)
        else:
            found = () if held else _running(effect, context)
        for rule, reason, subject in found:
            yield Finding(Verdict.ASK, rule, f"{reason} while {because}", subject or spelled(effect.argv))


_Said = tuple[str, str, str]


def _leaving(effect: Effect, context: ToolContext, hosts: Sequence[str]) -> tuple[_Said, ...]:
    """What there is to say about a connection: nothing when every host of it is known."""
    strange = [target for target in effect.targets if not known_host(target, context, hosts)]
    if not strange and effect.targets:
        return ()
    where = ", ".join(plain_host(one) for one in strange[:_SHOWN]) or "a host that cannot be told"
    return (("tainted-egress", f"it reaches {where}", f"connect {where}"),)


def _staying(effect: Effect) -> tuple[_Said, ...]:
    """What there is to say about something that is kept: of files, only those that act later count."""
    kept = effect.targets if effect.kind is EffectKind.PERSISTS else [one for one in effect.targets if runs_later(one)]
    if not kept:
        return ()
    named = ", ".join(kept[:_SHOWN])
    return (("tainted-persistence", f"it keeps {named}, which acts later,", f"keep {named}"),)


def _running(effect: Effect, context: ToolContext) -> tuple[_Said, ...]:
    """What there is to say about files that run: nothing where the person vouches for them, or there are none."""
    if effect.kind is EffectKind.UNKNOWN:
        return (("tainted-run", "it runs files that nobody vouched for", ""),)
    if effect.kind is not EffectKind.RUNS:
        return ()
    files = list(effect.targets)
    told_otherwise = any(name.startswith("GIT_") for name in context.state.environment)
    if is_hooks(effect) and not told_otherwise and (programs := programs_of(effect)) is not None:
        files = programs
    strange = [one for one in files if one[:1] == "/" and _is_strange(one, context)]
    return (
        (("tainted-run", f"it runs files that nobody vouched for{_listed(strange, context)}", ""),) if strange else ()
    )


def _listed(files: Sequence[str], context: ToolContext) -> str:
    named = [os.path.relpath(one, context.places.workspace) for one in files[:_SHOWN] if os.path.isfile(one)]
    return f": {', '.join(named)}" if named else ""


def _is_strange(path: str, context: ToolContext) -> bool:
    return bool(context.trust.source(os.path.realpath(path), context.places.workspace))


def origin(
    effects: Sequence[Effect],
    paths: Iterable[str],
    context: ToolContext,
    reached: Collection[str] | None,
    *,
    runs: bool,
) -> Provenance | None:
    """Where the text that comes of a call is from, when it is a stranger's; None when it can be trusted.

    Something came from the hosts that were `reached`; None: nobody saw that, and the text of the call is all there is.
    `runs`: a program made the text, which may be of whatever processes in the background have heard.
    """
    spill = f"{os.path.realpath(context.spill)}/"
    named = (os.path.realpath(one) for effect in effects if effect.kind is EffectKind.READS for one in effect.targets)
    files = (*paths, *named)
    processes = context.state.processes
    heard = processes.heard() if runs else set().union(*(processes.heard(_changed_at(one)) for one in files))
    hosts = [*(_told_hosts(effects) if reached is None else ()), *sorted(heard.union(reached or ()))]
    sources = dict.fromkeys(f"{Source.WEB}:{host}" for host in hosts)
    for path in files:
        sources |= dict.fromkeys(_sources_of_file(path, context, spill))
    return derived(sources)


def _told_hosts(effects: Iterable[Effect]) -> Iterator[str]:
    """The hosts that a call reaches by its own words."""
    for effect in effects:
        if effect.kind in LEAVES and not _only_notes(effect.argv):
            yield from map(plain_host, effect.targets or ("a host that cannot be told",))


def _only_notes(argv: Sequence[str]) -> bool:
    """Whether a command of git's only writes an address down, and reaches nobody by it."""
    verb = argv[:3]
    return verb[:2] == ("git", "config") or (
        verb[:2] == ("git", "remote") and verb[2:] in _NOTES and not {*argv} & {"-f", "--fetch"}
    )


def _changed_at(path: str) -> float:
    """When a file was changed, by whatever program; before all time when it is no file that is there."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return -1.0
    return status.st_ctime if stat.S_ISREG(status.st_mode) else -1.0


def _sources_of_file(path: str, context: ToolContext, spill: str) -> Sequence[str]:
    """Whose text a file holds: nobody else's where the person vouches for its folder."""
    if path.startswith(spill):
        # A result that was too long for the conversation is as strange as what stands in it.
        return context.state.taint.sources()
    made = context.state.wrote.get(path)
    if made:
        return made.split("\n")
    if made is None and (marked := context.marked.sources(path)):
        return marked
    folder = context.trust.source(path, context.places.workspace) if made is None else ""
    return (f"{Source.FILE}:{folder}",) if folder else ()
