"""Build the line below the input: model, context, cache, cost, session, sandbox, waiting messages."""

from msgspec import Struct, structs

from hermes.core.events import EpochBegan, Event, RequestEnded, TurnEnded
from hermes.core.usage import Certainty, Cost, Usage
from hermes.i18n.formats import format_compact
from hermes.i18n.messages import tr
from hermes.util.text import escape_unseen_characters, to_one_line

_ALARM_SHARE = 0.8
"""Share of the window above which the context is shown as a warning."""


class SessionStatus(Struct, frozen=True, kw_only=True):
    """The session's status as it is known now."""

    model: str = ""
    window: int | None = None
    prompt_tokens: int = 0
    """Tokens of the last prompt."""
    usage: Usage = Usage()
    """The usage of this session, in this process and before it."""
    cost: Cost = Cost()
    session: str = ""
    place: str = ""
    """The sandbox or back end that runs commands, in a word."""
    yolo: bool = False
    waiting: int = 0
    goal: str = ""
    """The progress towards the session's goal; empty without one."""

    def apply_event(self, event: Event) -> "SessionStatus":
        """Return the status after this event."""
        match event:
            case RequestEnded() if event.usage is not None:
                return structs.replace(self, prompt_tokens=event.usage.input + event.usage.output)
            case TurnEnded():
                last = event.last_prompt_tokens or self.prompt_tokens
                total = self.usage + event.usage
                return structs.replace(self, usage=total, cost=self.cost + event.cost, prompt_tokens=last)
            case EpochBegan() if event.number > 1:
                return structs.replace(self, model=event.model)
            case _:
                return self


def format_parts(status: SessionStatus) -> list[tuple[str, str]]:
    """Return styles and texts of the line's parts, the most important first."""
    found = [("status.model", to_one_line(escape_unseen_characters(status.model), 40))] if status.model else []
    if status.yolo:
        found.append(("status.alarm", tr("NO QUESTIONS")))
    if status.waiting:
        found.append(("status.waiting", tr("{n} waiting", n=status.waiting)))
    if status.goal:
        found.append(("status.waiting", status.goal))
    if status.prompt_tokens:
        found.append(_format_context(status))
    if (rate := status.usage.hit_rate) is not None:
        found.append(("status", tr("cache {percent}%", percent=round(rate * 100))))
    if status.usage.total:
        found.append(("status", format_cost(status.cost)))
    if status.place:
        found.append(("status", escape_unseen_characters(status.place)))
    if status.session:
        found.append(("status.session", to_one_line(escape_unseen_characters(status.session), 32)))
    return found


def _format_context(status: SessionStatus) -> tuple[str, str]:
    used = format_compact(status.prompt_tokens)
    if not status.window:
        return "status", tr("context {used}", used=used)
    share = status.prompt_tokens / status.window
    text = tr("context {percent}% of {window}", percent=round(share * 100), window=format_compact(status.window))
    return ("status.alarm" if share >= _ALARM_SHARE else "status"), text


def format_cost(cost: Cost) -> str:
    """Format the cost, with a mark where it is not certain."""
    if cost.usd is None:
        return tr("no price known")
    amount = f"${cost.usd:.2f}" if cost.usd >= 1 or not cost.nano else f"${cost.usd:.4f}".rstrip("0")
    return f"≥ {amount}" if cost.certainty is Certainty.UNKNOWN else amount


def fit_parts(found: list[tuple[str, str]], width: int) -> list[tuple[str, str]]:
    """Return as many parts as fit the width, with dots between them."""
    from prompt_toolkit.utils import get_cwidth

    shown: list[tuple[str, str]] = []
    room = width - 1
    for style, text in found:
        need = get_cwidth(text) + (3 if shown else 1)
        if need > room:
            break
        shown += [("class:status", " · " if shown else " "), (f"class:{style}", text)]
        room -= need
    return shown
