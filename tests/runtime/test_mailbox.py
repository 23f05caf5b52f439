"""Queue, steer, interrupt: what is said to a session while it works."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from hermes.core.errors import BusyError
from hermes.core.events import Event, Queued, ToolStarted
from hermes.core.outcomes import ExitReason
from hermes.runtime.actor import SessionActor
from hermes.runtime.mailbox import LIMIT, InboundMessage
from hermes.sessions.app import App
from hermes.sessions.options import SessionOptions
from hermes.store.store import Store
from hermes.testing.home import TempHome
from hermes.testing.prefix import check_prefixes
from hermes.testing.script import Call, Reply, ReplyDelivery, Say
from hermes.testing.server import ScriptedServer
from hermes.util.clock import SystemClock

RUN = Say(calls=(Call("terminal", {"command": "echo ran"}),))


@asynccontextmanager
async def live(server: ScriptedServer, home: TempHome, name: str | None = None) -> AsyncIterator[SessionActor]:
    async with App(home.environ, SessionOptions(cwd=str(home.cwd))) as app:
        yield await app.open_session(name)


async def seen(actor: SessionActor, kind: type[Event]) -> Event:
    """The next event of this kind."""
    found: asyncio.Future[Event] = asyncio.get_running_loop().create_future()
    unsubscribe = actor.subscribe(
        lambda event: found.set_result(event) if isinstance(event, kind) and not found.done() else None
    )
    async with asyncio.timeout(60):
        try:
            return await found
        finally:
            unsubscribe()


async def test_words_join_at_the_next_tool_boundary() -> None:
    async with ScriptedServer([RUN, Say("done")]) as server:
        with TempHome.for_server(server.url) as home:
            async with live(server, home) as actor:
                first = actor.post(InboundMessage(text="go"))
                await seen(actor, ToolStarted)
                joined = actor.steer(InboundMessage(text="mind the gap"))
                assert await first == await joined
        assert "mind the gap" in server.requests[1].body.decode()
        assert len(server.requests) == 2
        check_prefixes(server.requests)


async def test_words_that_find_no_boundary_get_a_turn_of_their_own() -> None:
    replies: list[Reply] = [Say("one", delivery=ReplyDelivery(hold_at=0)), Say("two")]
    async with ScriptedServer(replies) as server:
        with TempHome.for_server(server.url) as home:
            async with live(server, home) as actor:
                first = actor.post(InboundMessage(text="go"))
                await server.wait_held(await server.wait_for(1))
                steered = actor.steer(InboundMessage(text="more"))
                server.release()
                assert (await first).text == "one"
                assert (await steered).text == "two"
        check_prefixes(server.requests)


async def test_words_that_may_only_join_are_given_back() -> None:
    replies: list[Reply] = [Say("one", delivery=ReplyDelivery(hold_at=0))]
    async with ScriptedServer(replies) as server:
        with TempHome.for_server(server.url) as home:
            async with live(server, home) as actor:
                first = actor.post(InboundMessage(text="go"))
                await server.wait_held(await server.wait_for(1))
                steered = actor.steer(InboundMessage(text="more"), joins_only=True)
                server.release()
                await first
                with pytest.raises(asyncio.CancelledError):
                    await steered


async def test_messages_wait_in_order_and_an_interrupting_one_goes_first() -> None:
    replies: list[Reply] = [Say("slow", delivery=ReplyDelivery(hold_at=0)), Say("urgent"), Say("b"), Say("c")]
    async with ScriptedServer(replies) as server:
        with TempHome.for_server(server.url) as home:
            async with live(server, home) as actor:
                first = actor.post(InboundMessage(text="a"))
                await server.wait_held(await server.wait_for(1))
                queued = [actor.post(InboundMessage(text="b")), actor.post(InboundMessage(text="c"))]
                urgent = actor.interrupt(InboundMessage(text="now"))
                assert (await first).reason is ExitReason.INTERRUPTED
                assert (await urgent).text == "urgent"
                assert [(await one).text for one in queued] == ["b", "c"]
        assert [request.last_user_text.split("\n")[0] for request in server.requests] == ["a", "now", "b", "c"]


async def test_a_waiting_message_is_on_disk_and_is_answered_by_the_next_process() -> None:
    replies: list[Reply] = [Say("slow", delivery=ReplyDelivery(hold_at=0)), Say("late"), Say("new")]
    async with ScriptedServer(replies) as server:
        with TempHome.for_server(server.url) as home:
            async with live(server, home) as actor:
                actor.post(InboundMessage(text="a"))
                await server.wait_held(await server.wait_for(1))
                actor.post(InboundMessage(text="do not forget me"))
                await seen(actor, Queued)
                name = actor.session_id
            store = await Store.open(home.hermes, SystemClock())
            assert len(await store.inbox.list_waiting(name)) == 1
            await store.close()
            async with live(server, home, name) as actor:
                assert actor.unfinished == 1
                assert (await actor.post(InboundMessage(text="b"))).text == "new"
                await actor.idle()
            store = await Store.open(home.hermes, SystemClock())
            assert await store.inbox.list_waiting(name) == []
            await store.close()
        assert "do not forget me" in server.requests[1].last_user_text
        assert "b" in server.requests[2].last_user_text


async def test_a_full_mailbox_says_so() -> None:
    async with ScriptedServer([Say("slow", delivery=ReplyDelivery(hold_at=0))]) as server:
        with TempHome.for_server(server.url) as home:
            async with live(server, home) as actor:
                actor.post(InboundMessage(text="a"))
                await server.wait_held(await server.wait_for(1))
                for _ in range(LIMIT):
                    actor.post(InboundMessage(text="b"))
                with pytest.raises(BusyError, match="waiting"):
                    actor.post(InboundMessage(text="c"))
                with pytest.raises(BusyError, match="waiting"):
                    actor.interrupt(InboundMessage(text="d"))
                assert actor.busy, "words that were refused stop nothing"
                name = actor.session_id
            store = await Store.open(home.hermes, SystemClock())
            waiting = [InboundMessage.decode(row.body).text for row in await store.inbox.list_waiting(name)]
            await store.close()
            assert waiting == ["b"] * LIMIT, "what is refused is not stored"
            async with live(server, home, name) as actor:
                assert actor.unfinished == LIMIT


async def test_a_stop_at_the_first_moment_keeps_the_message() -> None:
    async with ScriptedServer([Say("never"), Say("after")]) as server:
        with TempHome.for_server(server.url) as home:
            async with live(server, home) as actor:
                first = actor.post(InboundMessage(text="keep me"))
                async with asyncio.timeout(60):
                    while not actor.stop():  # noqa: ASYNC110 - no event tells of it
                        await asyncio.sleep(0)
                    assert (await first).reason is ExitReason.INTERRUPTED
                    assert (await actor.post(InboundMessage(text="b"))).reason is ExitReason.TEXT_RESPONSE
                texts = [message.text for message in actor.conversation.messages]
        assert texts[0].startswith("keep me")


async def test_a_stop_right_after_the_words_is_heard() -> None:
    async with ScriptedServer([Say("never"), Say("after")]) as server:
        with TempHome.for_server(server.url) as home:
            async with live(server, home) as actor:
                first = actor.post(InboundMessage(text="keep me"))
                assert actor.stop()
                assert (await first).reason is ExitReason.INTERRUPTED
                assert (await actor.post(InboundMessage(text="b"))).reason is ExitReason.TEXT_RESPONSE


async def test_an_interrupting_message_keeps_its_place_after_a_crash() -> None:
    async with ScriptedServer([]) as server:
        with TempHome.for_server(server.url) as home:
            async with App(home.environ, SessionOptions(cwd=str(home.cwd))) as app:
                actor = await app.open_session()
                waiting = actor.post(InboundMessage(text="first"))
                await waiting
                name = actor.session_id
            store = await Store.open(home.hermes, SystemClock())
            for text, first in (("a", False), ("b", False), ("urgent", True), ("more urgent", True)):
                await store.inbox.enqueue(name, text, InboundMessage(text=text).encode(), first=first)
            assert [row.id for row in await store.inbox.list_waiting(name)] == ["more urgent", "urgent", "a", "b"]
            await store.close()
