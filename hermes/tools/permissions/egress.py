"""Finds the hosts that commands reach, by the names that people know."""

import re
from collections.abc import Mapping, Sequence

from msgspec import structs

from hermes.execution.git_programs import read_remotes
from hermes.safety.shell.findings import CommandEffect, CommandJudgement, EffectKind
from hermes.tools.session import ToolContext

EGRESS_KINDS = (EffectKind.SENDS, EffectKind.FETCHES)
_REGISTRY = "registry"
_ADDRESS = re.compile(r"[a-z+]+://(?:[^/@\s]*@)?([\w.-]+)")
_HOST = re.compile(r"(?:\w+://)?(?:[^@/]*@)?([\w.-]+)[:/]")


def name_egress_hosts(judged: CommandJudgement, context: ToolContext) -> tuple[CommandEffect, ...]:
    """Return the effects of a line, with the hosts that they reach by name.

    A file or a variable may configure another registry for a package program, so it goes by the program's name,
    `packages(pip)`, which no pattern of a host covers.
    """
    found: list[CommandEffect] = []
    for effect in judged.effects:
        if effect.kind not in EGRESS_KINDS or not effect.argv:
            found.append(effect)
            continue
        is_git = effect.argv[0] == "git"
        targets = _find_remote_targets(effect, judged, context) if is_git else _name_registry(effect)
        if targets or not effect.targets:
            found.append(structs.replace(effect, targets=targets))
    return tuple(found)


def host_from_target(target: str) -> str:
    """Return the host that a target's name stands for."""
    return target.partition("(")[0]


def _name_registry(effect: CommandEffect) -> tuple[str, ...]:
    if _REGISTRY not in effect.targets:
        return effect.targets
    program = effect.argv[0].rpartition("/")[2]
    hosts = [match[1] for word in effect.argv[1:] for match in _ADDRESS.finditer(word)] or ["packages"]
    others = (one for one in effect.targets if one != _REGISTRY)
    return (*dict.fromkeys(f"{one}({program})" for one in hosts), *others)


def _find_remote_targets(effect: CommandEffect, judged: CommandJudgement, context: ToolContext) -> tuple[str, ...]:
    """Return the hosts of a repository's remote; its name where they cannot be told."""
    options = any(word.startswith("-") for word in effect.argv[1:2])  # `-C`, `--git-dir`: another repository
    folders = {one.cwd for one in judged.commands if one.argv[: len(effect.argv)] == effect.argv}
    if options or "GIT_DIR" in context.state.environment or len(folders) != 1:
        return effect.targets
    sends, remotes = effect.kind is EffectKind.SENDS, read_remotes(folders.pop(), context.places.workspace)
    return tuple(one for name in effect.targets for one in _find_remote_hosts(remotes, name, sends=sends))


def _find_remote_hosts(remotes: Mapping[str, Mapping[str, str]], name: str, *, sends: bool) -> Sequence[str]:
    urls = {} if "." in name or "/" in name else remotes.get(name, {})
    url = (urls.get("pushurl") if sends else None) or urls.get("url")
    if url is None:
        return (name,)
    if url.startswith(("/", ".", "file://")):
        return ()
    found = _HOST.match(url)
    return (found[1],) if found else (name,)
