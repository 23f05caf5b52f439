"""`/usage`, `/context`, `/insights`: tokens, money and the window, as pictures."""

import time

from hermes.admin.usage import session_usage
from hermes.commands.command import Call, Command, Group
from hermes.commands.context import Surface
from hermes.core.errors import UsageError
from hermes.i18n.messages import phrase, say
from hermes.util.text import escaped

_MOST = 100
_STEPS = 60
_DAYS = 30


def _room(call: Call) -> tuple[int, bool]:
    """Columns for pictures, and whether words are wanted in their place."""
    terminal = call.desk.terminal
    if terminal is None:
        return 40, True
    return max(min(terminal.width - 2, _MOST), 20), terminal.display.plain


async def usage(call: Call) -> None:
    """What this session used and cost, in all and over its calls."""
    call.nothing_behind()
    from hermes.commands.views.usage import usage_lines
    from hermes.markup.charts import spark

    app, actor = call.desk.app, call.desk.actor
    lines = usage_lines(await session_usage(app, actor))
    room, words = _room(call)
    tokens = await _prompt_tokens(call)
    if len(tokens) > 1:
        steps = tokens[-min(room, _STEPS) :]
        lines += ["", say("prompt tokens of the last {n} calls", n=len(steps)), spark(steps, words=words)]
    costs = [
        total.nano or 0 for total in await app.premises.store.spend_totals(0, session_id=actor.session_id, by="hour")
    ]
    if len(costs) > 1 and any(costs):
        lines += ["", say("cost by hour of the day"), spark(costs, words=words)]
    if call.desk.surface is Surface.CHAT:
        lines += await _left(call)
    lines += [
        "",
        say(
            "Since {time}; /insights shows all sessions.",
            time=time.strftime("%H:%M", time.localtime(await _began(call))),
        ),
    ]
    call.desk.tell("\n".join(escaped(line) for line in lines))


async def _left(call: Call) -> list[str]:
    """What is left to the person of the turns and the money that their role has."""
    from hermes.admin.people.identity import rights
    from hermes.commands.views.people import left_lines
    from hermes.sessions.model.spending import person_cap

    app, person = call.desk.app, call.desk.person
    on, options = app.premises, app.live(call.desk.actor).options
    may, now = rights(on.settings.gateway, person.role), on.clock.now()
    cap = person_cap(options.person, options.usd_per_day, now)
    standings = await on.store.standings((cap,)) if cap is not None else []
    turns = len(await on.store.chats.done_since(person.id, "message", now - 3600)) if may.turns_per_hour else 0
    return left_lines(turns, may.turns_per_hour or 0, standings)


async def _prompt_tokens(call: Call) -> list[int]:
    found = await call.desk.app.premises.store.export_session(call.desk.actor.session_id)
    return [row.prompt_tokens for row in (found.messages if found is not None else ()) if row.prompt_tokens]


async def _began(call: Call) -> float:
    row = await call.desk.app.about(call.desk.actor)
    return float(str(row["created_at"]))


async def context(call: Call) -> None:
    """What fills the model's window."""
    call.nothing_behind()
    from hermes.commands.views.context_bar import picture

    parts, window = await call.desk.app.context(call.desk.actor)
    room, words = _room(call)
    call.desk.tell("\n".join(picture(parts, window, room, words=words)))


async def insights(call: Call) -> None:
    """What was done and what it cost in the last days."""
    from hermes.admin.insights import insights_of
    from hermes.commands.views.insights import insight_lines

    if call.text and not (call.text.isdecimal() and 0 < int(call.text[:9]) <= 3_660):
        raise UsageError(phrase("/insights takes a number of days, from 1 to 3660."))
    on, days = call.desk.app.premises, int(call.text) if call.text else _DAYS
    report = await insights_of(on.store, on.settings, on.clock.now(), days=days)
    room, words = _room(call)
    call.desk.tell("\n".join(insight_lines(report, room, words=words)))


COMMANDS = (
    Command(
        name="usage",
        about=phrase("tokens and money of this session, over time"),
        group=Group.ABOUT,
        run=usage,
    ),
    Command(
        name="context",
        about=phrase("what fills the model's window"),
        group=Group.ABOUT,
        run=context,
    ),
    Command(
        name="insights",
        about=phrase("what was done and what it cost in the last days"),
        usage=phrase("[days]"),
        group=Group.ABOUT,
        run=insights,
    ),
)
