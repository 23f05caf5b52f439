"""How the sub-agents of a turn stand, in one line for a chat."""

from collections.abc import Iterable

from hermes.commands.texts.sub_agent_texts import clean_name, name_state
from hermes.core.events import SubAgentChanged
from hermes.core.sub_agents import SubAgentState
from hermes.i18n.messages import tr, tr_plural
from hermes.util.text import to_one_line

_MAX_NAMED = 4
"""Sub-agents that are named; of more only those are that work."""
_MAX_NAME, _MAX_LINE = 30, 200


def describe_sub_agents(agents: Iterable[SubAgentChanged]) -> str:
    """Return how many sub-agents a session has, which, and their states. The line changes with their states only, so
    that a chat is not edited at every step of theirs.
    """
    known = sorted(agents, key=lambda one: one.number)
    named = known if len(known) <= _MAX_NAMED else [one for one in known if one.state is SubAgentState.RUNNING]
    which = tr(", ").join(f"{clean_name(one.name, _MAX_NAME)} ({name_state(one.state)})" for one in named[:_MAX_NAMED])
    left = sum(not one.state.has_ended for one in known)
    count = tr_plural("{n} sub-agent, {left} at work", "{n} sub-agents, {left} at work", len(known), left=left)
    return to_one_line(f"⚙ {count}: {which}" if which else f"⚙ {count}", _MAX_LINE)
