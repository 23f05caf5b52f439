"""`hermes usage`: tokens and money, what the caps leave, and how sure a cost is."""

import asyncio
import sys

import msgspec

from hermes.admin.usage import build_usage_report
from hermes.cli.arguments import Parser
from hermes.cli.errors import failed
from hermes.commands.views.usage import format_cache_share, format_cap_limits, format_cost, format_dollars
from hermes.config.environment import process_environment
from hermes.core.errors import HermesError
from hermes.i18n.messages import say
from hermes.markup.charts import pad_right
from hermes.util.text import inert, one_line

Plain = dict[str, object]


def run(arguments: list[str]) -> int:
    """Show what was spent."""
    made = Parser(
        prog="hermes usage",
        description="Tokens and money: today, this month, by model and by session; what the caps leave.",
        epilog="example: hermes usage --since 2026-11-01 --json",
    )
    made.add_argument("--json", action="store_true", help="print JSON")
    made.add_argument("--since", default="", metavar="DATE", help="models and sessions from this day on (2026-11-01)")
    made.add_argument("--session", default="", metavar="ID", help="one session only (an id, its beginning or title)")
    given = made.read(arguments)
    try:
        report = asyncio.run(build_usage_report(process_environment(), since=given.since, session=given.session))
    except HermesError as error:
        return failed(error)
    if given.json:
        sys.stdout.write(msgspec.json.format(msgspec.json.encode(report)).decode() + "\n")
    else:
        _show(report)
    return 0


def _show(report: Plain) -> None:
    print(_line(say("today"), report["today"]))
    print(_line(say("this month"), report["month"]))
    for title, rows in ((say("models"), report["models"]), (say("sessions"), report["sessions"])):
        listed = rows if isinstance(rows, list) else []
        if listed:
            print("\n" + say("{title} since {day}:", title=title, day=report["since"]))
        for row in listed:
            print(_line(one_line(inert(str(row["key"])), 60) or say("(none)"), row))
    _show_caps(report)


def _show_caps(report: Plain) -> None:
    caps, per_run, open_calls = report["caps"], report["caps_per_run_or_session"], report["under_way"]
    assert isinstance(caps, list) and isinstance(per_run, list) and isinstance(open_calls, list)
    lines = [f"  {cap['name']:<10} {format_cap_limits(cap, 'usd_left', 'tokens_left')}" for cap in caps]
    lines += [
        ("  " + say("each {name} {limits}", name=f"{cap['name']:<5}", limits=format_cap_limits(cap))) for cap in per_run
    ]
    if lines:
        print("\n".join(["\n" + say("caps:"), *lines]))
    if open_calls:
        print("\n" + say("held by calls under way:"))
    for call in open_calls:
        cost = "" if call["usd"] is None else (say("{usd} or", usd=format_dollars(call["usd"])) + " ")
        where = call["session_id"] or say("(none)")
        most = say("at most {cost}{n:,} tokens", cost=cost, n=call["tokens"])
        print(f"  {where}  {inert(str(call['model']))}  {most}")


def _line(name: str, row: object) -> str:
    assert isinstance(row, dict)
    tokens = say(
        "{input_tokens:,} in, {output_tokens:,} out",
        input_tokens=row["input_tokens"],
        output_tokens=row["output_tokens"],
    )
    if not row["calls"]:
        return f"  {pad_right(name, 28)} {say('nothing')}"
    calls = say("{n:>5} calls", n=row["calls"])
    return f"  {pad_right(name, 28)} {calls}  {pad_right(tokens, 28)}  {format_cost(row)}{format_cache_share(row)}"
