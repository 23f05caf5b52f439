"""`/background` and `/agents`: sessions beside this one, and all that works now."""

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from hermes.commands.command import Call, Command, Group
from hermes.commands.context import Desk, Option
from hermes.core.errors import UsageError
from hermes.core.events import Level
from hermes.core.outcomes import ExitReason
from hermes.i18n.formats import span
from hermes.i18n.messages import phrase, say
from hermes.util.text import escaped, inert, one_line

if TYPE_CHECKING:
    from hermes.sessions.background.sessions import Task


async def background(call: Call) -> None:
    """Let a session of its own answer beside this one; without words list them, with `stop N` end one."""
    desk = call.desk
    words = call.text.split()
    known = desk.app.beside.background
    if not words or words == ["list"]:
        lines = [_line(one) for one in known.tasks]
        desk.tell("\n".join(lines) or say("Nothing works in the background. /background PROMPT begins something."))
        return
    if words[0] == "stop" and len(words) <= 2:
        if len(words) != 2 or not words[1].isdecimal():
            raise UsageError(phrase("/background stop takes a number; /background lists them."))
        known.stop(int(words[1][:9]))
        desk.tell(say("Background session {n} is being stopped.", n=int(words[1][:9])))
        return
    begun = known.begin(call.text, desk.beside, desk.app.options.cwd, lambda task: _told(desk, task))
    desk.tell(say("Background session {n} works; you are told when it is done.", n=begun.number))


def _told(desk: Desk, task: "Task") -> None:
    """Its end and its answer."""
    ended, about = task.ended, one_line(inert(task.prompt), 60)
    if task.failed or ended is None:
        desk.tell(say("Background session {n} failed: {why}", n=task.number, why=escaped(task.failed)), Level.WARNING)
        return
    if ended.reason is ExitReason.INTERRUPTED:
        desk.tell(say("Background session {n} was stopped ({about}).", n=task.number, about=about))
        return
    desk.tell(say("Background session {n} is done ({about}):", n=task.number, about=about))
    if ended.text:
        desk.show(ended.text)
    if ended.error:
        desk.tell(escaped(ended.error), Level.WARNING)
    desk.tell(say("/resume {id} goes on with it.", id=task.session_id))


def _line(task: "Task") -> str:
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


async def complete(_call: Call) -> Sequence[Option]:
    """Its words."""
    return [Option("list"), Option("stop")]


async def agents(call: Call) -> None:
    """What works now: this session's turn, sessions in the background, processes, MCP servers."""
    call.nothing_behind()
    desk = call.desk
    lines = [say("This session: a turn runs.") if desk.actor.busy else say("This session: nothing runs.")]
    pursuit = desk.app.beside.pursuing(desk.actor)
    lines += [say("Its goal: {word}", word=pursuit.word)] if pursuit is not None and pursuit.word else []
    working = desk.app.beside.background.working()
    lines += [say("In the background:"), *(_line(one) for one in working)] if working else []
    processes = desk.app.live(desk.actor).tools.state.processes.running()
    if processes:
        lines += [say("Processes of its tools:")]
        lines += [f"  {one.process_id}  {one_line(inert(one.command), 70)}" for one in processes]
    desk.tell("\n".join(lines))


COMMANDS = (
    Command(
        name="background",
        aliases=("bg", "btw"),
        about=phrase("let a session of its own answer beside this one"),
        usage=phrase("[prompt|list|stop N]"),
        group=Group.WORK,
        run=background,
        complete=complete,
    ),
    Command(
        name="agents",
        aliases=("tasks",),
        about=phrase("what works now: the turn, the background, processes"),
        group=Group.WORK,
        run=agents,
    ),
)
