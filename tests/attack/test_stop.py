"""A stop at any moment ends the turn by its name and leaves a session that goes on."""

import asyncio

import pytest

from hermes.core.events import Event, MessageAppended, RequestEnded, RequestStarted, TurnEnded, TurnStarted
from hermes.core.outcomes import ExitReason
from hermes.core.stream import TextDelta
from hermes.runtime.mailbox import InboundMessage
from hermes.sessions.app import App
from hermes.sessions.options import SessionOptions
from hermes.store.store import Store
from hermes.testing.home import TempHome
from hermes.testing.prefix import check_prefixes
from hermes.testing.script import Call, Reply, Say
from hermes.testing.server import ScriptedServer
from hermes.util.clock import SystemClock

NAMED = (ExitReason.INTERRUPTED, ExitReason.TEXT_RESPONSE)


@pytest.mark.parametrize("kind", [TurnStarted, RequestStarted, TextDelta, RequestEnded, MessageAppended, TurnEnded])
@pytest.mark.parametrize("stops", [1, 2])
async def test_a_stop_at_any_event_ends_by_name(kind: type[Event], stops: int) -> None:
    replies: list[Reply] = [Say("x", calls=(Call("todo", {}),)), Say("one"), Say("two"), Say("three")]
    async with ScriptedServer(replies) as server:
        with TempHome.for_server(server.url) as home:
            async with App(home.environ, SessionOptions(cwd=str(home.cwd))) as app:
                actor = await app.open_session()

                def stop(event: Event) -> None:
                    if isinstance(event, kind):
                        actor.stop()
                        if stops == 2:
                            asyncio.get_running_loop().call_soon(actor.stop)

                unsubscribe = actor.subscribe(stop)
                async with asyncio.timeout(60):
                    ended = await actor.post(InboundMessage(text="go", cwd=str(home.cwd)))
                    unsubscribe()
                    assert ended.reason in NAMED
                    again = await actor.post(InboundMessage(text="again", cwd=str(home.cwd)))
                assert again.reason is ExitReason.TEXT_RESPONSE
                session = actor.session_id
            store = await Store.open(home.hermes, SystemClock())
            assert await store.turns.list_open(session) == []
            await store.close()
        check_prefixes(server.requests)


async def test_a_stop_before_the_first_step_ends_by_name() -> None:
    async with ScriptedServer([Say("one")]) as server:
        with TempHome.for_server(server.url) as home:
            async with App(home.environ, SessionOptions(cwd=str(home.cwd))) as app:
                actor = await app.open_session()
                waiting = actor.post(InboundMessage(text="go", cwd=str(home.cwd)))
                async with asyncio.timeout(60):
                    while not actor.stop():  # noqa: ASYNC110 - no event tells of it
                        await asyncio.sleep(0)
                    assert (await waiting).reason is ExitReason.INTERRUPTED
                    again = await actor.post(InboundMessage(text="again", cwd=str(home.cwd)))
                assert again.reason is ExitReason.TEXT_RESPONSE
