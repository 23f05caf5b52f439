"""A part of `make edits`: the same seeds at every run. The whole campaign makes 5,000 edits."""

from dataclasses import replace
from pathlib import Path

from hermes.tools.registry import ToolRegistry
from tests.tools.tool_session import Session, make_context
from tests.torture.edit_campaign import run_campaign, run_case
from tests.torture.edit_cases import make_case


async def test_unchanged_lines_stay_and_no_wrong_place_is_changed(tmp_path: Path) -> None:
    score = await run_campaign(tmp_path, range(300))
    assert (score.wrong, score.refused) == ([], [])
    assert score.counts["patch: applied"] > 80 and score.counts["replace: applied"] > 80


async def test_a_byte_that_differs_is_seen(tmp_path: Path) -> None:
    session = Session(make_context(tmp_path.resolve()), ToolRegistry().select_tools())
    case = next(case for case in map(make_case, range(100)) if case.is_unique)
    assert await run_case(session, case) == "applied"
    assert await run_case(session, replace(case, after=case.after + b" ")) == "wrong"
    await session.close()
