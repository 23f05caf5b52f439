"""`/background` and `/agents`: run sessions beside this one, and list what runs now.

`/goal`: set and control the goal that this session pursues until it is reached.
"""

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from hermes.commands.command import CommandCall, CommandGroup, CommandList
from hermes.commands.context import CommandContext, MenuOption
from hermes.core.errors import BusyError, UsageError
from hermes.core.events import Level
from hermes.i18n.formats import format_duration
from hermes.i18n.messages import N_, localize, tr
from hermes.sessions.background.goals import GoalPursuit
from hermes.util.text import escape_unseen_characters, strip_control_characters, to_one_line

if TYPE_CHECKING:
    from hermes.sessions.background.work import BackgroundTask


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
    known = context.app.background_work.background
    if not words or words == ["list"]:
        lines = [_format_task(one) for one in known.list_tasks(context.session_person)]
        context.tell("\n".join(lines) or tr("Nothing works in the background. /background PROMPT begins something."))
        return
    if words[0] == "stop" and len(words) <= 2:
        if len(words) != 2 or not words[1].isdecimal():
            raise UsageError(N_("/background stop takes a number; /background lists them."))
        known.stop_task(int(words[1][:9]), context.session_person)
        context.tell(tr("Background session {n} is being stopped.", n=int(words[1][:9])))
        return
    begun = known.start_task(call.text, context, context.app.options.cwd, lambda task: _report_task(context, task))
    context.tell(tr("Background session {n} works; you are notified when it is done.", n=begun.number))


async def _report_task(context: CommandContext, task: "BackgroundTask") -> None:
    """Show the end of a background session, and its answer."""
    _tell_end(context, task)
    await context.show_later()
    if context.chat is not None and task.session_id:
        await context.chat.note_background_end(task.session_id)


def _tell_end(context: CommandContext, task: "BackgroundTask") -> None:
    ended, about = task.ended, to_one_line(strip_control_characters(task.prompt), 60)
    if task.is_stopped:
        context.tell(tr("Background session {n} was stopped ({about}).", n=task.number, about=about))
        return
    if task.failed or ended is None:
        context.tell(
            tr("Background session {n} failed: {why}", n=task.number, why=escape_unseen_characters(task.failed)),
            Level.WARNING,
        )
        return
    context.tell(tr("Background session {n} is done ({about}):", n=task.number, about=about))
    if ended.text and context.chat is None:  # a chat has shown it, with its files
        context.show(ended.text)
    if ended.error and context.chat is None:
        context.tell(escape_unseen_characters(ended.error), Level.WARNING)
    context.tell(tr("/resume {id} goes on with it.", id=task.session_id))


def _format_task(task: "BackgroundTask") -> str:
    about = to_one_line(strip_control_characters(task.prompt), 70)
    if not task.done:
        return f"  {task.number}  {tr('works')} {format_duration(time.monotonic() - task.began)}  {about}"
    if task.is_stopped:
        state = tr("stopped")
    elif task.failed or task.ended is None:
        state = tr("failed")
    else:
        state = tr("done") if task.ended.reason.is_completed else tr("failed")
    return f"  {task.number}  {state}  {task.session_id}  {about}".rstrip()


@COMMANDS.command(
    "agents", N_("what works now: the turn, the background, processes"), aliases=("tasks", "ps", "bashes")
)
async def list_agents(call: CommandCall) -> None:
    """List what runs now: this session's turn, background sessions, processes, MCP servers."""
    call.require_no_arguments()
    context = call.context
    lines = [tr("This session: a turn runs.") if context.actor.busy else tr("This session: nothing runs.")]
    pursuit = context.app.background_work.find_pursuit(context.actor)
    lines += [tr("Its goal: {word}", word=pursuit.word)] if pursuit is not None and pursuit.word else []
    working = context.app.background_work.background.list_tasks(context.session_person, running=True)
    lines += [tr("In the background:"), *(_format_task(one) for one in working)] if working else []
    processes = context.app.live_session(context.actor).tools.state.processes.list_running()
    if processes:
        lines += [tr("Processes of its tools:")]
        lines += [f"  {one.process_id}  {to_one_line(strip_control_characters(one.command), 70)}" for one in processes]
    context.tell("\n".join(lines))


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
