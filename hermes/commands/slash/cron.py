"""`/cron`: jobs on a clock."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hermes.commands.command import Call, Command, Group
from hermes.commands.context import Option
from hermes.core.errors import UsageError
from hermes.i18n.messages import phrase, say
from hermes.util.text import escaped

if TYPE_CHECKING:
    from hermes.admin.cron import CronDesk

_LOOKS = ("list", "show", "history")
_NEWEST = 20
_VERBS = ("list", "show", "add", "pause", "resume", "run", "stop", "remove", "history")
_USAGE = phrase(
    "/cron takes: list, show JOB, add SCHEDULE PROMPT, pause JOB, resume JOB, run JOB, stop JOB, remove JOB,"
    " history [JOB]. A schedule of several words stands in quotes."
)


async def cron(call: Call) -> None:
    """List jobs, make one, and do something about one."""
    from hermes.admin.cron import desk_of
    from hermes.commands.views.cron import idle_line

    desk = desk_of(call.desk.app)
    words = call.words or ["list"]
    lines = await (_looked(desk, words) if words[0] in _LOOKS else _done(desk, words))
    if words[0] in ("list", "add", "resume") and not desk.served:
        lines.append(idle_line())
    call.desk.tell("\n".join(map(escaped, lines)))


async def _looked(desk: "CronDesk", words: list[str]) -> list[str]:
    """What there is."""
    from hermes.commands.views.cron import history_lines, job_line, job_lines

    match words:
        case ["list"]:
            return [job_line(row) for row in await desk.rows()] or [say("There are no jobs.")]
        case ["show", name]:
            return job_lines(await desk.row(name))
        case ["history"]:
            rows = await desk.history(None, _NEWEST)
        case ["history", name]:
            rows = await desk.history(name, _NEWEST)
        case _:
            raise UsageError(_USAGE)
    return history_lines(rows) or [say("Nothing was due yet.")]


async def _done(desk: "CronDesk", words: list[str]) -> list[str]:
    """Do something, and what came of it."""
    from hermes.commands.views.cron import job_line

    match words:
        case ["add", schedule, first, *more]:
            wish = desk.wish(schedule=schedule, prompt=" ".join([first, *more]))
            return [job_line(await desk.add(wish))]
        case [("pause" | "resume" | "remove") as verb, name]:
            return [job_line(await desk.moved(verb, name))]
        case ["run", name]:
            return [await _run(desk, name)]
        case ["stop", name]:
            return [say("It is being stopped.") if await desk.stop(name) else say("It does not run.")]
        case _:
            raise UsageError(_USAGE)


async def _run(desk: "CronDesk", name: str) -> str:
    """Run a job now, where jobs run, else in this process; what it said."""
    if desk.served:
        return say("The job {name} runs now.", name=(await desk.run_elsewhere(name))["name"])
    row = await desk.run(name)
    text = str(row["text"]).strip()
    return text or say("It ended as: {state}. {reason}", state=row["state"], reason=row["reason"])


async def complete(call: Call) -> Sequence[Option]:
    """A verb, then a job."""
    from hermes.admin.cron import desk_of

    words = call.text.split()
    if len(words) + call.text.endswith(" ") < 2:
        return [Option(verb) for verb in _VERBS]
    return [Option(str(row["name"])) for row in await desk_of(call.desk.app).rows()]


COMMAND = Command(
    group=Group.WORK,
    name="cron",
    about=phrase("jobs on a clock: list them, make one, run, stop and remove them"),
    usage=phrase("[verb] [job]"),
    run=cron,
    complete=complete,
)
