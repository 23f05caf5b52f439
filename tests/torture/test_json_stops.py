"""A short form of `make json-stops`."""

import pytest

from tests.torture import json_stops

pytestmark = pytest.mark.slow


async def test_the_last_line_names_the_outcome_however_it_ends() -> None:
    tally = await json_stops.run_campaign(count=44, seed=7, jobs=2)
    assert tally.problems == []
    assert {"int: result", "term: result", "pipe: cut", "kill: cut"} <= {*tally.counts}
