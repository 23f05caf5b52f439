"""What speaks against a call, from each side that there is: paths, command, addresses, taint, files written before."""

import os.path
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from msgspec import structs

from hermes.core.parts import Provenance, Source
from hermes.safety.findings import Effect, EffectKind, Finding, Judgement, Verdict
from hermes.safety.later import runs_later
from hermes.safety.patterns import covers
from hermes.tools.schema import Arguments
from hermes.tools.session import ToolContext
from hermes.tools.taint import derived
from hermes.tools.tool import Tool

_LEAVES = (EffectKind.SENDS, EffectKind.FETCHES)
_KEPT = (EffectKind.WRITES, EffectKind.OVERWRITES)
_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Weighed:
    """All that was found about a call: what speaks against it, what it would do, and what it is shown as."""

    findings: tuple[Finding, ...]
    effects: tuple[Effect, ...]
    subject: str
    cwd: str
    line: str
    """The pattern that allows the whole of it, where there is one."""
    subjects: tuple[str, ...]
    """What a person's own rules are matched against."""


def weigh(tool: Tool, arguments: Arguments, context: ToolContext, hosts: Sequence[str]) -> Weighed:
    """Everything that speaks against a call. `hosts` are patterns of hosts that the person's settings allow."""
    paths = [(use, context.real(use.path), str(context.resolve(use.path))) for use in tool.paths(arguments)]
    addresses = tuple(tool.hosts(arguments))
    command = tool.command(arguments)
    findings: list[Finding] = []
    effects: list[Effect] = []
    for use, real, named in paths:
        findings += _path(use.path, real, named, write=use.write, tool=tool.name, context=context)
        if real is not None and use.write:
            effects.append(Effect(EffectKind.WRITES, (tool.name, use.path), (real,)))
    subject, cwd, line = tool.line(arguments) or tool.name, "", ""
    if command:
        subject, cwd, line, judged = _command(command, arguments, context)
        findings += judged.held(sandboxed=context.backend.contained)
        findings += _written_before(judged, context)
        findings += _tainted(judged.effects, context, hosts, held=context.backend.contained)
    elif paths:
        subject = f"{tool.name} {paths[0][0].path}"
    elif addresses:
        subject = f"{tool.name} {' '.join(addresses)}"
    findings += _addresses(addresses, tool.name, context)
    effects += [Effect(EffectKind.FETCHES, (tool.name, one), (_host(one),)) for one in addresses]
    kept = tool.keeps(arguments)
    if kept:
        effects.append(Effect(EffectKind.PERSISTS, (tool.name,), (kept,)))
    findings += _tainted(effects, context, hosts, held=False)
    if command:
        effects += judged.effects
    subjects = (*(" ".join(effect.argv) for effect in effects), subject)
    return Weighed(tuple(findings), tuple(effects), subject, cwd, line, tuple(dict.fromkeys(subjects)))


def _path(
    path: str, real: str | None, named: str, *, write: bool, tool: str, context: ToolContext
) -> Iterator[Finding]:
    from hermes.safety.paths import read_refused, write_refused

    refused = write_refused if write else read_refused
    if real is None:
        yield Finding(Verdict.DENY, "protected-path", f"{path} is not open to tools: where it leads cannot be told")
        return
    why = refused(real, context.places)
    if not why and os.path.normpath(named) != real:
        why = refused(os.path.normpath(named), context.places)
    if why:
        yield Finding(Verdict.DENY, "protected-path", f"{path} is not open to tools: {why}")
    elif write and not context.backend.writable(real):
        folder = os.path.dirname(real)
        yield Finding(Verdict.ASK, "outside-workspace", f"{real} is outside the workspace", f"write {folder}/*")


def _command(command: str, arguments: Arguments, context: ToolContext) -> tuple[str, str, str, Judgement]:
    from hermes.safety.commands import analyse  # its tables are read when there is a command to judge

    folder = str(arguments.get("workdir") or ".")
    real = context.real(folder)
    cwd = real if real is not None and ".." in folder.split("/") else str(context.resolve(folder))
    places = context.places
    if real == places.workspace:
        places = structs.replace(places, workspace=cwd)  # the session's own folder by the name it goes by here
    line = command.strip() if cwd == places.workspace else f"cd {cwd} && {command.strip()}"
    return command, cwd, line, analyse(command, cwd, places, context.state.environment)


def _written_before(judged: Judgement, context: ToolContext) -> Iterator[Finding]:
    """Where no kernel holds a command back, running what this session wrote needs a person."""
    wrote = context.state.wrote
    if not wrote or context.backend.contained:
        return
    for effect in judged.effects:
        if effect.kind is not EffectKind.RUNS:
            continue
        found = [path for path in wrote if any(_is_in(path, target) for target in effect.targets)]
        if found:
            shown = ", ".join(found[:_SHOWN]) + (f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else "")
            yield Finding(
                Verdict.ASK, "runs-own-file", f"it runs what this session wrote: {shown}", " ".join(effect.argv)
            )


def _is_in(path: str, target: str) -> bool:
    real = os.path.realpath(target)
    return path in (target, real) or path.startswith((target.rstrip("/") + "/", real.rstrip("/") + "/"))


def _addresses(addresses: Iterable[str], tool: str, context: ToolContext) -> Iterator[Finding]:
    if not addresses:
        return
    from hermes.safety.urls import UrlPolicy, judge_url

    policy = UrlPolicy(private=context.web.private if context.web is not None else ())
    for url in addresses:
        judged = judge_url(url, policy)
        if judged.verdict is not Verdict.ALLOW:
            yield Finding(judged.verdict, judged.rule, judged.reason, f"{tool} {url}")


def _host(url: str) -> str:
    from hermes.safety.urls import judge_url

    return judge_url(url).host


def known_host(host: str, context: ToolContext, hosts: Sequence[str]) -> bool:
    """Whether this host needs no question though text from a stranger stands in the conversation."""
    name = host.rsplit("@", 1)[-1].lower()
    bare = name.rsplit(":", 1)[0] if name.count(":") == 1 else name
    return context.state.taint.named(bare) or any(covers(pattern.lower(), bare) for pattern in hosts)


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
        if effect.kind in _LEAVES and not held:
            strange = [target for target in effect.targets if not known_host(target, context, hosts)]
            if strange or not effect.targets:
                where = ", ".join(strange[:_SHOWN]) or "a host that cannot be told"
                yield Finding(Verdict.ASK, "tainted-egress", f"it reaches {where} while {because}", f"connect {where}")
        elif effect.kind is EffectKind.PERSISTS:
            kept = ", ".join(effect.targets[:_SHOWN])
            yield Finding(Verdict.ASK, "tainted-persistence", f"it keeps {kept} while {because}", f"keep {kept}")
        elif effect.kind in _KEPT and (later := [one for one in effect.targets if runs_later(one)]):
            reason = f"{later[0]} is run or obeyed later, while {because}"
            yield Finding(Verdict.ASK, "tainted-persistence", reason, f"keep {later[0]}")
        elif not held and _runs_strangers(effect, context):
            reason = f"it runs files that nobody vouched for while {because}"
            yield Finding(Verdict.ASK, "tainted-run", reason, " ".join(effect.argv))


def _runs_strangers(effect: Effect, context: ToolContext) -> bool:
    if effect.kind is EffectKind.UNKNOWN:
        return True
    if effect.kind is not EffectKind.RUNS:
        return False
    workspace = context.places.workspace
    return any(context.trust.source(os.path.realpath(one), workspace) for one in effect.targets if one[:1] == "/")


def origin(effects: Iterable[Effect], paths: Iterable[str], context: ToolContext) -> Provenance | None:
    """Where the text that comes of a call is from, when it is a stranger's; None when it can be trusted."""
    sources: dict[str, None] = {}
    for effect in effects:
        if effect.kind is EffectKind.FETCHES:
            for host in effect.targets or ("a host that cannot be told",):
                sources[f"{Source.WEB}:{host}"] = None
    for path in paths:
        made = context.state.wrote.get(path)
        if made:
            sources |= dict.fromkeys(made.split("\n"))
        elif made is None and (folder := context.trust.source(path, context.places.workspace)):
            sources[f"{Source.FILE}:{folder}"] = None
    return derived(sources)
