"""Findings about what is owed and what is said of it: nothing twice, nothing without a word."""

import asyncio

import apsw
import pytest

from hermes.sessions.app import App
from hermes.sessions.options import SessionOptions
from hermes.testing.home import TempHome
from hermes.testing.script import Say
from hermes.testing.server import ScriptedServer
from tests.gateway.gateway_rig import home_for, running
from tests.vendors.telegram import Fake

FULL = "CREATE TRIGGER full BEFORE UPDATE ON {table} WHEN NEW.state = '{state}' BEGIN SELECT RAISE(ABORT, 'full'); END"


def change(home: TempHome, statement: str) -> None:
    """Change the database from outside, as nothing but a full disk would."""
    connection = apsw.Connection(str(home.hermes / "hermes.db"))
    connection.set_busy_timeout(5_000)
    connection.execute(statement)
    connection.close()


async def test_what_is_there_is_not_sent_again_when_its_end_cannot_be_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hermes.gateway.outbox._STORE_PAUSE", 0.1)
    async with ScriptedServer([Say("the only answer")]) as server, Fake() as chat:
        with home_for(server, {"telegram": chat}, owners=[chat.person], streaming="off") as home:
            async with running(home) as it:
                change(home, FULL.format(table="deliveries", state="delivered"))
                await chat.say("hello")
                await chat.until(chat.shown)
                await asyncio.sleep(0.4)  # it is tried again meanwhile
                change(home, "DROP TRIGGER full")
                assert await it.gateway.outbox.wait_until_idle(60)
                assert any("full" in line for line in it.lines), it.lines
    assert [one.text for one in chat.shown()] == ["the only answer"]


async def test_a_command_whose_session_cannot_be_opened_is_answered() -> None:
    async with ScriptedServer([Say("hello")]) as server, Fake() as chat:
        with home_for(server, {"telegram": chat}, owners=[chat.person]) as home:
            async with running(home) as it:
                await chat.say("hello")
                await chat.until(chat.shown)
                await it.gateway.outbox.wait_until_idle(60)
                (live,) = it.gateway.pool.live_sessions
                session_id = live.actor.session_id
                await it.gateway.drop_session(session_id)
                async with App(home.environ, SessionOptions(cwd=str(home.cwd))) as other:
                    await other.open_session(session_id)
                    await chat.say("/status")
                    await chat.until(lambda: "I cannot answer now" in chat.text(), timeout=60)


async def test_an_answer_that_could_not_be_owed_is_owed_once_there_is_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hermes.gateway.session_recovery.RETRY_PAUSES", (0.1,) * 20)
    full = "CREATE TRIGGER full BEFORE INSERT ON deliveries BEGIN SELECT RAISE(ABORT, 'full'); END"
    async with ScriptedServer([Say("the only answer")]) as server, Fake() as chat:
        with home_for(server, {"telegram": chat}, owners=[chat.person], streaming="off") as home:
            async with running(home) as it:
                change(home, full)
                await chat.say("hello")
                async with asyncio.timeout(60):
                    while sum("full" in line for line in it.lines) < 2:  # noqa: ASYNC110 - lines tell nobody
                        await asyncio.sleep(0.02)
                change(home, "DROP TRIGGER full")
                await chat.until(lambda: "the only answer" in chat.text(), timeout=60)
    assert len(chat.shown()) == 1
    assert len(server.requests) == 1
