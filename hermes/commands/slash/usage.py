"""`/usage`, `/context`, `/insights`: show tokens, money and the context window as charts."""

import time

from hermes.admin.usage import session_usage
from hermes.commands.command import CommandCall, CommandGroup, SlashCommand
from hermes.commands.context import Surface
from hermes.core.errors import UsageError
from hermes.i18n.messages import phrase, say
from hermes.util.text import escaped

_MAX_COLUMNS = 100
_MAX_CALLS = 60
_DEFAULT_DAYS = 30


def _chart_size(call: CommandCall) -> tuple[int, bool]:
    """Return the columns for charts, and whether words are used instead."""
    terminal = call.context.terminal
    if terminal is None:
        return 40, True
    return max(min(terminal.width - 2, _MAX_COLUMNS), 20), terminal.display.plain


async def show_usage(call: CommandCall) -> None:
    """Show what this session used and cost, in total and over its calls."""
    call.require_no_arguments()
    from hermes.commands.views.usage import format_session_usage
    from hermes.markup.charts import draw_sparkline

    app, actor = call.context.app, call.context.actor
    lines = format_session_usage(await session_usage(app, actor))
    room, words = _chart_size(call)
    tokens = await _load_prompt_tokens(call)
    if len(tokens) > 1:
        steps = tokens[-min(room, _MAX_CALLS) :]
        lines += ["", say("prompt tokens of the last {n} calls", n=len(steps)), draw_sparkline(steps, words=words)]
    costs = [
        total.nano or 0 for total in await app.services.store.spend_totals(0, session_id=actor.session_id, by="hour")
    ]
    if len(costs) > 1 and any(costs):
        lines += ["", say("cost by hour of the day"), draw_sparkline(costs, words=words)]
    if call.context.surface is Surface.CHAT:
        lines += await _quota_lines(call)
    lines += [
        "",
        say(
            "Since {time}; /insights shows all sessions.",
            time=time.strftime("%H:%M", time.localtime(await _session_start(call))),
        ),
    ]
    call.context.tell("\n".join(escaped(line) for line in lines))


async def _quota_lines(call: CommandCall) -> list[str]:
    """Return what is left to the person of the turns and the money of their role."""
    from hermes.admin.people.identity import role_rights
    from hermes.commands.views.people import format_remaining_quota
    from hermes.sessions.model.spending import person_cap

    app, person = call.context.app, call.context.person
    on, options = app.services, app.live_session(call.context.actor).options
    may, now = role_rights(on.settings.gateway, person.role), on.clock.now()
    cap = person_cap(options.person, options.usd_per_day, now)
    standings = await on.store.standings((cap,)) if cap is not None else []
    turns = len(await on.store.chats.done_since(person.id, "message", now - 3600)) if may.turns_per_hour else 0
    return format_remaining_quota(turns, may.turns_per_hour or 0, standings)


async def _load_prompt_tokens(call: CommandCall) -> list[int]:
    found = await call.context.app.services.store.export_session(call.context.actor.session_id)
    return [row.prompt_tokens for row in (found.messages if found is not None else ()) if row.prompt_tokens]


async def _session_start(call: CommandCall) -> float:
    row = await call.context.app.session_row(call.context.actor)
    return float(str(row["created_at"]))


async def show_context(call: CommandCall) -> None:
    """Show what fills the model's context window."""
    call.require_no_arguments()
    from hermes.commands.views.context_bar import draw_context_bar

    parts, window = await call.context.app.context_shares(call.context.actor)
    room, words = _chart_size(call)
    call.context.tell("\n".join(draw_context_bar(parts, window, room, words=words)))


async def show_insights(call: CommandCall) -> None:
    """Show what was done and what it cost in the last days."""
    from hermes.admin.insights import compute_insights
    from hermes.commands.views.insights import format_insights

    if call.text and not (call.text.isdecimal() and 0 < int(call.text[:9]) <= 3_660):
        raise UsageError(phrase("/insights takes a number of days, from 1 to 3660."))
    on, days = call.context.app.services, int(call.text) if call.text else _DEFAULT_DAYS
    report = await compute_insights(on.store, on.settings, on.clock.now(), days=days)
    room, words = _chart_size(call)
    call.context.tell("\n".join(format_insights(report, room, words=words)))


COMMANDS = (
    SlashCommand(
        name="usage",
        about=phrase("tokens and money of this session, over time"),
        group=CommandGroup.ABOUT,
        run=show_usage,
    ),
    SlashCommand(
        name="context",
        about=phrase("what fills the model's window"),
        group=CommandGroup.ABOUT,
        run=show_context,
    ),
    SlashCommand(
        name="insights",
        about=phrase("what was done and what it cost in the last days"),
        usage=phrase("[days]"),
        group=CommandGroup.ABOUT,
        run=show_insights,
    ),
)
