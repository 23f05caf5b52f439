"""Sessions leave the memory without a trace, and come back as they were."""

import asyncio
import gc

import pytest

from hermes.gateway import session_pool
from hermes.testing.script import Call, Say
from hermes.testing.server import ScriptedServer
from tests.gateway.gateway_rig import home_for, running
from tests.vendors.telegram import Fake

pytestmark = pytest.mark.slow


async def test_a_session_that_leaves_is_freed_at_once_and_goes_on_where_it_was() -> None:
    async with ScriptedServer([Say("one"), Say("two")]) as server, Fake() as chat:
        with home_for(server, {"telegram": chat}, owners=[chat.person]) as home:
            async with running(home) as it:
                await chat.say("hello")
                await chat.until(lambda: "one" in chat.text())
                (entry,) = it.gateway.pool.live_sessions
                await entry.actor.idle()
                await it.gateway.outbox.wait_until_idle(60)
                session_id = entry.actor.session_id
                gc.collect()
                gc.disable()
                try:
                    await it.gateway.pool.drop_session(session_id)
                    del entry
                    await asyncio.sleep(0)
                    assert gc.collect() == 0
                finally:
                    gc.enable()
                await chat.say("and now?")
                await chat.until(lambda: "two" in chat.text())
                assert [one.actor.session_id for one in it.gateway.pool.live_sessions] == [session_id]
    first, second = (request.messages for request in server.requests)
    assert second[: len(first)] == first


async def test_heavy_conversations_make_room_but_not_those_that_hold_something() -> None:
    # What a call brings makes a conversation as heavy as an answer does, and is not sent to the chat.
    heavy = Call("write_file", {"path": "long.txt", "content": "a long one " * 900_000})
    script = [
        Say(calls=(Call("terminal", {"command": "cd /tmp"}),)),
        Say("there"),
        Say(calls=(heavy,), chunk=4096),
        Say("done"),
    ]
    async with ScriptedServer(script) as server, Fake() as chat:
        with home_for(server, {"telegram": chat}, owners=["1001", "1002"], streaming="off") as home:
            async with running(home) as it:
                await chat.say("go there", person="1001")
                await chat.until(lambda: "there" in chat.text())
                await chat.say("much", person="1002")
                async with asyncio.timeout(60):
                    while len(it.gateway.pool) != 1 or len(server.requests) < 4:  # noqa: ASYNC110
                        await asyncio.sleep(0.05)
                (left,) = it.gateway.pool.live_sessions
                assert str(it.app.live_session(left.actor).tools.state.cwd) == "/tmp"
    assert session_pool.MAX_IDLE_BYTES < 20_000_000
