"""`/background` and `/agents`: run sessions beside this one, and list what runs now."""

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from hermes.commands.command import CommandCall, CommandGroup, SlashCommand
from hermes.commands.context import CommandContext, MenuOption
from hermes.core.errors import UsageError
from hermes.core.events import Level
from hermes.core.outcomes import ExitReason
from hermes.i18n.formats import span
from hermes.i18n.messages import phrase, say
from hermes.util.text import escaped, inert, one_line

if TYPE_CHECKING:
    from hermes.sessions.background.sessions import BackgroundTask


async def run_in_background(call: CommandCall) -> None:
    """Start a background session for a prompt; without words list them, with `stop N` stop one."""
    context = call.context
    words = call.text.split()
    known = context.app.background_work.background
    if not words or words == ["list"]:
        lines = [_format_task(one) for one in known.tasks]
        context.tell("\n".join(lines) or say("Nothing works in the background. /background PROMPT begins something."))
        return
    if words[0] == "stop" and len(words) <= 2:
        if len(words) != 2 or not words[1].isdecimal():
            raise UsageError(phrase("/background stop takes a number; /background lists them."))
        known.stop_task(int(words[1][:9]))
        context.tell(say("Background session {n} is being stopped.", n=int(words[1][:9])))
        return
    begun = known.start_task(
        call.text, context.open_background_session, context.app.options.cwd, lambda task: _report_task(context, task)
    )
    context.tell(say("Background session {n} works; you are told when it is done.", n=begun.number))


def _report_task(context: CommandContext, task: "BackgroundTask") -> None:
    """Show the end of a background session, and its answer."""
    ended, about = task.ended, one_line(inert(task.prompt), 60)
    if task.failed or ended is None:
        context.tell(
            say("Background session {n} failed: {why}", n=task.number, why=escaped(task.failed)), Level.WARNING
        )
        return
    if ended.reason is ExitReason.INTERRUPTED:
        context.tell(say("Background session {n} was stopped ({about}).", n=task.number, about=about))
        return
    context.tell(say("Background session {n} is done ({about}):", n=task.number, about=about))
    if ended.text:
        context.show(ended.text)
    if ended.error:
        context.tell(escaped(ended.error), Level.WARNING)
    context.tell(say("/resume {id} goes on with it.", id=task.session_id))


def _format_task(task: "BackgroundTask") -> str:
    about = one_line(inert(task.prompt), 70)
    if not task.done:
        return f"  {task.number}  {say('works')} {span(time.monotonic() - task.began)}  {about}"
    if task.failed or task.ended is None:
        state = say("failed")
    elif task.ended.reason is ExitReason.INTERRUPTED:
        state = say("stopped")
    else:
        state = say("done") if task.ended.reason.completed else say("failed")
    return f"  {task.number}  {state}  {task.session_id}  {about}".rstrip()


async def complete_background(_call: CommandCall) -> Sequence[MenuOption]:
    """Complete the subcommands."""
    return [MenuOption("list"), MenuOption("stop")]


async def list_agents(call: CommandCall) -> None:
    """List what runs now: this session's turn, background sessions, processes, MCP servers."""
    call.require_no_arguments()
    context = call.context
    lines = [say("This session: a turn runs.") if context.actor.busy else say("This session: nothing runs.")]
    pursuit = context.app.background_work.find_pursuit(context.actor)
    lines += [say("Its goal: {word}", word=pursuit.word)] if pursuit is not None and pursuit.word else []
    working = context.app.background_work.background.list_running()
    lines += [say("In the background:"), *(_format_task(one) for one in working)] if working else []
    processes = context.app.live_session(context.actor).tools.state.processes.list_running()
    if processes:
        lines += [say("Processes of its tools:")]
        lines += [f"  {one.process_id}  {one_line(inert(one.command), 70)}" for one in processes]
    context.tell("\n".join(lines))


COMMANDS = (
    SlashCommand(
        name="background",
        aliases=("bg", "btw"),
        about=phrase("let a session of its own answer beside this one"),
        usage=phrase("[prompt|list|stop N]"),
        group=CommandGroup.WORK,
        run=run_in_background,
        complete=complete_background,
    ),
    SlashCommand(
        name="agents",
        aliases=("tasks",),
        about=phrase("what works now: the turn, the background, processes"),
        group=CommandGroup.WORK,
        run=list_agents,
    ),
)
