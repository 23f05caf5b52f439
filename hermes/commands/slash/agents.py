"""`/agents`: list what works now, and look at, steer and stop the sub-agents of this session."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from hermes.commands.command import CommandCall, CommandGroup, CommandList
from hermes.commands.context import MenuOption
from hermes.commands.texts.sub_agent_texts import clean_name, describe_sub_agent, order_as_tree
from hermes.core.errors import NotFoundError, UsageError
from hermes.core.events import SubAgentChanged
from hermes.core.messages import Message, Role, TextPart
from hermes.core.sub_agents import TASK_HEADING, SubAgentReport
from hermes.i18n.messages import N_, tr, tr_plural
from hermes.sessions.app import find_sub_agents
from hermes.util.text import strip_control_characters, to_one_line

if TYPE_CHECKING:
    from hermes.sessions.sub_agents.team import SubAgentTeam
    from hermes.store.sub_agents import SubAgentRow

COMMANDS = CommandList(CommandGroup.WORK)
_MAX_ENDED = 20
"""Ended sub-agents that a list shows, the newest of them."""
_SHOWN_MESSAGES = 12
_MAX_TASK, _MAX_ANSWER, _MAX_LINE = 600, 4_000, 200


async def complete_agents(call: CommandCall) -> Sequence[MenuOption]:
    """Complete the subcommands, and behind one the numbers of the sub-agents that it can be about."""
    word, _, rest = call.text.partition(" ")
    if not rest and not call.text.endswith(" "):
        return [
            MenuOption("show", tr("task, state, report and the last steps")),
            MenuOption("steer", tr("say something to one that works")),
            MenuOption("stop", tr("one of them, or all")),
        ]
    agents = await list_sub_agents(call)
    if word != "show":
        agents = [agent for agent in agents if not agent.state.has_ended]
    more = [MenuOption("all")] if word == "stop" else []
    return [*more, *(MenuOption(str(one.number), clean_name(one.name)) for one in agents)]


@COMMANDS.command(
    "agents",
    N_("what works now: the turn, sub-agents, the background, processes"),
    usage=N_("[show N|steer N text|stop N|stop all]"),
    aliases=("tasks", "ps", "bashes"),
    complete=complete_agents,
)
async def manage_agents(call: CommandCall) -> None:
    """List what works, or show, steer or stop a sub-agent."""
    match call.text.split(maxsplit=2):
        case [] | ["list"]:
            await _list_work(call)
        case ["show", number]:
            await _show_agent(call, _parse_number(number))
        case ["steer", number, text]:
            _steer_agent(call, _parse_number(number), text)
        case ["stop", "all"]:
            stop_sub_agents(call, everything=True)
        case ["stop", number]:
            _stop_agent(call, _parse_number(number))
        case _:
            raise UsageError(
                N_("/agents takes nothing, `show N`, `steer N text`, `stop N` or `stop all`."),
                N_("/agents alone lists them with their numbers."),
            )


def stop_sub_agents(call: CommandCall, *, everything: bool) -> bool:
    """Stop the sub-agents of the session and say so: those in the background, with `everything` those for which a turn
    waits, too. Return whether there are any.
    """
    team = find_sub_agents(call.context.app, call.context.actor.session_id)
    count = team.stop_all(awaited=everything) if team is not None else 0
    if count:
        said = tr_plural("{n} sub-agent is being stopped.", "{n} sub-agents are being stopped.", count)
        call.context.tell(said)
    elif everything:
        call.context.tell(tr("No sub-agent works."))
    return count > 0


async def list_sub_agents(call: CommandCall) -> list[SubAgentChanged]:
    """Return how the sub-agents of the session stand, those that have ended too, each followed by its own."""
    from hermes.sessions.sub_agents.team import describe_team

    context = call.context
    session_id = context.actor.session_id
    rows = await context.app.services.store.sub_agents.list_tree(session_id)
    live = {one.session_id: one for one in describe_team(find_sub_agents(context.app, session_id))}
    numbers = {row.session_id: row.number for row in rows}
    return order_as_tree(
        [live.get(row.session_id) or _describe_row(row, numbers.get(row.parent_id, 0)) for row in rows]
    )


def _describe_row(row: "SubAgentRow", parent: int) -> SubAgentChanged:
    """Return how a sub-agent stands that does not work in this process."""
    report = row.report
    return SubAgentChanged(
        session_id=row.session_id,
        number=row.number,
        name=row.task.name,
        state=row.state,
        depth=row.depth,
        parent=parent,
        step=report.steps,
        max_steps=row.steps,
        cost=report.cost,
        seconds=report.seconds,
        doing=report.error,
    )


async def _list_work(call: CommandCall) -> None:
    """List what runs now: this session's turn, its sub-agents with its background sessions, processes."""
    context = call.context
    lines = [tr("This session: a turn runs.") if context.actor.busy else tr("This session: nothing runs.")]
    pursuit = context.app.background_work.find_pursuit(context.actor)
    lines += [tr("Its goal: {word}", word=pursuit.word)] if pursuit is not None and pursuit.word else []
    lines += _format_agents(await list_sub_agents(call))
    processes = context.app.live_session(context.actor).tools.state.processes.list_running()
    if processes:
        lines += [tr("Processes of its tools:")]
        lines += [f"  {one.process_id}  {to_one_line(strip_control_characters(one.command), 70)}" for one in processes]
    context.tell("\n".join(lines))


def _format_agents(agents: Sequence[SubAgentChanged]) -> Iterator[str]:
    """Yield a line for each sub-agent; of those that have ended for the newest only."""
    ended = [agent for agent in agents if agent.state.has_ended]
    left_out = {agent.number for agent in sorted(ended, key=lambda one: -one.number)[_MAX_ENDED:]}
    if agents:
        yield tr("Sub-agents:")
    for agent in agents:
        if agent.number not in left_out:
            yield f"{'  ' * agent.depth}{describe_sub_agent(agent)}"
    if left_out:
        yield "  " + tr_plural("and {n} earlier one", "and {n} earlier ones", len(left_out))


async def _show_agent(call: CommandCall, number: int) -> None:
    """Show a sub-agent's task, state and report, and the last lines of its transcript, also while it works."""
    agent, row = await _find_agent(call, number)
    store = call.context.app.services.store
    messages = [stored.message for stored in await store.messages.read(row.session_id)]
    task = row.task.goal or _find_task(messages)
    lines = [describe_sub_agent(agent), tr("Task: {text}", text=_clean(task, _MAX_TASK)), *_format_report(row.report)]
    lines.append(tr("Its last steps:") if messages else tr("It has not begun yet."))
    lines += [f"  {line}" for message in messages[-_SHOWN_MESSAGES:] for line in _format_message(message)]
    if answer := strip_control_characters(await store.sub_agents.read_answer(row.report.turn_id)).strip():
        lines += [tr("Its report:"), answer[:_MAX_ANSWER] + ("…" if len(answer) > _MAX_ANSWER else "")]
    lines.append(tr("All of it: hermes sessions show {id}", id=row.session_id))
    call.context.tell("\n".join(lines))


def _find_task(messages: Sequence[Message]) -> str:
    """Return the task with which a transcript begins."""
    texts = [part.text for one in messages[:1] for part in one.parts if isinstance(part, TextPart)]
    return next(filter(None, (text.partition(f"{TASK_HEADING}\n")[2] for text in texts)), "")


async def _find_agent(call: CommandCall, number: int) -> "tuple[SubAgentChanged, SubAgentRow]":
    """Return how the sub-agent of this number stands, and its row. Raises NotFoundError."""
    for agent in await list_sub_agents(call):
        if agent.number != number:
            continue
        row = await call.context.app.services.store.sub_agents.get(agent.session_id)
        if row is not None:
            return agent, row
    raise NotFoundError(N_("This session has no sub-agent {n}.", n=number), N_("/agents lists them."))


def _format_report(report: SubAgentReport) -> Iterator[str]:
    """Yield what came of a sub-agent beside its answer."""
    if report.files:
        yield tr("Files changed: {files}", files=_clean(", ".join(report.files), _MAX_TASK))
    if report.open_items:
        yield tr("Left open: {items}", items=_clean("; ".join(report.open_items), _MAX_TASK))
    if report.branch:
        yield tr("Its work is on the branch {branch}.", branch=_clean(report.branch, 100))


def _format_message(message: Message) -> Iterator[str]:
    """Yield what a message says and calls, in a line each."""
    from hermes.sessions.shell_escape import format_result

    if message.role is not Role.TOOL and (text := _clean(message.text, _MAX_LINE)):
        yield f"› {text}" if message.role is Role.USER else text
    for call in message.tool_calls():
        yield _clean(f"· {call.name} {call.arguments}", _MAX_LINE)
    for result in message.tool_results():
        yield f"  {_clean(format_result(result), _MAX_LINE)}"


def _steer_agent(call: CommandCall, number: int, text: str) -> None:
    team = _require_team(call, number)
    team.steer(number, text)
    name = clean_name(team.find_run(number).row.task.name)
    call.context.tell(tr("Told sub-agent {n} ({name}); it reads it at its next step.", n=number, name=name))


def _stop_agent(call: CommandCall, number: int) -> None:
    name = clean_name(_require_team(call, number).stop(number).row.task.name)
    call.context.tell(tr("Sub-agent {n} ({name}) is being stopped.", n=number, name=name))


def _require_team(call: CommandCall, number: int) -> "SubAgentTeam":
    """Return the sub-agents of the session. Raises NotFoundError where it has had none here."""
    team = find_sub_agents(call.context.app, call.context.actor.session_id)
    if team is None:
        raise NotFoundError(N_("No sub-agent {n} works.", n=number), N_("/agents lists them."))
    return team


def _parse_number(word: str) -> int:
    if not word.isdecimal():
        raise UsageError(N_("{word} is no number of a sub-agent.", word=repr(word[:40])), N_("/agents lists them."))
    return int(word[:9])


def _clean(text: str, limit: int) -> str:
    return to_one_line(strip_control_characters(text), limit)
