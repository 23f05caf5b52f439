"""`/background`: run sessions beside this one.

`/goal`: set and control the goal that this session pursues until it is reached.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hermes.commands.command import CommandCall, CommandGroup, CommandList
from hermes.commands.context import CommandContext, MenuOption
from hermes.core.errors import BusyError, NotFoundError, UsageError
from hermes.core.sub_agents import SubAgentState, SubAgentTask
from hermes.i18n.formats import format_duration
from hermes.i18n.messages import N_, localize, tr
from hermes.sessions.background.goals import GoalPursuit
from hermes.util.text import strip_control_characters, to_one_line

if TYPE_CHECKING:
    from hermes.sessions.sub_agents.run import SubAgentRun
    from hermes.store.sub_agents import SubAgentRow


_MAX_NAME = 70
COMMANDS = CommandList(CommandGroup.WORK)


async def complete_background(_call: CommandCall) -> Sequence[MenuOption]:
    """Complete the subcommands."""
    return [MenuOption("list"), MenuOption("stop")]


@COMMANDS.command(
    "background",
    N_("let a session of its own answer beside this one"),
    usage=N_("[prompt|list|stop N]"),
    aliases=("bg", "btw"),
    complete=complete_background,
)
async def run_in_background(call: CommandCall) -> None:
    """Start a background session for a prompt; without words list them, with `stop N` stop one."""
    context = call.context
    words = call.text.split()
    if not words or words == ["list"]:
        lines = await list_background_sessions(context)
        context.tell("\n".join(lines) or tr("Nothing works in the background. /background PROMPT begins something."))
        return
    if words[0] == "stop" and len(words) <= 2:
        if len(words) != 2 or not words[1].isdecimal():
            raise UsageError(N_("/background stop takes a number; /background lists them."))
        number = int(words[1][:9])
        _stop_session(context, number)
        context.tell(tr("Background session {n} is being stopped.", n=number))
        return
    session_id, prompt = context.actor.session_id, context.app.redact_text(call.text)
    if context.chat is not None:
        await context.chat.store_binding()
    task = SubAgentTask(goal=prompt, name=to_one_line(strip_control_characters(prompt), _MAX_NAME))
    begun = await context.app.sub_agents.begin_for_person(session_id, task)
    context.tell(tr("Background session {n} works; you are notified when it is done.", n=begun.number))


def _stop_session(context: CommandContext, number: int) -> None:
    """Stop a background session of the session. Raises NotFoundError when none works under that number."""
    team = context.app.sub_agents.open_team(context.actor.session_id)
    works = [run.row.number for run in team.runs if run.is_for_person and not run.state.has_ended]
    if number not in works:
        raise NotFoundError(N_("No background session {n} works.", n=number), N_("/background lists them."))
    team.stop(number)


async def list_background_sessions(context: CommandContext) -> list[str]:
    """Return a line for each background session of the session."""
    session_id = context.actor.session_id
    rows = await context.app.services.store.sub_agents.list_for_person(session_id)
    team = context.app.sub_agents.open_team(session_id) if rows else None
    runs = {run.row.session_id: run for run in team.runs} if team is not None else {}
    return [_format_row(row, runs.get(row.session_id)) for row in rows]


def _format_row(row: "SubAgentRow", run: "SubAgentRun | None") -> str:
    about = to_one_line(strip_control_characters(row.task.name), _MAX_NAME)
    if row.ended_at is None:
        return f"  {row.number}  {tr('works')} {format_duration(run.seconds if run is not None else 0.0)}  {about}"
    match row.state:
        case SubAgentState.STOPPED:
            state = tr("stopped")
        case SubAgentState.DONE:
            state = tr("done")
        case _:
            state = tr("failed")
    return f"  {row.number}  {state}  {row.session_id}  {about}".rstrip()


_SUBCOMMANDS = ("show", "status", "pause", "resume", "clear")


_STATE_TEXTS = {
    "active": N_("It is worked on"),
    "paused": N_("It is paused"),
    "reached": N_("It is reached"),
}


async def complete_goal(_call: CommandCall) -> Sequence[MenuOption]:
    """Complete the subcommands of `/goal`."""
    return [MenuOption(word) for word in _SUBCOMMANDS]


@COMMANDS.command(
    "goal",
    N_("a standing goal: it goes on turn by turn until a judge says that it is reached"),
    usage=N_("[text|show|pause|resume|clear]"),
    complete=complete_goal,
)
async def manage_goal(call: CommandCall) -> None:
    """Set, show, pause, resume, or clear the goal."""
    context = call.context
    pursuit = await context.app.background_work.open_pursuit(context.actor)
    match call.text:
        case "" | "show" | "status":
            context.tell(_describe_goal(pursuit))
            return
        case "pause":
            await pursuit.pause(N_("you wanted that"))
        case "clear":
            await pursuit.clear()
            context.tell(tr("The goal was removed."))
        case "resume":
            _require_idle(call)
            await pursuit.resume()
        case text:
            _require_idle(call)
            await pursuit.set_goal(context.app.redact_text(text))
            context.tell(tr("The goal is set. Ctrl-C, /goal pause or a message of yours pauses it."))
    await context.refresh_view()


def _require_idle(call: CommandCall) -> None:
    if call.context.actor.busy:
        raise BusyError(N_("A turn runs in this session."), N_("Ctrl-C or /stop ends it."))


def _describe_goal(pursuit: GoalPursuit) -> str:
    row = pursuit.row
    if row is None:
        return tr("There is no goal. /goal TEXT sets one.")
    state = tr(_STATE_TEXTS[row.state])
    lines = [
        tr("Goal: {text}", text=strip_control_characters(row.text)),
        f"{state}, {pursuit.word}" if pursuit.word else state,
    ]
    lines += [localize(strip_control_characters(row.why))] if row.why else []
    return "\n".join(lines)
