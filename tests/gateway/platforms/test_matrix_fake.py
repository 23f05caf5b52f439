"""matrix-nio judges the fake homeserver: what it can do with a real one it does with ours."""

import asyncio
import io
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from nio import (
    AsyncClient,
    DownloadResponse,
    InviteMemberEvent,
    LoginError,
    LoginResponse,
    ProfileGetDisplayNameResponse,
    RoomGetEventResponse,
    RoomMessageFile,
    RoomMessagesResponse,
    RoomMessageText,
    RoomSendError,
    RoomSendResponse,
    SyncResponse,
    UploadResponse,
    WhoamiResponse,
)

from hermes.testing.fake_platform import Failing
from tests.vendors.matrix import Fake
from tests.vendors.matrix_state import ME


@asynccontextmanager
async def judged() -> AsyncIterator[tuple[Fake, AsyncClient]]:
    async with Fake() as fake:
        judge = AsyncClient(fake.url, ME)
        try:
            assert isinstance(await judge.login(fake.password), LoginResponse)
            yield fake, judge
        finally:
            await judge.close()


async def synced(judge: AsyncClient, since: str | None = None, timeout: int = 2000) -> SyncResponse:  # noqa: ASYNC109
    answer = await judge.sync(timeout=timeout, since=since)
    assert isinstance(answer, SyncResponse), answer
    return answer


async def test_it_logs_in_and_hears() -> None:
    async with judged() as (fake, judge):
        wrong = AsyncClient(fake.url, ME)
        assert isinstance(await wrong.login("not it"), LoginError)
        await wrong.close()
        who = await judge.whoami()
        assert isinstance(who, WhoamiResponse) and (who.user_id, who.device_id) == (ME, judge.device_id)
        name = await judge.get_displayname(ME)
        assert isinstance(name, ProfileGetDisplayNameResponse) and name.displayname == "Hermes"
        first = await synced(judge)
        assert not first.rooms.join
        waiting = asyncio.create_task(judge.sync(timeout=20000, since=first.next_batch))
        said = await fake.say("hello")
        news = await waiting
        assert isinstance(news, SyncResponse)
        ((room, joined),) = news.rooms.join.items()
        assert [type(one) for one in joined.timeline.events] == [RoomMessageText]
        assert joined.timeline.events[0].event_id == said
        again = await synced(judge, news.next_batch, timeout=20)
        assert not again.rooms.join
        assert {one.user_id for one in (await judge.joined_members(room)).members} == {ME, fake.person}  # type: ignore[union-attr]


async def test_a_gap_is_read_from_the_history() -> None:
    async with judged() as (fake, judge):
        await fake.say("first")
        first = await synced(judge)
        fake.window = 3
        for number in range(10):
            await fake.say(f"m{number}")
        news = await synced(judge, first.next_batch)
        ((room, joined),) = news.rooms.join.items()
        assert joined.timeline.limited
        assert [one.body for one in joined.timeline.events] == ["m7", "m8", "m9"]  # type: ignore[attr-defined]
        page = await judge.room_messages(room, str(joined.timeline.prev_batch), end=first.next_batch, limit=4)
        assert isinstance(page, RoomMessagesResponse)
        assert [one.body for one in page.chunk] == ["m6", "m5", "m4", "m3"]  # type: ignore[attr-defined]
        rest = await judge.room_messages(room, page.end, end=first.next_batch, limit=4)
        assert isinstance(rest, RoomMessagesResponse)
        assert [one.body for one in rest.chunk] == ["m2", "m1", "m0"]  # type: ignore[attr-defined]


async def test_it_sends_edits_reacts_and_takes_back() -> None:
    async with judged() as (fake, judge):
        said = await fake.say("hello")
        room = next(iter(fake.rooms))
        content = {"msgtype": "m.text", "body": "yes"}
        sent = await judge.room_send(room, "m.room.message", content, tx_id="t1")
        again = await judge.room_send(room, "m.room.message", content, tx_id="t1")
        assert isinstance(sent, RoomSendResponse) and isinstance(again, RoomSendResponse)
        assert sent.event_id == again.event_id and len(fake.messages) == 1
        fresh = {"msgtype": "m.text", "body": "no"}
        change = {"rel_type": "m.replace", "event_id": sent.event_id}
        await judge.room_send(
            room, "m.room.message", {**fresh, "body": "* no", "m.new_content": fresh, "m.relates_to": change}
        )
        assert (fake.messages[sent.event_id].text, fake.messages[sent.event_id].edits) == ("no", 1)
        about = {"rel_type": "m.annotation", "event_id": said, "key": "👀"}
        reaction = await judge.room_send(room, "m.reaction", {"m.relates_to": about})
        assert isinstance(reaction, RoomSendResponse) and fake.reactions[said] == ("👀",)
        await judge.room_redact(room, reaction.event_id)
        assert fake.reactions[said] == ()
        await judge.room_typing(room, True)
        assert fake.typings == [room]
        await judge.update_receipt_marker(room, said)
        assert fake.receipts == [said]
        event = await judge.room_get_event(room, said)
        assert isinstance(event, RoomGetEventResponse) and event.event.sender == fake.person
        fake.failing.append(Failing(404))
        failed = await judge.room_send(room, "m.room.message", content)
        assert isinstance(failed, RoomSendError) and failed.status_code == "M_NOT_FOUND"


async def test_invitations_and_files() -> None:
    async with judged() as (fake, judge):
        first = await synced(judge)
        room = await fake.invite("club", direct=True)
        news = await synced(judge, first.next_batch)
        assert any(isinstance(one, InviteMemberEvent) for one in news.rooms.invite[room.id].invite_state)
        await judge.join(room.id)
        news = await synced(judge, news.next_batch)
        assert room.id in news.rooms.join
        uploaded, _ = await judge.upload(io.BytesIO(b"content"), "text/plain", "a.txt", filesize=7)
        assert isinstance(uploaded, UploadResponse)
        found = await judge.download(uploaded.content_uri)
        assert isinstance(found, DownloadResponse) and found.body == b"content"
        content = {"msgtype": "m.file", "body": "a.txt", "filename": "a.txt", "url": uploaded.content_uri}
        await judge.room_send(room.id, "m.room.message", content)
        news = await synced(judge, news.next_batch)
        assert isinstance(news.rooms.join[room.id].timeline.events[-1], RoomMessageFile)
        assert [file.content for one in fake.shown() for file in one.files] == [b"content"]
