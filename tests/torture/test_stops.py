"""What a stop does in each situation; how long it may take is measured by `make stops`."""

import pytest

from hermes.testing.script import ScriptedModel
from hermes.testing.server import ScriptedServer
from tests.torture import stop_campaign as stops


@pytest.mark.parametrize("title", [one for one, case in stops.SITUATIONS.items() if case.ends < 1])
async def test_a_stop_in_the_middle_of(title: str) -> None:
    async with ScriptedServer(ScriptedModel(stops.reply)) as server:
        run = await stops.in_process(server, title, 0)
    assert run.problems == []
