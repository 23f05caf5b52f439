"""What was done and what it cost over some days as lines and pictures."""

from collections.abc import Mapping, Sequence

from hermes.commands.views.usage import cached, cost_line
from hermes.i18n.formats import compact, number, span
from hermes.i18n.messages import say
from hermes.markup.charts import Row, columns, spark
from hermes.sessions.formats.openai_format import Plain
from hermes.util.text import escaped, one_line

_MOST_ROWS = 10
_SHOWN_DAYS = 14


def insight_lines(report: Plain, room: int, *, words: bool = False) -> list[str]:
    """The report as lines of at most `room` columns, pictures among them; with `words` none."""
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
        + cached(total),
        cost_line(total),
    ]
    lines += _days(_rows(report["days"]), room, words=words)
    lines += _titled(say("models"), _models(_rows(report["models"])), room, words=words)
    lines += _titled(say("tools"), _tools(_rows(report["tools"])), room, words=words)
    lines += _hours(report["hours"], words=words)
    return [escaped(line) for line in lines]


def _days(rows: Sequence[Mapping[str, object]], room: int, *, words: bool) -> list[str]:
    """Tokens by day: all days as a sparkline, the newest with their numbers."""
    used = [_tokens(row) for row in rows]
    lines = ["", say("tokens by day")]
    if not words and len(used) > 1:
        lines.append(spark(used[-room:]))
    newest = [row for row in rows[-_SHOWN_DAYS:] if row["calls"]]
    return lines + columns([Row(str(row["day"]), _tokens(row), _shown(row)) for row in newest], room, words=words)


def _models(rows: Sequence[Mapping[str, object]]) -> list[Row]:
    return [Row(one_line(str(row["key"]), 40), _tokens(row), _shown(row)) for row in rows[:_MOST_ROWS]]


def _tools(rows: Sequence[Mapping[str, object]]) -> list[Row]:
    found = []
    for row in rows[:_MOST_ROWS]:
        each, calls = row["seconds_each"], int(str(row["calls"]))
        took = "" if each is None else f"  {span(float(str(each)))}"
        found.append(Row(one_line(str(row["tool"]), 40), calls, number(calls) + took))
    return found


def _hours(hours: object, *, words: bool) -> list[str]:
    assert isinstance(hours, list)
    top = max(range(24), key=lambda hour: hours[hour])
    said = say("busiest hour: {hour}, {calls} calls", hour=f"{top:02}:00", calls=number(hours[top]))
    drawn = [] if words else [f"{spark(hours)}  00–23"]
    return ["", *drawn, said]


def _titled(title: str, rows: list[Row], room: int, *, words: bool) -> list[str]:
    return ["", title, *columns(rows, room, words=words)] if rows else []


def _shown(row: Mapping[str, object]) -> str:
    return f"{compact(_tokens(row))}  {_cost(row)}"


def _cost(row: Mapping[str, object]) -> str:
    """Money in few characters; what has no known price never looks like nothing."""
    unknown, amount = int(str(row["calls_of_unknown_cost"])), float(str(row["usd"]))
    if unknown == row["calls"]:
        return say("unpriced")
    return f"${amount:,.2f}" + ("+" if unknown else "") if amount >= 0.01 or not amount else f"${amount:.4f}"


def _tokens(row: Mapping[str, object]) -> float:
    return float(str(row["input_tokens"])) + float(str(row["output_tokens"]))


def _rows(value: object) -> list[dict[str, object]]:
    assert isinstance(value, list)
    return value
