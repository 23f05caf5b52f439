"""`hermes cron`, `/cron`: manage scheduled jobs."""

import argparse
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from msgspec import structs

from hermes.commands.command import CommandCall, CommandGroup
from hermes.commands.context import MenuOption
from hermes.commands.verb import (
    JSON_OPTION,
    YES_OPTION,
    AdminVerb,
    VerbCall,
    VerbResult,
    argument,
    rows_result,
    slash_command,
)
from hermes.core.encoding import Plain
from hermes.i18n.formats import format_duration, format_time
from hermes.i18n.messages import N_, localize, tr, tr_plural
from hermes.util.text import escape_unseen_characters, strip_control_characters, to_one_line

if TYPE_CHECKING:
    from hermes.admin.cron import CronAdmin

_MAX_CHAT_HISTORY = 20
_STATES = {
    "active": N_("active"),
    "paused": N_("paused"),
    "done": N_("done"),
    "unreadable": N_("unreadable"),
    "due": N_("waits"),
    "claimed": N_("runs"),
    "ran": N_("ran"),
    "skipped": N_("skipped"),
    "missed": N_("missed"),
    "failed": N_("failed"),
}


@asynccontextmanager
async def _open_cron(call: VerbCall) -> "AsyncIterator[CronAdmin]":
    from hermes.admin.cron import cron_admin_of_app, open_cron_admin

    if call.context is not None:
        yield cron_admin_of_app(call.context.app)
        return
    async with open_cron_admin(call.environ) as admin:
        yield admin


_SCHEDULE_HELP = "`30m` (once), `every 2h`, `every weekday at 8`, `tomorrow 9am`, five fields of cron, or an ISO time"
_JOB = argument("job", help="its name, or the beginning of its id")
_JOB_OPTIONS = (
    argument("--name", help="its name"),
    argument("--zone", help="its time zone, such as Europe/Berlin"),
    argument(
        "--deliver",
        action="append",
        metavar="TARGET",
        help="home, local, all, PLATFORM[:CHAT[:THREAD]], or a person's name (repeatable)",
    ),
    argument("--skill", action="append", dest="skills", metavar="NAME", help="a skill to tell it first (repeatable)"),
    argument("--model", help="the model that answers"),
    argument("--provider", help="who serves it"),
    argument("--toolset", action="append", dest="toolsets", metavar="NAME", help="only these tool sets (repeatable)"),
    argument("--cwd", metavar="FOLDER", help="the folder that it works in"),
    argument("--script", metavar="FILE", help="a file in the home's folder scripts that runs first"),
    argument(
        "--if",
        dest="only_if",
        metavar="FILE",
        help="a file in the home's folder scripts: the model is asked only when it ends with 0 (1: nothing to do)",
    ),
    argument("--quiet-hours", metavar="FROM-TO", help="hours in which it does not run, such as 22:00-07:00"),
    argument(
        "--no-agent", action="store_true", default=None, exclusive="agent", help="deliver what the script says itself"
    ),
    argument(
        "--agent", action="store_false", default=None, dest="no_agent", exclusive="agent", help="ask the model again"
    ),
    argument(
        "--context-from",
        action="append",
        metavar="JOB",
        help="a job whose last output is added to the prompt (repeatable)",
    ),
    argument("--repeat", type=int, metavar="N", help="how many runs in all"),
    argument("--max-cost", type=float, metavar="USD", help="dollars that one run may spend"),
    argument("--grace", type=float, metavar="SECONDS", help="how late a run may be"),
    argument("--catch-up", choices=("skip", "last", "all"), help="how missed runs are handled"),
    argument("--catch-up-limit", type=int, metavar="N", help="with `all`: how many at most"),
    argument("--overlap", choices=("skip", "queue", "stop"), help="how a run is handled while an earlier one goes on"),
    argument("--jitter", type=int, metavar="SECONDS", help="start it up to so many seconds later, at random"),
    argument(
        "--repeatable",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="run it again when its process died",
    ),
    argument("--quiet", action=argparse.BooleanOptionalAction, default=None, help="do not report failures"),
)
CRON = AdminVerb(
    "cron",
    _open_cron,
    description="Scheduled jobs: each is a prompt for a fresh session, or a script, with a schedule. "
    "They run while `hermes gateway` runs; their output is delivered, and kept in the "
    "home's folder cron/output.",
    example='hermes cron add "0 9 * * 1-5" "Tell me what is new in ~/notes." --name morning',
)


@CRON.admin_action("list", "all jobs (also without a verb)", JSON_OPTION, in_chats=True)
async def list_jobs(admin: "CronAdmin", call: VerbCall) -> VerbResult:
    """List every job."""
    rows = await admin.list_jobs()
    listed = rows_result(rows, _format_job_line, tr("There are no jobs."))
    says_idle = call.context is not None or (rows and not call.as_json)
    return VerbResult(rows, listed.lines, _idle_notices(admin) if says_idle else ())


@CRON.admin_action("show", "one job, with all that it has", _JOB, JSON_OPTION, in_chats=True)
async def show_job(admin: "CronAdmin", call: VerbCall) -> VerbResult:
    """Show one job with all of its details."""
    row = await admin.get_job(call.args.job)
    return VerbResult(row, _format_job(row))


@CRON.admin_action(
    "add",
    "make a job",
    JSON_OPTION,
    argument("schedule", help=_SCHEDULE_HELP),
    argument("prompt", nargs="*", help="what is to be done"),
    *_JOB_OPTIONS,
    in_chats=True,
)
async def add_job(admin: "CronAdmin", call: VerbCall) -> VerbResult:
    """Create a job: in a chat on a platform, its output goes there where no other target is given."""
    from hermes.cron.jobs import JobAuthor

    chat, args = call.context.chat if call.context is not None else None, call.args
    words = [call.typed] if call.typed else [args.schedule, *args.prompt]
    schedule, prompt = admin.jobs.split_job(words, args.zone or "")
    wish = admin.build_wish(**_read_job_fields(args) | {"schedule": schedule, "prompt": prompt})
    row = await admin.add_job(wish, JobAuthor(origin=chat.target if chat is not None else ""))
    return _job_result(admin, call, row, tr("Made."))


@CRON.admin_action(
    "edit",
    "change a job; what is not given stays as it is",
    _JOB,
    JSON_OPTION,
    argument("--schedule", help=_SCHEDULE_HELP),
    argument("--prompt", help="what is to be done"),
    *_JOB_OPTIONS,
)
async def edit_job(admin: "CronAdmin", call: VerbCall) -> VerbResult:
    """Change a job; what is not given stays as it is."""
    row = await admin.edit_job(call.args.job, admin.build_wish(**_read_job_fields(call.args)))
    return _job_result(admin, call, row, tr("Changed."))


@CRON.admin_action("pause", "pause it until it is resumed", _JOB, JSON_OPTION, in_chats=True)
async def pause_job(admin: "CronAdmin", call: VerbCall) -> VerbResult:
    """Let no run of a job be due until it is resumed."""
    return _job_result(admin, call, await admin.change_state("pause", call.args.job), tr("Paused."))


@CRON.admin_action("resume", "resume it", _JOB, JSON_OPTION, in_chats=True)
async def resume_job(admin: "CronAdmin", call: VerbCall) -> VerbResult:
    """Let the runs of a job be due again."""
    return _job_result(admin, call, await admin.change_state("resume", call.args.job), tr("Resumed."))


@CRON.admin_action("run", "run it now, in this process, and wait for it", _JOB, JSON_OPTION, in_chats=True)
async def run_job(admin: "CronAdmin", call: VerbCall) -> VerbResult:
    """Run a job now: in a chat by the scheduler where one runs, else in this process."""
    if call.context is not None and admin.is_served:
        row = await admin.request_run(call.args.job)
        return VerbResult(row, _escape_lines([tr("The job {name} runs now.", name=row["name"])]))
    row = await admin.run_job(call.args.job)
    text = strip_control_characters(str(row["text"]).rstrip())
    has_run = row["state"] == "ran"
    notices = []
    if row["delivery"] == "owed" and call.context is None:
        is_told = await call.request_job_delivery() or admin.is_served
        later = tr("The gateway delivers it, as soon as it runs.")
        notices.append(tr("The gateway delivers it now.") if is_told else later)
    notices += [_describe_end(row)] if text and not has_run else []
    return VerbResult(row, [text or _describe_end(row)], () if call.as_json else notices, 0 if has_run else 1)


def _describe_end(row: Plain) -> str:
    """Describe how a run ended that has said nothing, or did not end well."""
    name, why = escape_unseen_characters(str(row["job"])), escape_unseen_characters(localize(str(row["reason"])))
    if row["state"] == "ran":
        return tr("The job {name} ran, and has nothing to say.", name=name)
    if row["state"] == "failed":
        return tr("The job {name} failed: {why}", name=name, why=why)
    return tr("The job {name} did not run: {why}", name=name, why=why)


@CRON.admin_action("stop", "stop its run, in whichever process it runs", _JOB, JSON_OPTION, in_chats=True)
async def stop_job(admin: "CronAdmin", call: VerbCall) -> VerbResult:
    """Stop the run of a job, wherever that is."""
    count = await admin.stop_job(call.args.job)
    return VerbResult({"stopped": count}, [tr("It is being stopped.") if count else tr("It does not run.")])


@CRON.admin_action("remove", "remove it, with its history", _JOB, JSON_OPTION, YES_OPTION, in_chats=True)
async def remove_job(admin: "CronAdmin", call: VerbCall) -> VerbResult:
    """Remove a job with its history; on the command line after a yes."""
    row = await admin.get_job(call.args.job)
    if call.context is None:
        name = escape_unseen_characters(str(row["name"]))
        question = tr("Remove the job {name}, with its history?", name=name)
        await call.require_yes(question, what=tr("Removing"))
    return _job_result(admin, call, await admin.change_state("remove", str(row["id"])), tr("Removed."))


@CRON.admin_action(
    "history",
    "the history of runs, the newest first",
    JSON_OPTION,
    argument("job", nargs="?", help="a job; all of them without"),
    argument("--limit", type=int, default=30, metavar="N", help="how many, 30 by default"),
    in_chats=True,
)
async def list_history(admin: "CronAdmin", call: VerbCall) -> VerbResult:
    """List what became of due instants, the newest first."""
    limit = call.args.limit if call.context is None else _MAX_CHAT_HISTORY
    rows = await admin.list_history(call.args.job, limit)
    return rows_result(rows, _format_instant, tr("Nothing was due yet."))


@CRON.admin_action(
    "tick",
    "run what is due now once, and wait for it; for a system timer instead of a gateway",
    JSON_OPTION,
)
async def run_due_jobs(admin: "CronAdmin", call: VerbCall) -> VerbResult:
    """Run once what is due now, and wait for it."""
    del call
    count = await admin.run_due_jobs()
    return VerbResult({"ran": count}, [tr_plural("{n} job ran.", "{n} jobs ran.", count)])


def _job_result(admin: "CronAdmin", call: VerbCall, row: Plain, said: str) -> VerbResult:
    """Return a changed job; in a chat its line alone tells of the change."""
    if call.context is None:
        says_idle, line = call.args.verb != "remove", f"{said} {_format_job_line(row)}"
    else:
        says_idle, line = said in (tr("Made."), tr("Resumed.")), _format_job_line(row)
    notices = _delivery_notices(row) if said in (tr("Made."), tr("Changed.")) else []
    return VerbResult(row, [line], notices + (_idle_notices(admin) if says_idle else []))


def _delivery_notices(row: Plain) -> list[str]:
    """Return where the output of a job goes that was made or changed, with what may be a mistake."""
    places, fresh = _read_list(row, "delivers_to"), _read_list(row, "new_chats")
    if not places:
        return [tr("Its output goes to a file only (cron/output): no chat is named, and there is no home chat.")]
    said = [tr("Its output goes to {targets}.", targets=", ".join(places))]
    if fresh:
        said.append(tr("Nobody wrote from {targets} yet: check that it exists.", targets=", ".join(fresh)))
    return _escape_lines(said)


def _read_list(row: Plain, name: str) -> list[str]:
    value = row[name]
    assert isinstance(value, list | tuple)
    return [str(one) for one in value]


def _idle_notices(admin: "CronAdmin") -> list[str]:
    return [] if admin.is_served else [tr("Jobs run while `hermes gateway` runs, and none runs now.")]


_JOB_FIELDS = (
    *("name", "zone", "deliver", "skills", "model", "provider", "toolsets", "script", "no_agent", "context_from"),
    *("only_if", "quiet_hours"),
    *("repeat", "max_cost", "grace", "catch_up", "catch_up_limit", "overlap", "jitter", "repeatable", "quiet"),
    *("schedule", "prompt"),
)


def _read_job_fields(args: argparse.Namespace) -> dict[str, object]:
    found = {name: value for name in _JOB_FIELDS if (value := getattr(args, name, None)) is not None}
    if args.cwd is not None:
        found["cwd"] = os.path.abspath(os.path.expanduser(args.cwd)) if args.cwd else ""
    return found


def _escape_lines(lines: Sequence[str]) -> list[str]:
    return [escape_unseen_characters(line) for line in lines]


def _format_job_line(row: Plain) -> str:
    state = tr(_STATES[str(row["state"])])
    if row.get("wrong"):
        return escape_unseen_characters(f"{row['id']}  {row['name']}  {state}: {to_one_line(str(row['wrong']))}")
    at = row["next_at"]
    when = format_time(float(str(at))) if at is not None else ""
    # `monday at 9` is one Monday: a person who means each of them sees it here.
    is_once = row["means"] == tr("once")
    due = when and (tr("once: {when}", when=when) if is_once else tr("next: {when}", when=when))
    parts = (row["id"], row["name"], state, f"{row['schedule']} ({row['zone']})", due)
    return escape_unseen_characters("  ".join(str(part) for part in parts if part))


def _format_job(row: Plain) -> list[str]:
    spec = row["spec"]
    assert isinstance(spec, dict)
    where = ", ".join(_read_list(row, "delivers_to")) or tr("a file only (cron/output)")
    more = {"deliver": where} | {
        name: value
        for name, value in spec.items()
        if value not in (None, "", [], (), False) and name not in ("deliver", "origin")
    }
    details = [f"  {name}: {_format_value(value)}" for name, value in more.items()]
    return _escape_lines([_format_job_line(row), f"  {row['means']}", *details])


def _format_instant(row: Plain) -> str:
    """Format the outcome of an instant as one line."""
    when = format_time(float(str(row["at"])))
    if row["instants"] != 1:
        last = format_time(float(str(row["through"])))
        when = tr("{n} times, {first} to {last}", n=row["instants"], first=when, last=last)
    state = tr(_STATES[str(row["state"])])
    why = localize(str(row["reason"])) if row["reason"] else ""
    took = ""
    if row["began_at"] is not None and row["ended_at"] is not None:
        took = format_duration(float(str(row["ended_at"])) - float(str(row["began_at"])))
    wrong = tr("not delivered: {why}", why=row["delivery_why"]) if row["delivery"] == "failed" else ""
    delivery = tr("still to be delivered") if row["delivery"] == "owed" else ""
    parts = (when, row["job"], state, why, took, wrong, delivery)
    return escape_unseen_characters("  ".join(str(part) for part in parts if part))


def _format_value(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


async def _complete_job(call: CommandCall) -> Sequence[MenuOption]:
    from hermes.admin.cron import cron_admin_of_app

    return [MenuOption(str(row["name"])) for row in await cron_admin_of_app(call.context.app).list_jobs()]


_COMMAND = slash_command(
    CRON,
    about=N_("scheduled jobs: list them, make one, run, stop and remove them"),
    usage=N_("[verb] [job]"),
    group=CommandGroup.WORK,
    takes=N_(
        "/cron takes: list, show JOB, add WHEN: WHAT, pause JOB, resume JOB, run JOB, stop JOB, remove JOB,"
        " history [JOB]. For instance: /cron add every day at 7: take my pills"
    ),
    complete=_complete_job,
)
COMMANDS = [structs.replace(_COMMAND, aliases=("jobs", "reminders"))]
