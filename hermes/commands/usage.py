"""`hermes usage`, `/usage`: show tokens and money spent, what the caps leave, and how certain a cost is.

`hermes insights`, `/insights` chart the work of some days, `/context` what fills the model's window.
"""

import shutil
import time
from collections.abc import Mapping, Sequence

from hermes.commands.command import CommandCall, CommandGroup, CommandList
from hermes.commands.context import Surface
from hermes.commands.verb import JSON_OPTION, Verb, VerbCall, VerbResult, argument
from hermes.core.encoding import Plain
from hermes.core.errors import UsageError
from hermes.i18n.formats import format_compact, format_duration, format_number
from hermes.i18n.messages import ENGLISH, N_, get_language, localize, tr, tr_plural
from hermes.markup.cells import fit_text, measure_width, pad_text
from hermes.markup.charts import BarRow, draw_bar, draw_bars, draw_sparkline
from hermes.sessions.context_usage import FREE, TokenShare
from hermes.util.text import escape_unseen_characters, strip_control_characters, to_one_line

_MAX_COLUMNS = 100
_MAX_CALLS = 60
_DEFAULT_DAYS = 30
USAGE = Verb(
    "usage",
    description="Tokens and money: today, this month, by model and by session; what the caps leave.",
    example="hermes usage --since 2026-11-01 --json",
)
INSIGHTS = Verb(
    "insights",
    description="What was done and what it cost: by day, hour, model and tool. Caps: `hermes usage`.",
    example="hermes insights --days 7",
)


@USAGE.action(
    "",
    "",
    JSON_OPTION,
    argument("--since", default="", metavar="DATE", help="models and sessions from this day on (2026-11-01)"),
    argument("--session", default="", metavar="ID", help="one session only (an id, its beginning or title)"),
)
async def report_usage(call: VerbCall) -> VerbResult:
    """Report what all sessions, or one of them, have spent."""
    from hermes.admin.usage import build_usage_report

    report = await build_usage_report(call.environ, since=call.args.since, session=call.args.session)
    return VerbResult(report, _format_report(report))


@INSIGHTS.action(
    "",
    "",
    argument("--days", type=int, default=_DEFAULT_DAYS, metavar="N", help="how many days back, this one included"),
    argument("--plain", action="store_true", help="words instead of pictures, for a screen reader"),
    JSON_OPTION,
)
async def report_insights(call: VerbCall) -> VerbResult:
    """Report what was done in the last days, with charts as wide as the terminal."""
    from hermes.admin import usage

    report = await usage.report_insights(call.environ, days=call.args.days)
    words = call.args.plain or call.environ.get("TERM") == "dumb"
    room = min(shutil.get_terminal_size((80, 24)).columns, _MAX_COLUMNS)
    return VerbResult(report, format_insights(report, room, words=words))


def _chart_size(call: CommandCall) -> tuple[int, bool]:
    """Return the columns for charts, and whether words are used instead."""
    terminal = call.context.terminal
    if terminal is None:
        return 40, True
    return max(min(terminal.width - 2, _MAX_COLUMNS), 20), terminal.display.plain


COMMANDS = CommandList(CommandGroup.ABOUT)


@COMMANDS.command("usage", N_("tokens and money of this session, over time"), aliases=("cost", "tokens"))
async def show_usage(call: CommandCall) -> None:
    """Show what this session used and cost, in total and over its calls."""
    call.require_no_arguments()
    from hermes.admin.usage import session_usage

    app, actor = call.context.app, call.context.actor
    lines = [*format_session_usage(await session_usage(app, actor)), await describe_window_use(call)]
    room, words = _chart_size(call)
    tokens = await _load_prompt_tokens(call)
    if len(tokens) > 1:
        steps = tokens[-min(room, _MAX_CALLS) :]
        lines += ["", *_describe_steps(steps, words=words)]
    costs = [
        total.nano or 0
        for total in await app.services.store.spending.list_totals(0, session_id=actor.session_id, by="hour")
    ]
    if len(costs) > 1 and any(costs) and not words:
        lines += ["", tr("cost by hour of the day"), draw_sparkline(costs)]
    if call.context.surface is Surface.CHAT:
        lines += await _quota_lines(call)
    lines += [
        "",
        tr(
            "Since {time}; /insights shows all sessions.",
            time=time.strftime("%H:%M", time.localtime(await _session_start(call))),
        ),
    ]
    call.context.tell("\n".join(escape_unseen_characters(line) for line in lines))


async def describe_window_use(call: CommandCall) -> str:
    """Describe how much of the model's context window the conversation fills."""
    app, actor = call.context.app, call.context.actor
    used = actor.conversation.lineage.estimated_tokens if actor.conversation.messages else 0
    window = await app.context_length(actor)
    if not window:
        return tr("Context in use: {used} tokens; the size of the window is not known.", used=format_number(used))
    return tr(
        "Context in use: {used} of {window} tokens ({percent}%).",
        used=format_number(used),
        window=format_number(window),
        percent=round(100 * used / window),
    )


def _describe_steps(steps: Sequence[int], *, words: bool) -> list[str]:
    if not words:
        return [tr("prompt tokens of the last {n} calls", n=len(steps)), draw_sparkline(steps)]
    least, most, last = map(format_number, (min(steps), max(steps), steps[-1]))
    return [
        tr(
            "Prompt tokens of the last {n} calls: {least} to {most}, {last} in the last one.",
            n=len(steps),
            least=least,
            most=most,
            last=last,
        )
    ]


async def _quota_lines(call: CommandCall) -> list[str]:
    """Return what is left to the person of the turns and the money of their role."""
    from hermes.admin.people.identity import role_rights
    from hermes.commands.people import format_remaining_quota
    from hermes.sessions.model.spending import person_cap

    app, person = call.context.app, call.context.person
    on, options = app.services, app.live_session(call.context.actor).options
    may, now = role_rights(on.settings.gateway, person.role), on.clock.now()
    cap = person_cap(options.person, options.usd_per_day, now)
    standings = await on.store.spending.list_cap_usage((cap,)) if cap is not None else []
    turns = len(await on.store.people.list_action_times(person.id, "message", now - 3600)) if may.turns_per_hour else 0
    return format_remaining_quota(turns, may.turns_per_hour or 0, standings)


async def _load_prompt_tokens(call: CommandCall) -> list[int]:
    found = await call.context.app.services.store.messages.export_session(call.context.actor.session_id)
    return [row.prompt_tokens for row in (found.messages if found is not None else ()) if row.prompt_tokens]


async def _session_start(call: CommandCall) -> float:
    row = await call.context.app.session_row(call.context.actor)
    return float(str(row["created_at"]))


@COMMANDS.command("context", N_("what fills the model's window"))
async def show_context(call: CommandCall) -> None:
    """Show what fills the model's context window."""
    call.require_no_arguments()
    parts, window = await call.context.app.context_shares(call.context.actor)
    room, words = _chart_size(call)
    call.context.tell("\n".join(draw_context_bar(parts, window, room, words=words)))


@COMMANDS.command("insights", N_("what was done and what it cost in the last days"), usage=N_("[days]"))
async def show_insights(call: CommandCall) -> None:
    """Show what was done and what it cost in the last days."""
    from hermes.admin.usage import compute_insights

    if call.text and not (call.text.isdecimal() and 0 < int(call.text[:9]) <= 3_660):
        raise UsageError(N_("/insights takes a number of days, from 1 to 3660."))
    on, days = call.context.app.services, int(call.text) if call.text else _DEFAULT_DAYS
    report = await compute_insights(on.store, on.settings, on.clock.now(), days=days)
    room, words = _chart_size(call)
    call.context.tell("\n".join(format_insights(report, room, words=words)))


def _format_report(report: Plain) -> list[str]:
    lines = [_format_usage_row(tr("today"), report["today"]), _format_usage_row(tr("this month"), report["month"])]
    for title, rows in ((tr("models"), report["models"]), (tr("sessions"), report["sessions"])):
        listed = rows if isinstance(rows, list) else []
        if listed:
            lines += ["", tr("{title} since {day}:", title=title, day=report["since"])]
        for row in listed:
            name = to_one_line(strip_control_characters(str(row["key"])), 60) or tr("(none)")
            lines.append(_format_usage_row(name, row))
    lines += _format_sub_agent_use(report)
    return lines + _format_caps(report)


def _format_sub_agent_use(report: Plain) -> list[str]:
    """Return what the sub-agents of a session used, beside its own calls; nothing where it has had none."""
    below = report.get("sub_agents")
    return ["", _format_usage_row(tr("its sub-agents"), below)] if isinstance(below, dict) and below["calls"] else []


def _format_caps(report: Plain) -> list[str]:
    caps, per_run, open_calls = report["caps"], report["caps_per_run_or_session"], report["under_way"]
    assert isinstance(caps, list) and isinstance(per_run, list) and isinstance(open_calls, list)
    lines = [f"  {cap['name']:<10} {format_cap_limits(cap, 'usd_left', 'tokens_left')}" for cap in caps]
    lines += [
        ("  " + tr("each {name} {limits}", name=f"{cap['name']:<5}", limits=format_cap_limits(cap))) for cap in per_run
    ]
    lines = ["", tr("caps:"), *lines] if lines else []
    lines += ["", tr("held by calls under way:")] if open_calls else []
    for call in open_calls:
        cost = "" if call["usd"] is None else (tr("{usd} or", usd=format_dollars(call["usd"])) + " ")
        where = call["session_id"] or tr("(none)")
        most = tr("at most {cost}{n:,} tokens", cost=cost, n=call["tokens"])
        lines.append(f"  {where}  {strip_control_characters(str(call['model']))}  {most}")
    return lines


def _format_usage_row(name: str, row: object) -> str:
    assert isinstance(row, dict)
    tokens = tr(
        "{input_tokens:,} in, {output_tokens:,} out",
        input_tokens=row["input_tokens"],
        output_tokens=row["output_tokens"],
    )
    if not row["calls"]:
        return f"  {pad_text(name, 28)} {tr('nothing')}"
    calls = tr_plural("{n:>5} call ", "{n:>5} calls", int(row["calls"]))
    return f"  {pad_text(name, 28)} {calls}  {pad_text(tokens, 28)}  {format_cost(row)}{format_cache_share(row)}"


_CERTAINTY_NAMES = {
    "reported": N_("as reported"),
    "computed": N_("by list price"),
    "upper_bound": N_("at most"),
}


def format_session_usage(report: Plain) -> list[str]:
    """Format one session's usage, for `/usage`."""
    if not report["calls"]:
        return [tr("Nothing was used in this session yet."), *filter(None, _format_sub_agent_use(report))]
    lines = [
        tr_plural(
            "{n} call, {read:,} tokens in, {written:,} out",
            "{n} calls, {read:,} tokens in, {written:,} out",
            int(str(report["calls"])),
            read=report["input_tokens"],
            written=report["output_tokens"],
        ),
        format_cost_line(report),
        tr(
            "cache: {read:,} tokens read, {written:,} written{saved}",
            read=report["cache_read_tokens"],
            written=report["cache_write_tokens"],
            saved=format_cache_share(report),
        ),
    ]
    lines += [line.strip() for line in _format_sub_agent_use(report) if line]
    comma, stop = (", ", "; ") if get_language() == ENGLISH else ("，", "；")
    epochs = report["epochs"]
    for epoch in epochs if isinstance(epochs, list) else ():
        cost: list[str] = []
        if epoch["uncached_bytes"]:
            cost.append(
                tr_plural("{n} byte of it was sent again", "{n} bytes of it were sent again", epoch["uncached_bytes"])
            )
        if epoch["first_prompt_tokens"]:
            cost.append(tr("{n:,} tokens in its first request", n=epoch["first_prompt_tokens"]))
        reason = localize(strip_control_characters(str(epoch["reason"])))
        lines.append(
            "  "
            + tr(
                "part {n} of the conversation: {what}",
                n=epoch["number"],
                what=stop.join(part for part in (reason, comma.join(cost)) if part),
            )
        )
    return lines


def format_cap_limits(cap: Plain, usd_left: str = "", tokens_left: str = "") -> str:
    """Format a cap's limits, with what is left of them where that is known."""
    parts = []
    if cap["usd"] is not None:
        whole = format_dollars(cap["usd"])
        parts.append(
            tr("{left} of {whole} left", left=format_dollars(cap[usd_left]), whole=whole) if usd_left else whole
        )
    if cap["tokens"] is not None:
        many = cap["tokens"]
        left = tr("{left:,} of {whole:,} tokens left", left=cap[tokens_left], whole=many) if tokens_left else ""
        parts.append(left or tr("{n:,} tokens", n=many))
    return ", ".join(parts)


def format_cost_line(row: Plain) -> str:
    """Format the line of a report that says what it cost."""
    return (
        format_cost(row) if row["calls_of_unknown_cost"] == row["calls"] else tr("cost: {cost}", cost=format_cost(row))
    )


def format_cost(row: Plain) -> str:
    """Format a cost with its certainty; of calls without a known cost, say only that."""
    unknown, calls = int(str(row["calls_of_unknown_cost"])), int(str(row["calls"]))
    if not unknown:
        return tr(
            "{amount} ({how})", amount=format_dollars(row["usd"]), how=tr(_CERTAINTY_NAMES[str(row["cost_status"])])
        )
    if unknown == calls:
        return tr("cost not known: the model has no listed price")
    return tr_plural(
        "{usd} and {n} call of unknown cost",
        "{usd} and {n} calls of unknown cost",
        unknown,
        usd=format_dollars(row["usd"]),
    )


def format_cache_share(row: Plain) -> str:
    """Format the share of prompts from caches, and the saved cost; empty where no provider reported a cache."""
    if not row["cache_read_tokens"] and not row["cache_write_tokens"]:
        return ""
    rate, amount = float(str(row["cache_hit_rate"])), row["cache_saved_usd"]
    if amount is None:
        return tr("; {rate:.0%} from cache", rate=rate)
    gain = float(str(amount))
    if gain < 0:
        return tr("; {rate:.0%} from cache, which cost {amount}", rate=rate, amount=format_dollars(-gain))
    return tr("; {rate:.0%} from cache, which saved {amount}", rate=rate, amount=format_dollars(gain))


def format_dollars(amount: object) -> str:
    """Format dollars with cents, and more digits for less than one."""
    dollars = float(str(amount))
    return f"{dollars:,.2f} USD" if dollars >= 1 or dollars == 0 else f"{dollars:.4f} USD"


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
        [BarRow(str(row["day"]), _count_tokens(row), _format_tokens_and_cost(row)) for row in newest], room, words=words
    )


def _model_rows(rows: Sequence[Mapping[str, object]]) -> list[BarRow]:
    return [
        BarRow(to_one_line(str(row["key"]), 40), _count_tokens(row), _format_tokens_and_cost(row))
        for row in rows[:_MAX_ROWS]
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


def _format_tokens_and_cost(row: Mapping[str, object]) -> str:
    return f"{format_compact(_count_tokens(row))}  {_format_short_cost(row)}"


def _format_short_cost(row: Mapping[str, object]) -> str:
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


_MIN_BAR, _MAX_BAR = 8, 40


def draw_context_bar(
    parts: Sequence[TokenShare], window: int | None, columns: int, *, words: bool = False
) -> list[str]:
    """Draw a line for each part with its tokens, its share, and a bar of that (none for what is free); then a summary.

    Without a known window the shares are those of what is used.
    """
    used = sum(part.tokens for part in parts)
    free = max(window - used, 0) if window else 0
    shown = [*parts, *([TokenShare(FREE, free)] if window else [])]
    total = sum(part.tokens for part in shown) or 1
    lines = []
    names = max((measure_width(tr(part.kind)) for part in shown), default=0)
    room = min(columns - names - 16, _MAX_BAR)
    for part in shown:
        share, tokens = f"{part.tokens / total:.0%}", format_compact(part.tokens)
        if words:
            lines.append(tr("{kind}: {tokens} tokens, {share}", kind=tr(part.kind), tokens=tokens, share=share))
            continue
        bar = f"  {draw_bar(part.tokens / total, room)}" if room >= _MIN_BAR and part.kind != FREE else ""
        lines.append(f"{fit_text(tr(part.kind), names)}  {tokens:>6}  {share:>4}{bar}".rstrip())
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
