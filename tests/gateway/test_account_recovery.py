"""Breaks, restarts, lost sessions and a server that is down: nothing is lost, lanes are in order."""

import asyncio
import importlib
import random
from pathlib import Path

import pytest

from hermes.core.chats import InboundEvent
from hermes.gateway.accounts import load_descriptor
from hermes.testing.fake_platform import FakeChat
from tests.gateway.chat_account import Account, account

LANES = [("", ""), ("group1", ""), ("group1", "88"), ("group2", "")]


class Talk:
    """People who say things in four places."""

    def __init__(self, fake: FakeChat, dice: random.Random) -> None:
        self._fake = fake
        self._dice = dice
        self.said: dict[tuple[str, str], list[str]] = {lane: [] for lane in LANES}

    async def say(self, lane: tuple[str, str] | None = None) -> None:
        lane = lane or self._dice.choice(LANES)
        text = f"message {sum(map(len, self.said.values()))}"
        self.said[lane].append(text)
        await self._fake.say(text, chat=lane[0], thread=lane[1])


async def trouble(kind: int, fake: FakeChat, here: Account, talk: Talk) -> None:
    match kind:
        case 0:
            await fake.drop()
        case 1:
            await here.again()
        case 2:
            await here.stop()
            fake.forget()  # type: ignore[attr-defined] - both have one: only the histories are left
            await talk.say()
            await here.open()
            here.listen()
        case 3:
            await fake.down()
            await talk.say()
            await fake.up()
        case _:
            await asyncio.sleep(0.01)


def lane_of(arrival: InboundEvent) -> tuple[str, str]:
    direct = arrival.place.kind == "dm"
    return ("" if direct else arrival.place.chat, arrival.place.thread)


@pytest.mark.parametrize("name", ["discord", "slack"])
async def test_nothing_is_lost_and_each_lane_is_in_order(name: str, tmp_path: Path) -> None:
    dice = random.Random(7)
    fake = importlib.import_module(f"tests.vendors.{name}").Fake()
    async with account(load_descriptor(name), fake, tmp_path) as here:
        talk = Talk(fake, dice)
        for lane in LANES:
            await talk.say(lane)
        await here.until(len(LANES))
        for _ in range(50):
            await talk.say()
            await trouble(dice.randrange(24), fake, here, talk)
        count = sum(map(len, talk.said.values()))
        async with asyncio.timeout(60):
            while len({one.event_id for one in here.heard}) < count:
                await here.changed()
        first = {one.event_id: one for one in reversed(here.heard)}
        heard = {
            lane: [one.text for one in here.heard if one is first[one.event_id] and lane_of(one) == lane]
            for lane in LANES
        }
        assert heard == talk.said
        assert fake.refused == []
