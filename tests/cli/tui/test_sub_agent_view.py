"""Sub-agents move on lines of their own, as many as fit, and leave a line when they end."""

import asyncio

import pytest
from msgspec import structs

from hermes.cli.tui.event_view import EventView
from hermes.cli.tui.sub_agent_view import MAX_SHOWN, SubAgentView
from hermes.cli.tui.terminal_style import TerminalStyle, strip_styles
from hermes.config.display import DisplaySettings
from hermes.core.events import ApprovalAnswered, ApprovalAsked, SubAgentChanged, TextDelta, TurnEnded, TurnStarted
from hermes.core.outcomes import ExitReason
from hermes.core.sub_agents import SubAgentState
from hermes.core.usage import Cost
from hermes.markup.cells import measure_width

RUNNING = SubAgentState.RUNNING


def change(number: int, state: SubAgentState = RUNNING, **more: object) -> SubAgentChanged:
    fields: dict[str, object] = {"name": f"task {number}", "step": 3, "max_steps": 50, **more}
    return SubAgentChanged(session_id=f"s{number}", number=number, state=state, **fields)  # type: ignore[arg-type]


def render(view: SubAgentView, room: int = 20) -> list[str]:
    return [strip_styles(line) for line in view.render_live(room)]


def test_each_has_a_line_below_the_one_for_which_it_works() -> None:
    view = SubAgentView(TerminalStyle(DisplaySettings(), lambda: 100))
    view.apply_change(change(1))
    view.apply_change(change(2, doing="terminal ls", cost=Cost(nano=20_000_000)))
    view.apply_change(change(3, SubAgentState.WAITING, depth=2, parent=1))
    assert render(view) == [
        "  ▸ 1 task 1 · works 3/50",
        "    ▸ 3 task 3 · waits for an answer 3/50",
        "  ▸ 2 task 2 · works 3/50 · 0.02 USD · terminal ls",
    ]
    assert [strip_styles(one) for one in view.apply_change(change(2, SubAgentState.DONE))] == [
        "✓ Sub-agent 2 (task 2): done, 3 steps."
    ]
    failed = view.apply_change(change(1, SubAgentState.FAILED, doing="The provider is gone"))
    assert [strip_styles(one) for one in failed] == ["✗ Sub-agent 1 (task 1): failed, 3 steps. The provider is gone."]
    assert len(render(view)) == 1
    view.clear()
    assert render(view) == []


@pytest.mark.parametrize(
    ("room", "last"),
    [
        (1, "and 30 more sub-agents: 27 queued, 3 at work"),
        (3, "and 28 more sub-agents: 27 queued, 1 at work"),
        (20, "and 25 more sub-agents: 25 queued"),
    ],
)
def test_many_are_counted_and_those_at_work_come_first(room: int, last: str) -> None:
    view = SubAgentView(TerminalStyle(DisplaySettings(), lambda: 100))
    for number in range(1, 31):
        view.apply_change(change(number, SubAgentState.QUEUED if number % 10 else RUNNING))
    lines = render(view, room)
    assert len(lines) == min(room, MAX_SHOWN) and lines[-1] == f"  {last}"
    assert sum("works 3/50" in line for line in lines) == min(room - 1, 3)


@pytest.mark.parametrize("columns", [20, 40, 60, 200])
@pytest.mark.parametrize("unicode", [True, False])
def test_no_line_is_wider_than_the_terminal_and_none_is_obeyed(columns: int, unicode: bool) -> None:
    view = SubAgentView(TerminalStyle(DisplaySettings(), lambda: columns, unicode=unicode))
    hostile = "evil \x1b[2J\x1b]0;title\x07 名字很长" * 5 + "\u202e\nline"
    view.apply_change(change(1, name=hostile, doing=hostile, depth=3))
    ended = view.apply_change(change(2, SubAgentState.PARTIAL, name=hostile, doing=hostile))
    for line in map(strip_styles, [*view.render_live(9), *ended]):
        assert measure_width(line) <= columns
        assert not any(one in line for one in "\x1b\x07\u202e\n")


def test_what_they_do_leaves_the_phase_of_the_turn_alone_and_is_drawn_rarely() -> None:
    async def run() -> tuple[list[str], bool, int]:
        shown: list[str] = []
        drawn = 0

        def count() -> None:
            nonlocal drawn
            drawn += 1

        view = EventView(TerminalStyle(DisplaySettings(), lambda: 80), shown.extend, count)
        asked = ApprovalAsked("a1", "c", "terminal", "rm x", "r", "why", asker="task 1", asker_id="s1")
        view(asked)
        view(ApprovalAnswered("a1", allowed=False, by="person"))
        view.flush()
        idle = not view.busy
        drawn = 0
        for step in range(500):
            view(structs.replace(change(step % 50 + 1), step=step))
            await asyncio.sleep(0)
        view(TurnStarted("t", "s", "hi"))
        view(TextDelta("Hello."))
        while not view.answer.speaking:  # noqa: ASYNC110 - the view draws by a timer
            await asyncio.sleep(0.001)
        return shown, idle, drawn

    shown, idle, drawn = asyncio.run(run())
    assert idle and drawn <= 4 and "› hi" in [strip_styles(line) for line in shown]


def test_one_that_ends_while_an_answer_comes_is_told_below_it() -> None:
    async def run() -> list[str]:
        shown: list[str] = []
        view = EventView(TerminalStyle(DisplaySettings(), lambda: 80), shown.extend, lambda: None)
        for event in (
            change(1),
            TurnStarted("t", "s", "hi"),
            TextDelta("Red, "),
            change(1, SubAgentState.DONE),
            TextDelta("green and blue."),
            TurnEnded(turn_id="t", reason=ExitReason.TEXT_RESPONSE, text="Red, green and blue."),
        ):
            view(event)
        view.flush()
        return [line.strip() for line in map(strip_styles, shown)]

    shown = asyncio.run(run())
    assert shown.index("Red, green and blue.") < shown.index("✓ Sub-agent 1 (task 1): done, 3 steps.")
