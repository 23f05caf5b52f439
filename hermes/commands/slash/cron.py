"""`/cron`: manage scheduled jobs."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hermes.commands.command import CommandCall, CommandGroup, SlashCommand
from hermes.commands.context import MenuOption
from hermes.core.errors import UsageError
from hermes.i18n.messages import N_, tr
from hermes.util.text import escape_unseen_characters

if TYPE_CHECKING:
    from hermes.admin.cron import CronAdmin

_READ_VERBS = ("list", "show", "history")
_MAX_HISTORY = 20
_VERBS = ("list", "show", "add", "pause", "resume", "run", "stop", "remove", "history")
_USAGE = N_(
    "/cron takes: list, show JOB, add SCHEDULE PROMPT, pause JOB, resume JOB, run JOB, stop JOB, remove JOB,"
    " history [JOB]. Put a schedule of several words in quotes."
)


async def manage_jobs(call: CommandCall) -> None:
    """List jobs, create one, or change one."""
    from hermes.admin.cron import cron_admin_of_app
    from hermes.commands.views.cron import format_idle_line

    admin = cron_admin_of_app(call.context.app)
    words = call.words or ["list"]
    lines = await (_list_jobs(admin, words) if words[0] in _READ_VERBS else _change_job(admin, words))
    if words[0] in ("list", "add", "resume") and not admin.is_served:
        lines.append(format_idle_line())
    call.context.tell("\n".join(map(escape_unseen_characters, lines)))


async def _list_jobs(admin: "CronAdmin", words: list[str]) -> list[str]:
    """List jobs, one job, or the history."""
    from hermes.commands.views.cron import format_history, format_job, format_job_line

    match words:
        case ["list"]:
            return [format_job_line(row) for row in await admin.list_jobs()] or [tr("There are no jobs.")]
        case ["show", name]:
            return format_job(await admin.get_job(name))
        case ["history"]:
            rows = await admin.list_history(None, _MAX_HISTORY)
        case ["history", name]:
            rows = await admin.list_history(name, _MAX_HISTORY)
        case _:
            raise UsageError(_USAGE)
    return format_history(rows) or [tr("Nothing was due yet.")]


async def _change_job(admin: "CronAdmin", words: list[str]) -> list[str]:
    """Create or change a job, and return lines about the result."""
    from hermes.commands.views.cron import format_job_line

    match words:
        case ["add", schedule, first, *more]:
            wish = admin.build_wish(schedule=schedule, prompt=" ".join([first, *more]))
            return [format_job_line(await admin.add_job(wish))]
        case [("pause" | "resume" | "remove") as verb, name]:
            return [format_job_line(await admin.change_state(verb, name))]
        case ["run", name]:
            return [await _run_job(admin, name)]
        case ["stop", name]:
            return [tr("It is being stopped.") if await admin.stop_job(name) else tr("It does not run.")]
        case _:
            raise UsageError(_USAGE)


async def _run_job(admin: "CronAdmin", name: str) -> str:
    """Run a job now, in the scheduler where one runs, else in this process; return its output."""
    if admin.is_served:
        return tr("The job {name} runs now.", name=(await admin.request_run(name))["name"])
    row = await admin.run_job(name)
    text = str(row["text"]).strip()
    return text or tr("It ended as: {state}. {reason}", state=row["state"], reason=row["reason"])


async def complete_cron(call: CommandCall) -> Sequence[MenuOption]:
    """Complete a verb, then a job."""
    from hermes.admin.cron import cron_admin_of_app

    words = call.text.split()
    if len(words) + call.text.endswith(" ") < 2:
        return [MenuOption(verb) for verb in _VERBS]
    return [MenuOption(str(row["name"])) for row in await cron_admin_of_app(call.context.app).list_jobs()]


COMMAND = SlashCommand(
    group=CommandGroup.WORK,
    name="cron",
    about=N_("jobs on a clock: list them, make one, run, stop and remove them"),
    usage=N_("[verb] [job]"),
    run=manage_jobs,
    complete=complete_cron,
)
