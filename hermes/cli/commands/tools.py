"""`hermes tools`: list the tool sets with their state, and switch them on or off.

`hermes mcp`: list the MCP servers of `config.yaml`, or test one.
"""

import asyncio
import json
import shutil
import sys

from msgspec import structs

from hermes.admin.mcp import list_servers, probe_server
from hermes.admin.toolsets import ToolsetChange, disable_toolsets, enable_toolsets, list_toolsets
from hermes.cli.output import report_failure
from hermes.cli.parser import CommandParser
from hermes.commands.event_descriptions import describe_toolset
from hermes.config.environment import copy_environment
from hermes.core.errors import HermesError
from hermes.i18n.messages import N_, tr, tr_plural
from hermes.markup.charts import fit_text, pad_right, text_width
from hermes.sessions.formats.openai_format import Plain
from hermes.util.text import escape_confusable_characters, escape_unseen_characters, to_one_line


def run(arguments: list[str]) -> int:
    """List the tool sets, or switch some."""
    parser = CommandParser(
        prog="hermes tools",
        description="The tool sets: which are on and why. What is switched off is gone from what the model is offered,"
        " from the next session on.",
        epilog="example: hermes tools disable web",
    )
    parser.add_argument("action", nargs="?", choices=["list", "enable", "disable"], default="list")
    parser.add_argument("names", nargs="*", metavar="NAME", help="tool sets")
    parser.add_argument("--json", action="store_true", dest="as_json", help="print JSON")
    args = parser.parse_arguments(arguments)
    if args.action == "list" and args.names:
        parser.error("list takes no name")
    if args.action != "list" and not args.names:
        parser.error(f"{args.action} needs the name of a tool set; `hermes tools` shows them")
    environ = copy_environment()
    try:
        if args.action == "list":
            return _print_toolsets(list_toolsets(environ), as_json=args.as_json)
        on = args.action == "enable"
        return _report_switch(
            (enable_toolsets if on else disable_toolsets)(environ, args.names), on=on, as_json=args.as_json
        )
    except HermesError as error:
        return report_failure(error)


def _report_switch(done: ToolsetChange, *, on: bool, as_json: bool) -> int:
    if as_json:
        print(json.dumps(structs.asdict(done), ensure_ascii=False))
        return 0
    now = N_("{name} is on from the next session.") if on else N_("{name} is off from the next session.")
    was = N_("{name} is on already.") if on else N_("{name} is off already.")
    for text, names in ((now, done.changed), (was, done.already)):
        for name in names:
            print(escape_unseen_characters(tr(text, name=name)))
    return 0


def _print_toolsets(rows: list[Plain], *, as_json: bool) -> int:
    if as_json:
        print(json.dumps(rows, ensure_ascii=False))
        return 0
    columns = max(shutil.get_terminal_size((80, 24)).columns - 1, 60) if sys.stdout.isatty() else 0
    for row in rows:
        state = tr("on") if row["on"] else tr("off")
        tools = row["tools"]
        assert isinstance(tools, list)
        names = ", ".join(map(str, tools)) or tr("(asked of the server when a session starts)")
        description = describe_toolset(str(row["name"])) or names
        why = f" [{row['why']}]" if row["why"] else ""
        line = escape_unseen_characters(f"{pad_right(str(row['name']), 16)} {pad_right(state, 4)} ")
        print(
            (
                line
                + fit_text(escape_unseen_characters(description), columns - text_width(line) - text_width(why)).rstrip()
                + why
            )
            if columns
            else line + description + why
        )
    return 0


def run_mcp(arguments: list[str]) -> int:
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
