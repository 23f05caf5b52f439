"""`hermes mcp`: the MCP servers of `config.yaml`, and whether they work."""

import asyncio
import json

from hermes.admin.mcp import listed, tried
from hermes.cli.arguments import Parser
from hermes.cli.errors import failed
from hermes.config.environment import process_environment
from hermes.core.errors import HermesError
from hermes.i18n.messages import say, say_many
from hermes.sessions.formats.openai_format import Plain
from hermes.util.text import one_line, visible


def run(arguments: list[str]) -> int:
    """List the servers, or try one."""
    parser = Parser(
        prog="hermes mcp",
        description="The MCP servers that `mcp_servers` in config.yaml names.",
        epilog="example: hermes mcp test github",
    )
    parser.add_argument("action", nargs="?", choices=["list", "test"], default="list")
    parser.add_argument("name", nargs="?", default="", help="the server to try")
    parser.add_argument("--json", action="store_true", dest="as_json", help="answer as JSON, one object a line")
    given = parser.read(arguments)
    if given.action == "test" and not given.name:
        parser.error("test needs the name of a server; `hermes mcp list` shows them")
    if given.action == "list" and given.name:
        parser.error("list takes no name; to try a server: hermes mcp test NAME")
    environ = process_environment()
    try:
        if given.action == "list":
            return _list(listed(environ), as_json=given.as_json)
        found = asyncio.run(tried(environ, given.name))
        print(json.dumps(found, ensure_ascii=False) if given.as_json else _report(found))
        return 1 if found["problem"] else 0
    except HermesError as error:
        return failed(error)


def _list(rows: list[Plain], *, as_json: bool) -> int:
    for row in rows:
        print(json.dumps(row, ensure_ascii=False) if as_json else _row(row))
    if not rows and not as_json:
        print(say("There are no MCP servers. `mcp_servers` in config.yaml names them."))
    return 0


def _row(row: Plain) -> str:
    told = {name: visible(str(value)) for name, value in row.items()}
    state = "on " if row["enabled"] else "off"
    return say(
        "{name} {state} {transport} trust: {trust} {target}",
        name=f"{told['name']:<24}",
        state=state,
        transport=f"{told['transport']:<5}",
        trust=f"{told['trust']:<6}",
        target=told["target"],
    )


def _report(found: Plain) -> str:
    if found["problem"]:
        return visible(f"{found['name']}: {found['problem']}.")
    tools = found["tools"]
    assert isinstance(tools, list)
    lines = [
        say(
            "{name}: ready in {seconds} s, {tools}",
            name=found["name"],
            seconds=found["seconds"],
            tools=say_many("{n} tool", "{n} tools", len(tools)),
        )
    ]
    for tool in tools:
        hint = ("  " + say("[reads only]")) if tool["reads_only"] else ""
        lines.append(f"  {tool['name']}  {tool['digest']}{hint}")
        lines.append(f"      {visible(one_line(str(tool['description']), 160))}")
    return "\n".join(lines)
