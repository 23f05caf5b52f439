"""`hermes tools`: list the tool sets with their state, and switch them on or off.

`/tools`, `/toolsets` do that for the session of a chat.
"""

import shutil
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import structs

from hermes.commands.command import CommandCall, CommandGroup, CommandList
from hermes.commands.context import MenuOption
from hermes.commands.model import describe_cache_reset, session_choices
from hermes.commands.texts.event_descriptions import describe_tool, describe_toolset
from hermes.commands.verb import JSON_OPTION, JsonLayout, Verb, VerbCall, VerbResult, argument, rows_result
from hermes.core.encoding import Plain
from hermes.core.errors import UsageError
from hermes.i18n.messages import N_, join_sentences, localize, tr, tr_plural
from hermes.markup.cells import fit_text, measure_width, pad_text
from hermes.util.text import escape_unseen_characters, to_one_line

if TYPE_CHECKING:
    from hermes.admin.toolsets import ToolsetChange

TOOLS = Verb(
    "tools",
    description="The tool sets: which are on and why. What is switched off is gone from what the model is offered,"
    " from the next session on.",
    example="hermes tools disable web",
    json_layout=JsonLayout.LINE,
)


@TOOLS.action(
    "",
    "",
    argument("action", nargs="?", choices=["list", "enable", "disable"], default="list"),
    argument("names", nargs="*", metavar="NAME", help="tool sets"),
    JSON_OPTION,
)
def switch_toolsets(call: VerbCall) -> VerbResult:
    """List the tool sets, or switch some."""
    from hermes.admin import toolsets

    action, names = call.args.action, call.args.names
    if action == "list":
        if names:
            call.reject_arguments("list takes no name")
        said: set[str] = set()
        rows = toolsets.list_toolsets(call.environ, with_packages=True)
        return rows_result(rows, lambda row: _format_toolset(row, said), "")
    if not names:
        call.reject_arguments(N_("{action} needs the name of a tool set; `hermes tools` shows them", action=action))
    if action == "enable":
        return _switch_result(toolsets.enable_toolsets(call.environ, names), on=True)
    return _switch_result(toolsets.disable_toolsets(call.environ, names), on=False)


def _switch_result(done: "ToolsetChange", *, on: bool) -> VerbResult:
    now = N_("{name} is on from the next session.") if on else N_("{name} is off from the next session.")
    was = N_("{name} is on already.") if on else N_("{name} is off already.")
    said = [tr(text, name=name) for text, names in ((now, done.changed), (was, done.already)) for name in names]
    return VerbResult(structs.asdict(done), [escape_unseen_characters(line) for line in said])


def _format_toolset(row: Plain, said: set[str]) -> list[str]:
    """Format a tool set on one line, which fits into a terminal, and a line for each reason that hides tools of it
    which no set before it has `said`.
    """
    columns = max(shutil.get_terminal_size((80, 24)).columns - 1, 60) if sys.stdout.isatty() else 0
    state = tr("on") if row["on"] else tr("off")
    tools = row["tools"]
    assert isinstance(tools, list)
    names = ", ".join(map(str, tools)) or tr("(asked of the server when a session starts)")
    description = describe_toolset(str(row["name"])) or names
    why = f" [{row['why']}]" if row["why"] else ""
    line = escape_unseen_characters(f"{pad_text(str(row['name']), 16)} {pad_text(state, 4)} ")
    hidden = row["hidden"]
    assert isinstance(hidden, dict)
    lines = [f"  {one}" for one in _format_hidden({name: why for name, why in hidden.items() if name not in said})]
    said.update(hidden)
    if not columns:
        return [line + description + why, *lines]
    room = columns - measure_width(line) - measure_width(why)
    return [line + fit_text(escape_unseen_characters(description), room).rstrip() + why, *lines]


def _format_hidden(hidden: Mapping[str, str]) -> list[str]:
    """Return a line for each reason why tools cannot work, with their names."""
    tools: dict[str, list[str]] = {}
    for name, why in hidden.items():
        tools.setdefault(localize(why), []).append(name)
    return [
        escape_unseen_characters(
            tr("{names} are hidden: {why}.", names=", ".join(names), why=why)
            if len(names) > 1
            else tr("{name} is hidden: {why}.", name=names[0], why=why)
        )
        for why, names in tools.items()
    ]


_DEFAULT_COLUMNS, _MIN_COLUMNS = 100, 40
"""The width of a line where there is no terminal, and its minimum."""
_VERBS = ("list", "enable", "disable")


COMMANDS = CommandList(CommandGroup.MODEL)


async def complete_tools(call: CommandCall) -> Sequence[MenuOption]:
    """Complete a verb, then the sets."""
    if len(call.text.split()) + call.text.endswith(" ") < 2:
        return [MenuOption(verb) for verb in _VERBS]
    return [MenuOption(str(row["name"])) for row in session_choices(call).list_toolsets()]


@COMMANDS.command(
    "tools",
    N_("the tools of this session; switch sets of them on or off"),
    usage=N_("[list|enable|disable] [set]"),
    complete=complete_tools,
)
async def manage_tools(call: CommandCall) -> None:
    """List the tools of this session, or switch sets of them."""
    verb, *names = call.words or ["list"]
    if verb not in _VERBS or (verb == "list") == bool(names):
        raise UsageError(N_("/tools, /tools enable NAME, /tools disable NAME: a name is that of a tool set."))
    if verb == "list":
        _list_tools(call)
        return
    on = verb == "enable"
    count = await session_choices(call).switch_toolsets(names, on=on)
    named = ", ".join(names)
    if count is None:
        call.context.tell(tr("Already so: {names}.", names=named))
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
    lines += _format_hidden(toolbox.hidden)
    call.context.tell("\n".join(lines) or tr("This session has no tools."))
    call.context.tell(tr("/toolsets shows the sets; /tools disable NAME switches one off."))


@COMMANDS.command("toolsets", N_("the sets of tools, and which this session has"))
async def list_toolsets(call: CommandCall) -> None:
    """List the tool sets, and which of them this session has."""
    call.require_no_arguments()
    lines = [_format_session_toolset(call, row) for row in session_choices(call).list_toolsets()]
    call.context.tell("\n".join(lines))


def _format_session_toolset(call: CommandCall, row: dict[str, object]) -> str:
    names = row["tools"]
    assert isinstance(names, list)
    state = tr("on") if row["on"] else tr("off")
    name = str(row["name"])
    return _format_row(call, name, f"{pad_text(state, 4)} {describe_toolset(name) or ', '.join(map(str, names))}")


def _format_row(call: CommandCall, name: str, description: str) -> str:
    """Format a name and its description on one line of the terminal."""
    columns = call.context.terminal.width if call.context.terminal is not None else _DEFAULT_COLUMNS
    return fit_text(
        f"  {pad_text(escape_unseen_characters(name), 20)} {escape_unseen_characters(description)}",
        max(columns - 1, _MIN_COLUMNS),
    ).rstrip()
