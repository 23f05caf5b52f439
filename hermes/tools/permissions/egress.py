"""Finds the hosts that commands reach, by the names that people know."""

import re

from msgspec import structs

from hermes.safety.shell.findings import CommandEffect, CommandJudgement, EffectKind
from hermes.tools.git_remotes import name_remotes
from hermes.tools.session import ToolContext

EGRESS_KINDS = (EffectKind.SENDS, EffectKind.FETCHES)
_REGISTRY = "registry"
_ADDRESS = re.compile(r"[a-z+]+://(?:[^/@\s]*@)?([\w.-]+)")


def name_egress_hosts(judged: CommandJudgement, context: ToolContext) -> tuple[CommandEffect, ...]:
    """Return the effects of a line, with the hosts that they reach by name.

    A file or a variable may configure another registry for a package program, so it goes by the program's name,
    `packages(pip)`, which no pattern of a host covers.
    """
    found: list[CommandEffect] = []
    for effect in judged.effects:
        if effect.kind not in EGRESS_KINDS or not effect.argv:
            found.append(effect)
        elif effect.argv[0] == "git":
            found += name_remotes(effect, judged, context)
        else:
            found.append(structs.replace(effect, targets=_name_registry(effect)))
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
