"""`hermes mcp`: list the MCP servers of `config.yaml`, or test one."""

import asyncio
import json

from hermes.admin.mcp import list_servers, probe_server
from hermes.cli.errors import report_failure
from hermes.cli.parser import CommandParser
from hermes.config.environment import copy_environment
from hermes.core.errors import HermesError
from hermes.i18n.messages import tr, tr_plural
from hermes.sessions.formats.openai_format import Plain
from hermes.util.text import escape_confusable_characters, to_one_line


def run(arguments: list[str]) -> int:
    """List the servers, or try one."""
    parser = CommandParser(
        prog="hermes mcp",
        description="The MCP servers that `mcp_servers` in config.yaml names.",
        epilog="example: hermes mcp test github",
    )
    parser.add_argument("action", nargs="?", choices=["list", "test"], default="list")
    parser.add_argument("name", nargs="?", default="", help="the server to try")
    parser.add_argument("--json", action="store_true", dest="as_json", help="answer as JSON, one object a line")
    args = parser.parse_arguments(arguments)
    if args.action == "test" and not args.name:
        parser.error("test needs the name of a server; `hermes mcp list` shows them")
    if args.action == "list" and args.name:
        parser.error("list takes no name; to try a server: hermes mcp test NAME")
    environ = copy_environment()
    try:
        if args.action == "list":
            return _print_servers(list_servers(environ), as_json=args.as_json)
        found = asyncio.run(probe_server(environ, args.name))
        print(json.dumps(found, ensure_ascii=False) if args.as_json else _format_test_report(found))
        return 1 if found["problem"] else 0
    except HermesError as error:
        return report_failure(error)


def _print_servers(rows: list[Plain], *, as_json: bool) -> int:
    for row in rows:
        print(json.dumps(row, ensure_ascii=False) if as_json else _format_server(row))
    if not rows and not as_json:
        print(tr("There are no MCP servers. `mcp_servers` in config.yaml names them."))
    return 0


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
