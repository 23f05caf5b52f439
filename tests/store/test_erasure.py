"""What is deleted or redacted is gone from the records and copies of every compression too, and from every file."""

import random
from pathlib import Path

import pytest

from hermes.core.errors import UsageError
from hermes.core.messages import user_message
from hermes.runtime.mailbox import InboundMessage
from hermes.sessions.app import App
from hermes.sessions.options import SessionOptions
from hermes.store.records import MessageState
from hermes.store.store import Store
from hermes.testing.home import TempHome
from hermes.testing.recorded import RecordedRequest
from hermes.testing.script import Reply, Say, ScriptedModel
from hermes.testing.server import ScriptedServer
from hermes.util.clock import SystemClock


def holds(folder: Path, word: str) -> list[str]:
    """The files that hold the word. An index leaves out what a word shares with the one before it: its end counts."""
    return [path.name for path in folder.rglob("*") if path.is_file() and word.encode()[-12:] in path.read_bytes()]


async def compressed_thrice(home: TempHome, word: str) -> str:
    """A conversation with a rare word in its second question, condensed three times, the last time undone again."""
    async with App(home.environ, SessionOptions(cwd=str(home.cwd))) as app:
        actor = await app.open_session()
        for number in range(16):
            text = f"Always remember {word}." if number == 3 else f"question {number}"
            await actor.post(InboundMessage(text=text))
            if number in {8, 11, 15}:
                assert await actor.compress()
        assert await actor.compress(undo=True)
        return actor.session_id


@pytest.mark.parametrize("in_place", [True, False])
@pytest.mark.parametrize("redacted", [True, False])
async def test_no_file_holds_the_word_afterwards(in_place: bool, redacted: bool) -> None:
    word = "qzxv" + "".join(random.Random(7).choices("bcdfghjklmnp", k=16))

    def reply(request: RecordedRequest) -> Reply:
        condensing = not request.tool_names
        return Say(f"## Goal\nThe word is {word}.") if condensing else Say("hello " * 200)

    async with ScriptedServer(ScriptedModel(reply)) as server:
        with TempHome.for_server(server.url, more_config={"compression": {"in_place": in_place}}) as home:
            name = await compressed_thrice(home, word)
            store = await Store.open(home.hermes, SystemClock())
            rows = await store.messages.read(name, everything=True)
            (meant,) = [row.id for row in rows if word in row.message.text and not row.message.synthetic]
            records = [row.id for row in rows if word in row.message.text and row.message.synthetic]
            assert len(records) == 3
            assert await store.search.find(word)
            if redacted:
                with pytest.raises(UsageError):
                    await store.erasure.redact_message(name, records[0], user_message("x"))
                await store.erasure.redact_message(name, meant, user_message("[redacted]"))
            else:
                assert await store.erasure.delete_messages(name, [meant]) == 1
            after = await store.messages.read(name, everything=True)
            assert all(row.state is MessageState.ACTIVE for row in after)
            assert [row.id for row in after if row.id != meant] == [
                row.id for row in rows if row.id not in {meant, *records}
            ]
            assert [row.message for row in after if row.id != meant] == [
                row.message for row in rows if row.id not in {meant, *records}
            ]
            assert await store.sessions.list_lineage(name) == [name]
            assert await store.compactions.list_all(name) == []
            assert await store.search.find(word) == []
            epoch = await store.epochs.get_open(name)
            assert epoch is not None
            assert epoch.begin_reason == ("a message redacted" if redacted else "messages deleted")
            await store.close()
            assert holds(home.hermes, word) == []
            async with App(home.environ, SessionOptions(cwd=str(home.cwd))) as app:
                actor = await app.open_session(latest=True)
                assert actor.session_id == name
                await actor.post(InboundMessage(text="and on"))
        assert word not in server.requests[-1].body.decode()
        assert ("[redacted]" in server.requests[-1].body.decode()) is redacted


async def test_what_was_condensed_before_the_message_came_stays_condensed() -> None:
    async with ScriptedServer(ScriptedModel(lambda _: Say("## Goal\n" + "hello " * 200))) as server:
        with TempHome.for_server(server.url) as home:
            async with App(home.environ, SessionOptions(cwd=str(home.cwd))) as app:
                actor = await app.open_session()
                for number in range(6):
                    await actor.post(InboundMessage(text=f"question {number}"))
                assert await actor.compress()
                await actor.post(InboundMessage(text="a slip of the tongue"))
                name = actor.session_id
            store = await Store.open(home.hermes, SystemClock())
            rows = await store.messages.read(name)
            slip = next(row.id for row in rows if row.message.text.startswith("a slip"))
            await store.erasure.delete_messages(name, [slip])
            assert [row.id for row in await store.messages.read(name)] == [row.id for row in rows if row.id != slip]
            assert len(await store.compactions.list_all(name)) == 1
            await store.close()


async def test_a_title_that_quotes_the_message_goes_too() -> None:
    async with ScriptedServer(ScriptedModel(lambda _: Say("hello"))) as server:
        with TempHome.for_server(server.url) as home:
            async with App(home.environ, SessionOptions(cwd=str(home.cwd))) as app:
                actor = await app.open_session()
                await actor.post(
                    InboundMessage(text="my pin is unforgettable, and this goes on for more than sixty letters")
                )
                name = actor.session_id
            store = await Store.open(home.hermes, SystemClock())
            first = (await store.messages.read(name))[0].id
            await store.erasure.delete_messages(name, [first])
            row = await store.sessions.get(name)
            await store.close()
            assert row is not None and row.title == ""
            assert holds(home.hermes, "unforgettable") == []
