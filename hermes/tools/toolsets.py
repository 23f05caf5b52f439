"""Toolsets: names for groups of tools, as data. A set may include others. The names are those that users know."""

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from hermes.core.errors import ConfigError
from hermes.i18n.messages import N_


class Toolset(Struct, frozen=True):
    """A named group of tools."""

    tools: tuple[str, ...] = ()
    includes: tuple[str, ...] = ()


def _split_words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_CORE = _split_words(
    "file terminal todo clarify web browser vision image_gen tts homeassistant skills memory session_search cronjob"
    " delegation"
    " code_execution"
)
_PLATFORMS = _split_words("cli cron telegram discord slack email matrix ntfy api-server")
"""Front-ends by which settings name sets, as those of other programs do: each has the same tools."""
_NOT_GATEWAY = ("cli", "cron", "api-server")

_TOOL_LISTS = """
file: read_file write_file patch search_files
terminal: terminal process
todo: todo
tools: tool_search tool_call
clarify: clarify
web: web_search web_extract
search: web_search
browser: browser_navigate browser_snapshot browser_click browser_type browser_press browser_select browser_scroll
browser: browser_hover browser_drag browser_upload browser_wait browser_tabs browser_back browser_dialog
browser: browser_console browser_get_images browser_vision web_search
browser-cdp: browser_cdp
vision: vision_analyze
image_gen: image_generate
homeassistant: ha_list_entities ha_get_state ha_list_services ha_call_service
skills: skills_list skill_view skill_manage
cronjob: cronjob
messages: send_message
memory: memory
session_search: session_search
delegation: delegate_task
code_execution: execute_code
tts: text_to_speech
"""
_INCLUDED: Mapping[str, tuple[str, ...]] = {"browser": ("web_search",)}
ABSENT_TOOLSETS = frozenset(
    _split_words(
        """
        x_search video video_gen computer_use context_engine project
        kanban discord discord_admin yuanbao feishu_doc feishu_drive spotify hermes-acp
        hermes-bluebubbles hermes-dingtalk hermes-feishu hermes-homeassistant hermes-mattermost hermes-qqbot
        hermes-signal hermes-sms hermes-wecom hermes-wecom-callback hermes-weixin hermes-whatsapp hermes-yuanbao
        """
    )
)
"""Names of sets that settings of other programs hold, and this version has no tools or no front-end for: they are
named, and nothing more is done.
"""


def _parse_tool_lists() -> dict[str, Toolset]:
    found: dict[str, tuple[str, ...]] = {}
    for name, _, tools in (line.partition(":") for line in _TOOL_LISTS.strip().splitlines()):
        found[name] = (*found.get(name, ()), *_split_words(tools))
    return {name: Toolset(tools=tools) for name, tools in found.items()}


def _combine_sets(*names: str) -> Toolset:
    return Toolset(includes=names)


TOOLSETS: Mapping[str, Toolset] = {
    **_parse_tool_lists(),
    "debugging": Toolset(tools=("terminal", "process"), includes=("web", "file")),
    "safe": _combine_sets("web", "vision", "image_gen"),
    "coding": _combine_sets(
        *_split_words(
            "file terminal todo clarify web vision image_gen skills memory session_search delegation code_execution"
        )
    ),
    **{f"hermes-{name}": _combine_sets(*_CORE) for name in _PLATFORMS},
    "hermes-webhook": _combine_sets("clarify", "web", "vision"),
    "hermes-gateway": _combine_sets(
        *(f"hermes-{name}" for name in (*_PLATFORMS, "webhook") if name not in _NOT_GATEWAY)
    ),
}

DEFAULT_TOOLSETS = _CORE
ALL_TOOLSETS = ("all", "*")
MCP_TOOLSET = "mcp"
"""The tool set that stands for all servers of MCP; `mcp-NAME` is the set of one server."""


def is_mcp_toolset(name: str) -> bool:
    """Return whether a tool set is that of MCP servers, of all or of one."""
    return name == MCP_TOOLSET or name.startswith(f"{MCP_TOOLSET}-")


PLUGIN_TOOLSET = "plugin"
"""`plugin-NAME` is the set of the plug-in of that name, there in sessions for which it is enabled."""


def is_plugin_toolset(name: str) -> bool:
    """Return whether a tool set is that of a plug-in, whether or not there is one of that name."""
    return name.startswith(f"{PLUGIN_TOOLSET}-")


def without_mcp_toolsets(names: Iterable[str]) -> list[str]:
    """Return the tool sets that do not belong to MCP servers."""
    return [name for name in names if not is_mcp_toolset(name)]


def resolve_toolset(name: str, sets: Mapping[str, Toolset] = TOOLSETS) -> list[str]:
    """Return the tools of a set and of the sets it includes, each once, in order. A set that includes itself is cut
    there.

    `all` and `*` stand for every set. Raises `ConfigError` for a name that is no set.
    """
    found: dict[str, None] = {}
    for start in sets if name in ALL_TOOLSETS else (name,):
        _collect_tools(start, sets, found, set())
    return list(found)


def select_tool_names(
    enabled: Sequence[str], disabled: Sequence[str] = (), sets: Mapping[str, Toolset] = TOOLSETS
) -> list[str]:
    """Return the tools of all enabled sets without those of the disabled ones. Raises `ConfigError` for an unknown
    name.

    A tool that a set includes and another one owns stays.
    """
    without = {tool for name in disabled for tool in resolve_toolset(name, sets) if tool not in _INCLUDED.get(name, ())}
    return _remove_duplicates(tool for name in enabled for tool in resolve_toolset(name, sets) if tool not in without)


def _collect_tools(name: str, sets: Mapping[str, Toolset], found: dict[str, None], visited: set[str]) -> None:
    if name in visited:
        return
    visited.add(name)
    toolset = sets.get(name)
    if toolset is None:
        raise ConfigError(N_("There is no toolset {name}.", name=repr(name)))
    found.update(dict.fromkeys(toolset.tools))
    for other in toolset.includes:
        _collect_tools(other, sets, found, visited)


def _remove_duplicates(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))
