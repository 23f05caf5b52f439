"""`docs/scripting.md` names what `--json` and `--stream-json` write: every outcome, every event and every field."""

import re
from pathlib import Path
from typing import get_args

from hermes.cli.plain import run_report
from hermes.core.events import Event, MessageAppended, TurnEnded, TurnStarted
from hermes.core.outcomes import ExitReason

PAGE = (Path(__file__).parents[2] / "docs" / "scripting.md").read_text("utf-8")
ROWS = {
    name: set(re.findall(r"`(\w+)`", row.rsplit("|", 2)[1]))
    for row in PAGE.splitlines()
    if row.startswith("| `")
    for name in re.findall(r"`([\w-]+)`", row.split("|")[1])
}


def test_every_outcome_is_named() -> None:
    own = {run_report.NOT_STARTED, run_report.CRASHED, run_report.LOST, run_report.INVALID_ANSWER}
    assert {one for one in {*ExitReason, *own} if f"`{one}`" not in PAGE} == set()


def test_every_event_has_its_fields() -> None:
    for kind in get_args(Event):
        if kind in (MessageAppended, TurnEnded):
            continue
        fields = set(kind.__struct_fields__) - ({"text"} if kind is TurnStarted else set())
        assert ROWS.get(kind.__struct_config__.tag) == fields, kind


def test_every_field_of_the_result_is_named() -> None:
    report = run_report.RunReport(run_report.ReportMode.JSON)
    end = run_report.ReportedEnd(exit_code=0, outcome="not_started", structured={})
    assert {one for one in report._build_result(end) if f"`{one}`" not in PAGE} == set()
