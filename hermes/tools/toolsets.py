"""Toolsets: names for groups of tools, as data. A set may include others. Names are those that people know."""

import difflib
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from hermes.core.errors import ConfigError


class Toolset(Struct, frozen=True):
    """A named group. What does not exist (yet) in this program resolves to nothing."""

    tools: tuple[str, ...] = ()
    includes: tuple[str, ...] = ()


def _set(tools: str = "", *includes: str) -> Toolset:
    return Toolset(tools=tuple(tools.split()), includes=includes)


_CORE = _set("tool_search tool_call", "file", "terminal", "todo", "clarify", "web", "vision", "image_gen", "skills", "browser", "tts",
             "memory", "session_search", "cronjob", "code_execution", "delegation", "homeassistant", "computer_use")  # fmt: skip
_PLATFORMS = ("cli cron telegram discord whatsapp slack signal bluebubbles homeassistant email mattermost matrix dingtalk feishu "
              "weixin qqbot wecom wecom-callback yuanbao sms acp api-server").split()  # fmt: skip
_EXTRA = {"discord": ("discord", "discord_admin"), "feishu": ("feishu_doc", "feishu_drive"), "yuanbao": ("yuanbao",)}
_NOT_GATEWAY = ("cli", "cron", "acp", "api-server")

TOOLSETS: Mapping[str, Toolset] = {
    "file": _set("read_file write_file patch search_files"),
    "terminal": _set("terminal process read_terminal close_terminal"),
    "todo": _set("todo"),
    "clarify": _set("clarify"),
    "web": _set("web_search web_extract"),
    "search": _set("web_search"),
    "x_search": _set("x_search"),
    "vision": _set("vision_analyze"),
    "video": _set("video_analyze"),
    "image_gen": _set("image_generate"),
    "video_gen": _set("video_generate xai_video_edit xai_video_extend"),
    "computer_use": _set("computer_use"),
    "skills": _set("skills_list skill_view skill_manage"),
    "browser": _set("browser_back browser_cdp browser_click browser_console browser_dialog browser_get_images browser_navigate "
                    "browser_press browser_scroll browser_snapshot browser_type browser_vision web_search"),
    "cronjob": _set("cronjob"),
    "tts": _set("text_to_speech"),
    "memory": _set("memory"),
    "context_engine": _set(),
    "session_search": _set("session_search"),
    "project": _set("project_create project_list project_switch"),
    "code_execution": _set("execute_code"),
    "delegation": _set("delegate_task"),
    "homeassistant": _set("ha_call_service ha_get_state ha_list_entities ha_list_services"),
    "kanban": _set("kanban_attach kanban_attach_url kanban_attachments kanban_block kanban_comment kanban_complete kanban_create "
                   "kanban_heartbeat kanban_link kanban_list kanban_show kanban_unblock"),
    "discord": _set("discord"),
    "discord_admin": _set("discord_admin"),
    "yuanbao": _set("yb_query_group_info yb_query_group_members yb_search_sticker yb_send_dm yb_send_sticker"),
    "feishu_doc": _set("feishu_doc_read"),
    "feishu_drive": _set("feishu_drive_add_comment feishu_drive_list_comment_replies feishu_drive_list_comments "
                         "feishu_drive_reply_comment"),
    "spotify": _set("spotify_albums spotify_devices spotify_library spotify_playback spotify_playlists spotify_queue spotify_search"),
    "debugging": _set("terminal process", "web", "file"),
    "safe": _set("", "web", "vision", "image_gen"),
    "coding": _set("", "file", "terminal", "todo", "clarify", "web", "code_execution", "delegation", "skills", "memory",
                   "session_search"),
    **{f"hermes-{name}": Toolset(_CORE.tools, _CORE.includes + _EXTRA.get(name, ())) for name in _PLATFORMS},
    "hermes-webhook": _set("clarify", "web", "vision"),
    "hermes-gateway": _set("", *(f"hermes-{name}" for name in (*_PLATFORMS, "webhook") if name not in _NOT_GATEWAY)),
}  # fmt: skip

DEFAULT = ("file", "terminal", "todo", "clarify")
EVERYTHING = ("all", "*")


def resolve(name: str, sets: Mapping[str, Toolset] = TOOLSETS) -> list[str]:
    """The tools of a set and of the sets it includes, each once, in order. A set that includes itself is cut there.

    `all` and `*` stand for every set. Raises `ConfigError` for a name that is no set.
    """
    found: dict[str, None] = {}
    for start in sets if name in EVERYTHING else (name,):
        _collect(start, sets, found, set())
    return list(found)


def select(
    enabled: Sequence[str], disabled: Sequence[str] = (), sets: Mapping[str, Toolset] = TOOLSETS
) -> list[str]:
    """The tools of all enabled sets without those of the disabled ones. Raises `ConfigError` for an unknown name."""
    without = {tool for name in disabled for tool in resolve(name, sets)}
    return _unique(tool for name in enabled for tool in resolve(name, sets) if tool not in without)


def _collect(name: str, sets: Mapping[str, Toolset], found: dict[str, None], visited: set[str]) -> None:
    if name in visited:
        return
    visited.add(name)
    toolset = sets.get(name)
    if toolset is None:
        close = difflib.get_close_matches(name, sets, n=1)
        hint = f"Did you mean {close[0]!r}?" if close else f"The toolsets are: {', '.join(sorted(sets))}."
        raise ConfigError(f"There is no toolset {name!r}.", hint)
    found.update(dict.fromkeys(toolset.tools))
    for other in toolset.includes:
        _collect(other, sets, found, visited)


def _unique(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))
