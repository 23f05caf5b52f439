"""`hermes cron`: manage scheduled jobs."""

import argparse
import asyncio
import os
from collections.abc import Sequence

from hermes.admin.cron import CronAdmin, open_cron_admin
from hermes.cli.output import confirm_action, print_error, print_json, report_failure
from hermes.cli.parser import CommandParser
from hermes.commands.views.cron import format_history, format_idle_line, format_job, format_job_line
from hermes.config.environment import copy_environment
from hermes.core.errors import HermesError
from hermes.i18n.messages import tr, tr_plural
from hermes.sessions.formats.openai_format import Plain
from hermes.util.text import escape_unseen_characters, strip_control_characters

_JOB_VERBS = ("show", "edit", "pause", "resume", "run", "stop", "remove")


def run(arguments: list[str]) -> int:
    """Parse the arguments and run one of the verbs."""
    args = _build_parser().parse_arguments(arguments)
    try:
        return asyncio.run(_run_verb(args))
    except HermesError as error:
        return report_failure(error)


def _build_parser() -> CommandParser:
    made = CommandParser(
        prog="hermes cron",
        description=tr(
            "Jobs on a clock: each is a prompt for a fresh session, or a script, with a schedule. They run while "
            "`hermes gateway` runs; what comes of them is delivered, and kept in the home's folder cron/output."
        ),
        epilog='example: hermes cron add "0 9 * * 1-5" "Tell me what is new in ~/notes." --name morning',
    )
    verbs = made.add_subparsers(dest="verb", metavar="VERB")
    verb_help = {
        "list": tr("all jobs (also without a verb)"),
        "show": tr("one job, with all that it has"),
        "add": tr("make a job"),
        "edit": tr("change a job; what is not given stays as it is"),
        "pause": tr("let nothing be due until it is resumed"),
        "resume": tr("let it be due again from now on"),
        "run": tr("run it now, in this process, and wait for it"),
        "stop": tr("stop its run, wherever that is"),
        "remove": tr("forget it, with its history"),
        "history": tr("what became of due instants, the newest first"),
        "tick": tr("run once what is due now, and wait for it; for a timer of the system's, in place of a gateway"),
    }
    parsers = {verb: verbs.add_parser(verb, help=what) for verb, what in verb_help.items()}
    for verb in _JOB_VERBS:
        parsers[verb].add_argument("job", help=tr("its name, or the beginning of its id"))
    for parser in parsers.values():
        parser.add_argument("--json", action="store_true", dest="as_json", help=tr("print JSON"))
    parsers["add"].add_argument("schedule", help=_format_schedule_help())
    parsers["add"].add_argument("prompt", nargs="?", help=tr("what is to be done"))
    parsers["edit"].add_argument("--schedule", help=_format_schedule_help())
    parsers["edit"].add_argument("--prompt", help=tr("what is to be done"))
    for verb in ("add", "edit"):
        _add_job_options(parsers[verb])
    parsers["remove"].add_argument("--yes", action="store_true", help=tr("do not ask"))
    parsers["history"].add_argument("job", nargs="?", help=tr("a job; all of them without"))
    parsers["history"].add_argument("--limit", type=int, default=30, metavar="N", help=tr("how many, 30 by default"))
    return made


def _format_schedule_help() -> str:
    return tr("`30m` (once, in), `every 2h`, five fields of cron, `@daily`, or an ISO time (once)")


def _add_job_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that describe a job."""
    add = parser.add_argument
    add("--name", help=tr("its name"))
    add("--zone", help=tr("its time zone, such as Europe/Berlin"))
    add("--deliver", action="append", metavar="TARGET", help=tr("local, all, or PLATFORM:CHAT[:THREAD] (repeatable)"))
    add(
        "--skill",
        action="append",
        dest="skills",
        metavar="NAME",
        help=tr("a skill to tell it first (repeatable)"),
    )
    add("--model", help=tr("the model that answers"))
    add("--provider", help=tr("who serves it"))
    add("--toolset", action="append", dest="toolsets", metavar="NAME", help=tr("only these tool sets (repeatable)"))
    add("--cwd", metavar="FOLDER", help=tr("the folder that it works in"))
    add("--script", metavar="FILE", help=tr("a file in the home's folder scripts that runs first"))
    add("--no-agent", action=argparse.BooleanOptionalAction, default=None, help=tr("deliver what the script says"))
    add(
        "--context-from",
        action="append",
        metavar="JOB",
        help=tr("a job whose last output is added to the prompt (repeatable)"),
    )
    add("--repeat", type=int, metavar="N", help=tr("how many runs in all"))
    add("--max-cost", type=float, metavar="USD", help=tr("dollars that one run may spend"))
    add("--grace", type=float, metavar="SECONDS", help=tr("how late a run may be"))
    add("--catch-up", choices=("skip", "last", "all"), help=tr("what is done about instants that were missed"))
    add("--catch-up-limit", type=int, metavar="N", help=tr("with `all`: how many at most"))
    add("--overlap", choices=("skip", "queue", "stop"), help=tr("what is done while an earlier run goes on"))
    add("--jitter", type=int, metavar="SECONDS", help=tr("spread it over so many seconds"))
    add(
        "--repeatable",
        action=argparse.BooleanOptionalAction,
        default=None,
        help=tr("run an instant again whose process died"),
    )
    add("--quiet", action=argparse.BooleanOptionalAction, default=None, help=tr("tell nobody of failures"))


_JOB_FIELDS = (
    *("name", "zone", "deliver", "skills", "model", "provider", "toolsets", "script", "no_agent", "context_from"),
    *("repeat", "max_cost", "grace", "catch_up", "catch_up_limit", "overlap", "jitter", "repeatable", "quiet"),
    *("schedule", "prompt"),
)


def _read_job_fields(args: argparse.Namespace) -> dict[str, object]:
    found = {name: value for name in _JOB_FIELDS if (value := getattr(args, name, None)) is not None}
    if args.cwd is not None:
        found["cwd"] = os.path.abspath(os.path.expanduser(args.cwd)) if args.cwd else ""
    return found


async def _run_verb(args: argparse.Namespace) -> int:
    async with open_cron_admin(copy_environment()) as admin:
        if args.verb in ("show", "history", "list", None):
            await _show_jobs(admin, args)
            return 0
        return await _change_jobs(admin, args)


async def _show_jobs(admin: CronAdmin, args: argparse.Namespace) -> None:
    """Run a verb that only shows something."""
    if args.verb == "show":
        row = await admin.get_job(args.job)
        _print_result(args, row, format_job(row))
    elif args.verb == "history":
        rows = await admin.list_history(args.job, args.limit)
        _print_result(args, rows, format_history(rows) or [tr("Nothing was due yet.")])
    else:
        await _print_jobs(admin, as_json=getattr(args, "as_json", False))


async def _change_jobs(admin: CronAdmin, args: argparse.Namespace) -> int:
    """Run a verb that changes or runs something."""
    match args.verb:
        case "add":
            return _report_job(
                admin, args, await admin.add_job(admin.build_wish(**_read_job_fields(args))), tr("Made.")
            )
        case "edit":
            return _report_job(
                admin, args, await admin.edit_job(args.job, admin.build_wish(**_read_job_fields(args))), tr("Changed.")
            )
        case "pause" | "resume":
            said = tr("Paused.") if args.verb == "pause" else tr("Resumed.")
            return _report_job(admin, args, await admin.change_state(args.verb, args.job), said)
        case "remove":
            return await _remove_job(admin, args)
        case "run":
            return _report_run(await admin.run_job(args.job), as_json=args.as_json)
        case "stop":
            count = await admin.stop_job(args.job)
            line = tr("It is being stopped.") if count else tr("It does not run.")
            _print_result(args, {"stopped": count}, [line])
        case _:
            count = await admin.run_due_jobs()
            _print_result(args, {"ran": count}, [tr_plural("{n} job ran.", "{n} jobs ran.", count)])
    return 0


async def _print_jobs(admin: CronAdmin, *, as_json: bool) -> None:
    rows = await admin.list_jobs()
    if as_json:
        print_json(rows)
        return
    print("\n".join(escape_unseen_characters(format_job_line(row)) for row in rows) or tr("There are no jobs."))
    if rows and not admin.is_served:
        print_error(format_idle_line())


async def _remove_job(admin: CronAdmin, args: argparse.Namespace) -> int:
    row = await admin.get_job(args.job)
    question = tr("Forget the job {name}, with its history?", name=escape_unseen_characters(str(row["name"])))
    if not confirm_action(question, yes=args.yes, what=tr("Removing")):
        return 1
    return _report_job(admin, args, await admin.change_state("remove", str(row["id"])), tr("Removed."), idle=False)


def _report_job(admin: CronAdmin, args: argparse.Namespace, row: Plain, said: str, *, idle: bool = True) -> int:
    _print_result(args, row, [f"{said} {format_job_line(row)}"])
    if idle and not admin.is_served:
        print_error(format_idle_line())
    return 0


def _report_run(row: Plain, *, as_json: bool) -> int:
    if as_json:
        print_json(row)
    else:
        text = str(row["text"]).rstrip()
        print(
            strip_control_characters(text)
            if text
            else tr("It ended as: {state}. {reason}", state=row["state"], reason=row["reason"])
        )
        if row["delivery"] == "owed":
            print_error(tr("The gateway delivers it, as soon as it runs."))
    return 0 if row["state"] == "ran" else 1


def _print_result(args: argparse.Namespace, value: object, lines: Sequence[str]) -> None:
    if args.as_json:
        print_json(value)
    else:
        print("\n".join(escape_unseen_characters(line) for line in lines))
