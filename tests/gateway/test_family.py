"""The first chapters of the family's bot: people on Discord are discord.py, python-telegram-bot reads Telegram."""

import pytest

from tests.torture.family.campaign import live

pytestmark = pytest.mark.slow


async def test_strangers_and_groups_are_as_the_docs_say() -> None:
    outcomes = await live(["strangers", "groups"], show=False)
    assert not [f"{one.step.name}: {one.wrong}" for one in outcomes if one.wrong]
    assert len(outcomes) > 30
