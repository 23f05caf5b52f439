"""Weeks in fake time across changes of the clocks in both hemispheres; `make cron-year` lives a whole year so."""

from pathlib import Path

import pytest

from tests.cron.fake_year import lived

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("seed", [2])
async def test_every_due_instant_is_accounted_for_exactly_once(tmp_path: Path, seed: int) -> None:
    happened = await lived(tmp_path, days=18, seed=seed, count=45)
    assert happened["ran"] > 200 and happened["missed"] > 100
    assert happened["restart"] and happened["back"] and happened["sleep"] + happened["long sleep"]
