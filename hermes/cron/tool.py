"""The `cronjob` tool: jobs in plain words.

Scheduling needs an approval where untrusted content stands, or where nobody is attending.
"""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Annotated, Literal

from msgspec import Meta, Struct

from hermes.core.errors import HermesError, ToolError
from hermes.cron.job import CatchUp, CronJob, Overlap, parse_job
from hermes.cron.jobs import CronJobs, JobAuthor, JobRequest, list_delivery_targets, parse_job_request
from hermes.cron.schedule import parse_zone
from hermes.i18n.messages import N_
from hermes.safety.injection import find_injections
from hermes.safety.shell.findings import CommandFinding, Verdict
from hermes.store.jobs import InstantRow, JobRepository
from hermes.tools.schema import Arguments
from hermes.tools.session import ToolContext
from hermes.tools.taint import provenance_from_sources
from hermes.tools.tool import Tool, ToolOutput, tool
from hermes.util.text import escape_unseen_characters, to_one_line

Action = Literal["create", "list", "show", "update", "pause", "resume", "run", "stop", "remove", "history"]
_READ_ACTIONS = ("list", "show", "history")
_HISTORY_LENGTH = 20
_SHARED_FIELDS = (
    *("name", "schedule", "prompt", "skills", "model", "script", "context_from"),
    *("repeat", "no_agent", "max_cost", "catch_up", "overlap"),
)
"""Fields with the same name in a call and in a request."""


class CronCall(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What `cronjob` takes."""

    action: Action
    job_id: Annotated[str, Meta(description="Id or name of a job; all but create and list.")] = ""
    schedule: Annotated[
        str,
        Meta(
            description="`30m` (once), `every 2h`, `every weekday at 8`, `tomorrow 9am`, five-field cron or ISO time."
        ),
    ] = ""
    timezone: Annotated[str, Meta(description="IANA name; else the machine's.")] = ""
    prompt: Annotated[
        str, Meta(description="What to do then, self-contained: the run sees nothing of this conversation.")
    ] = ""
    name: str = ""
    repeat: Annotated[int | None, Meta(description="How many runs in all.")] = None
    deliver: Annotated[
        str,
        Meta(
            description="origin (this chat), home, local, all, PLATFORM[:CHAT[:THREAD]] or a person; several by commas."
        ),
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


class CronToolDeps(Struct, frozen=True, kw_only=True):
    """The dependencies of the tool in a session."""

    jobs: CronJobs
    store: JobRepository
    origin: str = ""
    """The chat of the session, as a target."""
    limit: tuple[str, ...] | None = None
    """The tool sets that the session was given; its jobs have no others. None means no limit."""
    attended: Callable[[], bool]
    """Returns whether somebody can be asked."""
    runs: Callable[[], bool]
    """Returns whether a process runs jobs now."""


_UNTOLD = (
    " Note: what comes of it is only kept as a file in cron/output; it is sent to nobody. To reach the person, "
    "give a chat or a person in deliver; else tell the person."
)
_IDLE = " Note: jobs run while `hermes gateway` runs, and it does not run now; tell the person."


def make_cronjob_tool(deps: CronToolDeps) -> Tool:
    """Return the tool over the jobs of a home."""

    def find_doubts(arguments: Arguments, sources: Sequence[str]) -> list[CommandFinding]:
        return _find_doubts(arguments, attended=deps.attended())

    @tool(
        "cronjob",
        deferred=True,
        brief="reminders, reports, checks",
        summary=_summarize_call,
        keeps=_describe_persistence,
        doubts=find_doubts,
        shown=_format_arguments,
    )
    async def cronjob(ctx: ToolContext, job: CronCall) -> ToolOutput:
        """Schedule work for later: reminders, reports, checks on a clock (cron jobs). Make, list, change, run, stop
        and remove them."""
        try:
            return await _answer_call(deps, ctx, job)
        except HermesError as error:
            raise ToolError(str(error)) from None

    return cronjob


async def _answer_call(deps: CronToolDeps, ctx: ToolContext, call: CronCall) -> ToolOutput:
    if call.action == "list":
        return _format_jobs([parse_job(row) for row in await deps.jobs.list_jobs()])
    if call.action in _READ_ACTIONS:
        found = await deps.jobs.find_job(call.job_id)
        rows = await deps.store.list_history(found.id, _HISTORY_LENGTH) if call.action == "history" else []
        return _format_jobs([found], [_format_instant(row) for row in rows], whole=call.action == "show")
    return ToolOutput(text=escape_unseen_characters(await _apply_action(deps, ctx, call)))


async def _apply_action(deps: CronToolDeps, ctx: ToolContext, call: CronCall) -> str:
    """Carry out an action that changes something; return what came of it."""
    jobs, name = deps.jobs, call.job_id
    author = JobAuthor(by="model", sources=ctx.state.taint.list_sources(), origin=deps.origin)
    match call.action:
        case "create":
            made = await jobs.create_job(_build_request(deps, ctx, call), author)
            untold = "" if list_delivery_targets(made.spec) else _UNTOLD
            return f"Made. {_format_job(made)}{untold}{'' if deps.runs() else _IDLE}"
        case "update":
            return f"Changed. {_format_job(await jobs.edit_job(name, _build_request(deps, ctx, call), author))}"
        case "pause":
            return f"Paused. {_format_job(await jobs.pause_job(name))}"
        case "resume":
            return f"Resumed. {_format_job(await jobs.resume_job(name))}"
        case "remove":
            return f"Removed {(await jobs.remove_job(name)).name}, with its history."
        case "run":
            return await _run_job(deps, name)
        case _:
            return "It is being stopped." if await jobs.stop_job(name) else "It does not run."


async def _run_job(deps: CronToolDeps, name: str) -> str:
    found = await deps.jobs.find_job(name)
    if not deps.runs():
        raise ToolError(
            "No process runs jobs now (`hermes gateway` does). The person can run it by `hermes cron run NAME`."
        )
    await deps.jobs.make_due_now(found)
    return f"{found.name} runs now; what comes of it goes to {', '.join(found.spec.deliver)}."


def _check_call(deps: CronToolDeps, ctx: ToolContext, call: CronCall) -> None:
    """Raise ToolError for more tools than the session has, and for a key in the prompt."""
    if deps.limit is not None and (beyond := [one for one in call.enabled_toolsets if one not in deps.limit]):
        raise ToolError(f"This session does not have the tool sets {', '.join(beyond)}, so its jobs cannot either.")
    if ctx.redact(call.prompt) != call.prompt:
        raise ToolError("The prompt holds what looks like a key or password. Leave it out; name its variable.")


def _build_request(deps: CronToolDeps, ctx: ToolContext, call: CronCall) -> JobRequest:
    """Return the request that a call makes; what it leaves empty is not given.

    A new job works where its session does, with no more tools.
    """
    _check_call(deps, ctx, call)
    fresh = call.action == "create"
    given = {name: getattr(call, name) for name in _SHARED_FIELDS} | {
        "zone": call.timezone,
        "deliver": tuple(filter(None, call.deliver.split(","))),
        "toolsets": call.enabled_toolsets or (deps.limit if fresh else None),
        "cwd": ctx.resolve_path(call.workdir) if call.workdir else ctx.places.workspace if fresh else "",
    }
    return parse_job_request({name: value for name, value in given.items() if value not in ("", (), None)})


def _format_jobs(jobs: Sequence[CronJob], more: Sequence[str] = (), *, whole: bool = False) -> ToolOutput:
    """Return jobs as text; what was made under untrusted content has its provenance."""
    lines = [_format_job(job) for job in jobs] or ["There are no jobs."]
    if whole:
        lines += [f"  prompt: {job.spec.prompt}" for job in jobs]
    sources = dict.fromkeys(source for job in jobs for source in job.spec.sources)
    return ToolOutput(
        text=escape_unseen_characters("\n".join([*lines, *more])), provenance=provenance_from_sources(sources)
    )


def _format_job(job: CronJob) -> str:
    row = job.row
    due = "never" if row.next_at is None else _format_time(row.next_at, row.zone)
    targets = ", ".join(job.spec.deliver)
    return f"{row.id} {row.name!r}: {row.schedule} ({row.zone}), {row.state}, next {due}, to {targets}"


def _format_time(instant: float, zone: str) -> str:
    return f"{datetime.fromtimestamp(instant, UTC).astimezone(parse_zone(zone)):%Y-%m-%d %H:%M %z}"


def _format_instant(row: InstantRow) -> str:
    why = f": {to_one_line(row.reason, 200)}" if row.reason else ""
    return f"  {datetime.fromtimestamp(row.at, UTC):%Y-%m-%d %H:%M}Z {row.state}{why}"


def _summarize_call(arguments: Arguments) -> str:
    what = arguments.get("name") or arguments.get("job_id") or to_one_line(str(arguments.get("prompt") or ""), 60)
    return " ".join(f"{arguments.get('action')} job {what} {arguments.get('schedule') or ''}".split())


def _format_arguments(arguments: Arguments) -> str:
    """Return all arguments of a call: an approval is for exactly these."""
    given = (f"{name}: {value}" for name, value in arguments.items() if value not in ("", (), None))
    return "; ".join(given)


def _describe_persistence(arguments: Arguments) -> str:
    return "" if arguments.get("action") in _READ_ACTIONS else "a job on a clock"


def _find_doubts(arguments: Arguments, *, attended: bool) -> list[CommandFinding]:
    action = str(arguments.get("action"))
    if action in (*_READ_ACTIONS, "pause", "stop"):
        return []
    if not attended:
        return [
            CommandFinding(
                Verdict.ASK,
                "job-unattended",
                "it makes or changes what runs later",
                N_("cronjob {action}", action=action),
            )
        ]
    chosen = [name for name in ("workdir", "script", "enabled_toolsets") if arguments.get(name)]
    if chosen:
        reason = N_("the job is to have its own {chosen}", chosen=", ".join(chosen))
        return [
            CommandFinding(
                Verdict.ASK,
                "job-reach",
                reason,
                N_("cronjob {action} {chosen}", action=action, chosen=" ".join(chosen)),
            )
        ]
    if found := find_injections(str(arguments.get("prompt") or "")):
        reason = N_("the job's prompt reads like an instruction to an agent ({rule})", rule=found[0].rule)
        return [CommandFinding(Verdict.ASK, "job-suspect", reason, N_("cronjob {action} suspect", action=action))]
    return []
