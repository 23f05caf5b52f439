"""With `compression.in_place: false` the originals become sessions of their own, from which the live one goes on."""

from collections.abc import Sequence

import pytest

from hermes.admin.sessions import open_session_admin
from hermes.core.errors import BusyError
from hermes.core.events import EpochBegan, Event, Notice
from hermes.core.outcomes import ExitReason
from hermes.runtime.actor import SessionActor
from hermes.runtime.mailbox import InboundMessage
from hermes.sessions.app import App
from hermes.sessions.options import SessionOptions
from hermes.store.records import MessageState, StoredMessage
from hermes.store.store import Store
from hermes.testing.home import TempHome
from hermes.testing.prefix import check_prefixes
from hermes.testing.recorded import RecordedRequest
from hermes.testing.request_checks import find_problems
from hermes.testing.script import Call, Fail, Reply, Say, ScriptedModel
from hermes.testing.server import ScriptedServer
from hermes.util.clock import SystemClock
from tests.forked_hermes import run_hermes
from tests.runtime.planted_conversation import is_summary

pytestmark = pytest.mark.slow

APART = {"compression": {"in_place": False}}
TOO_LONG = Fail(400, message="This model's maximum context length is 8192 tokens. However, you requested 9000 tokens.")
READ = Say(calls=(Call("terminal", {"command": "printf 'x%.0s' $(seq 3000)"}),))


def reply(request: RecordedRequest) -> Reply:
    return Say("## Goal\nnotes") if is_summary(request) else Say(f"answer to {request.last_user_text[:40]} " * 60)


async def say(actor: SessionActor, numbers: Sequence[int]) -> None:
    for number in numbers:
        await actor.post(InboundMessage(text=f"question {number}"))


def words(rows: Sequence[StoredMessage]) -> list[str]:
    """What was said, without the records."""
    return [row.message.text for row in rows if not row.message.synthetic and row.state is not MessageState.UNDONE]


async def test_each_compression_leaves_a_parent_and_the_session_goes_on_under_its_id() -> None:
    events: list[Event] = []
    async with ScriptedServer(ScriptedModel(reply)) as server:
        with TempHome.for_server(server.url, more_config=APART) as home:
            async with App(home.environ, SessionOptions(cwd=str(home.cwd))) as app:
                actor = await app.open_session()
                actor.subscribe(events.append)
                name = actor.session_id
                await say(actor, range(5))
                assert await actor.compress()
                await say(actor, range(5, 9))
                assert await actor.compress()
                await say(actor, [9])
            store = await Store.open(home.hermes, SystemClock())
            try:
                live, second, first = [await store.sessions.get(one) for one in await store.sessions.list_lineage(name)]
                assert live and second and first
                assert (live.id, live.parent_id, second.parent_id, first.parent_id) == (name, second.id, first.id, None)
                assert (live.title, second.title, first.title) == ("question 0 (3)", "question 0 (2)", "question 0")
                assert (live.end_reason, second.end_reason, first.end_reason) == ("", "compression", "compression")
                own = await store.messages.read(name)
                assert live.message_count == len(await store.messages.read(name, everything=True)) - (
                    second.message_count + first.message_count
                )
                rows = await store.messages.read(name, everything=True)
                assert [text for text in words(rows) if text.startswith("question")] == [
                    f"question {number}" for number in range(10)
                ]
                assert len(words(rows)) == 20 and "question 4" not in words(own)
                assert "question 3" in words(await store.messages.read(first.id, everything=True))
                assert not await store.check_integrity()
                latest = await store.sessions.get_latest()
                assert latest is not None and latest.id == name
            finally:
                await store.close()
            async with open_session_admin(home.environ) as sessions:
                shown = str((await sessions.show_session(name))["messages"])
                assert all(f"question {number}" in shown for number in range(10)) and "REFERENCE ONLY" not in shown
                assert "question 9" not in str((await sessions.show_session(first.id))["messages"])
            for asked in (first.id, "question 0", name):
                async with App(home.environ, SessionOptions(cwd=str(home.cwd))) as app:
                    assert (await app.open_session(asked)).session_id == name
        said = [event.text for event in events if isinstance(event, Notice)]
        assert [f"kept as session {one}" in line for one, line in zip((first.id, second.id), said, strict=True)] == [
            True,
            True,
        ]
        assert [event.reason for event in events if isinstance(event, EpochBegan)] == ["compressed", "compressed"]
        asked_again = [request for request in server.requests if not is_summary(request)]
        check_prefixes(asked_again, new_epochs={asked_again[5].number, asked_again[9].number})


async def test_undoing_brings_the_originals_back_and_the_parent_goes() -> None:
    async with ScriptedServer(ScriptedModel(reply)) as server:
        with TempHome.for_server(server.url, more_config=APART) as home:
            async with App(home.environ, SessionOptions(cwd=str(home.cwd))) as app:
                actor = await app.open_session()
                await say(actor, range(5))
                before = list(actor.conversation.messages)
                assert await actor.compress()
                await say(actor, [5])
                assert await actor.compress()
                assert await actor.compress(undo=True)
                assert await actor.compress(undo=True)
                assert not await actor.compress(undo=True)
                assert actor.conversation.messages[: len(before)] == before
                name = actor.session_id
            store = await Store.open(home.hermes, SystemClock())
            row = await store.sessions.get(name)
            assert row is not None and (row.parent_id, row.title) == (None, "question 0")
            assert [one.id for one in await store.sessions.list_recent(10)] == [name]
            assert [one.message for one in await store.messages.read(name)][: len(before)] == before
            await store.close()


async def test_a_turn_goes_on_in_the_session_whose_earlier_part_has_moved() -> None:
    replies: list[Reply] = [Say("hello " * 200), READ, READ, TOO_LONG, Say("NOTES: x was seen"), READ, Say("done")]
    async with ScriptedServer(replies) as server:
        with TempHome.for_server(server.url, more_config=APART) as home:
            async with App(home.environ, SessionOptions(cwd=str(home.cwd))) as app:
                actor = await app.open_session()
                await actor.post(InboundMessage(text="remember the colour blue", cwd=str(home.cwd)))
                ended = await actor.post(InboundMessage(text="look twice", cwd=str(home.cwd)))
                assert (ended.reason, ended.text) == (ExitReason.TEXT_RESPONSE, "done")
                name = actor.session_id
            store = await Store.open(home.hermes, SystemClock())
            assert len(await store.sessions.list_lineage(name)) == 2 and not await store.turns.list_open(name)
            await store.close()
        assert find_problems(server.requests[-1]) == []


async def test_an_archive_is_deleted_alone_and_the_session_with_all_of_them() -> None:
    async with ScriptedServer(ScriptedModel(reply)) as server:
        with TempHome.for_server(server.url, more_config=APART) as home:
            async with App(home.environ, SessionOptions(cwd=str(home.cwd))) as app:
                actor = await app.open_session()
                name = actor.session_id
                await say(actor, range(5))
                assert await actor.compress()
                await say(actor, range(5, 9))
                assert await actor.compress()
                store = await Store.open(home.hermes, SystemClock())
                _, second, first = await store.sessions.list_lineage(name)
                await store.close()
                async with open_session_admin(home.environ) as sessions:
                    with pytest.raises(BusyError):
                        await sessions.delete_session(first)
            async with open_session_admin(home.environ) as sessions:
                await sessions.delete_session(second)
            store = await Store.open(home.hermes, SystemClock())
            assert await store.sessions.list_lineage(name) == [name]
            left = words(await store.messages.read(name))
            assert "question 0" in left and "question 8" in left and "question 6" not in left
            assert [one.id for one in await store.sessions.list_recent(10)] == [name]
            await store.close()
            async with App(home.environ, SessionOptions(cwd=str(home.cwd))) as app:
                actor = await app.open_session(name)
                assert await actor.compress()
            async with open_session_admin(home.environ) as sessions:
                await sessions.delete_session(name)
            store = await Store.open(home.hermes, SystemClock())
            assert await store.sessions.list_recent(10) == []
            await store.close()


async def test_the_command_line_continues_where_the_conversation_goes_on() -> None:
    async with ScriptedServer(ScriptedModel(reply)) as server:
        with TempHome.for_server(server.url, more_config=APART) as home:
            lines = b"question a\nquestion b\nquestion c\nquestion d\n/compress\n"
            await run_hermes(home, stdin=lines)
            store = await Store.open(home.hermes, SystemClock())
            live, archive = [row.id for row in await store.sessions.list_recent(10)]
            await store.close()
            for more in (["--continue"], ["--resume", archive], ["--resume", live]):
                done = await run_hermes(home, "-z", f"on {more[0]}", *more)
                assert done.code == 0, done.stderr
            store = await Store.open(home.hermes, SystemClock())
            said = words(await store.messages.read(live))
            assert [text for text in said if text.startswith("on ")] == ["on --continue", "on --resume", "on --resume"]
            assert [row.id for row in await store.sessions.list_recent(10)] == [live, archive]
            await store.close()
