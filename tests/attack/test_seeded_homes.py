"""What programs keep in homes is read in no way without a yes: 120 places in three homes, as whoever runs the tests."""

from pathlib import Path

import pytest

from hermes.execution.sandbox.probe import SandboxMechanism
from tests.attack.seeded_homes import LOCAL, PLACES, WAYS, Way, seed_homes
from tests.execution.test_sandbox import PROBES
from tests.execution.test_sandbox import WAYS as MECHANISMS
from tests.requirements import require_sandbox


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
@pytest.mark.parametrize("place", [*MECHANISMS, LOCAL])
async def test_no_place_of_a_home_is_read(place: SandboxMechanism | str, way: Way, tmp_path: Path) -> None:
    if isinstance(place, SandboxMechanism):
        support = await PROBES[place].find_support()
        require_sandbox(place, support.is_usable, support.reason)
    async with seed_homes(tmp_path, place) as homes:
        assert len(homes.paths) > 2 * len(PLACES) >= 240
        assert homes.find_read(await way(homes)) == [str(homes.paths[-1])]
