"""`hermes mcp`, `/mcp`: list the MCP servers of `config.yaml`, or test one; `/reload-mcp` retries those that failed."""

import asyncio
import contextlib
import importlib
import os
import time
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING

from hermes.commands.command import CommandCall, CommandGroup, CommandList
from hermes.commands.verb import JsonLayout, Verb, VerbCall, VerbResult, argument, rows_result
from hermes.config.environment import merge_dotenv
from hermes.config.home import locate_home
from hermes.config.load import load_settings
from hermes.config.settings import Settings
from hermes.core.encoding import Plain
from hermes.core.errors import NotFoundError, ToolError, UsageError
from hermes.i18n.messages import N_, tr, tr_plural
from hermes.util.text import escape_confusable_characters, escape_unseen_characters, to_one_line

if TYPE_CHECKING:
    from hermes.admin.mcp import NewServer
    from hermes.mcp.server import McpServer
    from hermes.oauth.sign_in_flow import SignInPerson

_CONNECT_SECONDS = 30.0
"""How long a list waits for a server."""
_MAX_TARGET, _MAX_REASON = 100, 200
_MOST_STEPS = 1_000
_PERSON_TOKEN, _LEAST_TOKEN = "HERMES_MCP_PERSON_TOKEN", 16
_NO_SERVERS = N_("There are no MCP servers. `hermes mcp add` adds one.")
MCP = Verb(
    "mcp",
    description="The MCP servers that `mcp_servers` in config.yaml names.",
    example="hermes mcp add files -- npx -y @modelcontextprotocol/server-filesystem .",
    json_layout=JsonLayout.LINES,
)
_JSON_LINES = argument("--json", action="store_true", dest="as_json", help="answer as JSON, one object a line")


_NO_CONNECT = argument("--no-connect", action="store_true", help="only show what config.yaml says; start nothing")


@MCP.action("list", "the servers and their state (also without a verb)", _NO_CONNECT, _JSON_LINES)
async def show_server_list(call: VerbCall) -> VerbResult:
    """List the servers, and whether each can be reached."""
    rows = list_servers(call.environ)
    if rows and not call.args.no_connect:
        call.report_progress(tr("connecting"))
        rows = await _add_states(call.environ, rows)
    return rows_result(rows, _format_server, tr(_NO_SERVERS))


@MCP.action(
    "get", "one server: its settings and its state", argument("name", help="the server"), _NO_CONNECT, _JSON_LINES
)
async def show_server(call: VerbCall) -> VerbResult:
    """Show a server."""
    row = find_server(call.environ, call.args.name)
    if not call.args.no_connect:
        call.report_progress(tr("connecting"))
        (row,) = await _add_states(call.environ, [row], only=str(row["name"]))
    return VerbResult(row, [_format_server(row), *_format_details(row)])


@MCP.action("test", "start one server and show its tools", argument("name", help="the server to try"), _JSON_LINES)
async def test_server(call: VerbCall) -> VerbResult:
    """Try a server."""
    found = await probe_server(call.environ, call.args.name)
    return VerbResult(found, [_format_test_report(found)], exit_code=1 if found["problem"] else 0)


@MCP.action(
    "login",
    "sign in to a server over HTTP in your browser; over ssh, paste the address that it ends at",
    argument("name", help="the server"),
    argument("--no-browser", action="store_true", help="only show the address to open"),
    _JSON_LINES,
)
async def sign_in_to_server(call: VerbCall) -> VerbResult:
    """Sign in to a server, then ask it what it offers."""
    from hermes.admin.mcp import check_sign_in, find_token_fallback
    from hermes.commands.sign_in_prompts import TerminalSignIn, describe_fallback

    check_sign_in(call.environ, call.args.name)
    person = TerminalSignIn(call, opens_browser=not call.args.no_browser)
    found = await probe_server(call.environ, call.args.name, person)
    lines = [_format_test_report(found)]
    if not found["problem"]:
        lines.insert(0, tr("You are signed in.") if person.was_asked else tr("The server wants no sign-in."))
        if why := find_token_fallback(call.environ, call.args.name):
            lines.append(describe_fallback(why))
    return VerbResult(found, lines, exit_code=1 if found["problem"] else 0)


@MCP.action("logout", "delete the tokens of a server", argument("name", help="the server"))
def sign_out_of_server(call: VerbCall) -> VerbResult:
    """Delete a server's tokens."""
    from hermes.admin.mcp import delete_sign_in

    name = call.args.name
    done = delete_sign_in(call.environ, name)
    said = tr("The tokens of {name} are deleted.", name=name) if done else tr("{name} has no tokens.", name=name)
    return VerbResult({"name": name, "deleted": done}, [said])


_NO_TEST = argument("--no-test", action="store_true", help="do not try it")


@MCP.action(
    "add",
    "add a server to config.yaml, and try it",
    argument("name", help="what it is to be called"),
    argument(
        "command", nargs="*", takes_command=True, help="behind `--`: the program and its arguments; or an address"
    ),
    argument("--url", default="", metavar="ADDRESS", help="where a server is that speaks streamable HTTP"),
    argument("-t", "--transport", choices=("stdio", "http"), help="how it is reached; what is given says it, too"),
    argument(
        "-e",
        "--env",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a variable of the program; keys go into .env",
    ),
    argument(
        "-H",
        "--header",
        action="append",
        default=[],
        metavar="FIELD",
        help='"NAME: VALUE" of each request; keys go into .env',
    ),
    argument("--cwd", default="", metavar="FOLDER", help="the folder that the program runs in"),
    _NO_TEST,
    _JSON_LINES,
)
async def add_new_server(call: VerbCall) -> VerbResult:
    """Add a server, then try it: one that does not work is kept, and its problem is the result."""
    from hermes.admin.mcp import NewServer

    args = call.args
    command, url = args.command, args.url
    if len(command) == 1 and not url and command[0].startswith(("http://", "https://")):
        command, url = [], command[0]
    if args.transport and (args.transport == "http") != bool(url):
        call.reject_arguments(N_("--transport {name} does not fit what is given", name=args.transport))
    return await _add_and_test(
        call, NewServer(name=args.name, command=command, url=url, env=args.env, headers=args.header, cwd=args.cwd)
    )


@MCP.action(
    "add-json",
    "add a server as other programs describe it, and try it",
    argument("name", help="what it is to be called"),
    argument("json", help="its command, args and env, or its url and headers, as a JSON object"),
    _NO_TEST,
    _JSON_LINES,
)
async def add_described_server(call: VerbCall) -> VerbResult:
    """Add a server that is described in JSON, then try it."""
    from hermes.admin.mcp import parse_server

    return await _add_and_test(call, parse_server(call.args.name, call.args.json))


async def _add_and_test(call: VerbCall, new: "NewServer") -> VerbResult:
    from hermes.admin.mcp import add_server

    done = add_server(call.environ, new, lambda name: _ask_secret(call, name))
    file = escape_unseen_characters(done.file)
    lines = [tr("Added {name} to {file}.", name=done.name, file=file)]
    if done.variables:
        lines.append(tr("In .env: {names}.", names=", ".join(done.variables)))
    call.show(lines)
    if call.args.no_test:
        return VerbResult({"name": done.name, "variables": list(done.variables)})
    found = await probe_server(call.environ, done.name)
    line = _format_test_report(found).partition("\n")[0]
    if not found["problem"]:
        return VerbResult(found, [line])
    stays = tr("It stays in config.yaml; `hermes mcp remove {name}` removes it.", name=done.name)
    return VerbResult(found, [line], [stays], exit_code=1)


@MCP.action(
    "serve",
    "be an MCP server for the program that starts this: it reads sessions and jobs, and may ask",
    argument("--ask", action="store_true", help="the client may ask the agent something, which costs money"),
    argument(
        "--max-cost",
        type=float,
        default=0.5,
        metavar="USD",
        help="what all of its questions together may cost (0.5)",
    ),
    argument("--max-steps", type=int, default=30, metavar="N", help="the most model calls of a question (30)"),
    argument(
        "--approvals",
        action="store_true",
        help="questions of the agent wait for a person, who shows HERMES_MCP_PERSON_TOKEN; else the answer is no",
    ),
)
def serve_program(call: VerbCall) -> VerbResult:
    """Serve the program that has started this one, until it goes away."""
    args = call.args
    token = _find_person_token(call.environ) if args.approvals else ""
    if args.approvals and not args.ask:
        raise UsageError(N_("--approvals is for what --ask does."), N_("Add --ask."))
    if not 0 < args.max_cost < float("inf") or not 0 < args.max_steps <= _MOST_STEPS:
        raise UsageError(N_("--max-cost and --max-steps must be above 0, and steps at most {n}.", n=_MOST_STEPS))
    if os.isatty(0):
        raise UsageError(
            N_("`hermes mcp serve` is started by an MCP client, and talks with it on standard input."),
            N_("docs/mcp.md says how clients are set up."),
        )
    from hermes import __version__

    # A front-end is above this layer: it is started by its name.
    start = importlib.import_module("hermes.mcp_server.start")
    options = start.McpServeOptions(asks=args.ask, max_cost=args.max_cost, max_steps=args.max_steps, person_token=token)
    return VerbResult(exit_code=int(start.serve(call.environ, options, __version__)))


def _find_person_token(environ: Mapping[str, str]) -> str:
    """Return what a person shows to answer approvals. Raises UsageError where it is missing, or can be guessed."""
    found = merge_dotenv(environ, locate_home(environ).env_file).get(_PERSON_TOKEN, "")
    if len(found) < _LEAST_TOKEN:
        raise UsageError(
            N_("--approvals needs {name}, {n} characters at least.", name=_PERSON_TOKEN, n=_LEAST_TOKEN),
            N_("Put it into the home's .env file: openssl rand -hex 32"),
        )
    return found


@MCP.action("remove", "remove a server from config.yaml", argument("name", help="the server"))
def remove_named_server(call: VerbCall) -> VerbResult:
    """Remove a server."""
    from hermes.admin.mcp import remove_server

    left = remove_server(call.environ, call.args.name)
    lines = [tr("Removed {name}.", name=call.args.name)]
    lines += [tr("Its variables stay in .env: {names}.", names=", ".join(left))] if left else []
    return VerbResult(lines=lines)


def _ask_secret(call: VerbCall, name: str) -> str:
    """Ask for a variable that is nowhere set, where a person can be asked."""
    return call.ask_secret(tr("{name} (not shown; it goes into .env):", name=name) + " ") if os.isatty(0) else ""


def _load_settings(environ: Mapping[str, str]) -> Settings:
    """Return the settings, with the servers of other agents' files that are read where they lie."""
    home = locate_home(environ)
    settings = load_settings(home).settings
    if not os.path.lexists(home.consent_file):
        return settings
    from hermes.sessions.mcp_servers import add_agent_servers

    whole = merge_dotenv(environ, home.env_file)
    return add_agent_servers(settings, home, whole, os.path.realpath(os.getcwd())).settings


def list_servers(environ: Mapping[str, str]) -> list[Plain]:
    """List the servers of the settings: name, whether it is enabled, how it is reached, whether its tools ask."""
    from hermes.sessions.mcp_servers import map_server_names

    settings = _load_settings(environ)
    return [
        {
            "name": name,
            "given": given,
            "enabled": server.enabled,
            "transport": "stdio" if server.command else "http",
            "target": " ".join((server.command, *server.args)) if server.command else server.url,
            "trust": str(server.trust),
        }
        for name, given, server in (
            (name, given, settings.mcp_servers[given]) for name, given in map_server_names(settings).items()
        )
    ]


def find_server(environ: Mapping[str, str], name: str) -> Plain:
    """Return a server of the settings with its folder and the names of its variables and header fields, whose values
    may be keys. Raises NotFoundError.
    """
    settings = _load_settings(environ)
    row = next((row for row in list_servers(environ) if name in (row["name"], row["given"])), None)
    if row is None:
        raise _no_server_error(name)
    server = settings.mcp_servers[str(row["given"])]
    return row | {
        "cwd": server.cwd,
        "env": list(server.env),
        "headers": list(server.headers),
        "include": list(server.tools.include),
        "exclude": list(server.tools.exclude),
    }


async def probe_server(environ: Mapping[str, str], name: str, person: "SignInPerson | None" = None) -> Plain:
    """Start a server and ask it what it offers; return the seconds, that, or what is wrong. `person` signs in to it, if
    it wants that.

    Raises NotFoundError.
    """
    began = time.monotonic()
    async with _open_servers(environ, only=name, person=person) as servers:
        if not servers:
            raise _no_server_error(name)
        (server,) = servers
        with contextlib.suppress(ToolError):
            await server.connect()
        return {
            "name": server.spec.name,
            "problem": server.problem,
            "seconds": round(time.monotonic() - began, 3),
            "protocol": server.offer.version,
            "tools": [
                {"name": one.name, "digest": one.digest, "reads_only": one.reads_only, "description": one.description}
                for one in server.tools
            ],
            "prompts": [f"/{one.name} {one.usage}".rstrip() for one in server.prompts],
            "resources": server.offer.has_resources,
            "instructions": server.offer.instructions,
        }


@contextlib.asynccontextmanager
async def _open_servers(
    environ: Mapping[str, str], *, only: str = "", person: "SignInPerson | None" = None
) -> "AsyncIterator[list[McpServer]]":
    """Prepare the enabled servers, or `only` that one, for the time of a look at them; `person` signs in again."""
    from hermes.execution.supervisor import Supervisors
    from hermes.sessions.mcp_servers import ServerChoice, open_servers
    from hermes.sessions.secrets import build_redactor

    home, settings = locate_home(environ), _load_settings(environ)
    environ = merge_dotenv(environ, home.env_file)
    wardens = Supervisors(environ)
    found = open_servers(
        settings,
        environ,
        home,
        wardens,
        build_redactor(environ, home, settings),
        workspace=os.getcwd(),
        choice=ServerChoice(only, person),
    )
    try:
        yield found.servers
    finally:
        await found.close()
        await wardens.close()


async def _add_states(environ: Mapping[str, str], rows: list[Plain], *, only: str = "") -> list[Plain]:
    """Connect to the servers of these rows, all at once, and return the rows with what became of that."""
    async with _open_servers(environ, only=only) as servers:
        states = await asyncio.gather(*(_check_state(server) for server in servers))
    found = {server.spec.name: state for server, state in zip(servers, states, strict=True)}
    return [row | found.get(str(row["name"]), {}) for row in rows]


async def _check_state(server: "McpServer") -> Plain:
    try:
        async with asyncio.timeout(_CONNECT_SECONDS):
            await server.connect()
    except TimeoutError:
        why = tr("it did not answer within {n} s", n=round(_CONNECT_SECONDS))
        return {"connected": False, "problem": why, "tools": 0}
    except ToolError as error:
        return {"connected": False, "problem": server.problem or error.message, "tools": 0}
    return {"connected": True, "problem": "", "tools": len(server.tools)}


def _no_server_error(name: str) -> NotFoundError:
    return NotFoundError(
        N_("There is no MCP server {name}.", name=repr(name)), "`hermes mcp list` shows those of config.yaml."
    )


def _format_server(row: Plain) -> str:
    fields = {name: escape_confusable_characters(str(value)) for name, value in row.items()}
    if not row["enabled"]:
        state = tr("off")
    elif "connected" not in row:
        state = tr("on")
    elif row["connected"]:
        state = tr_plural("connected, {n} tool", "connected, {n} tools", int(str(row["tools"])))
    else:
        state = tr("not connected: {why}", why=to_one_line(fields["problem"], _MAX_REASON))
    return tr(
        "{name} {transport} trust: {trust} {target}  {state}",
        name=f"{fields['name']:<24}",
        state=state,
        transport=f"{fields['transport']:<5}",
        trust=f"{fields['trust']:<6}",
        target=to_one_line(fields["target"], _MAX_TARGET),
    )


def _format_details(row: Plain) -> list[str]:
    """Format what only the look at one server shows: what was set."""
    titles = {
        "cwd": tr("folder"),
        "env": tr("variables"),
        "headers": tr("header fields"),
        "include": tr("only these tools"),
        "exclude": tr("without these tools"),
    }
    lines = []
    for key, title in titles.items():
        value = row[key]
        if value:
            said = ", ".join(value) if isinstance(value, list) else str(value)
            lines.append(f"  {title}: {escape_confusable_characters(said)}")
    return lines


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
    return "\n".join([*lines, *_format_offer(found)])


def _format_offer(found: Plain) -> list[str]:
    """Format what a server offers besides tools."""
    lines = ["  " + tr("protocol: {version}", version=found["protocol"])]
    prompts = found["prompts"]
    if isinstance(prompts, list) and prompts:
        lines.append("  " + tr("prompts: {names}", names=escape_confusable_characters(", ".join(map(str, prompts)))))
    if found["resources"]:
        lines.append("  " + tr("It has resources, which the model lists and reads."))
    if found["instructions"]:
        said = to_one_line(escape_confusable_characters(str(found["instructions"])), 400)
        lines.append("  " + tr('It says of its tools: "{text}"', text=said))
    return lines


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
