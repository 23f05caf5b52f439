"""How sub-agents stand is said in one line each, in the order of their tree."""

from hermes.commands.texts.sub_agent_texts import count_states, describe_end, describe_sub_agent, order_as_tree
from hermes.core.events import SubAgentChanged
from hermes.core.sub_agents import SubAgentState
from hermes.core.usage import Certainty, Cost
from hermes.i18n.messages import set_language


def agent(
    number: int, parent: int = 0, state: SubAgentState = SubAgentState.RUNNING, **more: object
) -> SubAgentChanged:
    fields: dict[str, object] = {"name": f"task {number}", **more}
    return SubAgentChanged(session_id=f"s{number}", number=number, parent=parent, state=state, **fields)  # type: ignore[arg-type]


def test_they_are_ordered_below_those_for_which_they_work() -> None:
    agents = [agent(4, 2), agent(1), agent(3, 1), agent(2), agent(5, 4), agent(6, 99)]
    assert [one.number for one in order_as_tree(agents)] == [1, 3, 2, 4, 5, 6]


def test_a_cost_that_may_be_more_is_marked_and_an_unknown_one_left_out() -> None:
    known = Cost(nano=1_500_000_000, certainty=Certainty.UNKNOWN)
    assert "≥ 1.50 USD" in describe_sub_agent(agent(1, cost=known))
    assert "USD" not in describe_end(agent(1, state=SubAgentState.DONE, step=1))


def test_states_are_counted_and_all_is_said_in_chinese() -> None:
    agents = [agent(1), agent(2, state=SubAgentState.QUEUED), agent(3, state=SubAgentState.QUEUED)]
    assert count_states(agents) == "2 queued, 1 at work"
    set_language("zh")
    try:
        ended = agent(7, state=SubAgentState.BUDGET, step=50, doing="Used up")
        assert describe_end(ended) == "子代理 7（task 7）：预算用尽，50 步。 Used up."
    finally:
        set_language("en")
