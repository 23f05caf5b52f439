"""Format the insights of some days and the parts of the context window as lines with charts."""

from collections.abc import Mapping, Sequence

from hermes.commands.views.usage import format_cache_share, format_cost_line
from hermes.i18n.formats import format_compact, format_duration, format_number
from hermes.i18n.messages import tr
from hermes.markup.cells import fit_text, measure_width
from hermes.markup.charts import BarRow, draw_bars, draw_sparkline
from hermes.sessions.context_usage import FREE, KINDS, TokenShare
from hermes.sessions.formats.openai_format import Plain
from hermes.util.text import escape_unseen_characters, to_one_line

_MAX_ROWS = 10


_MAX_DAYS = 14


def format_insights(report: Plain, room: int, *, words: bool = False) -> list[str]:
    """Format the report as lines of at most `room` columns with charts; with `words` without charts."""
    total = report["total"]
    assert isinstance(total, dict)
    if not total["calls"]:
        return [tr("Nothing was used since {day}.", day=report["since"])]
    lines = [
        tr(
            "Since {day}: {sessions} sessions, {turns} turns, {calls} model calls",
            day=report["since"],
            sessions=format_number(int(str(report["sessions"]))),
            turns=format_number(int(str(report["turns"]))),
            calls=format_number(total["calls"]),
        ),
        tr(
            "{read} tokens in, {written} out",
            read=format_compact(total["input_tokens"]),
            written=format_compact(total["output_tokens"]),
        )
        + format_cache_share(total),
        format_cost_line(total),
    ]
    lines += _format_days(_as_rows(report["days"]), room, words=words)
    lines += _format_section(tr("models"), _model_rows(_as_rows(report["models"])), room, words=words)
    lines += _format_section(tr("tools"), _tool_rows(_as_rows(report["tools"])), room, words=words)
    lines += _format_hours(report["hours"], words=words)
    return [escape_unseen_characters(line) for line in lines]


def _format_days(rows: Sequence[Mapping[str, object]], room: int, *, words: bool) -> list[str]:
    """Format tokens by day: all days as a sparkline, the newest with their numbers."""
    used = [_count_tokens(row) for row in rows]
    lines = ["", tr("tokens by day")]
    if not words and len(used) > 1:
        lines.append(draw_sparkline(used[-room:]))
    newest = [row for row in rows[-_MAX_DAYS:] if row["calls"]]
    return lines + draw_bars(
        [BarRow(str(row["day"]), _count_tokens(row), _format_usage(row)) for row in newest], room, words=words
    )


def _model_rows(rows: Sequence[Mapping[str, object]]) -> list[BarRow]:
    return [
        BarRow(to_one_line(str(row["key"]), 40), _count_tokens(row), _format_usage(row)) for row in rows[:_MAX_ROWS]
    ]


def _tool_rows(rows: Sequence[Mapping[str, object]]) -> list[BarRow]:
    found = []
    for row in rows[:_MAX_ROWS]:
        each, calls = row["seconds_each"], int(str(row["calls"]))
        took = "" if each is None else f"  {format_duration(float(str(each)))}"
        found.append(BarRow(to_one_line(str(row["tool"]), 40), calls, format_number(calls) + took))
    return found


def _format_hours(hours: object, *, words: bool) -> list[str]:
    assert isinstance(hours, list)
    top = max(range(24), key=lambda hour: hours[hour])
    said = tr("busiest hour: {hour}, {calls} calls", hour=f"{top:02}:00", calls=format_number(hours[top]))
    drawn = [] if words else [f"{draw_sparkline(hours)}  00–23"]
    return ["", *drawn, said]


def _format_section(title: str, rows: list[BarRow], room: int, *, words: bool) -> list[str]:
    return ["", title, *draw_bars(rows, room, words=words)] if rows else []


def _format_usage(row: Mapping[str, object]) -> str:
    return f"{format_compact(_count_tokens(row))}  {_format_cost(row)}"


def _format_cost(row: Mapping[str, object]) -> str:
    """Format an amount of money in few characters; an unknown price never looks like zero."""
    unknown, amount = int(str(row["calls_of_unknown_cost"])), float(str(row["usd"]))
    if unknown == row["calls"]:
        return tr("unpriced")
    return f"${amount:,.2f}" + ("+" if unknown else "") if amount >= 0.01 or not amount else f"${amount:.4f}"


def _count_tokens(row: Mapping[str, object]) -> float:
    return float(str(row["input_tokens"])) + float(str(row["output_tokens"]))


def _as_rows(value: object) -> list[dict[str, object]]:
    assert isinstance(value, list)
    return value


_MARKS = "█▓▒░▚▞▤▥"


_EMPTY = "·"


def draw_context_bar(
    parts: Sequence[TokenShare], window: int | None, columns: int, *, words: bool = False
) -> list[str]:
    """Draw a bar of all shares and a legend, a line each; without a known window the bar shows only the used part.

    Every kind present has at least one column, so the shares are exact to a column, not the bar to the token.
    """
    used = sum(part.tokens for part in parts)
    free = max(window - used, 0) if window else 0
    shown = [*parts, *([TokenShare(FREE, free)] if window else [])]
    total = sum(part.tokens for part in shown) or 1
    marks = {kind: _MARKS[number] for number, kind in enumerate(KINDS)} | {FREE: _EMPTY}
    lines = []
    if not words:
        drawn = "".join(
            marks[part.kind] * count for part, count in zip(shown, _allocate_columns(shown, columns), strict=True)
        )
        lines += [drawn, ""]
    names = max((measure_width(tr(part.kind)) for part in shown), default=0)
    for part in shown:
        share = f"{part.tokens / total:.0%}"
        if words:
            lines.append(
                tr(
                    "{kind}: {tokens} tokens, {share}",
                    kind=tr(part.kind),
                    tokens=format_compact(part.tokens),
                    share=share,
                )
            )
        else:
            lines.append(
                f"{marks[part.kind]} {fit_text(tr(part.kind), names)}  {format_compact(part.tokens):>6}  {share:>4}"
            )
    lines.append(_format_summary(used, window))
    return lines


def _format_summary(used: int, window: int | None) -> str:
    if not window:
        return tr("About {used} tokens; how many fit is not known.", used=format_compact(used))
    if used > window:
        return tr(
            "About {used} tokens, more than the {window} that fit.",
            used=format_compact(used),
            window=format_compact(window),
        )
    return tr(
        "About {used} of {window} tokens ({share}).",
        used=format_compact(used),
        window=format_compact(window),
        share=f"{used / window:.0%}",
    )


def _allocate_columns(parts: Sequence[TokenShare], room: int) -> list[int]:
    """Allocate columns to the parts: at least one each, `room` in all, the remainder to the largest fractions."""
    total = sum(part.tokens for part in parts)
    if not total:
        return [0] * len(parts)
    exact = [part.tokens / total * room for part in parts]
    given = [max(int(one), 1 if part.tokens else 0) for one, part in zip(exact, parts, strict=True)]
    order = sorted(range(len(parts)), key=lambda at: exact[at] - given[at], reverse=True)
    for at in order:
        if sum(given) >= room:
            break
        given[at] += 1
    while sum(given) > room and max(given) > 1:
        given[given.index(max(given))] -= 1
    return given
