"""Show the sub-agents of a session: a line each while they work, and a line in the scrollback when one has ended."""

from hermes.cli.tui.terminal_style import TerminalStyle
from hermes.core.events import ApprovalAnswered, ApprovalAsked, Event, SubAgentChanged
from hermes.core.sub_agents import SubAgentState
from hermes.i18n.messages import tr

REDRAW_SECONDS = 0.25
"""Seconds between two drawings while nothing but sub-agents comes further: many of them make many steps."""
MAX_SHOWN = 6
"""Sub-agents that have a line of their own; those beyond are counted."""
_STYLES = {SubAgentState.QUEUED: "queued", SubAgentState.WAITING: "warning"}
_MIN_NAME, _MAX_NAME = 12, 40


class SubAgentView:
    """Holds the sub-agents of the session on the screen that have not ended."""

    def __init__(self, terminal_style: TerminalStyle) -> None:
        self._terminal_style = terminal_style
        self._agents: dict[str, SubAgentChanged] = {}
        self._questions: set[str] = set()

    def clear(self) -> None:
        """Forget them: another session is shown."""
        self._agents.clear()
        self._questions.clear()

    def apply_change(self, event: SubAgentChanged) -> list[str]:
        """Take a change; return the lines about one that has ended."""
        if not event.state.has_ended:
            self._agents[event.session_id] = event
            return []
        self._agents.pop(event.session_id, None)
        return self._format_end(event)

    def is_own_question(self, event: Event) -> bool:
        """Return whether a question, or its answer, is one of a sub-agent's."""
        if isinstance(event, ApprovalAsked) and event.asker:
            self._questions.add(event.approval_id)
            return True
        if isinstance(event, ApprovalAnswered) and event.approval_id in self._questions:
            self._questions.discard(event.approval_id)
            return True
        return False

    def render_live(self, room: int) -> list[str]:
        """Render those that have not ended in at most `room` lines, the rest as one that counts them."""
        if not self._agents or room < 1:
            return []
        from hermes.commands.texts.sub_agent_texts import count_states, order_as_tree

        agents = order_as_tree([*self._agents.values()])
        most = min(MAX_SHOWN, room)
        if len(agents) <= most:
            return [self._format_agent(one) for one in agents]
        first = sorted(agents, key=lambda one: one.state is SubAgentState.QUEUED)[: most - 1]
        shown = [one for one in agents if one in first]
        rest = [one for one in agents if one not in first]
        said = tr("and {n} more sub-agents: {states}", n=len(rest), states=count_states(rest))
        return [*map(self._format_agent, shown), self._paint("notice", f"  {said}")]

    def _format_agent(self, agent: SubAgentChanged) -> str:
        from hermes.commands.texts.sub_agent_texts import describe_sub_agent

        limit = min(max(self._terminal_style.width // 3, _MIN_NAME), _MAX_NAME)
        mark = "▸" if self._terminal_style.unicode else ">"
        words = f"{'  ' * min(agent.depth, 4)}{mark} {describe_sub_agent(agent, limit)}"
        return self._paint(_STYLES.get(agent.state, "working"), words)

    def _paint(self, style: str, words: str) -> str:
        terminal_style = self._terminal_style
        return terminal_style.paint(style, terminal_style.cut_text(words, terminal_style.line_width))

    def _format_end(self, agent: SubAgentChanged) -> list[str]:
        from hermes.commands.texts.sub_agent_texts import describe_end

        terminal_style, done = self._terminal_style, agent.state is SubAgentState.DONE
        mark = ("✓" if done else "✗") if terminal_style.unicode else ("+" if done else "x")
        words = describe_end(agent) if terminal_style.theme.plain else f"{mark} {describe_end(agent)}"
        style = "tool" if done else "warning"
        return terminal_style.wrap_paragraphs(style, words, indent=2, width=terminal_style.prose_width)
