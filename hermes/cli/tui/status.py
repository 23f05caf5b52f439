"""The line below the input: model, context, cache, cost, session, sandbox, what waits."""

from msgspec import Struct, structs

from hermes.core.events import EpochBegan, Event, RequestEnded, TurnEnded
from hermes.core.money import Certainty, Cost
from hermes.core.usage import Usage
from hermes.i18n.formats import compact
from hermes.i18n.messages import say
from hermes.util.text import escaped, one_line

_FULL = 0.8
"""Share of the window above which the context is shown as a warning."""


class Status(Struct, frozen=True, kw_only=True):
    """What is known of the session now."""

    model: str = ""
    window: int | None = None
    prompt_tokens: int = 0
    """Tokens of the last prompt."""
    usage: Usage = Usage()
    """Of this session, in this process and before it."""
    cost: Cost = Cost()
    session: str = ""
    place: str = ""
    """What holds commands back, in a word."""
    yolo: bool = False
    waiting: int = 0
    goal: str = ""
    """How far the session is with its goal; empty without one."""

    def after(self, event: Event) -> "Status":
        """The status once this has happened."""
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


def parts(status: Status) -> list[tuple[str, str]]:
    """Styles and texts of the line's parts, the most important first."""
    found = [("status.model", one_line(escaped(status.model), 40))] if status.model else []
    if status.yolo:
        found.append(("status.alarm", say("NO QUESTIONS")))
    if status.waiting:
        found.append(("status.waiting", say("{n} waiting", n=status.waiting)))
    if status.goal:
        found.append(("status.waiting", status.goal))
    if status.prompt_tokens:
        found.append(_context(status))
    if (rate := status.usage.hit_rate) is not None:
        found.append(("status", say("cache {percent}%", percent=round(rate * 100))))
    if status.usage.total:
        found.append(("status", money(status.cost)))
    if status.place:
        found.append(("status", escaped(status.place)))
    if status.session:
        found.append(("status.session", one_line(escaped(status.session), 32)))
    return found


def _context(status: Status) -> tuple[str, str]:
    used = compact(status.prompt_tokens)
    if not status.window:
        return "status", say("context {used}", used=used)
    share = status.prompt_tokens / status.window
    text = say("context {percent}% of {window}", percent=round(share * 100), window=compact(status.window))
    return ("status.alarm" if share >= _FULL else "status"), text


def money(cost: Cost) -> str:
    """What it cost, as sure as it is known."""
    if cost.usd is None:
        return say("no price known")
    amount = f"${cost.usd:.2f}" if cost.usd >= 1 or not cost.nano else f"${cost.usd:.4f}".rstrip("0")
    return f"≥ {amount}" if cost.certainty is Certainty.UNKNOWN else amount


def fitted(found: list[tuple[str, str]], width: int) -> list[tuple[str, str]]:
    """As many parts as fit the width, with dots between them."""
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
