"""`hermes status`: show the state of model, keys, sandbox, sessions and money; `/status`: that of a session.

`hermes doctor`, `/doctor` check this machine and the home; `hermes logs` shows Hermes' own errors and warnings.
"""

import asyncio
import contextlib
import os
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from hermes.admin.logs import LEVELS, LogEntry, LogFilter, follow_log, parse_since, read_log
from hermes.commands.command import CommandCall, CommandGroup, CommandList
from hermes.commands.usage import describe_window_use, format_cap_limits, format_cost
from hermes.commands.verb import JSON_OPTION, Verb, VerbCall, VerbResult, argument
from hermes.config.home import HermesHome, locate_home
from hermes.core.encoding import Plain
from hermes.core.errors import HermesError
from hermes.core.outcomes import ExitReason
from hermes.i18n.formats import format_bytes, format_compact, format_number, format_time
from hermes.i18n.messages import N_, join_sentences, localize, localize_inside, tr, tr_plural
from hermes.markup.cells import pad_text
from hermes.util.localizable import Localizable
from hermes.util.text import (
    escape_confusable_characters,
    escape_unseen_characters,
    strip_control_characters,
    to_one_line,
)

if TYPE_CHECKING:
    from hermes.admin.doctor import DoctorCheck
    from hermes.admin.sandbox_table import SandboxPlace

_TITLE_WIDTH = 11
_MAX_LINES = 1_000_000
_STATE_MARKS = {"ok": "ok", "warning": "! "}
_ACCESS_WIDTH = 8
_ACCESS_WORDS = {
    "hidden": N_("hidden"),
    "read": N_("read"),
    "write": N_("write"),
    "private": N_("private"),
    "cleaned": N_("cleaned"),
}
STATUS = Verb(
    "status",
    description="Show the state of everything. Exit code 1: the model cannot be reached.",
    example="hermes status --offline",
)
DOCTOR = Verb(
    "doctor",
    description="Show what confines commands on this machine, when you are asked, what is trusted, "
    "and whether the home is in order. Exit code 1: there is a problem.",
    example="hermes doctor --fix",
)
LOGS = Verb(
    "logs",
    description="The newest entries of the logs, the newest last. Secrets were taken out as they were written.",
    example="hermes logs --since 2h --level error",
)


@STATUS.action(
    "", "", argument("--offline", action="store_true", help="ask no server whether it can be reached"), JSON_OPTION
)
async def show_status(call: VerbCall) -> VerbResult:
    """Show the status; the exit code is 1 when the model's server was asked and did not answer."""
    from hermes.admin.status import collect_status

    found = await collect_status(call.environ, os.getcwd(), offline=call.args.offline)
    model = _as_mapping(found["model"])
    exit_code = 1 if model["reached"] is False or model["wrong"] else 0
    return VerbResult(found, [escape_unseen_characters(line) for line in format_status(found)], exit_code=exit_code)


@DOCTOR.action(
    "",
    "",
    argument(
        "--fix",
        action="store_true",
        help="fix permissions, rebuild the search index, remove leftovers; never change settings",
    ),
    argument("--sandbox", action="store_true", help="list what commands see of this machine, with the reasons"),
    JSON_OPTION,
)
async def run_doctor(call: VerbCall) -> VerbResult:
    """Check the machine and the home; the exit code is 1 when something stops Hermes or needs the person."""
    from hermes.admin.doctor import check_home
    from hermes.admin.sandbox_table import summarize_places
    from hermes.admin.status import PROBLEM_PREFIX

    checks = await check_home(call.environ, fix=call.args.fix)
    places = _list_places(call.environ)
    summary = await _summarize_health(call.environ)
    problems = [check.said for check in checks if check.state not in _STATE_MARKS]
    wrong = problems or any(line.startswith(PROBLEM_PREFIX) for line in summary)
    # A problem that a check reports too is printed once.
    is_told = len(summary) == 1 and any(summary[0].startswith(f"{PROBLEM_PREFIX} {said}") for said in problems)
    summary += [summarize_places(places)] if places else []
    lines = [] if is_told else [*(localize(escape_confusable_characters(line)) for line in summary), ""]
    lines += map(_format_check, checks)
    found: dict[str, object] = {"lines": summary, "checks": checks}
    if call.args.sandbox:
        lines += ["", *map(_format_place, places)]
        found["sandbox"] = places
    return VerbResult(found, lines, exit_code=1 if wrong else 0)


async def _summarize_health(environ: Mapping[str, str]) -> list[str]:
    from hermes.admin.status import describe_problem, summarize_health

    try:
        return await summarize_health(environ, os.getcwd())
    except (HermesError, OSError) as error:
        return [describe_problem(error)]


def _list_places(environ: Mapping[str, str]) -> "list[SandboxPlace]":
    from hermes.admin.sandbox_table import list_sandbox_places

    with contextlib.suppress(HermesError):  # what is wrong with the settings is told by others
        return list_sandbox_places(environ, os.getcwd())
    return []


def _format_place(place: "SandboxPlace") -> str:
    access = pad_text(tr(_ACCESS_WORDS[place.access]), _ACCESS_WIDTH)
    return f"{access} {escape_confusable_characters(place.path)}  ({localize(place.reason)})"


def _format_check(check: "DoctorCheck") -> str:
    parts = [escape_unseen_characters(localize(part)) for part in (check.said, check.advice, check.fixed)]
    return (
        f"{_STATE_MARKS.get(check.state, '!!')} {escape_confusable_characters(check.name):<12} {join_sentences(*parts)}"
    )


@LOGS.action(
    "",
    "",
    argument("-f", "--follow", action="store_true", help="follow new entries"),
    argument("-n", "--lines", type=int, default=50, metavar="N", help="how many entries (default: 50)"),
    argument("--level", choices=LEVELS, default="", help="this level and more severe ones"),
    argument("--session", default="", metavar="ID", help="those that name a session"),
    argument("--since", default="", metavar="TIME", help="since then: 30m, 2h, 7d, 2026-11-01"),
    argument("--json", action="store_true", dest="as_json", help="one JSON object a line"),
)
async def show_logs(call: VerbCall) -> VerbResult:
    """Show the newest entries of the logs, and where that is asked for those that follow."""
    args = call.args
    if not 0 <= args.lines < _MAX_LINES:
        call.reject_arguments(tr("--lines must be from 0 on and below {most}", most=_MAX_LINES))
    home = locate_home(call.environ)
    begin = parse_since(args.since, time.time()) if args.since else 0.0
    log_filter = LogFilter(level=args.level, session=args.session, since=begin)
    found = read_log(home, log_filter, args.lines)
    for entry in found:
        call.write_row(entry, _format_entry(entry))
    if args.follow:
        async for entry in follow_log(home, log_filter):
            call.write_row(entry, _format_entry(entry))
    elif not found and not call.as_json:
        return _no_entries(home)
    return VerbResult()


def _no_entries(home: HermesHome) -> VerbResult:
    if any(home.logs.glob("*.log")):
        return VerbResult(notices=[tr("There is no such entry in {folder}.", folder=home.logs)])
    return VerbResult(lines=[tr("Nothing has gone wrong yet, so there is no log.")])


def _format_entry(entry: LogEntry) -> list[str]:
    when = "" if entry.at is None else f"{format_time(entry.at)}  "
    first, *more = entry.text.split("\n")
    level = f"{entry.level}  " if entry.level else ""
    lead = f"{when}{level}{escape_unseen_characters(entry.source)}  {escape_unseen_characters(first)}"
    return [lead, *(f"    {escape_unseen_characters(line)}" for line in more)]


def format_status(found: Plain) -> list[str]:
    """Format the status, one line for each title of fixed width."""
    commands = found["commands"]
    assert isinstance(commands, list)
    rows = [
        (tr("Hermes"), tr("{version}, language {language}", version=found["version"], language=found["language"])),
        (tr("Home"), _format_home(found)),
        (tr("Model"), _format_model(_as_mapping(found["model"]))),
        (tr("API keys"), _format_keys(found["keys"])),
        (tr("Commands"), _format_backend(commands)),
        (tr("Folder"), _format_folder(found)),
        (tr("Sessions"), _format_sessions(found)),
        (tr("Today"), _format_spending(found["today"])),
        (tr("This month"), _format_spending(found["month"])),
        *((tr("Cap"), text) for text in _format_caps(found["caps"])),
        (tr("Waiting"), _format_pending(_as_mapping(found["pending"]))),
        (tr("Disk"), _format_disk(_as_mapping(found["disk"]))),
    ]
    return [f"{pad_text(title, _TITLE_WIDTH)} {text}" for title, text in rows]


def _format_backend(lines: list[object]) -> str:
    """Describe where commands run, without the title that the line begins with."""
    shown = [line.values["held"] if isinstance(line, Localizable) and "held" in line.values else line for line in lines]
    return join_sentences(*(localize(escape_confusable_characters(str(line))) for line in shown))


def _format_home(found: Plain) -> str:
    profile = found["profile"]
    return str(found["home"]) + (tr(" (profile {name})", name=profile) if profile else "")


def _format_model(model: Mapping[str, object]) -> str:
    if not model["model"]:
        return localize(str(model["wrong"]))
    where = f"{model['model']}, {model['provider']}" + (f", {model['base_url']}" if model["base_url"] else "")
    if model["reached"] is None:
        return tr("{where} (not asked)", where=where)
    if not model["reached"]:
        return tr("{where} cannot be reached: {why}", where=where, why=localize(str(model["wrong"])))
    if model["provider"] == "local":
        return tr("{where}: the small one that is built in", where=where)
    return tr("{where}, answers in {seconds} s", where=where, seconds=f"{float(str(model['seconds'])):.2f}")


def _format_keys(rows: object) -> str:
    assert isinstance(rows, list)
    shown = [
        f"{row['provider']} {row['label']}".strip() + (f" ({row['state']})" if row["state"] != "ready" else "")
        for row in rows
    ]
    return ", ".join(shown) or tr("none")


def _format_folder(found: Plain) -> str:
    folder = found["folder"]
    return tr("{folder}, trusted", folder=folder) if found["trusted"] else tr("{folder}, not trusted", folder=folder)


def _format_sessions(found: Plain) -> str:
    count = int(str(found["sessions"]))
    if not count:
        return tr("none yet")
    last = found["last_session"]
    text = tr_plural("{n} session", "{n} sessions", count)
    text += tr(", {n} open now", n=format_number(int(str(found["open"])))) if found["open"] else ""
    if not isinstance(last, dict):
        return text
    title = to_one_line(str(last["title"]), 40)
    return tr(
        '{sessions}; the last one {id} "{title}", {when}',
        sessions=text,
        id=last["id"],
        title=title,
        when=format_time(last["updated_at"]),
    )


def _format_spending(row: object) -> str:
    if not isinstance(row, dict) or not row["calls"]:
        return tr("nothing")
    calls = tr_plural("{n} call", "{n} calls", row["calls"])
    return tr(
        "{calls}, {tokens} tokens, {cost}",
        calls=calls,
        tokens=format_compact(row["input_tokens"] + row["output_tokens"]),
        cost=format_cost(row),
    )


def _format_caps(rows: object) -> list[str]:
    assert isinstance(rows, list)
    return [f"{row['name']}: {format_cap_limits(row, 'usd_left', 'tokens_left')}" for row in rows]


def _format_pending(pending: Mapping[str, object]) -> str:
    counts = {name: int(str(value)) for name, value in pending.items()}
    parts = [
        *(
            [tr_plural("{n} question (`hermes approvals`)", "{n} questions (`hermes approvals`)", n)]
            if (n := counts["approvals"])
            else []
        ),
        *(
            [
                tr_plural(
                    "{n} change of memory (`hermes memory pending`)",
                    "{n} changes of memory (`hermes memory pending`)",
                    n,
                )
            ]
            if (n := counts["memory"])
            else []
        ),
        *(
            [
                tr_plural(
                    "{n} change of skills (`hermes skills pending`)",
                    "{n} changes of skills (`hermes skills pending`)",
                    n,
                )
            ]
            if (n := counts["skills"])
            else []
        ),
    ]
    return ", ".join(parts) or tr("nothing")


def _format_disk(disk: Mapping[str, object]) -> str:
    parts = disk["parts"]
    assert isinstance(parts, dict)
    largest = ", ".join(f"{name} {format_bytes(count)}" for name, count in list(parts.items())[:3])
    total = format_bytes(int(str(disk["bytes"])))
    return f"{total} ({largest})" if largest else total


def _as_mapping(value: object) -> Mapping[str, object]:
    assert isinstance(value, dict)
    return value


COMMANDS = CommandList(CommandGroup.ABOUT)


@COMMANDS.command(
    "status", N_("this session's id, folder, model, whether it works, and how full its window is"), aliases=("session",)
)
async def show_session_status(call: CommandCall) -> None:
    """Show a few lines about the session."""
    call.require_no_arguments()
    app, actor = call.context.app, call.context.actor
    row = await app.session_row(actor)
    count = tr_plural("{n} message", "{n} messages", int(str(row["message_count"])))
    title = escape_unseen_characters(str(row["title"]))
    named = tr("Session {id} ({title}), {count}.", id=actor.session_id, title=title, count=count)
    lines = [named if title else tr("Session {id}, {count}.", id=actor.session_id, count=count)]
    if call.context.person.can_administer:
        lines.append(await _describe_folder(str(app.live_session(actor).tools.context.state.cwd)))
    endpoint = actor.conversation.client.endpoint
    window = await app.context_length(actor)
    length = tr("{n} tokens", n=format_number(window)) if window is not None else tr("not known")
    lines.append(
        tr(
            "Model {model} from {provider}, window: {length}.",
            model=endpoint.model,
            provider=localize_inside(endpoint.record.title),
            length=length,
        )
    )
    lines += [await _describe_last_turn(call), await describe_window_use(call)]
    lines.append(localize(await app.describe_backend(actor)))
    if app.is_yolo(actor):
        lines.append(
            tr("NO QUESTIONS are asked in this session (/yolo ends that); what is never allowed stays refused.")
        )
    used = tr(
        "Tokens used so far: {input} in, {output} out.",
        input=format_number(int(str(row["input_tokens"]))),
        output=format_number(int(str(row["output_tokens"]))),
    )
    call.context.tell("\n".join([*lines, used]))


async def _describe_folder(folder: str) -> str:
    """Describe where the session's commands run now, and the branch that is checked out there."""
    from hermes.admin.git_branch import read_branch

    branch = await asyncio.to_thread(read_branch, folder)
    shown = escape_unseen_characters(folder)
    return (
        tr("Folder {folder}, branch {branch}.", folder=shown, branch=branch)
        if branch
        else tr("Folder {folder}.", folder=shown)
    )


async def _describe_last_turn(call: CommandCall) -> str:
    """Describe whether the model has answered last, from what is stored: nothing is asked of it."""
    turn = await call.context.app.services.store.turns.get_newest(call.context.actor.session_id)
    if turn is None:
        return tr("The model: not asked in this session yet.")
    if turn.ended_at is None:
        return tr("The model: works on a turn now.")
    when = format_time(turn.ended_at)
    if ExitReason(turn.reason).is_completed:
        return tr("The model works: it answered last at {when}.", when=when)
    if turn.error:
        why = to_one_line(strip_control_characters(localize(turn.error)), 300)
        return tr("The model: the last turn failed at {when}: {why}", when=when, why=why)
    return tr("The model: the last turn ended at {when} without an answer ({reason}).", when=when, reason=turn.reason)


@COMMANDS.command("doctor", N_("examine this machine and what Hermes keeps"))
async def run_chat_doctor(call: CommandCall) -> None:
    """Examine the machine and the home; nothing is changed."""
    call.require_no_arguments()
    from hermes.admin.doctor import check_home
    from hermes.admin.status import summarize_health

    environ = call.context.app.services.environ
    lines = await summarize_health(environ, call.context.app.options.cwd or os.getcwd())
    checks = await check_home(environ)
    lines += [
        f"{_STATE_MARKS.get(one.state, '!!')} {one.name:<12} {join_sentences(localize(one.said), localize(one.advice))}"
        for one in checks
    ]
    call.context.tell("\n".join(escape_confusable_characters(line) for line in lines))
    if any(one.state != "ok" for one in checks):
        call.context.tell(tr("`hermes doctor --fix` fixes what is safe to fix."))
