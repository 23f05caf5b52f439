"""`hermes cron`: jobs on a clock."""

import argparse
import asyncio
import os
from collections.abc import Sequence

from hermes.admin.cron import CronAdmin, open_cron_admin
from hermes.cli.arguments import Parser
from hermes.cli.errors import complain, failed
from hermes.cli.output import agreed, print_json
from hermes.commands.views.cron import format_history, format_idle_line, format_job, format_job_line
from hermes.config.environment import process_environment
from hermes.core.errors import HermesError
from hermes.i18n.messages import say, say_many
from hermes.sessions.formats.openai_format import Plain
from hermes.util.text import escaped, inert

_EACH = ("show", "edit", "pause", "resume", "run", "stop", "remove")


def run(arguments: list[str]) -> int:
    """Parse and run one of the verbs."""
    given = _parser().read(arguments)
    try:
        return asyncio.run(_done(given))
    except HermesError as error:
        return failed(error)


def _parser() -> Parser:
    made = Parser(
        prog="hermes cron",
        description=say(
            "Jobs on a clock: each is a prompt for a fresh session, or a script, with a schedule. They run while "
            "`hermes gateway` runs; what comes of them is delivered, and kept in the home's folder cron/output."
        ),
        epilog='example: hermes cron add "0 9 * * 1-5" "Tell me what is new in ~/notes." --name morning',
    )
    verbs = made.add_subparsers(dest="verb", metavar="VERB")
    told = {
        "list": say("all jobs (also without a verb)"),
        "show": say("one job, with all that it has"),
        "add": say("make a job"),
        "edit": say("change a job; what is not given stays as it is"),
        "pause": say("let nothing be due until it is resumed"),
        "resume": say("let it be due again from now on"),
        "run": say("run it now, in this process, and wait for it"),
        "stop": say("stop its run, wherever that is"),
        "remove": say("forget it, with its history"),
        "history": say("what became of due instants, the newest first"),
        "tick": say("run once what is due now, and wait for it; for a timer of the system's, in place of a gateway"),
    }
    parsers = {verb: verbs.add_parser(verb, help=what) for verb, what in told.items()}
    for verb in _EACH:
        parsers[verb].add_argument("job", help=say("its name, or the beginning of its id"))
    for parser in parsers.values():
        parser.add_argument("--json", action="store_true", dest="as_json", help=say("print JSON"))
    parsers["add"].add_argument("schedule", help=_schedule_help())
    parsers["add"].add_argument("prompt", nargs="?", help=say("what is to be done"))
    parsers["edit"].add_argument("--schedule", help=_schedule_help())
    parsers["edit"].add_argument("--prompt", help=say("what is to be done"))
    for verb in ("add", "edit"):
        _wishes(parsers[verb])
    parsers["remove"].add_argument("--yes", action="store_true", help=say("do not ask"))
    parsers["history"].add_argument("job", nargs="?", help=say("a job; all of them without"))
    parsers["history"].add_argument("--limit", type=int, default=30, metavar="N", help=say("how many, 30 by default"))
    return made


def _schedule_help() -> str:
    return say("`30m` (once, in), `every 2h`, five fields of cron, `@daily`, or an ISO time (once)")


def _wishes(parser: argparse.ArgumentParser) -> None:
    """What can be chosen about a job."""
    add = parser.add_argument
    add("--name", help=say("its name"))
    add("--zone", help=say("its time zone, such as Europe/Berlin"))
    add("--deliver", action="append", metavar="TARGET", help=say("local, all, or PLATFORM:CHAT[:THREAD] (repeatable)"))
    add(
        "--skill",
        action="append",
        dest="skills",
        metavar="NAME",
        help=say("a skill to tell it first (repeatable)"),
    )
    add("--model", help=say("the model that answers"))
    add("--provider", help=say("who serves it"))
    add("--toolset", action="append", dest="toolsets", metavar="NAME", help=say("only these tool sets (repeatable)"))
    add("--cwd", metavar="FOLDER", help=say("the folder that it works in"))
    add("--script", metavar="FILE", help=say("a file in the home's folder scripts that runs first"))
    add("--no-agent", action=argparse.BooleanOptionalAction, default=None, help=say("deliver what the script says"))
    add("--context-from", action="append", metavar="JOB", help=say("a job whose last output it is told (repeatable)"))
    add("--repeat", type=int, metavar="N", help=say("how many runs in all"))
    add("--max-cost", type=float, metavar="USD", help=say("dollars that one run may spend"))
    add("--grace", type=float, metavar="SECONDS", help=say("how late a run may be"))
    add("--catch-up", choices=("skip", "last", "all"), help=say("what is done about instants that were missed"))
    add("--catch-up-limit", type=int, metavar="N", help=say("with `all`: how many at most"))
    add("--overlap", choices=("skip", "queue", "stop"), help=say("what is done while an earlier run goes on"))
    add("--jitter", type=int, metavar="SECONDS", help=say("spread it over so many seconds"))
    add(
        "--repeatable",
        action=argparse.BooleanOptionalAction,
        default=None,
        help=say("run an instant again whose process died"),
    )
    add("--quiet", action=argparse.BooleanOptionalAction, default=None, help=say("tell nobody of failures"))


_WISHES = (
    *("name", "zone", "deliver", "skills", "model", "provider", "toolsets", "script", "no_agent", "context_from"),
    *("repeat", "max_cost", "grace", "catch_up", "catch_up_limit", "overlap", "jitter", "repeatable", "quiet"),
    *("schedule", "prompt"),
)


def _wished(given: argparse.Namespace) -> dict[str, object]:
    found = {name: value for name in _WISHES if (value := getattr(given, name, None)) is not None}
    if given.cwd is not None:
        found["cwd"] = os.path.abspath(os.path.expanduser(given.cwd)) if given.cwd else ""
    return found


async def _done(given: argparse.Namespace) -> int:
    async with open_cron_admin(process_environment()) as desk:
        if given.verb in ("show", "history", "list", None):
            await _looked(desk, given)
            return 0
        return await _moved(desk, given)


async def _looked(desk: CronAdmin, given: argparse.Namespace) -> None:
    """Show what there is."""
    if given.verb == "show":
        row = await desk.get_job(given.job)
        _shown(given, row, format_job(row))
    elif given.verb == "history":
        rows = await desk.list_history(given.job, given.limit)
        _shown(given, rows, format_history(rows) or [say("Nothing was due yet.")])
    else:
        await _listed(desk, as_json=getattr(given, "as_json", False))


async def _moved(desk: CronAdmin, given: argparse.Namespace) -> int:
    """Do something."""
    match given.verb:
        case "add":
            return _told(desk, given, await desk.add_job(desk.build_wish(**_wished(given))), say("Made."))
        case "edit":
            return _told(
                desk, given, await desk.edit_job(given.job, desk.build_wish(**_wished(given))), say("Changed.")
            )
        case "pause" | "resume":
            said = say("Paused.") if given.verb == "pause" else say("Resumed.")
            return _told(desk, given, await desk.change_state(given.verb, given.job), said)
        case "remove":
            return await _removed(desk, given)
        case "run":
            return _ran(await desk.run_job(given.job), as_json=given.as_json)
        case "stop":
            count = await desk.stop_job(given.job)
            line = say("It is being stopped.") if count else say("It does not run.")
            _shown(given, {"stopped": count}, [line])
        case _:
            count = await desk.run_due_jobs()
            _shown(given, {"ran": count}, [say_many("{n} job ran.", "{n} jobs ran.", count)])
    return 0


async def _listed(desk: CronAdmin, *, as_json: bool) -> None:
    rows = await desk.list_jobs()
    if as_json:
        print_json(rows)
        return
    print("\n".join(escaped(format_job_line(row)) for row in rows) or say("There are no jobs."))
    if rows and not desk.is_served:
        complain(format_idle_line())


async def _removed(desk: CronAdmin, given: argparse.Namespace) -> int:
    row = await desk.get_job(given.job)
    question = say("Forget the job {name}, with its history?", name=escaped(str(row["name"])))
    if not agreed(question, yes=given.yes, what=say("Removing")):
        return 1
    return _told(desk, given, await desk.change_state("remove", str(row["id"])), say("Removed."), idle=False)


def _told(desk: CronAdmin, given: argparse.Namespace, row: Plain, said: str, *, idle: bool = True) -> int:
    _shown(given, row, [f"{said} {format_job_line(row)}"])
    if idle and not desk.is_served:
        complain(format_idle_line())
    return 0


def _ran(row: Plain, *, as_json: bool) -> int:
    if as_json:
        print_json(row)
    else:
        text = str(row["text"]).rstrip()
        print(inert(text) if text else say("It ended as: {state}. {reason}", state=row["state"], reason=row["reason"]))
        if row["delivery"] == "owed":
            complain(say("The gateway delivers it, as soon as it runs."))
    return 0 if row["state"] == "ran" else 1


def _shown(given: argparse.Namespace, value: object, lines: Sequence[str]) -> None:
    if given.as_json:
        print_json(value)
    else:
        print("\n".join(escaped(line) for line in lines))
