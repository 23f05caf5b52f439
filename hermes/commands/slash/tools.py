"""`/tools`, `/toolsets`, `/mcp`, `/reload-mcp`: show and switch the tools of this session."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hermes.commands.command import CommandCall, CommandGroup, SlashCommand
from hermes.commands.context import MenuOption
from hermes.commands.event_descriptions import describe_tool, describe_toolset
from hermes.commands.slash.model import describe_cache_reset
from hermes.core.errors import UsageError
from hermes.i18n.messages import N_, join_sentences, tr, tr_plural
from hermes.markup.charts import fit_text, pad_right
from hermes.util.text import escape_unseen_characters, to_one_line

if TYPE_CHECKING:
    from hermes.admin.models.session_overrides import OverrideEditor

_DEFAULT_COLUMNS, _MIN_COLUMNS = 100, 40
"""The width of a line where there is no terminal, and its minimum."""
_VERBS = ("list", "enable", "disable")


def _session_choices(call: CommandCall) -> "OverrideEditor":
    from hermes.admin.models.session_overrides import OverrideEditor

    return OverrideEditor(call.context.app.services, call.context.app.live_session(call.context.actor))


async def manage_tools(call: CommandCall) -> None:
    """List the tools of this session, or switch sets of them."""
    verb, *names = call.words or ["list"]
    if verb not in _VERBS or (verb == "list") == bool(names):
        raise UsageError(N_("/tools, /tools enable NAME, /tools disable NAME: a name is that of a tool set."))
    if verb == "list":
        _list_tools(call)
        return
    on = verb == "enable"
    count = await _session_choices(call).switch_toolsets(names, on=on)
    named = ", ".join(names)
    if count is None:
        call.context.tell(tr("It was so already: {names}.", names=named))
        return
    said = tr("On in this session: {names}.", names=named) if on else tr("Off in this session: {names}.", names=named)
    call.context.tell(join_sentences(said, describe_cache_reset(count)))
    call.context.tell(
        tr("`hermes tools {verb} {names}` does it for sessions that begin later.", verb=verb, names=named)
    )


def _list_tools(call: CommandCall) -> None:
    toolbox = call.context.app.live_session(call.context.actor).tools.toolbox
    rows = [tool for tool in toolbox if not tool.deferred]
    lines = [_format_row(call, tool.name, describe_tool(tool.name) or to_one_line(tool.description)) for tool in rows]
    later = toolbox.list_deferred_names()
    if later:
        found = tr_plural(
            "{n} more tool is found when it is needed:", "{n} more tools are found when needed:", len(later)
        )
        lines += ["", found, *(f"  {escape_unseen_characters(name)}" for name in later[:40])]
    call.context.tell("\n".join(lines) or tr("This session has no tools."))
    call.context.tell(tr("/toolsets shows the sets; /tools disable NAME switches one off."))


async def list_toolsets(call: CommandCall) -> None:
    """List the tool sets, and which of them this session has."""
    call.require_no_arguments()
    lines = [_format_toolset(call, row) for row in _session_choices(call).list_toolsets()]
    call.context.tell("\n".join(lines))


def _format_toolset(call: CommandCall, row: dict[str, object]) -> str:
    names = row["tools"]
    assert isinstance(names, list)
    state = tr("on") if row["on"] else tr("off")
    name = str(row["name"])
    return _format_row(call, name, f"{pad_right(state, 4)} {describe_toolset(name) or ', '.join(map(str, names))}")


def _format_row(call: CommandCall, name: str, description: str) -> str:
    """Format a name and its description on one line of the terminal."""
    columns = call.context.terminal.width if call.context.terminal is not None else _DEFAULT_COLUMNS
    return fit_text(
        f"  {pad_right(escape_unseen_characters(name), 20)} {escape_unseen_characters(description)}",
        max(columns - 1, _MIN_COLUMNS),
    ).rstrip()


async def complete_tools(call: CommandCall) -> Sequence[MenuOption]:
    """Complete a verb, then the sets."""
    if len(call.text.split()) + call.text.endswith(" ") < 2:
        return [MenuOption(verb) for verb in _VERBS]
    return [MenuOption(str(row["name"])) for row in _session_choices(call).list_toolsets()]


async def list_mcp_servers(call: CommandCall) -> None:
    """List the MCP servers and their state."""
    call.require_no_arguments()
    from hermes.admin.mcp import list_servers

    live, on = call.context.app.live_session(call.context.actor), call.context.app.services
    rows = list_servers(on.environ)
    running = {one.spec.name: one for one in on.mcp_servers().servers} if live.tools.mcp_servers else {}
    lines = []
    for row in rows:
        name = str(row["name"])
        server = running.get(name)
        if server is None or name not in live.tools.mcp_servers:
            state = tr("off in this session")
        elif server.problem:
            state = tr("not there: {why}", why=to_one_line(escape_unseen_characters(server.problem), 200))
        elif server.first_attempt.is_set():
            state = tr_plural("ready, {n} tool", "ready, {n} tools", len(server.tools))
        else:
            state = tr("starting")
        lines.append(f"  {escape_unseen_characters(name):<18} {state}")
    call.context.tell("\n".join(lines) or tr("There are no MCP servers. `mcp_servers` in config.yaml names them."))


async def reload_mcp(call: CommandCall) -> None:
    """Retry the MCP servers that failed, and tell how to add others."""
    call.require_no_arguments()
    live, on = call.context.app.live_session(call.context.actor), call.context.app.services
    if not live.tools.mcp_servers:
        call.context.tell(
            tr("This session has no MCP servers; those of config.yaml come with the next start of Hermes.")
        )
        return
    again = on.mcp_servers().retry_missing()
    call.context.tell(tr_plural("{n} server is tried again.", "{n} servers are tried again.", again))
    call.context.tell(tr("Servers that are new in config.yaml come with the next start of Hermes."))


COMMANDS = (
    SlashCommand(
        name="tools",
        about=N_("the tools of this session; switch sets of them on or off"),
        usage=N_("[list|enable|disable] [set]"),
        group=CommandGroup.MODEL,
        run=manage_tools,
        complete=complete_tools,
    ),
    SlashCommand(
        name="toolsets",
        about=N_("the sets of tools, and which this session has"),
        group=CommandGroup.MODEL,
        run=list_toolsets,
    ),
    SlashCommand(
        name="mcp",
        about=N_("the MCP servers and how they are"),
        group=CommandGroup.MODEL,
        run=list_mcp_servers,
    ),
    SlashCommand(
        name="reload-mcp",
        aliases=("reload_mcp",),
        about=N_("try MCP servers again that are not there"),
        group=CommandGroup.MODEL,
        run=reload_mcp,
    ),
)
