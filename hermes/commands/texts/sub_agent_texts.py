"""How sub-agents stand, in words for people: one line each, and their order in a tree; how a background session has
ended, for the person who asked for it.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Protocol

from hermes.core.events import Level, SubAgentChanged
from hermes.core.sub_agents import BackgroundEnd, SubAgentState
from hermes.core.usage import Certainty, Cost, format_amount
from hermes.i18n.messages import N_, localize, tr, tr_plural
from hermes.util.text import end_sentence, escape_unseen_characters, strip_control_characters, to_one_line

_STATE_TEXTS = {
    SubAgentState.QUEUED: N_("queued"),
    SubAgentState.RUNNING: N_("works"),
    SubAgentState.WAITING: N_("waits for an answer"),
    SubAgentState.DONE: N_("done"),
    SubAgentState.PARTIAL: N_("partly done"),
    SubAgentState.FAILED: N_("failed"),
    SubAgentState.STOPPED: N_("stopped"),
    SubAgentState.BUDGET: N_("out of budget"),
}
_MAX_NAME = 60
_MAX_REASON = 200


def name_state(state: SubAgentState) -> str:
    """Return a state in a few words."""
    return tr(_STATE_TEXTS[state])


def clean_name(name: str, limit: int = _MAX_NAME) -> str:
    """Return the name of a sub-agent, which a model writes, as it can be shown: one line without control characters."""
    return to_one_line(escape_unseen_characters(name), limit)


def describe_sub_agent(agent: SubAgentChanged, name_limit: int = _MAX_NAME) -> str:
    """Return how a sub-agent stands, in one line: number, name, state, steps, cost, and what it does."""
    steps = f"{agent.step}/{agent.max_steps}" if agent.max_steps and not agent.state.has_ended else ""
    if agent.state.has_ended and agent.step:
        steps = tr_plural("{n} step", "{n} steps", agent.step)
    doing = to_one_line(escape_unseen_characters(localize(agent.doing)), _MAX_REASON)
    state = f"{name_state(agent.state)} {steps}".rstrip() if not agent.state.has_ended else name_state(agent.state)
    parts = [state, steps if agent.state.has_ended else "", _format_cost(agent.cost), doing]
    return " · ".join(part for part in (f"{agent.number} {clean_name(agent.name, name_limit)}", *parts) if part)


def describe_beginning(agent: SubAgentChanged) -> str:
    """Say that a sub-agent has begun to work."""
    return tr("Sub-agent {n} begins: {name}", n=agent.number, name=clean_name(agent.name))


def describe_end(agent: SubAgentChanged) -> str:
    """Say how a sub-agent has ended, what it took, and why it is not done."""
    facts = [tr_plural("{n} step", "{n} steps", agent.step), _format_cost(agent.cost)]
    said = tr(
        "Sub-agent {n} ({name}): {state}, {facts}.",
        n=agent.number,
        name=clean_name(agent.name),
        state=name_state(agent.state),
        facts=tr(", ").join(fact for fact in facts if fact),
    )
    why = to_one_line(escape_unseen_characters(localize(agent.doing)), _MAX_REASON)
    return f"{said} {end_sentence(why)}" if why and agent.state is not SubAgentState.DONE else said


def count_states(agents: Sequence[SubAgentChanged]) -> str:
    """Return how many sub-agents are in each state: `5 queued, 2 at work`."""
    counts = Counter(agent.state for agent in agents)
    names = {state: tr("at work") if state is SubAgentState.RUNNING else name_state(state) for state in counts}
    return tr(", ").join(f"{counts[state]} {names[state]}" for state in SubAgentState if counts[state])


def order_as_tree(agents: Sequence[SubAgentChanged]) -> list[SubAgentChanged]:
    """Return sub-agents by their numbers, each followed by those of its own."""
    numbers = {agent.number for agent in agents}
    below: dict[int, list[SubAgentChanged]] = {}
    for agent in sorted(agents, key=lambda one: one.number):
        below.setdefault(agent.parent if agent.parent in numbers else 0, []).append(agent)
    found: list[SubAgentChanged] = []
    left = below.get(0, [])[::-1]
    while left:
        agent = left.pop()
        found.append(agent)
        left += below.get(agent.number, [])[::-1]
    return found


def _format_cost(cost: Cost) -> str:
    """Return a known cost, with a mark where it may be more; empty where nothing is known of it."""
    if not cost.nano:
        return ""
    return f"{'≥ ' if cost.certainty is Certainty.UNKNOWN else ''}{format_amount(cost.nano)}"


class TextView(Protocol):
    """Shows texts to a person."""

    def tell(self, text: str, level: Level = Level.INFO) -> None:
        """Show plain lines unchanged."""
        ...

    def show(self, markdown: str) -> None:
        """Show a markdown text."""
        ...


def describe_background_end(end: BackgroundEnd) -> str:
    """Return the line that says how a background session has ended."""
    about = to_one_line(strip_control_characters(end.name), _MAX_NAME)
    match end.state:
        case SubAgentState.STOPPED:
            return tr("Background session {n} was stopped ({about}).", n=end.number, about=about)
        case SubAgentState.FAILED:
            why = escape_unseen_characters(localize(end.report.error))
            return tr("Background session {n} failed: {why}", n=end.number, why=why)
        case SubAgentState.DONE:
            return tr("Background session {n} is done ({about}):", n=end.number, about=about)
        case _:
            return tr("Background session {n} has ended before it was done ({about}):", n=end.number, about=about)


def describe_way_on(end: BackgroundEnd) -> str:
    """Return the line that says how a person goes on with a background session; empty where it was stopped."""
    return "" if end.state is SubAgentState.STOPPED else tr("/resume {id} goes on with it.", id=end.session_id)


def tell_background_end(view: TextView, end: BackgroundEnd) -> None:
    """Show in a terminal how a background session has ended, and its answer."""
    failed = end.state is SubAgentState.FAILED
    view.tell(describe_background_end(end), Level.WARNING if failed else Level.INFO)
    if end.state is not SubAgentState.STOPPED and end.answer:
        view.show(end.answer)
    if end.report.error and not failed and end.state is not SubAgentState.STOPPED:
        view.tell(escape_unseen_characters(localize(end.report.error)), Level.WARNING)
    if way_on := describe_way_on(end):
        view.tell(way_on)
