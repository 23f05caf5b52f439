"""`/cron`: jobs on a clock."""

from collections.abc import Sequence

from hermes.app.command import Call, Command, Group
from hermes.app.desk import Option
from hermes.core.errors import UsageError
from hermes.util.say import phrase, say
from hermes.util.text import escaped

_VERBS = ("list", "show", "add", "pause", "resume", "run", "stop", "remove", "history")
_USAGE = phrase(
    "/cron takes: list, show JOB, add SCHEDULE PROMPT, pause JOB, resume JOB, run JOB, stop JOB, remove JOB,"
    " history [JOB]. A schedule of several words stands in quotes."
)


async def cron(call: Call) -> None:
    """List jobs, make one, and do something about one."""
    from hermes.app.cron_lines import history_lines, idle_line, job_line, job_lines

    desk = call.desk.app.cron()
    served = desk.served
    match call.words:
        case [] | ["list"]:
            lines = [job_line(row) for row in await desk.rows()] or [say("There are no jobs.")]
        case ["show", name]:
            lines, served = job_lines(await desk.row(name)), True
        case ["add", schedule, *words] if words:
            wish = desk.wish(schedule=schedule, prompt=" ".join(words))
            lines = [job_line(await desk.add(wish))]
        case [("pause" | "resume" | "remove") as verb, name]:
            lines = [job_line(await desk.moved(verb, name))]
        case ["run", name]:
            lines = [await _run(call, name)]
            served = True
        case ["stop", name]:
            lines, served = [say("It is being stopped.") if await desk.stop(name) else say("It does not run.")], True
        case ["history"] | ["history", _]:
            which = call.words[1] if len(call.words) == 2 else None
            lines = history_lines(await desk.history(which, 20)) or [say("Nothing was due yet.")]
            served = True
        case _:
            raise UsageError(_USAGE)
    call.desk.tell("\n".join(map(escaped, [*lines, *([] if served else [idle_line()])])))


async def _run(call: Call, name: str) -> str:
    """Run a job now, where jobs run, else in this process; what it said."""
    desk = call.desk.app.cron()
    if desk.served:
        return say("The job {name} runs now.", name=(await desk.run_elsewhere(name))["name"])
    row = await desk.run(name)
    text = str(row["text"]).strip()
    return text or say("It ended as: {state}. {reason}", state=row["state"], reason=row["reason"])


async def complete(call: Call) -> Sequence[Option]:
    """A verb, then a job."""
    words = call.text.split()
    if len(words) + call.text.endswith(" ") < 2:
        return [Option(verb) for verb in _VERBS]
    return [Option(str(row["name"])) for row in await call.desk.app.cron().rows()]


COMMAND = Command(
    group=Group.WORK,
    name="cron",
    about=phrase("jobs on a clock: list them, make one, run, stop and remove them"),
    usage=phrase("[verb] [job]"),
    run=cron,
    complete=complete,
)
