"""A part of `make globs`: the same seed at every run. The whole campaign asks 5,000 times."""

from pathlib import Path

import pytest

from tests.torture.glob_campaign import run_campaign


@pytest.mark.needs("ripgrep")
async def test_both_engines_leave_the_files_that_ripgrep_leaves(tmp_path: Path) -> None:
    cases = await run_campaign(tmp_path, 0, 40)
    assert [case for case in cases if not case.is_right] == []
    assert sum(case.wanted not in ("", "invalid") for case in cases) > 8
