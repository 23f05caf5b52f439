"""The line below the input: what is known of the session, as much of it as fits."""

from msgspec import Struct, structs

from hermes.core.events import EpochBegan, Event, RequestEnded, TurnEnded
from hermes.core.usage import Certainty, Cost, Usage
from hermes.core.work_mode import WorkMode
from hermes.i18n.formats import format_compact
from hermes.i18n.messages import N_, tr
from hermes.markup.cells import measure_width
from hermes.util.text import escape_unseen_characters, to_one_line

_ALARM_SHARE = 0.8
"""Share of the window above which the context is shown as a warning."""


_MODE_NAMES = {WorkMode.ASK: N_("ask mode"), WorkMode.PLAN: N_("plan mode"), WorkMode.AUTO: N_("auto mode")}


class StatusPart(Struct, frozen=True):
    """A part of the line; where there is too little room those of the highest ranks are left out."""

    rank: int
    style: str
    text: str
    joins: bool = False
    """Whether it belongs to the part before it: no dot stands between them."""


class SessionStatus(Struct, frozen=True, kw_only=True):
    """The session's status as it is known now."""

    model: str = ""
    window: int | None = None
    prompt_tokens: int = 0
    """Tokens of the last prompt."""
    usage: Usage = Usage()
    """The usage of this session, in this process and before it."""
    cost: Cost = Cost()
    folder: str = ""
    """Where the session works, short."""
    branch: str = ""
    """The branch of the folder's repository; empty where there is none."""
    place: str = ""
    """The sandbox or back end that runs commands, in a word."""
    yolo: bool = False
    mode: WorkMode | None = None
    """The session's mode, where it is known."""
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


def format_parts(status: SessionStatus) -> list[StatusPart]:
    """Return the line's parts from left to right."""
    found: list[StatusPart] = []

    def add(rank: int, style: str, text: str) -> None:
        if text:
            found.append(StatusPart(rank, style, text))

    add(0, "status.alarm", tr("NO QUESTIONS") if status.yolo else "")
    add(*_format_mode(status.mode))
    add(1, "status.waiting", tr("{n} waiting", n=status.waiting) if status.waiting else "")
    add(2, "status.waiting", status.goal)
    branch = to_one_line(escape_unseen_characters(status.branch), 32)
    add(5, "status", to_one_line(escape_unseen_characters(status.folder), 40))
    if branch and status.folder:
        found.append(StatusPart(6, "status", f"({branch})", joins=True))
    add(3, "status.model", to_one_line(escape_unseen_characters(status.model), 40))
    if status.prompt_tokens or status.window:
        add(4, *_format_context(status))
    if status.cost.usd is not None and status.cost.nano:
        add(7, "status", format_cost(status.cost))
    if status.usage.cache_read and (rate := status.usage.hit_rate) is not None:
        add(8, "status", tr("cache {percent}%", percent=round(rate * 100)))
    add(9, "status", escape_unseen_characters(status.place))
    return found


def _format_mode(mode: WorkMode | None) -> tuple[int, str, str]:
    if mode is None or mode is WorkMode.ASK:
        return 2, "status", tr(_MODE_NAMES[mode]) if mode is not None else ""
    return 1, "status.waiting", tr(_MODE_NAMES[mode])


def _format_context(status: SessionStatus) -> tuple[str, str]:
    used = format_compact(status.prompt_tokens)
    if not status.window:
        return "status", tr("context {used}", used=used)
    share = status.prompt_tokens / status.window
    text = tr("context {percent}% of {window}", percent=round(share * 100), window=format_compact(status.window))
    return ("status.alarm" if share >= _ALARM_SHARE else "status"), text


def format_cost(cost: Cost) -> str:
    """Format a known cost, with a mark where it is not certain."""
    assert cost.usd is not None
    amount = f"${cost.usd:.2f}" if cost.usd >= 1 or not cost.nano else f"${cost.usd:.4f}".rstrip("0")
    return f"≥ {amount}" if cost.certainty is Certainty.UNKNOWN else amount


def fit_parts(found: list[StatusPart], width: int) -> list[tuple[str, str]]:
    """Return the parts that fit the width, the most important ones, with dots between them."""
    room = width - 1
    kept: list[StatusPart] = []
    for part in sorted(found, key=lambda one: one.rank):
        need = measure_width(part.text) + (3 if kept else 1)
        if need > room:
            break
        kept.append(part)
        room -= need
    shown: list[tuple[str, str]] = []
    for part in found:
        if part in kept:
            gap = " " if part.joins or not shown else " · "
            shown += [("class:status", gap), (f"class:{part.style}", part.text)]
    return shown
