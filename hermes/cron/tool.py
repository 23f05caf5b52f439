"""The `cronjob` tool: jobs by natural words. What acts later needs a yes where strangers' words stand, or where nobody
is there."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Annotated, Literal

from msgspec import Meta, Struct

from hermes.core.errors import HermesError, ToolError
from hermes.cron.job import CatchUp, Job, Overlap, job_of
from hermes.cron.jobs import Jobs, Maker, Wish, wish_of
from hermes.cron.schedule import zone_of
from hermes.safety.injection import marks
from hermes.safety.shell.findings import Finding, Verdict
from hermes.store.jobs import InstantRow, JobAccess
from hermes.tools.schema import Arguments
from hermes.tools.session import ToolContext
from hermes.tools.taint import provenance_from_sources
from hermes.tools.tool import Tool, ToolOutput, tool
from hermes.util.text import escaped, one_line

Action = Literal["create", "list", "show", "update", "pause", "resume", "run", "stop", "remove", "history"]
_LOOKS = ("list", "show", "history")
_NEWEST = 20
_PLAIN = (
    *("name", "schedule", "prompt", "skills", "model", "script", "context_from"),
    *("repeat", "no_agent", "max_cost", "catch_up", "overlap"),
)
"""What is called the same in a call and in a wish."""


class CronCall(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What `cronjob` takes."""

    action: Action
    job_id: Annotated[str, Meta(description="Id or name of a job; all but create and list.")] = ""
    schedule: Annotated[
        str,
        Meta(description="`30m` (once, in), `every 2h`, five-field cron, `@daily`, or an ISO time (once)."),
    ] = ""
    timezone: Annotated[str, Meta(description="IANA name; else the machine's.")] = ""
    prompt: Annotated[
        str, Meta(description="What to do then, self-contained: the run sees nothing of this conversation.")
    ] = ""
    name: str = ""
    repeat: Annotated[int | None, Meta(description="How many runs in all.")] = None
    deliver: Annotated[
        str, Meta(description="origin (this chat), local, all, or PLATFORM:CHAT[:THREAD]; several by commas.")
    ] = ""
    skills: Annotated[tuple[str, ...], Meta(description="Skills to load first.")] = ()
    model: str = ""
    script: Annotated[str, Meta(description="A file in the scripts folder; its output goes into the prompt.")] = ""
    no_agent: Annotated[bool | None, Meta(description="Deliver the script's output itself.")] = None
    context_from: Annotated[tuple[str, ...], Meta(description="Jobs whose last output goes into the prompt.")] = ()
    enabled_toolsets: tuple[str, ...] = ()
    workdir: str = ""
    max_cost: Annotated[float | None, Meta(description="Dollars one run may spend.")] = None
    catch_up: Annotated[CatchUp | None, Meta(description="Missed while nobody was there.")] = None
    overlap: Annotated[Overlap | None, Meta(description="While an earlier run goes on.")] = None


class Desk(Struct, frozen=True, kw_only=True):
    """What the tool works with in a session."""

    jobs: Jobs
    store: JobAccess
    origin: str = ""
    """The chat of the session, as a target."""
    limit: tuple[str, ...] | None = None
    """The tool sets that the session was given; its jobs have no others. None: no limit."""
    attended: Callable[[], bool]
    """Whether somebody can be asked."""
    runs: Callable[[], bool]
    """Whether a process runs jobs now."""


_IDLE = " Note: jobs run while `hermes gateway` runs, and it does not run now; tell the person."


def cronjob_tool(desk: Desk) -> Tool:
    """The tool over the jobs of a home."""

    def doubts(arguments: Arguments, sources: Sequence[str]) -> list[Finding]:
        return _doubts(arguments, attended=desk.attended())

    @tool("cronjob", deferred=True, summary=_summary, keeps=_keeps, doubts=doubts, shown=_shown)
    async def cronjob(ctx: ToolContext, job: CronCall) -> ToolOutput:
        """Schedule work for later: reminders, reports, checks on a clock (cron jobs). Make, list, change, run, stop
        and remove them."""
        try:
            return await _done(desk, ctx, job)
        except HermesError as error:
            raise ToolError(str(error)) from None

    return cronjob


async def _done(desk: Desk, ctx: ToolContext, call: CronCall) -> ToolOutput:
    if call.action == "list":
        return _plainly([job_of(row) for row in await desk.jobs.all()])
    if call.action in _LOOKS:
        found = await desk.jobs.find(call.job_id)
        rows = await desk.store.job_history(found.id, _NEWEST) if call.action == "history" else []
        return _plainly([found], [_ended(row) for row in rows], whole=call.action == "show")
    return ToolOutput(text=escaped(await _moved(desk, ctx, call)))


async def _moved(desk: Desk, ctx: ToolContext, call: CronCall) -> str:
    """What came of an action that changes something."""
    jobs, name = desk.jobs, call.job_id
    maker = Maker(by="model", sources=ctx.state.taint.list_sources(), origin=desk.origin)
    match call.action:
        case "create":
            return f"Made. {_line(await jobs.make(_wish(desk, ctx, call), maker))}{'' if desk.runs() else _IDLE}"
        case "update":
            return f"Changed. {_line(await jobs.edit(name, _wish(desk, ctx, call), maker))}"
        case "pause":
            return f"Paused. {_line(await jobs.pause(name))}"
        case "resume":
            return f"Resumed. {_line(await jobs.resume(name))}"
        case "remove":
            return f"Removed {(await jobs.remove(name)).name}, with its history."
        case "run":
            return await _run(desk, name)
        case _:
            return "It is being stopped." if await jobs.stop(name) else "It does not run."


async def _run(desk: Desk, name: str) -> str:
    found = await desk.jobs.find(name)
    if not desk.runs():
        raise ToolError(
            "No process runs jobs now (`hermes gateway` does). The person can run it by `hermes cron run NAME`."
        )
    await desk.jobs.due_now(found)
    return f"{found.name} runs now; what comes of it goes to {', '.join(found.spec.deliver)}."


def _check(desk: Desk, ctx: ToolContext, call: CronCall) -> None:
    """Raise ToolError for more tools than the session has, and for a key in the prompt."""
    if desk.limit is not None and (beyond := [one for one in call.enabled_toolsets if one not in desk.limit]):
        raise ToolError(f"This session does not have the tool sets {', '.join(beyond)}, so its jobs cannot either.")
    if ctx.redact(call.prompt) != call.prompt:
        raise ToolError("The prompt holds what looks like a key or password. Leave it out; name its variable.")


def _wish(desk: Desk, ctx: ToolContext, call: CronCall) -> Wish:
    """What a call names; what it leaves empty is not given. A new job works where its session does, with no more
    tools."""
    _check(desk, ctx, call)
    fresh = call.action == "create"
    given = {name: getattr(call, name) for name in _PLAIN} | {
        "zone": call.timezone,
        "deliver": tuple(filter(None, call.deliver.split(","))),
        "toolsets": call.enabled_toolsets or (desk.limit if fresh else None),
        "cwd": str(ctx.resolve_path(call.workdir)) if call.workdir else ctx.places.workspace if fresh else "",
    }
    return wish_of({name: value for name, value in given.items() if value not in ("", (), None)})


def _plainly(jobs: Sequence[Job], more: Sequence[str] = (), *, whole: bool = False) -> ToolOutput:
    """Jobs in words; what was made under strangers' words is theirs."""
    lines = [_line(job) for job in jobs] or ["There are no jobs."]
    if whole:
        lines += [f"  prompt: {job.spec.prompt}" for job in jobs]
    sources = dict.fromkeys(source for job in jobs for source in job.spec.sources)
    return ToolOutput(text=escaped("\n".join([*lines, *more])), provenance=provenance_from_sources(sources))


def _line(job: Job) -> str:
    row = job.row
    due = "never" if row.next_at is None else _at(row.next_at, row.zone)
    targets = ", ".join(job.spec.deliver)
    return f"{row.id} {row.name!r}: {row.schedule} ({row.zone}), {row.state}, next {due}, to {targets}"


def _at(instant: float, zone: str) -> str:
    return f"{datetime.fromtimestamp(instant, UTC).astimezone(zone_of(zone)):%Y-%m-%d %H:%M %z}"


def _ended(row: InstantRow) -> str:
    why = f": {one_line(row.reason, 200)}" if row.reason else ""
    return f"  {datetime.fromtimestamp(row.at, UTC):%Y-%m-%d %H:%M}Z {row.state}{why}"


def _summary(arguments: Arguments) -> str:
    what = arguments.get("name") or arguments.get("job_id") or one_line(str(arguments.get("prompt") or ""), 60)
    return " ".join(f"{arguments.get('action')} job {what} {arguments.get('schedule') or ''}".split())


def _shown(arguments: Arguments) -> str:
    """All that a call gives: a yes is for exactly that."""
    given = (f"{name}: {value}" for name, value in arguments.items() if value not in ("", (), None))
    return "; ".join(given)


def _keeps(arguments: Arguments) -> str:
    return "" if arguments.get("action") in _LOOKS else "a job on a clock"


def _doubts(arguments: Arguments, *, attended: bool) -> list[Finding]:
    action = str(arguments.get("action"))
    if action in (*_LOOKS, "pause", "stop"):
        return []
    if not attended:
        return [Finding(Verdict.ASK, "job-unattended", "it makes or changes what runs later", f"cronjob {action}")]
    chosen = [name for name in ("workdir", "script", "enabled_toolsets") if arguments.get(name)]
    if chosen:
        reason = f"the job is to have its own {', '.join(chosen)}"
        return [Finding(Verdict.ASK, "job-reach", reason, f"cronjob {action} {' '.join(chosen)}")]
    if found := marks(str(arguments.get("prompt") or "")):
        reason = f"the job's prompt reads like an order to an agent ({found[0].rule})"
        return [Finding(Verdict.ASK, "job-suspect", reason, f"cronjob {action} suspect")]
    return []
