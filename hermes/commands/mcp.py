"""`hermes mcp`, `/mcp`: list the MCP servers of `config.yaml`, or test one; `/reload-mcp` retries those that failed."""

import contextlib
import os
import time
from collections.abc import Mapping

from hermes.commands.command import CommandCall, CommandGroup, CommandList
from hermes.commands.verb import JsonLayout, Verb, VerbCall, VerbResult, argument, rows_result
from hermes.config.environment import merge_dotenv
from hermes.config.home import locate_home
from hermes.config.load import load_settings
from hermes.core.encoding import Plain
from hermes.core.errors import NotFoundError, ToolError
from hermes.i18n.messages import N_, tr, tr_plural
from hermes.util.text import escape_confusable_characters, escape_unseen_characters, to_one_line

_NO_SERVERS = N_("There are no MCP servers. `mcp_servers` in config.yaml names them.")
MCP = Verb(
    "mcp",
    description="The MCP servers that `mcp_servers` in config.yaml names.",
    example="hermes mcp test github",
    json_layout=JsonLayout.LINES,
)


@MCP.action(
    "",
    "",
    argument("action", nargs="?", choices=["list", "test"], default="list"),
    argument("name", nargs="?", default="", help="the server to try"),
    argument("--json", action="store_true", dest="as_json", help="answer as JSON, one object a line"),
)
async def test_server(call: VerbCall) -> VerbResult:
    """List the servers, or try one."""
    action, name = call.args.action, call.args.name
    if action == "list":
        if name:
            call.reject_arguments("list takes no name; to try a server: hermes mcp test NAME")
        return rows_result(list_servers(call.environ), _format_server, tr(_NO_SERVERS))
    if not name:
        call.reject_arguments("test needs the name of a server; `hermes mcp list` shows them")
    found = await probe_server(call.environ, name)
    return VerbResult(found, [_format_test_report(found)], exit_code=1 if found["problem"] else 0)


def list_servers(environ: Mapping[str, str]) -> list[Plain]:
    """List the servers of the settings: name, whether it is enabled, how it is reached, whether its tools ask."""
    from hermes.sessions.mcp_servers import _server_names

    settings = load_settings(locate_home(environ)).settings
    return [
        {
            "name": name,
            "enabled": server.enabled,
            "transport": "stdio" if server.command else "http",
            "target": " ".join((server.command, *server.args)) if server.command else server.url,
            "trust": str(server.trust),
        }
        for name, server in ((name, settings.mcp_servers[given]) for name, given in _server_names(settings).items())
    ]


async def probe_server(environ: Mapping[str, str], name: str) -> Plain:
    """Start a server and ask it for its tools; return the seconds, the tools, or what is wrong.

    Raises NotFoundError.
    """
    from hermes.execution.supervisor import Supervisors
    from hermes.sessions.mcp_servers import open_servers
    from hermes.sessions.secrets import build_redactor

    home = locate_home(environ)
    settings = load_settings(home).settings
    environ = merge_dotenv(environ, home.env_file)
    wardens = Supervisors(environ)
    found = open_servers(
        settings, environ, home, wardens, build_redactor(environ, home, settings), workspace=os.getcwd(), only=name
    )
    if not found.servers:
        raise NotFoundError(
            N_("There is no MCP server {name}.", name=repr(name)), "`hermes mcp list` shows those of config.yaml."
        )
    (server,) = found.servers
    began = time.monotonic()
    try:
        with contextlib.suppress(ToolError):
            await server.connect()
        return {
            "name": server.spec.name,
            "problem": server.problem,
            "seconds": round(time.monotonic() - began, 3),
            "tools": [
                {"name": one.name, "digest": one.digest, "reads_only": one.reads_only, "description": one.description}
                for one in server.tools
            ],
        }
    finally:
        await found.close()
        await wardens.close()


def _format_server(row: Plain) -> str:
    fields = {name: escape_confusable_characters(str(value)) for name, value in row.items()}
    state = "on " if row["enabled"] else "off"
    return tr(
        "{name} {state} {transport} trust: {trust} {target}",
        name=f"{fields['name']:<24}",
        state=state,
        transport=f"{fields['transport']:<5}",
        trust=f"{fields['trust']:<6}",
        target=fields["target"],
    )


def _format_test_report(found: Plain) -> str:
    if found["problem"]:
        return escape_confusable_characters(f"{found['name']}: {found['problem']}.")
    tools = found["tools"]
    assert isinstance(tools, list)
    lines = [
        tr(
            "{name}: ready in {seconds} s, {tools}",
            name=found["name"],
            seconds=found["seconds"],
            tools=tr_plural("{n} tool", "{n} tools", len(tools)),
        )
    ]
    for tool in tools:
        hint = ("  " + tr("[reads only]")) if tool["reads_only"] else ""
        lines.append(f"  {tool['name']}  {tool['digest']}{hint}")
        lines.append(f"      {escape_confusable_characters(to_one_line(str(tool['description']), 160))}")
    return "\n".join(lines)


COMMANDS = CommandList(CommandGroup.MODEL)


@COMMANDS.command("mcp", N_("the MCP servers and their state"))
async def show_servers(call: CommandCall) -> None:
    """List the MCP servers and their state."""
    call.require_no_arguments()
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
    call.context.tell("\n".join(lines) or tr(_NO_SERVERS))


@COMMANDS.command("reload-mcp", N_("retry MCP servers that are not available"), aliases=("reload_mcp",))
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
