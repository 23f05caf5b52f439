"""The plain chat tells that a sub-agent has ended without breaking off an answer that comes."""

import pytest

from hermes.cli.plain.renderer import PlainRenderer
from hermes.core.events import Event, SubAgentChanged, TextDelta, TurnEnded
from hermes.core.outcomes import ExitReason
from hermes.core.sub_agents import SubAgentState

RUNNING = SubAgentChanged(session_id="s1", number=1, name="colours", state=SubAgentState.RUNNING)
DONE = SubAgentChanged(session_id="s1", number=1, name="colours", state=SubAgentState.DONE, step=3)
ENDED = TurnEnded(turn_id="t", reason=ExitReason.TEXT_RESPONSE, text="Red, green and blue.")


@pytest.mark.parametrize(
    ("events", "lines"),
    [
        (
            [RUNNING, TextDelta("Red, "), DONE, TextDelta("green and blue."), ENDED],
            ["· Sub-agent 1 begins: colours", "Red, green and blue.", "· Sub-agent 1 (colours): done, 3 steps."],
        ),
        ([DONE, TextDelta("Red."), ENDED], ["· Sub-agent 1 (colours): done, 3 steps.", "Red."]),
    ],
)
def test_the_line_stands_below_the_answer(
    events: list[Event], lines: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    show = PlainRenderer()
    for event in events:
        show(event)
    assert capsys.readouterr().out.splitlines() == lines
