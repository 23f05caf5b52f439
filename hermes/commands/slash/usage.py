"""`/usage`, `/context`, `/insights`: show tokens, money and the context window as charts.

`/status`: show this session's model, context window, backend and usage.
"""

import time

from hermes.admin.usage import session_usage
from hermes.commands.command import CommandCall, CommandGroup, SlashCommand
from hermes.commands.context import Surface
from hermes.core.errors import UsageError
from hermes.i18n.formats import format_number
from hermes.i18n.messages import N_, localize, tr, tr_plural
from hermes.util.text import escape_unseen_characters

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
        lines += ["", tr("prompt tokens of the last {n} calls", n=len(steps)), draw_sparkline(steps, words=words)]
    costs = [
        total.nano or 0
        for total in await app.services.store.spending.list_totals(0, session_id=actor.session_id, by="hour")
    ]
    if len(costs) > 1 and any(costs):
        lines += ["", tr("cost by hour of the day"), draw_sparkline(costs, words=words)]
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


async def show_context(call: CommandCall) -> None:
    """Show what fills the model's context window."""
    call.require_no_arguments()
    from hermes.commands.views.insights import draw_context_bar

    parts, window = await call.context.app.context_shares(call.context.actor)
    room, words = _chart_size(call)
    call.context.tell("\n".join(draw_context_bar(parts, window, room, words=words)))


async def show_insights(call: CommandCall) -> None:
    """Show what was done and what it cost in the last days."""
    from hermes.admin.usage import compute_insights
    from hermes.commands.views.insights import format_insights

    if call.text and not (call.text.isdecimal() and 0 < int(call.text[:9]) <= 3_660):
        raise UsageError(N_("/insights takes a number of days, from 1 to 3660."))
    on, days = call.context.app.services, int(call.text) if call.text else _DEFAULT_DAYS
    report = await compute_insights(on.store, on.settings, on.clock.now(), days=days)
    room, words = _chart_size(call)
    call.context.tell("\n".join(format_insights(report, room, words=words)))


_USAGE_COMMANDS = (
    SlashCommand(
        name="usage",
        about=N_("tokens and money of this session, over time"),
        group=CommandGroup.ABOUT,
        run=show_usage,
    ),
    SlashCommand(
        name="context",
        about=N_("what fills the model's window"),
        group=CommandGroup.ABOUT,
        run=show_context,
    ),
    SlashCommand(
        name="insights",
        about=N_("what was done and what it cost in the last days"),
        usage=N_("[days]"),
        group=CommandGroup.ABOUT,
        run=show_insights,
    ),
)


async def show_status(call: CommandCall) -> None:
    """Show a few lines about the session."""
    call.require_no_arguments()
    app, actor = call.context.app, call.context.actor
    row = await app.session_row(actor)
    count = tr_plural("{n} message", "{n} messages", int(str(row["message_count"])))
    title = escape_unseen_characters(str(row["title"]))
    named = tr("Session {id} ({title}), {count}.", id=actor.session_id, title=title, count=count)
    lines = [named if title else tr("Session {id}, {count}.", id=actor.session_id, count=count)]
    endpoint = actor.conversation.client.endpoint
    window = await app.context_length(actor)
    length = tr("{n} tokens", n=format_number(window)) if window is not None else tr("not known")
    lines.append(
        tr(
            "Model {model} from {provider}, window: {length}.",
            model=endpoint.model,
            provider=localize(endpoint.record.title),
            length=length,
        )
    )
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


_STATUS_COMMAND = SlashCommand(
    name="status",
    aliases=("session",),
    about=N_("this session's id, model, window and tokens used so far"),
    group=CommandGroup.ABOUT,
    run=show_status,
)

COMMANDS = (*_USAGE_COMMANDS, _STATUS_COMMAND)
