"""What is Telegram's own: its kinds of updates, its webhook, its numbers and its errors."""

import asyncio
import contextlib
import io
import json
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from hermes.core.chats import ChatKind, MediaKind, Outgoing, Place
from hermes.gateway.platform import Platform, PlatformError, PlatformRefusedError, SendError, SendFault
from hermes.gateway.platforms.telegram.api import TelegramWebhookServer
from hermes.testing.clock import ManualClock
from hermes.testing.fake_platform import Failing
from hermes.testing.platform_rig import Rig, rigged
from hermes.testing.web_server import Listener
from tests.vendors import load_fake
from tests.vendors.opus_file import make_opus
from tests.vendors.telegram import Fake


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    async with rigged("telegram", load_fake("telegram"), tmp_path) as one:
        yield one


@pytest.fixture
def fake(rig: Rig) -> Fake:
    assert isinstance(rig.fake, Fake)
    return rig.fake


DM = Place(platform="here", chat="1001")


async def heard(rig: Rig, kind: str = "message", **body: object):
    """What an update becomes; something is said behind it, so that nothing is waited for."""
    fake = rig.fake
    assert isinstance(fake, Fake)
    known = len(rig.arrivals)
    sender = {"id": 1001, "is_bot": False, "first_name": "Ann", "last_name": "Lee"}
    fake.tell(kind, {"from": sender, "chat": fake.place("", "1001"), **body})
    await rig.hear(await fake.say("the end"))
    found = rig.arrivals[known:-1]
    assert len(found) < 2
    return found[0] if found else None


async def test_what_is_neither_words_nor_file_is_told_in_words(rig: Rig) -> None:
    await rig.listening()
    for body, text in (
        ({"sticker": {"file_id": "s", "emoji": "😀"}}, "[sticker 😀]"),
        ({"sticker": {"file_id": "s"}}, "[sticker]"),
        ({"location": {"latitude": 48.1, "longitude": -11.5}}, "[location: 48.100000, -11.500000]"),
        (
            {"venue": {"title": "Café", "address": "Street 1"}, "location": {"latitude": 1, "longitude": 2}},
            "[place: Café, Street 1]\n[location: 1.000000, 2.000000]",
        ),
        ({"contact": {"phone_number": "+491", "first_name": "Bo"}}, "[contact: Bo, +491]"),
        ({"poll": {"question": "Tea?"}}, "[poll: Tea?]"),
    ):
        arrival = await heard(rig, **body)
        assert arrival.text == text
        assert arrival.sender.name == "Ann Lee"
    assert await heard(rig, new_chat_title="nothing said") is None


async def test_files_are_what_they_are_to_people(rig: Rig) -> None:
    await rig.listening()
    one = {"file_id": "f", "file_size": 10}
    for body, kind, name in (
        ({"photo": [one, {"file_id": "large", "file_size": 99}]}, MediaKind.IMAGE, "photo.jpg"),
        ({"voice": one}, MediaKind.VOICE, "voice.ogg"),
        ({"audio": one | {"file_name": "a.mp3"}}, MediaKind.AUDIO, "a.mp3"),
        ({"video_note": one}, MediaKind.VIDEO, "video.mp4"),
        ({"animation": one, "document": one}, MediaKind.VIDEO, "video.mp4"),
        ({"document": one | {"mime_type": "image/png", "file_name": "x.png"}}, MediaKind.IMAGE, "x.png"),
        ({"document": one | {"file_name": "x.pdf"}}, MediaKind.DOCUMENT, "x.pdf"),
    ):
        arrival = await heard(rig, caption="see", **body)
        (attachment,) = arrival.attachments
        assert (arrival.text, attachment.kind, attachment.name) == ("see", kind, name)
    assert (await heard(rig, photo=[one, {"file_id": "large", "file_size": 99}])).attachments[0].ref == "large"
    large = await heard(rig, document={"file_id": "f", "file_size": 30_000_000})
    assert "20 MB" in large.attachments[0].problem


async def test_an_album_says_what_belongs_together(rig: Rig, tmp_path: Path) -> None:
    await rig.listening()
    for name in ("a.png", "b.png"):
        (tmp_path / name).write_bytes(b"picture")
    await rig.hear(await rig.fake.say("two", files=[tmp_path / "a.png", tmp_path / "b.png"]))
    await rig.hear(await rig.fake.say("the end"))
    first, second, last = rig.arrivals
    assert first.album == second.album != ""
    assert (first.text, second.text, last.album) == ("two", "", "")


async def test_commands_and_names_in_groups(rig: Rig) -> None:
    await rig.listening()
    for text, marks, said, mentioned in (
        ("/help@hermes_test_bot me", [("bot_command", 0, 21)], "/help me", True),
        ("/help@other_bot me", [("bot_command", 0, 15)], "/help@other_bot me", False),
        ("/help me", [("bot_command", 0, 5)], "/help me", False),
        ("@Hermes_Test_Bot hi", [("mention", 0, 16)], "hi", True),
        ("😀 @hermes_test_bot hi", [("mention", 3, 16)], "😀 @hermes_test_bot hi", True),
        ("@other hi", [("mention", 0, 6)], "@other hi", False),
        ("hermes_test_bot hi", [], "hermes_test_bot hi", False),
    ):
        entities = [{"type": kind, "offset": at, "length": size} for kind, at, size in marks]
        arrival = await heard(rig, text=text, entities=entities)
        assert (arrival.text, arrival.mentioned) == (said, mentioned)
    named = {"type": "text_mention", "offset": 0, "length": 2, "user": {"id": 4242, "first_name": "H"}}
    assert (await heard(rig, text="it does", entities=[named])).mentioned


async def test_edits_forwards_quotes_and_who_speaks(rig: Rig) -> None:
    await rig.listening()
    assert (await heard(rig, "edited_message", text="/approve 1")).text == "[edited] /approve 1"
    assert await heard(rig, "edited_message", location={"latitude": 1, "longitude": 2}) is None
    assert (await heard(rig, text="old", forward_origin={"type": "user"})).forwarded
    to = {
        "message_id": 5,
        "chat": {"id": 1001, "type": "private"},
        "from": {"id": 4242, "first_name": "H"},
        "text": "a b",
    }
    reply = (await heard(rig, text="yes", reply_to_message=to, quote={"text": "b", "position": 2})).reply
    assert (reply.message_id, reply.text, reply.own) == ("5", "b", True)
    group = {"id": -100, "type": "supergroup", "title": "Us", "is_forum": True}
    began = to | {"message_id": 9, "chat": group}
    anonymous = await heard(
        rig, text="x", chat=group, sender_chat=group, message_thread_id=9, is_topic_message=True, reply_to_message=began
    )
    assert (anonymous.reply, anonymous.place.thread, anonymous.place.name) == (None, "9", "Us")
    assert (anonymous.sender.id, anonymous.sender.name, anonymous.place.kind) == ("-100", "Us", ChatKind.GROUP)
    general = await heard(rig, text="x", chat=group, message_thread_id=1, is_topic_message=True)
    assert general.place.thread == ""
    assert (await heard(rig, text="x", chat=group | {"is_forum": False}, message_thread_id=9)).place.thread == ""


async def test_edits_and_posts_are_heard_where_that_is_set(rig: Rig, fake: Fake) -> None:
    await rig.listening(edits=False)
    assert await heard(rig, "edited_message", text="again") is None
    channel = {"id": -200, "type": "channel", "title": "News"}
    assert await heard(rig, "channel_post", chat=channel, text="post") is None
    await rig.listening(channel_posts=True)
    post = await heard(rig, "channel_post", chat=channel, text="later")
    assert (post.place.kind, post.text) == (ChatKind.CHANNEL, "later")


async def test_being_added_is_told(rig: Rig, fake: Fake) -> None:
    await rig.listening()
    for status, words in (("member", "added to the group -300"), ("kicked", "removed from the chat -300")):
        chat = {"id": -300, "type": "group", "title": "New"}
        assert await heard(rig, "my_chat_member", chat=chat, new_chat_member={"status": status}) is None
        assert words in rig.lines[-1]


async def test_what_cannot_be_read_stops_nothing(rig: Rig, fake: Fake) -> None:
    await rig.listening()
    assert await heard(rig, text=["no", "text"]) is None
    assert "cannot be read" in rig.lines[0]
    assert (await heard(rig, text="half \ud83d")).text == "half \ufffd"
    await fake.until(lambda: fake.feed.polls > 2)


async def test_a_press_is_answered_once_it_is_taken(rig: Rig, fake: Fake) -> None:
    from hermes.core.chats import Button

    platform = await rig.listening()
    await rig.place()
    sent = await platform.send(Outgoing(place=DM, text="Sure?", buttons=((Button("Yes", "y"),),)))
    await fake.press(sent, "y")
    await fake.until(lambda: fake.answered)
    assert rig.arrivals[-1].press == "y"


async def test_numbers_are_kept_and_forgotten_when_telegram_may_count_anew(tmp_path: Path) -> None:
    clock = ManualClock()
    async with rigged("telegram", load_fake("telegram"), tmp_path, clock) as rig:
        fake = rig.fake
        assert isinstance(fake, Fake)
        await rig.listening()
        await rig.place()
        assert rig.cursors["updates"] == f"{int(rig.arrivals[0].event_id) + 1}@{int(clock.now())}"
        await fake.until(lambda: not fake.feed.updates)
        await rig.shut()
        clock.set_now(clock.now() + 7 * 86_400)
        fake.feed.numbers = iter(range(5, 99))
        said = await fake.say("after a long silence")
        await rig.listening()
        await rig.hear(said)
        await rig.hear(await fake.say("and on"))
        assert rig.cursors["updates"].startswith("7@")


async def test_two_programs_on_one_token_are_told_apart_from_a_wrong_token(rig: Rig, fake: Fake) -> None:
    await rig.listening()
    async with aiohttp.ClientSession() as other:
        await other.post(f"{fake.url}/bot{fake.token}/getUpdates", json={"timeout": 0})
    await rig.until(lambda: rig.errors)
    assert "Another program" in str(rig.errors[0])
    assert not isinstance(rig.errors[0], PlatformRefusedError)
    await rig.hear(await fake.say("heard all the same"))


async def test_settings_that_cannot_be_right_are_refused(rig: Rig) -> None:
    for changed, words in (
        ({"token": ""}, "TELEGRAM_BOT_TOKEN"),
        ({"token": "no token"}, "TELEGRAM_BOT_TOKEN"),
        ({"base_url": "telegram"}, "base_url"),
    ):
        with pytest.raises(PlatformRefusedError, match=words):
            await rig.open(**changed)
    platform = await rig.open(webhook_url="https://x.example/hook", webhook_listen="8443")
    with pytest.raises(PlatformRefusedError, match="HOST:PORT"):
        await anext(platform.receive())


async def test_a_dead_long_poll_is_noticed(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = asyncio.Event()

    async def answer(request: web.Request) -> web.Response:
        if request.path.endswith("getUpdates"):
            asked.set()
            await asyncio.Event().wait()
        return web.json_response({"ok": True, "result": {"id": 1} if request.path.endswith("getMe") else True})

    silent = Listener([web.post("/{path:.*}", answer)])
    await silent.start()
    monkeypatch.setattr("hermes.gateway.platforms.telegram.adapter._POLL_GRACE_SECONDS", 2.0)
    try:
        platform = await rig.open(base_url=silent.url, poll_seconds=0)
        async with contextlib.aclosing(platform.receive()) as batches:
            assert not (await anext(batches)).arrivals
            with pytest.raises(PlatformError, match=r"did not answer within 2 s"):
                async with asyncio.timeout(60):
                    await anext(batches)
            assert asked.is_set()
    finally:
        await silent.down()


@pytest.mark.parametrize("body", [b"<html>no</html>", b'{"ok": true, "result": {"no": "id"}}', b"{}", b"[1]"])
async def test_something_else_that_answers_is_named(rig: Rig, body: bytes) -> None:
    async def answer(request: web.Request) -> web.Response:
        return web.Response(body=body)

    other = Listener([web.post("/{path:.*}", answer)])
    await other.start()
    try:
        platform = await rig.open(base_url=other.url)
        with pytest.raises(SendError) as error:
            await platform.send(Outgoing(place=DM, text="x"))
        assert error.value.fault is SendFault.UNKNOWN
        assert rig.fake.options()["token"] not in str(error.value)
    finally:
        await other.down()


async def test_marks_links_and_topics_as_they_are_sent(rig: Rig, fake: Fake) -> None:
    platform = await rig.listening()
    said = await rig.hear(await fake.say("hi", chat="group1"))
    await platform.send(Outgoing(place=said.place, text="**b** [l](https://a.example)"))
    assert (fake.shown()[-1].text, fake.shown()[-1].markup) == ("b l", "entities")
    general = Place(platform="here", chat=said.place.chat, thread="1")
    await platform.send(Outgoing(place=general, text="in General"))
    await platform.send(Outgoing(place=said.place, text="**b** [l](https://a.example)", plain=True))
    assert (fake.shown()[-1].text, fake.shown()[-1].markup) == ("b l (https://a.example)", "")
    await platform.send(Outgoing(place=said.place, text="gone", reply_to="99999"))
    with pytest.raises(SendError, match="thread not found") as error:
        await platform.send(Outgoing(place=Place(platform="here", chat=said.place.chat, thread="55"), text="x"))
    assert error.value.fault is SendFault.NOT_FOUND
    with pytest.raises(SendError, match="not a chat on Telegram") as error:
        await platform.send(Outgoing(place=Place(platform="here", chat="somewhere"), text="x"))
    assert error.value.fault is SendFault.NOT_FOUND
    with pytest.raises(SendError, match="chat not found"):
        await platform.send(Outgoing(place=Place(platform="here", chat="@nobody"), text="x"))
    fake.blocked.add(1001)
    fake.place("", "1001")
    with pytest.raises(SendError) as error:
        await platform.send(Outgoing(place=DM, text="x"))
    assert error.value.fault is SendFault.FORBIDDEN
    await platform.react(said.place, said.message_id, "✅")
    assert fake.reactions[said.message_id] == ("👍",)
    await rig.place()


async def test_files_are_sent_as_what_they_are(rig: Rig, fake: Fake, tmp_path: Path) -> None:
    platform = await rig.listening()
    await rig.place()
    for name, kind, field in (
        ("a.png", MediaKind.IMAGE, "photo"),
        ("a.bmp", MediaKind.IMAGE, "document"),
        ("v.ogg", MediaKind.VOICE, "voice"),
        ("w.ogg", MediaKind.VOICE, "document"),
        ("v.mp4", MediaKind.VIDEO, "video"),
        ("s.mp3", MediaKind.AUDIO, "audio"),
        ("d.pdf", MediaKind.DOCUMENT, "document"),
    ):
        (tmp_path / name).write_bytes(make_opus(7.2) if name == "v.ogg" else b"content")
        sent = await platform.send(Outgoing(place=DM, text="*x*", file=str(tmp_path / name), kind=kind))
        assert field in fake.bodies[sent]
        assert fake.bodies[sent]["caption"] == "x"
    assert [file.voice_seconds for one in fake.shown() for file in one.files if file.name == "v.ogg"] == [7]
    with pytest.raises(SendError) as error:
        await platform.send(Outgoing(place=DM, text="x" * 1025, file=str(tmp_path / "d.pdf")))
    assert error.value.fault is SendFault.TOO_LONG
    (tmp_path / "link.pdf").symlink_to("/etc/passwd")
    with pytest.raises(SendError, match="a link took"):
        await platform.send(Outgoing(place=DM, file=str(tmp_path / "link.pdf")))


async def test_502_is_uncertain_and_500_is_not(rig: Rig, fake: Fake) -> None:
    platform = await rig.listening()
    await rig.place()
    for status, uncertain in ((500, False), (502, True), (504, True)):
        fake.failing.append(Failing(status))
        with pytest.raises(SendError) as error:
            await platform.send(Outgoing(place=DM, text="x"))
        assert (error.value.fault, error.value.uncertain) == (SendFault.TRANSIENT, uncertain)


async def hooked(rig: Rig, port: int) -> Platform:
    return await rig.listening(
        webhook_url=f"http://127.0.0.1:{port}/hook", webhook_listen=f"127.0.0.1:{port}", webhook_secret="s" * 20
    )


async def free_port() -> int:
    listener = Listener([])
    await listener.start()
    await listener.down()
    return listener.port


async def test_the_webhook_takes_what_is_on_disk(rig: Rig, fake: Fake) -> None:
    port = await free_port()
    await hooked(rig, port)
    assert (await rig.hear(await fake.say("by the hook"))).text == "by the hook"
    await fake.until(lambda: not fake.feed.updates)
    await rig.shut()
    said = await fake.say("while away")
    await hooked(rig, port)
    await rig.hear(said)
    async with aiohttp.ClientSession() as stranger:
        url = f"http://127.0.0.1:{port}/hook"
        header = {"X-Telegram-Bot-Api-Secret-Token": "s" * 20}
        for headers, body, status in (
            ({}, b"{}", 401),
            ({"X-Telegram-Bot-Api-Secret-Token": "wrong"}, b"{}", 401),
            (header, b"{no", 400),
            (header, b"[" + b"1," * 700_000 + b"1]", 413),
        ):
            async with stranger.post(url, data=io.BytesIO(body), headers=headers) as answer:
                assert answer.status == status
        async with stranger.get(url, headers=header) as answer:
            assert answer.status == 405
    await rig.listening()
    await rig.hear(await fake.say("by polls again"))


async def test_the_webhook_is_not_taken_when_it_is_not_on_disk(fake: Fake) -> None:
    port = await free_port()
    async with (
        TelegramWebhookServer(f"http://127.0.0.1:{port}/", f"127.0.0.1:{port}", "secret") as hook,
        aiohttp.ClientSession() as http,
    ):
        header = {"X-Telegram-Bot-Api-Secret-Token": "secret"}
        first = asyncio.create_task(http.post(hook.address, data=json.dumps({"update_id": 1}), headers=header))
        with pytest.raises(RuntimeError):
            async with hook.next_updates():
                raise RuntimeError("no room on the disk")
        assert (await first).status == 503
        second = asyncio.create_task(http.post(hook.address, data=json.dumps({"update_id": 1}), headers=header))
        async with hook.next_updates() as updates:
            assert len(updates) == 1
        assert (await second).status == 200
        with pytest.raises(PlatformError, match="Nothing can listen"):
            await TelegramWebhookServer("http://x.example/", f"127.0.0.1:{port}", "").__aenter__()
