"""Formats the usage report of some days as lines and charts."""

from collections.abc import Mapping, Sequence

from hermes.commands.views.usage import format_cache_share, format_cost_line
from hermes.i18n.formats import compact, number, span
from hermes.i18n.messages import say
from hermes.markup.charts import BarRow, draw_bars, draw_sparkline
from hermes.sessions.formats.openai_format import Plain
from hermes.util.text import escaped, one_line

_MAX_ROWS = 10
_MAX_DAYS = 14


def format_insights(report: Plain, room: int, *, words: bool = False) -> list[str]:
    """Format the report as lines of at most `room` columns with charts; with `words` without charts."""
    total = report["total"]
    assert isinstance(total, dict)
    if not total["calls"]:
        return [say("Nothing was used since {day}.", day=report["since"])]
    lines = [
        say(
            "Since {day}: {sessions} sessions, {turns} turns, {calls} model calls",
            day=report["since"],
            sessions=number(int(str(report["sessions"]))),
            turns=number(int(str(report["turns"]))),
            calls=number(total["calls"]),
        ),
        say(
            "{read} tokens in, {written} out",
            read=compact(total["input_tokens"]),
            written=compact(total["output_tokens"]),
        )
        + format_cache_share(total),
        format_cost_line(total),
    ]
    lines += _format_days(_as_rows(report["days"]), room, words=words)
    lines += _format_section(say("models"), _model_rows(_as_rows(report["models"])), room, words=words)
    lines += _format_section(say("tools"), _tool_rows(_as_rows(report["tools"])), room, words=words)
    lines += _format_hours(report["hours"], words=words)
    return [escaped(line) for line in lines]


def _format_days(rows: Sequence[Mapping[str, object]], room: int, *, words: bool) -> list[str]:
    """Format tokens by day: all days as a sparkline, the newest with their numbers."""
    used = [_count_tokens(row) for row in rows]
    lines = ["", say("tokens by day")]
    if not words and len(used) > 1:
        lines.append(draw_sparkline(used[-room:]))
    newest = [row for row in rows[-_MAX_DAYS:] if row["calls"]]
    return lines + draw_bars(
        [BarRow(str(row["day"]), _count_tokens(row), _format_usage(row)) for row in newest], room, words=words
    )


def _model_rows(rows: Sequence[Mapping[str, object]]) -> list[BarRow]:
    return [BarRow(one_line(str(row["key"]), 40), _count_tokens(row), _format_usage(row)) for row in rows[:_MAX_ROWS]]


def _tool_rows(rows: Sequence[Mapping[str, object]]) -> list[BarRow]:
    found = []
    for row in rows[:_MAX_ROWS]:
        each, calls = row["seconds_each"], int(str(row["calls"]))
        took = "" if each is None else f"  {span(float(str(each)))}"
        found.append(BarRow(one_line(str(row["tool"]), 40), calls, number(calls) + took))
    return found


def _format_hours(hours: object, *, words: bool) -> list[str]:
    assert isinstance(hours, list)
    top = max(range(24), key=lambda hour: hours[hour])
    said = say("busiest hour: {hour}, {calls} calls", hour=f"{top:02}:00", calls=number(hours[top]))
    drawn = [] if words else [f"{draw_sparkline(hours)}  00–23"]
    return ["", *drawn, said]


def _format_section(title: str, rows: list[BarRow], room: int, *, words: bool) -> list[str]:
    return ["", title, *draw_bars(rows, room, words=words)] if rows else []


def _format_usage(row: Mapping[str, object]) -> str:
    return f"{compact(_count_tokens(row))}  {_format_cost(row)}"


def _format_cost(row: Mapping[str, object]) -> str:
    """Format an amount of money in few characters; an unknown price never looks like zero."""
    unknown, amount = int(str(row["calls_of_unknown_cost"])), float(str(row["usd"]))
    if unknown == row["calls"]:
        return say("unpriced")
    return f"${amount:,.2f}" + ("+" if unknown else "") if amount >= 0.01 or not amount else f"${amount:.4f}"


def _count_tokens(row: Mapping[str, object]) -> float:
    return float(str(row["input_tokens"])) + float(str(row["output_tokens"]))


def _as_rows(value: object) -> list[dict[str, object]]:
    assert isinstance(value, list)
    return value
