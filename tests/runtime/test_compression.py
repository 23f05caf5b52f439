"""A conversation that a provider finds too long is condensed and goes on; what cannot be condensed is kept whole."""

import asyncio

from hermes.core.events import EpochBegan, Event, Notice
from hermes.core.messages import Role
from hermes.core.outcomes import ExitReason
from hermes.runtime.mailbox import InboundMessage
from hermes.sessions.app import App
from hermes.sessions.options import SessionOptions
from hermes.store.records import MessageState
from hermes.store.store import Store
from hermes.testing.home import TempHome
from hermes.testing.prefix import check_prefixes
from hermes.testing.recorded import RecordedRequest
from hermes.testing.request_checks import find_problems
from hermes.testing.script import Call, Fail, Reply, ReplyDelivery, Say
from hermes.testing.server import ScriptedServer
from hermes.util.clock import SystemClock

TOO_LONG = Fail(400, message="This model's maximum context length is 8192 tokens. However, you requested 9000 tokens.")
READ = Say(calls=(Call("terminal", {"command": "printf 'x%.0s' $(seq 3000)"}),))


def is_summary(request: RecordedRequest) -> bool:
    return "condense" in request.body.decode() and not request.tool_names


async def test_an_overflow_is_condensed_and_the_turn_goes_on() -> None:
    replies: list[Reply] = [Say("hello " * 200), READ, READ, TOO_LONG, Say("NOTES: x was seen"), Say("done")]
    async with ScriptedServer(replies) as server:
        with TempHome.for_server(server.url) as home:
            events: list[Event] = []
            async with App(home.environ, SessionOptions(cwd=str(home.cwd))) as app:
                actor = await app.open_session()
                actor.subscribe(events.append)
                await actor.post(InboundMessage(text="remember the colour blue", cwd=str(home.cwd)))
                ended = await actor.post(InboundMessage(text="look twice", cwd=str(home.cwd)))
                assert (ended.reason, ended.text) == (ExitReason.TEXT_RESPONSE, "done")
                name = actor.session_id
            store = await Store.open(home.hermes, SystemClock())
            export = await store.messages.export_session(name)
            assert export is not None
            assert sum(row.state is MessageState.COMPACTED for row in export.messages) >= 3
            words = [row.message.text for row in export.messages if row.message.role is Role.USER]
            assert words[0].startswith("remember")
            await store.close()
        refused, summary, after = server.requests[3:6]
        assert is_summary(summary) and not is_summary(after)
        assert len(after.body) < len(refused.body)
        assert "NOTES: x was seen" in after.body.decode()
        assert "remember the colour blue" in after.body.decode() and "look twice" in after.body.decode()
        assert find_problems(after) == []
        assert [one.reason for one in events if isinstance(one, EpochBegan)] == ["compressed"]
        check_prefixes([request for request in server.requests if not is_summary(request)], new_epochs={5})


async def test_a_side_model_that_is_broken_hands_over_to_the_conversations_own() -> None:
    replies: list[Reply] = [Say("hello " * 200), Say("well"), TOO_LONG, Say("NOTES"), Say("done")]
    async with ScriptedServer(replies) as server, ScriptedServer([Fail(403)]) as side:
        model = {"provider": "custom", "model": "small", "base_url": side.url, "api_key": "z"}
        with TempHome.for_server(server.url, more_config={"auxiliary": {"compression": model}}) as home:
            async with App(home.environ, SessionOptions(cwd=str(home.cwd))) as app:
                actor = await app.open_session()
                for text in ("zero", "one"):
                    await actor.post(InboundMessage(text=text))
                assert (await actor.post(InboundMessage(text="two"))).text == "done"
        assert len(side.requests) == 1


async def test_what_cannot_be_condensed_is_kept_and_said() -> None:
    replies: list[Reply] = [Say("hello"), TOO_LONG, Fail(403)]
    async with ScriptedServer(replies) as server:
        with TempHome.for_server(server.url) as home:
            events: list[Event] = []
            async with App(home.environ, SessionOptions(cwd=str(home.cwd))) as app:
                actor = await app.open_session()
                actor.subscribe(events.append)
                await actor.post(InboundMessage(text="one"))
                ended = await actor.post(InboundMessage(text="two"))
                assert ended.reason is ExitReason.COMPRESSION_EXHAUSTED
                name = actor.session_id
            assert any("Everything is kept" in event.text for event in events if isinstance(event, Notice))
            store = await Store.open(home.hermes, SystemClock())
            assert all(row.state is MessageState.ACTIVE for row in await store.messages.read(name))
            await store.close()


async def test_a_stop_while_it_is_condensed_changes_nothing() -> None:
    slow = Say("NOTES", delivery=ReplyDelivery(hold_at=0))
    async with ScriptedServer([Say("hello " * 200), TOO_LONG, slow, Say("after")]) as server:
        with TempHome.for_server(server.url) as home:
            async with App(home.environ, SessionOptions(cwd=str(home.cwd))) as app:
                actor = await app.open_session()
                await actor.post(InboundMessage(text="one"))
                waiting = actor.post(InboundMessage(text="two"))
                summary = await server.wait_for(3)
                await server.wait_held(summary)
                async with asyncio.timeout(60):
                    actor.stop()
                    assert (await waiting).reason is ExitReason.INTERRUPTED
                assert (await actor.post(InboundMessage(text="three"))).text == "after"
        check_prefixes([request for request in server.requests if not is_summary(request)])


async def test_a_stop_while_the_summary_is_written_leaves_its_epoch_begun() -> None:
    held = Say("NOTES", delivery=ReplyDelivery(hold_at=0))
    replies: list[Reply] = [Say("hello " * 200), Say("well"), TOO_LONG, held, Say("after")]
    async with ScriptedServer(replies) as server:
        with TempHome.for_server(server.url) as home:
            async with App(home.environ, SessionOptions(cwd=str(home.cwd))) as app:
                actor = await app.open_session()
                for text in ("zero", "one"):
                    await actor.post(InboundMessage(text=text))
                waiting = actor.post(InboundMessage(text="two"))
                await server.wait_held(await server.wait_for(4))
                server.release()
                async with asyncio.timeout(60):
                    while not any("_store_compaction" in repr(task) for task in asyncio.all_tasks()):  # noqa: ASYNC110 - no event
                        await asyncio.sleep(0)
                actor.stop()
                assert (await waiting).reason is ExitReason.INTERRUPTED
                name = actor.session_id
                assert (await actor.post(InboundMessage(text="three"))).text == "after"
            store = await Store.open(home.hermes, SystemClock())
            export = await store.messages.export_session(name)
            await store.close()
        assert export is not None
        assert any(row.state is MessageState.COMPACTED for row in export.messages)
        assert [epoch.begin_reason for epoch in export.epochs[1:]] == ["compressed"]
        assert "NOTES" in server.requests[-1].body.decode()
