"""Sessions of jobs and programs are deleted by policy; people's own, and what somebody waits for, never."""

import json

import apsw
import pytest

from hermes.core.chats import Binding, DeliveryState, OutboxItem, Outgoing, Place
from hermes.runtime.locks import session_lock
from hermes.store.records import NewSession
from hermes.store.store import Store
from hermes.testing.home import TempHome
from hermes.testing.script import Say
from hermes.testing.server import ScriptedServer
from hermes.util.clock import SystemClock
from tests.forked_hermes import run_hermes
from tests.gateway.gateway_rig import home_for, running
from tests.sessions.stored_sessions import say_in
from tests.vendors.telegram import Fake

pytestmark = pytest.mark.slow
_OLD = 400 * 86_400


async def _grow_old(home: TempHome, ids: dict[str, str]) -> None:
    """Make sessions of these sources that were last used long ago."""
    store = await Store.open(home.hermes, SystemClock())
    try:
        for session_id, source in ids.items():
            new = NewSession(id=session_id, source=source, user_id="", provider="p", model="m", cwd="/")
            await store.sessions.create(new)
    finally:
        await store.close()
    connection = apsw.Connection(str(home.hermes / "hermes.db"))
    connection.execute("UPDATE sessions SET updated_at = updated_at - ?, message_count = 1", (_OLD,))
    connection.close()


async def _list_ids(home: TempHome) -> set[str]:
    done = await run_hermes(home, "sessions", "list", "--all", "--json")
    return {row["id"] for row in json.loads(done.stdout)}


async def test_only_what_nobody_began_or_waits_for_is_deleted() -> None:
    """M12: the policy lists, deletes, and leaves what is a person's, open, waited for or still to be delivered."""
    with TempHome({}) as home:
        await say_in(home, "new", "words")
        sources = {"run": "cron", "program": "api_server", "hook": "webhook", "mine": "cli", "chat": "telegram"}
        await _grow_old(home, sources | dict.fromkeys(("open", "bound", "owed", "parent"), "cron"))
        store = await Store.open(home.hermes, SystemClock())
        try:
            await store.chats.bind(Binding(key="k", session_id="bound", place=Place("telegram", "1"), person="owner"))
            message = Outgoing(place=Place("telegram", "1"), text="owed")
            item = OutboxItem(key="o", message=message, session_id="owed", state=DeliveryState.PENDING)
            await store.outbox.enqueue([item])
            child = NewSession(
                id="child", source="cli", user_id="", provider="p", model="m", cwd="/", parent_id="parent"
            )
            await store.sessions.create(child)
        finally:
            await store.close()
        async with session_lock(home.hermes / "run", "open"):
            listed = await run_hermes(home, "sessions", "prune", "--by-policy", "--dry-run", "--json")
            assert {row["id"] for row in json.loads(listed.stdout)} == {"run", "program", "hook", "open"}
            done = await run_hermes(home, "sessions", "prune", "--by-policy", "--yes")
            assert done.code == 0 and "3 sessions deleted" in done.stdout and "1 is open" in done.stderr
        left = await _list_ids(home)
        assert {"mine", "chat", "bound", "owed", "parent", "open"} <= left and not {"run", "program", "hook"} & left
        shown = (await run_hermes(home, "sessions", "list", "--json")).stdout
        assert {row["id"] for row in json.loads(shown)} >= {"mine", "chat"} and '"cron"' not in shown


async def test_the_gateway_announces_what_it_deletes() -> None:
    async with ScriptedServer([Say("Hello.")]) as server, Fake() as fake:
        with home_for(server, {"telegram": fake}, owners=[fake.person]) as home:
            await _grow_old(home, {"run": "cron", "mine": "cli"})
            async with running(home) as on:
                await fake.say("hi")
                await fake.until(lambda: "Hello." in fake.text())
                await on.gateway.outbox.wait_until_idle(60)
                assert any("1 of jobs, 0 of programs" in line for line in on.lines), on.lines
            assert "mine" in await _list_ids(home) and "run" not in await _list_ids(home)


async def test_days_and_counts_are_settings_and_zero_is_never() -> None:
    keep = {"session_retention": {"jobs": {"days": 0, "count": 2}, "api": {"days": 0}}}
    with TempHome(keep) as home:
        await _grow_old(home, {"a": "cron", "b": "cron", "c": "cron", "p": "api_server"})
        listed = await run_hermes(home, "sessions", "prune", "--by-policy", "--dry-run", "--json")
        assert [row["source"] for row in json.loads(listed.stdout)] == ["cron"]
