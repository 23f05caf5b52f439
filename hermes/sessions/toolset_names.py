"""The names of tool sets: which exist, and what is said of one that does not."""

from collections.abc import Sequence

from hermes.config.settings import Settings
from hermes.core.errors import UsageError
from hermes.i18n.messages import phrase
from hermes.plugins import suggestion

OWNED_TOOLS = {
    "memory": ("memory",),
    "session_search": ("session_search",),
    "skills": ("skills_list", "skill_view", "skill_manage"),
    "cronjob": ("cronjob",),
}
"""Tools that are bound to a session, by tool set; they are in no file of the registry."""


def check_toolsets(settings: Settings, names: Sequence[str]) -> None:
    """Raise UsageError for a name that is not a tool set."""
    from hermes.tools import toolsets
    from hermes.tools.registry import ToolRegistry

    sets = ToolRegistry().load_toolsets()
    known = [*sets, *OWNED_TOOLS, *list_server_toolsets(settings), "mcp", *toolsets.ALL_TOOLSETS]
    for name in names:
        if name in known:
            continue
        holds = next((one for one, found in {**sets, **toolsets.TOOLSETS}.items() if name in found.tools), "")
        hint = phrase("It is a tool; its set is `{name}`.", name=holds) if holds else suggestion(name, known)
        raise UsageError(
            phrase("There is no tool set {name!r}.", name=name[:60]),
            hint or phrase("`hermes tools` shows those there are."),
        )


def list_server_toolsets(settings: Settings) -> list[str]:
    """Return the tool sets of the MCP servers that are on."""
    from hermes.sessions.mcp_servers import MCP_TOOLSET, select_servers

    return [f"{MCP_TOOLSET}-{name}" for name in select_servers(settings, None, ())] if settings.mcp_servers else []
