"""What the tests of safety share."""

from collections.abc import Callable, Iterator

import pytest

from tests.safety.measured_apart import ScaledText, TextCost, start_cost_meter


@pytest.fixture(scope="session")
def measure_text() -> Iterator[Callable[[ScaledText], TextCost]]:
    """Measure what judging a text costs where nothing was judged before."""
    with start_cost_meter() as measure:
        yield measure
