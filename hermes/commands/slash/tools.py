"""`/tools`, `/toolsets`, `/mcp`, `/reload-mcp`: what the agent can do in this session."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hermes.commands.command import Call, Command, Group
from hermes.commands.context import Option
from hermes.commands.slash.model import sent_anew
from hermes.commands.views.tool_descriptions import told_of, told_of_set
from hermes.core.errors import UsageError
from hermes.i18n.messages import joined, phrase, say, say_many
from hermes.markup.charts import fitted, padded
from hermes.util.text import escaped, one_line

if TYPE_CHECKING:
    from hermes.admin.models.session_overrides import Choices

_COLUMNS, _LEAST = 100, 40
"""How wide a line is where there is no terminal, and at least."""
_VERBS = ("list", "enable", "disable")


def _choices(call: Call) -> "Choices":
    from hermes.admin.models.session_overrides import Choices

    return Choices(call.desk.app.premises, call.desk.app.live(call.desk.actor))


async def tools(call: Call) -> None:
    """List the tools of this session, or switch sets of them."""
    verb, *names = call.words or ["list"]
    if verb not in _VERBS or (verb == "list") == bool(names):
        raise UsageError(phrase("/tools, /tools enable NAME, /tools disable NAME: a name is that of a tool set."))
    if verb == "list":
        _list(call)
        return
    on = verb == "enable"
    count = await _choices(call).switch(names, on=on)
    named = ", ".join(names)
    if count is None:
        call.desk.tell(say("It was so already: {names}.", names=named))
        return
    said = say("On in this session: {names}.", names=named) if on else say("Off in this session: {names}.", names=named)
    call.desk.tell(joined(said, sent_anew(count)))
    call.desk.tell(say("`hermes tools {verb} {names}` does it for sessions that begin later.", verb=verb, names=named))


def _list(call: Call) -> None:
    toolbox = call.desk.app.live(call.desk.actor).tools.toolbox
    rows = [tool for tool in toolbox if not tool.deferred]
    lines = [_row(call, tool.name, told_of(tool.name) or one_line(tool.description)) for tool in rows]
    later = toolbox.deferred_names()
    if later:
        found = say_many(
            "{n} more tool is found when it is needed:", "{n} more tools are found when needed:", len(later)
        )
        lines += ["", found, *(f"  {escaped(name)}" for name in later[:40])]
    call.desk.tell("\n".join(lines) or say("This session has no tools."))
    call.desk.tell(say("/toolsets shows the sets; /tools disable NAME switches one off."))


async def toolsets(call: Call) -> None:
    """List the sets of tools, and which of them this session has."""
    call.nothing_behind()
    lines = [_set_line(call, row) for row in _choices(call).toolsets()]
    call.desk.tell("\n".join(lines))


def _set_line(call: Call, row: dict[str, object]) -> str:
    names = row["tools"]
    assert isinstance(names, list)
    state = say("on") if row["on"] else say("off")
    name = str(row["name"])
    return _row(call, name, f"{padded(state, 4)} {told_of_set(name) or ', '.join(map(str, names))}")


def _row(call: Call, name: str, told: str) -> str:
    """A name and what it is, on one line of the terminal."""
    columns = call.desk.terminal.width if call.desk.terminal is not None else _COLUMNS
    return fitted(f"  {padded(escaped(name), 20)} {escaped(told)}", max(columns - 1, _LEAST)).rstrip()


async def complete_tools(call: Call) -> Sequence[Option]:
    """A verb, then the sets."""
    if len(call.text.split()) + call.text.endswith(" ") < 2:
        return [Option(verb) for verb in _VERBS]
    return [Option(str(row["name"])) for row in _choices(call).toolsets()]


async def mcp(call: Call) -> None:
    """The MCP servers and how they are."""
    call.nothing_behind()
    from hermes.admin.mcp import listed

    live, on = call.desk.app.live(call.desk.actor), call.desk.app.premises
    rows = listed(on.environ)
    running = {one.spec.name: one for one in on.servers().servers} if live.tools.servers else {}
    lines = []
    for row in rows:
        name = str(row["name"])
        server = running.get(name)
        if server is None or name not in live.tools.servers:
            state = say("off in this session")
        elif server.problem:
            state = say("not there: {why}", why=one_line(escaped(server.problem), 200))
        elif server.tried.is_set():
            state = say_many("ready, {n} tool", "ready, {n} tools", len(server.tools))
        else:
            state = say("starting")
        lines.append(f"  {escaped(name):<18} {state}")
    call.desk.tell("\n".join(lines) or say("There are no MCP servers. `mcp_servers` in config.yaml names them."))


async def reload_mcp(call: Call) -> None:
    """Say what it takes to have other servers."""
    call.nothing_behind()
    live, on = call.desk.app.live(call.desk.actor), call.desk.app.premises
    if not live.tools.servers:
        call.desk.tell(say("This session has no MCP servers; those of config.yaml come with the next start of Hermes."))
        return
    again = on.servers().again()
    call.desk.tell(say_many("{n} server is tried again.", "{n} servers are tried again.", again))
    call.desk.tell(say("Servers that are new in config.yaml come with the next start of Hermes."))


COMMANDS = (
    Command(
        name="tools",
        about=phrase("the tools of this session; switch sets of them on or off"),
        usage=phrase("[list|enable|disable] [set]"),
        group=Group.MODEL,
        run=tools,
        complete=complete_tools,
    ),
    Command(
        name="toolsets",
        about=phrase("the sets of tools, and which this session has"),
        group=Group.MODEL,
        run=toolsets,
    ),
    Command(
        name="mcp",
        about=phrase("the MCP servers and how they are"),
        group=Group.MODEL,
        run=mcp,
    ),
    Command(
        name="reload-mcp",
        aliases=("reload_mcp",),
        about=phrase("try MCP servers again that are not there"),
        group=Group.MODEL,
        run=reload_mcp,
    ),
)
