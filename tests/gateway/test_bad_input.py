"""What goes wrong gets one clear line, and the rest runs on."""

import asyncio
import time

import pytest

from hermes.core.errors import BusyError
from hermes.gateway.accounts import AccountHealth
from hermes.testing.clock import ManualClock
from hermes.testing.fake_platform import FakeChat
from hermes.testing.script import Say
from hermes.testing.server import ScriptedServer
from tests.gateway.gateway_rig import home_for, running, said
from tests.vendors.ntfy import Fake as Ntfy
from tests.vendors.telegram import Fake as Telegram

pytestmark = pytest.mark.slow


async def answers(chat: FakeChat, text: str = "hello") -> None:
    """A message is answered."""
    before = len(chat.shown())
    await chat.say(text)
    await chat.until(lambda: len(chat.shown()) > before, timeout=60)


async def test_a_wrong_token_is_one_line_and_the_rest_runs_on() -> None:
    async with ScriptedServer([Say("fine")]) as server, Telegram() as bad, Ntfy() as good:
        with home_for(server, {"telegram": bad, "ntfy": good}) as home:
            config = dict(home.config or {})
            config["platforms"]["telegram"]["token"] = "1:" + "wrong" * 7  # type: ignore[index]
            home.config = config
            home_with = home
            home_with.write_config(config)
            async with running(home) as it:
                await answers(good)
                account = it.gateway.accounts["telegram"]
                assert account.health is AccountHealth.REFUSED
    assert [line for line in it.lines if line.startswith("telegram:")] == [f"telegram: {account.last_problem}"]
    assert "token" in account.last_problem


async def test_settings_that_are_wrong_name_the_key() -> None:
    async with ScriptedServer([Say("fine")]) as server, Ntfy() as good:
        with home_for(server, {"ntfy": good}) as home:
            config = dict(home.config or {})
            platforms = {**config["platforms"], "telegam": {"token": "x"}, "slack": {"bot_tokn": "x"}, "discord": {}}  # type: ignore[dict-item]
            home.write_config({**config, "platforms": platforms})
            async with running(home) as it:
                await answers(good)
    assert any("'telegam'" in line and "telegram" in line for line in it.lines), it.lines
    assert any("platforms.slack.bot_tokn" in line and "bot_token" in line for line in it.lines), it.lines
    assert any("DISCORD_BOT_TOKEN" in line for line in it.lines), it.lines


async def test_a_platform_that_is_down_at_start_is_answered_when_it_is_up() -> None:
    async with ScriptedServer([Say("fine"), Say("fine too")]) as server, Ntfy() as late, Telegram() as good:
        with home_for(server, {"ntfy": late, "telegram": good}, owners=[good.person, late.person]) as home:
            await late.down()
            async with running(home) as it:
                await answers(good)
                assert it.gateway.accounts["ntfy"].health is AccountHealth.LOST
                assert sum(line.startswith("ntfy:") for line in it.lines) == 1
                await late.up()
                async with asyncio.timeout(60):
                    while it.gateway.accounts["ntfy"].health is not AccountHealth.CONNECTED:  # noqa: ASYNC110
                        await asyncio.sleep(0.05)
                await answers(late)


async def test_two_gateways_do_not_use_one_token() -> None:
    async with ScriptedServer([Say("one"), Say("two")]) as server, Telegram() as chat:
        with home_for(server, {"telegram": chat}, owners=[chat.person]) as home:
            other = home_for(server, {"telegram": chat}, owners=[chat.person])
            with other:
                other.more["XDG_STATE_HOME"] = home.environ["XDG_STATE_HOME"]
                async with running(home), running(other) as second:
                    assert any("another gateway uses this account" in line for line in second.lines)
                    await answers(chat)
    assert len(server.requests) == 1


async def test_a_second_gateway_of_a_home_is_refused_by_name() -> None:
    async with ScriptedServer([Say("one")]) as server, Ntfy() as chat:
        with home_for(server, {"ntfy": chat}) as home:
            async with running(home):
                with pytest.raises(BusyError, match=r"A gateway runs in this home already \(pid \d+\)"):
                    async with running(home):
                        pass


async def test_a_megabyte_and_odd_characters_are_said_as_they_are() -> None:
    async with ScriptedServer([Say("read"), Say("read")]) as server, Ntfy() as chat:
        with home_for(server, {"ntfy": chat}) as home:
            async with running(home):
                await answers(chat, "x" * 1_000_000 + " end")
                await answers(chat, "a\x00b\x1b[31mred \ud83d 天 👩‍👩‍👧".encode("utf-8", "replace").decode())
    assert said(server, 0).startswith("xxx")
    assert len(said(server, 0)) < 1_000_200
    assert "天 👩‍👩‍👧" in said(server, 1)


async def test_a_picture_that_cannot_be_had_is_said_and_the_words_are_answered(tmp_path: object) -> None:
    from pathlib import Path

    broken = Path(str(tmp_path)) / "broken.png"
    broken.write_bytes(b"no picture at all")
    async with ScriptedServer([Say("a pity")]) as server, Telegram() as chat:
        with home_for(server, {"telegram": chat}, owners=[chat.person]) as home:
            async with running(home):
                await chat.say("what is this?", files=[broken])
                await chat.until(chat.shown)
    assert "what is this?" in server.requests[0].last_user_text
    assert "cannot be shown" in server.requests[0].last_user_text


async def test_a_clock_that_is_wrong_loses_nothing() -> None:
    async with ScriptedServer([Say("one"), Say("two"), Say("three")]) as server, Telegram() as chat:
        clock = ManualClock(time.time())
        with home_for(server, {"telegram": chat}, owners=[chat.person]) as home:
            async with running(home, clock):
                await answers(chat)
                clock.set_now(clock.now() - 10 * 86_400)
                await answers(chat)
                clock.set_now(clock.now() + 400 * 86_400)
                await answers(chat)
    assert [one.text for one in chat.shown()] == ["one", "two", "three"]
