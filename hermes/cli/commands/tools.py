"""`hermes tools`: the tool sets, which are on and why, and switching them."""

import json
import shutil
import sys

from msgspec import structs

from hermes.admin.toolsets import ToolsetChange, disable_toolsets, enable_toolsets, list_toolsets
from hermes.cli.arguments import Parser
from hermes.cli.errors import failed
from hermes.commands.views.tool_descriptions import describe_toolset
from hermes.config.environment import process_environment
from hermes.core.errors import HermesError
from hermes.i18n.messages import phrase, say
from hermes.markup.charts import fit_text, pad_right, text_width
from hermes.sessions.formats.openai_format import Plain
from hermes.util.text import escaped


def run(arguments: list[str]) -> int:
    """List the sets, or switch some."""
    parser = Parser(
        prog="hermes tools",
        description="The tool sets: which are on and why. What is switched off is gone from what the model is offered,"
        " from the next session on.",
        epilog="example: hermes tools disable web",
    )
    parser.add_argument("action", nargs="?", choices=["list", "enable", "disable"], default="list")
    parser.add_argument("names", nargs="*", metavar="NAME", help="tool sets")
    parser.add_argument("--json", action="store_true", dest="as_json", help="print JSON")
    given = parser.read(arguments)
    if given.action == "list" and given.names:
        parser.error("list takes no name")
    if given.action != "list" and not given.names:
        parser.error(f"{given.action} needs the name of a tool set; `hermes tools` shows them")
    environ = process_environment()
    try:
        if given.action == "list":
            return _list(list_toolsets(environ), as_json=given.as_json)
        on = given.action == "enable"
        return _switched(
            (enable_toolsets if on else disable_toolsets)(environ, given.names), on=on, as_json=given.as_json
        )
    except HermesError as error:
        return failed(error)


def _switched(done: ToolsetChange, *, on: bool, as_json: bool) -> int:
    if as_json:
        print(json.dumps(structs.asdict(done), ensure_ascii=False))
        return 0
    now = phrase("{name} is on from the next session.") if on else phrase("{name} is off from the next session.")
    was = phrase("{name} is on already.") if on else phrase("{name} is off already.")
    for text, names in ((now, done.changed), (was, done.already)):
        for name in names:
            print(escaped(say(text, name=name)))
    return 0


def _list(rows: list[Plain], *, as_json: bool) -> int:
    if as_json:
        print(json.dumps(rows, ensure_ascii=False))
        return 0
    columns = max(shutil.get_terminal_size((80, 24)).columns - 1, 60) if sys.stdout.isatty() else 0
    for row in rows:
        state = say("on") if row["on"] else say("off")
        tools = row["tools"]
        assert isinstance(tools, list)
        names = ", ".join(map(str, tools)) or say("(asked of the server when a session starts)")
        told = describe_toolset(str(row["name"])) or names
        why = f" [{row['why']}]" if row["why"] else ""
        line = escaped(f"{pad_right(str(row['name']), 16)} {pad_right(state, 4)} ")
        print(
            (line + fit_text(escaped(told), columns - text_width(line) - text_width(why)).rstrip() + why)
            if columns
            else line + told + why
        )
    return 0
