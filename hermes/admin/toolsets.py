"""Show and switch tool sets, and tell why each is on or off; shared by every front-end."""

import os
from collections.abc import Collection, Mapping, Sequence

from msgspec import Struct, structs

from hermes.admin.config import change_settings, locate_writable_home
from hermes.config.environment import merge_dotenv
from hermes.config.home import HermesHome, locate_home
from hermes.config.load import load_settings
from hermes.config.settings import Settings
from hermes.core.encoding import Plain
from hermes.core.errors import UsageError
from hermes.i18n.messages import N_, localize, tr
from hermes.sessions.session_tools import OWNED_TOOLS, check_toolsets, list_server_toolsets
from hermes.tools import toolsets
from hermes.tools.registry import KnownTool, ToolRegistry, ToolSurroundings
from hermes.tools.tool import Tool
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


def list_toolsets(environ: Mapping[str, str], *, with_packages: bool = False) -> list[Plain]:
    """List every set that holds tools in this version: its tools, whether it is on, and why; and which of its tools
    are hidden since they cannot work (`hidden`: name and reason).

    `with_packages` adds those of enabled packages, which are imported for that.
    """
    home = locate_home(environ)
    settings = load_settings(home).settings
    around = ToolSurroundings(merge_dotenv(environ, home.env_file), settings)
    rows = list_toolsets_of(settings, around.environ)
    return [*rows, *_list_package_toolsets(home, around, {str(row["name"]) for row in rows})] if with_packages else rows


def list_toolsets_of(settings: Settings, environ: Mapping[str, str]) -> list[Plain]:
    """List the sets like `list_toolsets`, by settings that are loaded, and the variables with those of `.env`."""
    registry, around = ToolRegistry(), ToolSurroundings(environ, settings)
    found: list[Plain] = []
    for name in _toolset_names(registry, settings):
        on, why = _toolset_state(settings, name)
        tools = _tools_of(registry, name, settings)
        known = [tool for one in tools if (tool := registry.find_known(one)) is not None]
        hidden = _find_hidden(known, around) or _find_missing_server(name, around)
        found.append({"name": name, "on": on, "why": why, "tools": tools, "hidden": hidden})
    return found


def _list_package_toolsets(home: HermesHome, around: ToolSurroundings, known: Collection[str]) -> list[Plain]:
    """List the sets that enabled packages add; nothing is imported where nothing was ever enabled."""
    if not os.path.lexists(home.consent_file):
        return []
    from hermes.sessions.features.packages import load_new_tools

    sets: dict[str, list[Tool]] = {}
    for tool in load_new_tools().tools:
        if tool.toolset not in known:
            sets.setdefault(tool.toolset, []).append(tool)
    chosen = around.settings.toolsets
    return [
        {
            "name": name,
            "on": not chosen or name in chosen or not {*toolsets.ALL_TOOLSETS}.isdisjoint(chosen),
            "why": tr("an enabled package adds it; `hermes plugins` switches it"),
            "tools": [tool.name for tool in tools],
            "hidden": _find_hidden(tools, around),
        }
        for name, tools in sorted(sets.items())
    ]


def _find_hidden(tools: Sequence[KnownTool], around: ToolSurroundings) -> dict[str, str]:
    """Return the tools that cannot work here, with the reasons."""
    return {tool.name: localize(why) for tool in tools if (why := around.explain_missing(tool))}


def _find_missing_server(name: str, around: ToolSurroundings) -> dict[str, str]:
    """Return that no tool of an MCP server is there, where its program is not."""
    if not name.startswith(f"{MCP_TOOLSET}-"):
        return {}
    from hermes.sessions.mcp_servers import explain_missing_program

    why = explain_missing_program(around.settings, around.environ, name.removeprefix(f"{MCP_TOOLSET}-"))
    return {name: localize(why)} if why else {}


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
    _refuse_package_sets(home, settings, wanted)
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


def _refuse_package_sets(home: HermesHome, settings: Settings, names: Sequence[str]) -> None:
    """Raise UsageError for the set of a package: a setting that names it would be wrong without the package."""
    known = {*toolsets.TOOLSETS}
    if known.issuperset(names):
        return
    added = {str(row["name"]) for row in _list_package_toolsets(home, ToolSurroundings({}, settings), known)}
    for name in names:
        if name in added:
            raise UsageError(
                N_("The tool set {name} belongs to an enabled package.", name=name),
                N_("`hermes plugins` lists the packages; `hermes plugins disable NAME` switches one off."),
            )


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
