"""Tool sets as a person switches them: which are on, what is in them, and why; shared by every front-end."""

from collections.abc import Mapping, Sequence

from msgspec import Struct, structs

from hermes.admin.config import change, writable_home
from hermes.config.home import locate_home
from hermes.config.load import load_settings
from hermes.config.settings import Settings
from hermes.i18n.messages import say
from hermes.sessions.formats.openai_format import Plain
from hermes.sessions.mcp_servers import SET
from hermes.sessions.toolset_names import OWNED_TOOLS, check_toolsets, servers_sets
from hermes.tools import toolsets
from hermes.tools.registry import Registry

BY_DEFAULT = ""
"""Why a set is on or off that nothing in the settings is about."""
_NOT_LISTED = ("hermes-", "tools")
"""Sets of platforms, and the two tools that find others: they are there whenever there is something to find."""


class Switched(Struct, frozen=True):
    """What came of switching: the sets that changed, those that already were as wanted, and the settings' file."""

    changed: tuple[str, ...]
    already: tuple[str, ...]
    file: str


def listed(environ: Mapping[str, str]) -> list[Plain]:
    """Every set that holds tools in this version: its tools, whether it is on, and why."""
    return standings(load_settings(locate_home(environ)).settings)


def standings(settings: Settings) -> list[Plain]:
    """The same by settings that are loaded."""
    registry = Registry()
    found: list[Plain] = []
    for name in _names(registry, settings):
        on, why = _standing(settings, name)
        found.append({"name": name, "on": on, "why": why, "tools": _tools(registry, name, settings)})
    return found


def enable(environ: Mapping[str, str], names: Sequence[str]) -> Switched:
    """Have these sets from the next session on. Raises UsageError for a name that is no set's."""
    return _switch(environ, names, on=True)


def disable(environ: Mapping[str, str], names: Sequence[str]) -> Switched:
    """Have the tools of these sets gone from the next session on. Raises UsageError for a name that is no set's."""
    return _switch(environ, names, on=False)


def switched(settings: Settings, names: Sequence[str], *, on: bool) -> Settings:
    """The settings with these sets on or off. Raises UsageError for a name that is no set's."""
    check_toolsets(settings, tuple(names))
    wanted = tuple(name for name in dict.fromkeys(names) if _standing(settings, name)[0] is not on)
    enabled, disabled = (_with if on else _without)(settings, wanted)
    return structs.replace(settings, toolsets=tuple(enabled), disabled_toolsets=tuple(disabled))


def _switch(environ: Mapping[str, str], names: Sequence[str], *, on: bool) -> Switched:
    home = writable_home(environ)
    settings = load_settings(home).settings
    wanted = tuple(dict.fromkeys(name.strip() for name in names))
    check_toolsets(settings, wanted)
    changed = tuple(name for name in wanted if _standing(settings, name)[0] is not on)
    enabled, disabled = (_with if on else _without)(settings, changed)
    changes: dict[tuple[str, ...], object] = {}
    if disabled != list(settings.disabled_toolsets):
        changes["disabled_toolsets",] = disabled
    if enabled != list(settings.toolsets):
        changes["toolsets",] = enabled
    if changes:
        change(home, changes)
    return Switched(changed, tuple(name for name in wanted if name not in changed), str(home.config_file))


def _with(settings: Settings, names: Sequence[str]) -> tuple[list[str], list[str]]:
    """`toolsets` and `disabled_toolsets` with these on."""
    disabled = [name for name in settings.disabled_toolsets if name not in names]
    default = [*toolsets.DEFAULT, *([SET] if servers_sets(settings) else [])]
    chosen = list(settings.toolsets) or default
    missing = [name for name in names if not _within(name, chosen)]
    return [*chosen, *missing] if missing else list(settings.toolsets), disabled


def _without(settings: Settings, names: Sequence[str]) -> tuple[list[str], list[str]]:
    """The same with these off."""
    disabled = list(dict.fromkeys([*settings.disabled_toolsets, *names]))
    if settings.toolsets and all(_within(name, disabled) for name in settings.toolsets):
        # A choice that leaves nothing is refused when a session starts; that none is on is not.
        return [], list(dict.fromkeys([*disabled, *toolsets.DEFAULT]))
    return list(settings.toolsets), disabled


def _names(registry: Registry, settings: Settings) -> list[str]:
    """The sets that hold tools, the platforms' left out; MCP servers are sets too."""
    known = registry.sets()
    default = {tool for name in toolsets.DEFAULT for tool in toolsets.resolve(name)}

    def filled(name: str) -> bool:
        """Whether the set has something to offer: one that lacks its own tools and shares the rest has not."""
        present = set(_tools(registry, name, settings))
        return bool(present) and (present == set(toolsets.resolve(name, known)) or not present <= default)

    return list(
        dict.fromkeys(
            [
                *toolsets.DEFAULT,
                *sorted(name for name in known if not name.startswith(_NOT_LISTED) and filled(name)),
                *servers_sets(settings),
            ]
        )
    )


def _tools(registry: Registry, name: str, settings: Settings) -> list[str]:
    if name in servers_sets(settings):
        return []
    bound = {tool for tools in OWNED_TOOLS.values() for tool in tools}
    known = toolsets.resolve(name, registry.sets()) if name in registry.sets() else list(OWNED_TOOLS.get(name, ()))
    return [tool for tool in known if tool in bound or registry.get(tool) is not None]


def _standing(settings: Settings, name: str) -> tuple[bool, str]:
    """Whether a set is on, and what says so."""
    if _within(name, settings.disabled_toolsets):
        return False, say("`disabled_toolsets` names it")
    if settings.toolsets:
        named = _within(name, settings.toolsets)
        return named, say("`toolsets` names it") if named else say("`toolsets` does not name it")
    if name in servers_sets(settings):
        return True, say("`mcp_servers` names it")
    default = _within(name, toolsets.DEFAULT)
    return default, BY_DEFAULT


def _within(name: str, chosen: Sequence[str]) -> bool:
    """Whether a set is among the chosen ones, or part of one of them."""
    if name in chosen or any(one in toolsets.EVERYTHING for one in chosen):
        return True
    waiting, seen = [one for one in chosen if one in toolsets.TOOLSETS], set[str]()
    while waiting:
        one = waiting.pop()
        if one == name:
            return True
        if one not in seen:
            seen.add(one)
            waiting += toolsets.TOOLSETS[one].includes
    return False
