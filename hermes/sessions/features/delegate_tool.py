"""`delegate_task`: gives tasks to sub-agents, and returns what they report."""

from typing import Annotated

from msgspec import Meta, Struct

from hermes.core.errors import ToolError
from hermes.core.sub_agents import Role, SubAgentTask
from hermes.sessions.port import Delegator
from hermes.tools.output import RESULT_CAP
from hermes.tools.schema import Arguments
from hermes.tools.session import ToolContext
from hermes.tools.tool import Parallel, Tool, ToolOutput, tool
from hermes.util.text import to_one_line

MAX_TASKS = 50
"""The most tasks of one call."""
_NAME_CHARACTERS = 60


class DelegatedTask(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One task as the model writes it."""

    goal: Annotated[str, Meta(description="What is to be done, and what to report.")] = ""
    context: Annotated[str, Meta(description="All it must know: it sees nothing of this conversation.")] = ""
    toolsets: Annotated[tuple[str, ...], Meta(description="Tool sets; yours by default.")] = ()
    role: Annotated[Role, Meta(description="An orchestrator may delegate in turn; a leaf may not.")] = "leaf"
    model: Annotated[str, Meta(description="Another of the models that are set up.")] = ""
    agent: Annotated[str, Meta(description="A described agent, by name.")] = ""
    worktree: Annotated[bool, Meta(description="Work in a git worktree of its own, on a new branch.")] = False


class DelegateCall(DelegatedTask, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What `delegate_task` takes: one task, or several, which then have the other fields in common."""

    tasks: Annotated[
        tuple[DelegatedTask, ...], Meta(description="Several tasks, done at the same time, in the place of `goal`.")
    ] = ()
    background: Annotated[bool, Meta(description="Return at once; the reports come later as a message.")] = False


def build_delegate_tool(delegator: Delegator, *, orchestrates: bool) -> Tool:
    """Return the tool; without `orchestrates` its sub-agents can have none of their own."""

    @tool(
        "delegation",
        parallel=Parallel.SAFE,
        repeatable=True,
        deferred=True,
        brief="give tasks to sub-agents, several at once",
        cap=RESULT_CAP,
        summary=_summarize_call,
    )
    async def delegate_task(ctx: ToolContext, call: DelegateCall) -> ToolOutput:
        """Give a task to a sub-agent, which works on it with tools of its own and sees nothing of this conversation, or
        several tasks to several sub-agents at once. You get their reports, not what they did on the way: use it for
        work that is long, can be split, or would fill this conversation. They cannot ask you or the person anything."""
        wanted = [_make_task(one, call, ctx) for one in (call.tasks or (call,))]
        if not orchestrates and any(one.role == "orchestrator" for one in wanted):
            raise ToolError("Sub-agents of yours cannot have any of their own: use the role leaf.")
        if len(wanted) > MAX_TASKS:
            raise ToolError(f"{len(wanted)} tasks are too many for one call: give {MAX_TASKS} at most.")
        return await delegator.run_tasks(ctx, wanted, background=call.background)

    return delegate_task


def _make_task(given: DelegatedTask, shared: DelegatedTask, ctx: ToolContext) -> SubAgentTask:
    """Return a task; what it leaves empty is as the call says for all. Raises ToolError for one without a goal."""
    goal = ctx.redact(given.goal.strip())
    if not goal:
        raise ToolError("A task needs a goal. Say what is to be done and what to report.")
    return SubAgentTask(
        goal=goal,
        context=ctx.redact((given.context or shared.context).strip()),
        name=to_one_line(goal, _NAME_CHARACTERS),
        toolsets=given.toolsets or shared.toolsets,
        role=given.role if given.role != "leaf" else shared.role,
        model=given.model or shared.model,
        agent=given.agent or shared.agent,
        worktree=given.worktree or shared.worktree,
        sources=ctx.state.taint.list_sources(),
    )


def _summarize_call(arguments: Arguments) -> str:
    tasks = arguments.get("tasks")
    if isinstance(tasks, tuple) and tasks:
        return f"{len(tasks)} tasks: {tasks[0].goal}"
    return str(arguments.get("goal") or "")
