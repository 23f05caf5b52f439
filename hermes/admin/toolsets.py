"""Show and switch tool sets, and tell why each is on or off; shared by every front-end."""

from collections.abc import Mapping, Sequence

from msgspec import Struct, structs

from hermes.admin.config import change_settings, locate_writable_home
from hermes.config.home import locate_home
from hermes.config.load import load_settings
from hermes.config.settings import Settings
from hermes.core.encoding import Plain
from hermes.i18n.messages import tr
from hermes.sessions.session_tools import OWNED_TOOLS, check_toolsets, list_server_toolsets
from hermes.tools import toolsets
from hermes.tools.registry import ToolRegistry
from hermes.tools.toolsets import MCP_TOOLSET

BY_DEFAULT = ""
"""The reason why a set is on or off when no setting mentions it."""
_UNLISTED_PREFIXES = ("hermes-", "tools")
"""Sets of platforms, and the two tools that find others: they exist whenever there is something to find."""


class ToolsetChange(Struct, frozen=True):
    """The result of switching sets: those that changed, those that already were as
    requested, and the settings' file.
    """

    changed: tuple[str, ...]
    already: tuple[str, ...]
    file: str


def list_toolsets(environ: Mapping[str, str]) -> list[Plain]:
    """List every set that holds tools in this version: its tools, whether it is on, and why."""
    return list_toolsets_of(load_settings(locate_home(environ)).settings)


def list_toolsets_of(settings: Settings) -> list[Plain]:
    """List the sets like `list_toolsets`, by settings that are loaded."""
    registry = ToolRegistry()
    found: list[Plain] = []
    for name in _toolset_names(registry, settings):
        on, why = _toolset_state(settings, name)
        found.append({"name": name, "on": on, "why": why, "tools": _tools_of(registry, name, settings)})
    return found


def enable_toolsets(environ: Mapping[str, str], names: Sequence[str]) -> ToolsetChange:
    """Enable these sets from the next session on. Raises UsageError for an unknown name."""
    return _save_switch(environ, names, on=True)


def disable_toolsets(environ: Mapping[str, str], names: Sequence[str]) -> ToolsetChange:
    """Disable the tools of these sets from the next session on. Raises UsageError for an unknown name."""
    return _save_switch(environ, names, on=False)


def switch_toolsets(settings: Settings, names: Sequence[str], *, on: bool) -> Settings:
    """Return the settings with these sets on or off. Raises UsageError for an unknown name."""
    check_toolsets(settings, tuple(names))
    wanted = tuple(name for name in dict.fromkeys(names) if _toolset_state(settings, name)[0] is not on)
    enabled, disabled = (_lists_with if on else _lists_without)(settings, wanted)
    return structs.replace(settings, toolsets=tuple(enabled), disabled_toolsets=tuple(disabled))


def _save_switch(environ: Mapping[str, str], names: Sequence[str], *, on: bool) -> ToolsetChange:
    home = locate_writable_home(environ)
    settings = load_settings(home).settings
    wanted = tuple(dict.fromkeys(name.strip() for name in names))
    check_toolsets(settings, wanted)
    changed = tuple(name for name in wanted if _toolset_state(settings, name)[0] is not on)
    enabled, disabled = (_lists_with if on else _lists_without)(settings, changed)
    changes: dict[tuple[str, ...], object] = {}
    if disabled != list(settings.disabled_toolsets):
        changes["disabled_toolsets",] = disabled
    if enabled != list(settings.toolsets):
        changes["toolsets",] = enabled
    if changes:
        change_settings(home, changes)
    return ToolsetChange(changed, tuple(name for name in wanted if name not in changed), str(home.config_file))


def _lists_with(settings: Settings, names: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return `toolsets` and `disabled_toolsets` with these sets on."""
    disabled = [name for name in settings.disabled_toolsets if name not in names]
    default = [*toolsets.DEFAULT_TOOLSETS, *([MCP_TOOLSET] if list_server_toolsets(settings) else [])]
    chosen = list(settings.toolsets) or default
    missing = [name for name in names if not _is_included(name, chosen)]
    return [*chosen, *missing] if missing else list(settings.toolsets), disabled


def _lists_without(settings: Settings, names: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return `toolsets` and `disabled_toolsets` with these sets off."""
    disabled = list(dict.fromkeys([*settings.disabled_toolsets, *names]))
    if settings.toolsets and all(_is_included(name, disabled) for name in settings.toolsets):
        # A choice that leaves nothing is refused when a session starts; that none is on is not.
        return [], list(dict.fromkeys([*disabled, *toolsets.DEFAULT_TOOLSETS]))
    return list(settings.toolsets), disabled


def _toolset_names(registry: ToolRegistry, settings: Settings) -> list[str]:
    """List the sets that hold tools, except the platforms'; MCP servers are sets too."""
    known = registry.load_toolsets()
    default = {tool for name in toolsets.DEFAULT_TOOLSETS for tool in toolsets.resolve_toolset(name)}

    def offers_tools(name: str) -> bool:
        """Return whether the set offers something of its own, not only tools that it shares with others."""
        present = set(_tools_of(registry, name, settings))
        return bool(present) and (present == set(toolsets.resolve_toolset(name, known)) or not present <= default)

    return list(
        dict.fromkeys(
            [
                *toolsets.DEFAULT_TOOLSETS,
                *sorted(name for name in known if not name.startswith(_UNLISTED_PREFIXES) and offers_tools(name)),
                *list_server_toolsets(settings),
            ]
        )
    )


def _tools_of(registry: ToolRegistry, name: str, settings: Settings) -> list[str]:
    if name in list_server_toolsets(settings):
        return []
    bound = {tool for tools in OWNED_TOOLS.values() for tool in tools}
    known = (
        toolsets.resolve_toolset(name, registry.load_toolsets())
        if name in registry.load_toolsets()
        else list(OWNED_TOOLS.get(name, ()))
    )
    return [tool for tool in known if tool in bound or registry.get(tool) is not None]


def _toolset_state(settings: Settings, name: str) -> tuple[bool, str]:
    """Return whether a set is on, and the setting that says so."""
    if _is_included(name, settings.disabled_toolsets):
        return False, tr("`disabled_toolsets` names it")
    if settings.toolsets:
        named = _is_included(name, settings.toolsets)
        return named, tr("`toolsets` names it") if named else tr("`toolsets` does not name it")
    if name in list_server_toolsets(settings):
        return True, tr("`mcp_servers` names it")
    default = _is_included(name, toolsets.DEFAULT_TOOLSETS)
    return default, BY_DEFAULT


def _is_included(name: str, chosen: Sequence[str]) -> bool:
    """Return whether a set is among the chosen ones, or part of one of them."""
    if name in chosen or any(one in toolsets.ALL_TOOLSETS for one in chosen):
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
