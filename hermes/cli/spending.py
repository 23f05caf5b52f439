"""`hermes usage`: tokens and money, what the caps leave, and how sure a cost is."""

import asyncio
import sys

import msgspec

from hermes.app.usage import usage_report
from hermes.cli.arguments import Parser
from hermes.cli.report import failed
from hermes.config.environment import process_environment
from hermes.core.errors import HermesError
from hermes.util.say import phrase, say, say_many
from hermes.util.text import inert, one_line

Plain = dict[str, object]
_SURE = {"reported": phrase("as reported"), "computed": phrase("by list price"), "upper_bound": phrase("at most")}


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
        report = asyncio.run(usage_report(process_environment(), since=given.since, session=given.session))
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


def usage_lines(report: Plain) -> list[str]:
    """One session's use, for `/usage`."""
    if not report["calls"]:
        return [say("Nothing was used in this session yet.")]
    lines = [
        say(
            "{calls:,} calls, {input_tokens:,} tokens in, {output_tokens:,} out",
            calls=report["calls"],
            input_tokens=report["input_tokens"],
            output_tokens=report["output_tokens"],
        ),
        say("cost: {sure}", sure=sure(report)),
        say(
            "cache: {cache_read_tokens:,} tokens read, {cache_write_tokens:,} written{cached}",
            cache_read_tokens=report["cache_read_tokens"],
            cache_write_tokens=report["cache_write_tokens"],
            cached=cached(report),
        ),
    ]
    epochs = report["epochs"]
    for epoch in epochs if isinstance(epochs, list) else ():
        cost = (
            []
            if epoch["uncached_bytes"] is None
            else [say("{uncached_bytes:,} bytes sent without a cache", uncached_bytes=epoch["uncached_bytes"])]
        )
        if epoch["first_prompt_tokens"]:
            cost.append(f"{epoch['first_prompt_tokens']:,} tokens in its first request")
        lines.append(f"  epoch {epoch['number']}: {inert(str(epoch['reason']))}{'; ' if cost else ''}{', '.join(cost)}")
    return lines


def _show_caps(report: Plain) -> None:
    caps, per_run, open_calls = report["caps"], report["caps_per_run_or_session"], report["under_way"]
    assert isinstance(caps, list) and isinstance(per_run, list) and isinstance(open_calls, list)
    lines = [f"  {cap['name']:<10} {limits(cap, ' left', 'usd_left', 'tokens_left')}" for cap in caps]
    lines += [("  " + say("each {name:<5} {limits}", name=cap["name"], limits=limits(cap, ""))) for cap in per_run]
    if lines:
        print("\n".join(["\n" + say("caps:"), *lines]))
    if open_calls:
        print("\n" + say("held by calls under way:"))
    for call in open_calls:
        cost = "" if call["usd"] is None else (say("{usd} or", usd=usd(call["usd"])) + " ")
        where = call["session_id"] or say("(none)")
        print(f"  {where}  {inert(str(call['model']))}  at most {cost}{call['tokens']:,} tokens")


def limits(cap: Plain, end: str, usd_left: str = "", tokens_left: str = "") -> str:
    """A cap's limits, with what is left of them where that is known."""
    parts = []
    if cap["usd"] is not None:
        parts.append((f"{usd(cap[usd_left])} of " if usd_left else "") + usd(cap["usd"]) + end)
    if cap["tokens"] is not None:
        parts.append((f"{cap[tokens_left]:,} of " if tokens_left else "") + f"{cap['tokens']:,} tokens" + end)
    return ", ".join(parts)


def sure(row: Plain) -> str:
    """A sum of money, and how sure it is; of calls that have no known cost, only that."""
    unknown, calls = int(str(row["calls_of_unknown_cost"])), int(str(row["calls"]))
    if not unknown:
        return f"{usd(row['usd'])} ({say(_SURE[str(row['cost_status'])])})"
    if unknown == calls:
        return say("cost not known: the model has no listed price")
    return say_many(
        "{usd} and {n} call of unknown cost", "{usd} and {n} calls of unknown cost", unknown, usd=usd(row["usd"])
    )


def _line(name: str, row: object) -> str:
    assert isinstance(row, dict)
    tokens = say(
        "{input_tokens:,} in, {output_tokens:,} out",
        input_tokens=row["input_tokens"],
        output_tokens=row["output_tokens"],
    )
    if not row["calls"]:
        return "  " + say("{name:<28} nothing", name=name)
    return "  " + say(
        "{name:<28} {calls:>5} calls  {tokens:<28}  {sure}{cached}",
        name=name,
        calls=row["calls"],
        tokens=tokens,
        sure=sure(row),
        cached=cached(row),
    )


def cached(row: Plain) -> str:
    """What of the prompts came from caches, and what that saved; empty where no provider told of a cache."""
    if not row["cache_read_tokens"] and not row["cache_write_tokens"]:
        return ""
    rate, amount = float(str(row["cache_hit_rate"])), row["cache_saved_usd"]
    if amount is None:
        return say("; {rate:.0%} from cache", rate=rate)
    gain = float(str(amount))
    return say(
        "; {rate:.0%} from cache, which {gain} {usd}",
        rate=rate,
        gain=say("saved") if gain >= 0 else say("cost"),
        usd=usd(abs(gain)),
    )


def usd(amount: object) -> str:
    """Dollars with cents, and more digits for less than one."""
    dollars = float(str(amount))
    return f"{dollars:,.2f} USD" if dollars >= 1 or dollars == 0 else f"{dollars:.4f} USD"
