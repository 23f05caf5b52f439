"""What an event means is said once, for the plain chat and the full one."""

import time

import pytest

from hermes.cli.event_texts import count_preview_lines, describe_event, has_diff
from hermes.config.display import ToolProgress
from hermes.core.events import (
    EpochBegan,
    Event,
    FellBack,
    Level,
    Notice,
    Refused,
    RequestStarted,
    Retrying,
    ToolEnded,
    TurnEnded,
    TurnResumed,
)
from hermes.core.messages import ToolStatus
from hermes.core.outcomes import ExitReason


@pytest.mark.parametrize(
    ("event", "style", "text"),
    [
        (Refused("c", "terminal", "rm x", "you said no"), "warning", "refused: rm x (you said no)"),
        (
            Refused("c", "terminal", "rm x", "nobody could be asked", "rm x"),
            "warning",
            "refused: rm x (nobody could be asked; --allow 'rm x' would let it run)",
        ),
        (Refused("c", "terminal", "a", "no", "a\x1b[2J"), "warning", "refused: a (no)"),
        (
            Refused("c", "terminal", "a", "no", asker="dig\x1b[2J"),
            "warning",
            "Sub-agent dig\\u{1b}[2J: refused: a (no)",
        ),
        (FellBack("acme", "big\x1b[2J", "It is gone"), "warning", "It is gone. Going on with big[2J (acme)."),
        (Retrying(2, 0.5, "r", "It was busy"), "warning", "It was busy. Trying again in 0.5 s (attempt 2)."),
        (Retrying(2, 0, "r", "It was busy"), "warning", "It was busy."),
        (
            Retrying(2, 9.0, "r", "It was busy", time.mktime((*time.localtime()[:3], 12, 5, 0, 0, 0, -1))),
            "warning",
            "It was busy. Trying again in 9.0 s (attempt 2, until 12:05 at most).",
        ),
        (Notice(Level.INFO, "well"), "notice", "well"),
        (Notice(Level.ERROR, "ill"), "error", "ill"),
        (TurnResumed("t", "s", "first\nsecond", 1), "warning", "Going on with the turn that was cut off: first second"),
        (TurnEnded(turn_id="t", reason=ExitReason.LOCAL_ERROR, error="broken"), "error", "broken"),
        (EpochBegan(2, "undone", "acme", "big", 1), "notice", "Prompt cache reset (undone): 1 byte is sent again."),
    ],
)
def test_an_event_is_said_in_a_style_and_a_text(event: Event, style: str, text: str) -> None:
    assert describe_event(event) == (style, text)


@pytest.mark.parametrize(
    "event",
    [
        TurnEnded(turn_id="t", reason=ExitReason.LOCAL_ERROR),
        EpochBegan(1, "first", "acme", "big", 1),
        EpochBegan(2, "undone", "acme", "big"),
        RequestStarted(1, 10),
    ],
)
def test_other_events_say_nothing(event: Event) -> None:
    assert describe_event(event) is None


def test_a_diff_is_shown_for_what_was_edited_only() -> None:
    diff = "--- a\n+++ a\n@@ -1 +1 @@\n-x\n+y"
    assert has_diff(ToolEnded("c", "patch", ToolStatus.OK, 0.1, diff))
    assert not has_diff(ToolEnded("c", "terminal", ToolStatus.OK, 0.1, diff))
    assert not has_diff(ToolEnded("c", "patch", ToolStatus.OK, 0.1, "done"))
    assert [count_preview_lines(one, 5) for one in ToolProgress] == [0, 0, 5, 12]
