"""Toolsets: names for groups of tools, as data. A set may include others. The names are those that users know."""

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from hermes.core.errors import ConfigError
from hermes.i18n.messages import N_


class Toolset(Struct, frozen=True):
    """A named group of tools. A tool that does not exist (yet) in this program resolves to nothing."""

    tools: tuple[str, ...] = ()
    includes: tuple[str, ...] = ()


def _split_words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_CORE = _split_words(
    """
        file terminal todo clarify web vision image_gen skills browser tts memory session_search cronjob code_execution
        delegation homeassistant computer_use
        """
)
_PLATFORMS = _split_words(
    """
    cli cron telegram discord whatsapp slack signal bluebubbles homeassistant email mattermost matrix dingtalk feishu
    weixin qqbot wecom wecom-callback yuanbao sms acp api-server
    """
)
_EXTRA = {"discord": ("discord", "discord_admin"), "feishu": ("feishu_doc", "feishu_drive"), "yuanbao": ("yuanbao",)}
_NOT_GATEWAY = ("cli", "cron", "acp", "api-server")

_TOOL_LISTS = """
file: read_file write_file patch search_files
terminal: terminal process read_terminal close_terminal
todo: todo
tools: tool_search tool_call
clarify: clarify
web: web_search web_extract
search: web_search
x_search: x_search
vision: vision_analyze
video: video_analyze
image_gen: image_generate
video_gen: video_generate xai_video_edit xai_video_extend
computer_use: computer_use
skills: skills_list skill_view skill_manage
browser: browser_back browser_cdp browser_click browser_console browser_dialog browser_get_images browser_navigate
browser: browser_press browser_scroll browser_snapshot browser_type browser_vision web_search
cronjob: cronjob
tts: text_to_speech
memory: memory
context_engine:
session_search: session_search
project: project_create project_list project_switch
code_execution: execute_code
delegation: delegate_task
homeassistant: ha_call_service ha_get_state ha_list_entities ha_list_services
kanban: kanban_attach kanban_attach_url kanban_attachments kanban_block kanban_comment kanban_complete kanban_create
kanban: kanban_heartbeat kanban_link kanban_list kanban_show kanban_unblock
discord: discord
discord_admin: discord_admin
yuanbao: yb_query_group_info yb_query_group_members yb_search_sticker yb_send_dm yb_send_sticker
feishu_doc: feishu_doc_read
feishu_drive: feishu_drive_add_comment feishu_drive_list_comment_replies feishu_drive_list_comments
feishu_drive: feishu_drive_reply_comment
spotify: spotify_albums spotify_devices spotify_library spotify_playback spotify_playlists spotify_queue spotify_search
"""


def _parse_tool_lists() -> dict[str, Toolset]:
    tools: dict[str, tuple[str, ...]] = {}
    for line in _TOOL_LISTS.strip().splitlines():
        name, _, rest = line.partition(":")
        tools[name] = tools.get(name, ()) + _split_words(rest)
    return {name: Toolset(tools=found) for name, found in tools.items()}


def _combine_sets(*names: str) -> Toolset:
    return Toolset(includes=names)


TOOLSETS: Mapping[str, Toolset] = {
    **_parse_tool_lists(),
    "debugging": Toolset(tools=("terminal", "process"), includes=("web", "file")),
    "safe": _combine_sets("web", "vision", "image_gen"),
    "coding": _combine_sets(
        *_split_words("file terminal todo clarify web code_execution delegation skills memory session_search")
    ),
    **{f"hermes-{name}": _combine_sets(*_CORE, *_EXTRA.get(name, ())) for name in _PLATFORMS},
    "hermes-webhook": _combine_sets("clarify", "web", "vision"),
    "hermes-gateway": _combine_sets(
        *(f"hermes-{name}" for name in (*_PLATFORMS, "webhook") if name not in _NOT_GATEWAY)
    ),
}

DEFAULT_TOOLSETS = ("file", "terminal", "todo", "clarify", "web", "skills", "memory", "session_search", "cronjob")
ALL_TOOLSETS = ("all", "*")
MCP_TOOLSET = "mcp"
"""The tool set that stands for all servers of MCP; `mcp-NAME` is the set of one server."""


def is_mcp_toolset(name: str) -> bool:
    """Return whether a tool set is that of MCP servers, of all or of one."""
    return name == MCP_TOOLSET or name.startswith(f"{MCP_TOOLSET}-")


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
    """
    without = {tool for name in disabled for tool in resolve_toolset(name, sets)}
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
