"""`hermes usage`: show tokens and money spent, what the caps leave, and how certain a cost is.

`hermes insights`: chart tokens, money and work over some days.
"""

import asyncio
import shutil
import sys

import msgspec

from hermes.admin.usage import build_usage_report, report_insights
from hermes.cli.output import print_json, report_failure
from hermes.cli.parser import CommandParser
from hermes.commands.views.insights import format_insights
from hermes.commands.views.usage import format_cache_share, format_cap_limits, format_cost, format_dollars
from hermes.config.environment import copy_environment
from hermes.core.errors import HermesError
from hermes.i18n.messages import tr
from hermes.markup.cells import pad_text
from hermes.util.text import strip_control_characters, to_one_line

Plain = dict[str, object]


def run(arguments: list[str]) -> int:
    """Print what was spent."""
    made = CommandParser(
        prog="hermes usage",
        description="Tokens and money: today, this month, by model and by session; what the caps leave.",
        epilog="example: hermes usage --since 2026-11-01 --json",
    )
    made.add_argument("--json", action="store_true", help="print JSON")
    made.add_argument("--since", default="", metavar="DATE", help="models and sessions from this day on (2026-11-01)")
    made.add_argument("--session", default="", metavar="ID", help="one session only (an id, its beginning or title)")
    args = made.parse_arguments(arguments)
    try:
        report = asyncio.run(build_usage_report(copy_environment(), since=args.since, session=args.session))
    except HermesError as error:
        return report_failure(error)
    if args.json:
        sys.stdout.write(msgspec.json.format(msgspec.json.encode(report)).decode() + "\n")
    else:
        _print_report(report)
    return 0


def _print_report(report: Plain) -> None:
    print(_format_row(tr("today"), report["today"]))
    print(_format_row(tr("this month"), report["month"]))
    for title, rows in ((tr("models"), report["models"]), (tr("sessions"), report["sessions"])):
        listed = rows if isinstance(rows, list) else []
        if listed:
            print("\n" + tr("{title} since {day}:", title=title, day=report["since"]))
        for row in listed:
            print(_format_row(to_one_line(strip_control_characters(str(row["key"])), 60) or tr("(none)"), row))
    _print_caps(report)


def _print_caps(report: Plain) -> None:
    caps, per_run, open_calls = report["caps"], report["caps_per_run_or_session"], report["under_way"]
    assert isinstance(caps, list) and isinstance(per_run, list) and isinstance(open_calls, list)
    lines = [f"  {cap['name']:<10} {format_cap_limits(cap, 'usd_left', 'tokens_left')}" for cap in caps]
    lines += [
        ("  " + tr("each {name} {limits}", name=f"{cap['name']:<5}", limits=format_cap_limits(cap))) for cap in per_run
    ]
    if lines:
        print("\n".join(["\n" + tr("caps:"), *lines]))
    if open_calls:
        print("\n" + tr("held by calls under way:"))
    for call in open_calls:
        cost = "" if call["usd"] is None else (tr("{usd} or", usd=format_dollars(call["usd"])) + " ")
        where = call["session_id"] or tr("(none)")
        most = tr("at most {cost}{n:,} tokens", cost=cost, n=call["tokens"])
        print(f"  {where}  {strip_control_characters(str(call['model']))}  {most}")


def _format_row(name: str, row: object) -> str:
    assert isinstance(row, dict)
    tokens = tr(
        "{input_tokens:,} in, {output_tokens:,} out",
        input_tokens=row["input_tokens"],
        output_tokens=row["output_tokens"],
    )
    if not row["calls"]:
        return f"  {pad_text(name, 28)} {tr('nothing')}"
    calls = tr("{n:>5} calls", n=row["calls"])
    return f"  {pad_text(name, 28)} {calls}  {pad_text(tokens, 28)}  {format_cost(row)}{format_cache_share(row)}"


def run_insights(arguments: list[str]) -> int:
    """Show the report."""
    parser = CommandParser(
        prog="hermes insights",
        description=tr("What was done and what it cost: by day, hour, model and tool. Caps: `hermes usage`."),
        epilog="example: hermes insights --days 7",
    )
    parser.add_argument("--days", type=int, default=30, metavar="N", help=tr("how many days back, this one included"))
    parser.add_argument("--plain", action="store_true", help=tr("words instead of pictures, for a screen reader"))
    parser.add_argument("--json", action="store_true", dest="as_json", help=tr("print JSON"))
    args = parser.parse_arguments(arguments)
    environ = copy_environment()
    try:
        report = asyncio.run(report_insights(environ, days=args.days))
    except HermesError as error:
        return report_failure(error)
    if args.as_json:
        print_json(report)
        return 0
    words = args.plain or environ.get("TERM") == "dumb"
    room = min(shutil.get_terminal_size((80, 24)).columns, 100)
    print("\n".join(format_insights(report, room, words=words)))
    return 0
