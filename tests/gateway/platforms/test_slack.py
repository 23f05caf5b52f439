"""Slack's wire: acknowledging, going on after a break, what was missed, limits, and bad input."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path

import aiohttp
import pytest

from hermes.core.chats import Attachment, Button, ChatKind, MediaKind, Place
from hermes.gateway.platform import PlatformError, PlatformRefusedError, SendError, SendFault
from hermes.gateway.platforms.slack.adapter import PLATFORM, SECTION_LIMIT
from hermes.gateway.text.split import split_markdown
from hermes.testing.fake_platform import Failing
from tests.gateway.chat_account import Account, account, to
from tests.vendors.slack import Fake
from tests.vendors.slack_web import ME


@pytest.fixture
def fake() -> Fake:
    return Fake()


@pytest.fixture
async def here(fake: Fake, tmp_path: Path) -> AsyncIterator[Account]:
    async with account(PLATFORM, fake, tmp_path) as found:
        yield found


async def test_a_message_is_heard_with_all_that_belongs_to_it(fake: Fake, here: Account, tmp_path: Path) -> None:
    await fake.say("good morning &amp; <https://a.invalid|a link> <@U2> <!here>")
    first = await fake.say("begin", chat="group1")
    note = tmp_path / "note.txt"
    note.write_text("paper")
    await fake.say("look", chat="group1", mention=True, reply_to=first, files=[note])
    dm, opening, aside = await here.until(3)
    assert dm.text == "good morning & a link (https://a.invalid) @PersonU2 @here"
    assert (dm.place.kind, dm.place.chat, dm.place.thread, dm.sender.id) == (ChatKind.DM, "D1001", "", "1001")
    assert dm.sender.name == "Person1001"
    assert abs(dm.at - time.time()) < 60
    assert (opening.mentioned, opening.place.thread, opening.place.kind) == (False, "", ChatKind.GROUP)
    assert (aside.text, aside.mentioned, aside.place.thread) == ("look", True, first)
    # Who is addressed is told twice; it was said once.
    assert len(fake.envelopes) == 4
    await here.platform.fetch(aside.attachments[0], tmp_path / "in.txt")
    assert (tmp_path / "in.txt").read_text() == "paper"
    await fake.until(lambda: not fake.waiting())
    assert not fake.refused


async def test_each_message_of_a_channel_begins_a_thread(fake: Fake, here: Account) -> None:
    await here.stop()
    await here.open(reply_in_thread=True)
    here.listen()
    ts = await fake.say("hello", chat="group1")
    await fake.say("hello")
    group, direct = await here.until(2)
    assert (group.place.thread, group.mentioned, direct.place.thread) == (ts, False, "")
    sent = await here.platform.send(to(group.place, "yes?"))
    assert fake.messages[sent].thread == ts
    await fake.say("go on", chat="group1", thread=ts)
    assert (await here.until(3))[2].place == group.place
    own = await here.platform.send(to(Place("here", "group1"), "good morning"))
    await fake.say("to you", chat="group1", thread=own)
    assert (await here.until(4))[3].mentioned


async def test_nothing_is_acknowledged_before_it_is_on_disk(fake: Fake, here: Account) -> None:
    await here.stop()
    await here.open()
    async with aclosing(here.platform.receive()) as batches:
        assert not (await anext(batches)).arrivals
        await fake.say("first")
        assert [one.text for one in (await anext(batches)).arrivals] == ["first"]
        assert len(fake.waiting()) == 1
        waiting = asyncio.ensure_future(anext(batches))
        await fake.until(lambda: not fake.waiting())
        await fake.say("second")
        assert [one.text for one in (await waiting).arrivals] == ["second"]
    await here.platform.close()
    await here.open()
    here.listen()
    assert [one.text for one in await here.until(1)] == ["second"]
    await fake.until(lambda: not fake.waiting())
    assert all(one.took is not None for one in fake.envelopes.values())


async def test_it_connects_again(fake: Fake, here: Account) -> None:
    await fake.drop()
    await fake.say("one")
    await here.until(1)
    await fake.down()
    await fake.up()
    await fake.say("two")
    await here.until(2)
    await fake.tell({"type": "disconnect", "reason": "refresh_requested", "debug_info": {}})
    await fake.say("three")
    await here.until(3)
    await fake.until(lambda: not fake.waiting())
    assert {one.text for one in here.heard} == {"one", "two", "three"}


async def test_what_was_missed_is_read_from_the_histories(fake: Fake, here: Account) -> None:
    thread = await fake.say("begin", chat="group1")
    await fake.say("hello")
    await fake.say("hello", chat="group1", thread=thread)
    await here.until(3)
    await here.stop()
    for number in range(5):
        await fake.say(f"missed {number}")
        await fake.say(f"aside {number}", chat="group1", thread=thread)
    fake.forget()
    fake.web.rate["conversations.replies"] = 0.01
    await here.open()
    here.listen()
    heard = (await here.until(13))[3:]
    assert [one.text for one in heard if not one.place.thread] == [f"missed {number}" for number in range(5)]
    aside = [one for one in heard if one.place.thread]
    assert [one.text for one in aside] == [f"aside {number}" for number in range(5)]
    assert {(one.place.chat, one.place.thread, one.place.kind) for one in aside} == {("group1", thread, ChatKind.GROUP)}
    await here.again()
    await fake.say("and now")
    assert [one.text for one in (await here.until(14))[13:]] == ["and now"]
    assert not fake.refused


async def test_a_button_is_pressed(fake: Fake, here: Account) -> None:
    await fake.say("may you?", chat="group1")
    (said,) = await here.until(1)
    rows = ((Button("Yes", "yes-1"), Button("No", "no-1", danger=True)),)
    asked = await here.platform.send(to(said.place, "May I?\n\n" + "word " * 700, "k1", buttons=rows))
    assert fake.messages[asked].buttons == (("Yes", "yes-1"), ("No", "no-1"))
    await fake.press(asked, "no-1", person=fake.stranger)
    pressed = (await here.until(2))[1]
    assert (pressed.press, pressed.message_id, pressed.sender.id) == ("no-1", asked, fake.stranger)
    assert pressed.place == said.place
    await fake.until(lambda: not fake.waiting())
    await here.platform.edit(to(said.place, "You may not."), asked)
    assert (fake.messages[asked].text, fake.messages[asked].buttons) == ("You may not.", ())


async def test_commands_are_words(fake: Fake, here: Account) -> None:
    await fake.command("/hermes", "/new", chat="group1")
    await fake.command("/hermes", "how are you?")
    await fake.command("/model", "fast")
    heard = await here.until(3)
    assert [one.text for one in heard] == ["/new", "how are you?", "/model fast"]
    assert [one.place.kind for one in heard] == [ChatKind.GROUP, ChatKind.DM, ChatKind.DM]
    assert all(one.mentioned for one in heard)
    await fake.until(lambda: not fake.waiting())


async def test_a_key_is_found_again(fake: Fake, here: Account) -> None:
    place = Place("here", fake.place("D1001"))
    message = to(place, "**bold** & <!channel> @channel", "key-1")
    fake.failing.append(Failing(drop=True, after=True))
    with pytest.raises(SendError) as broken:
        await here.platform.send(message)
    assert (broken.value.fault, broken.value.uncertain) == (SendFault.TRANSIENT, True)
    found = await here.platform.find_sent(message)
    assert found is not None
    assert fake.messages[found].text.startswith("*bold* &amp; &lt;!channel&gt;")
    assert fake.web.loud == []
    await here.platform.edit(to(place, "changed", "key-1"), found)
    assert await here.platform.find_sent(message) == found
    assert await here.platform.find_sent(to(place, "**bold**", "key-2")) is None


async def test_files_go_out_as_they_are(fake: Fake, here: Account, tmp_path: Path) -> None:
    file = tmp_path / "plan.bin"
    file.write_bytes(bytes(range(256)) * 300)
    thread = await fake.say("begin", chat="group1")
    message = to(Place("here", "group1", thread), "the *plan*", "k", file=str(file))
    sent = await here.platform.send(message)
    assert [(one.name, one.content) for one in fake.messages[sent].files] == [("plan.bin", file.read_bytes())]
    assert (fake.messages[sent].thread, fake.messages[sent].text) == (thread, "the _plan_")
    assert await here.platform.find_sent(message) == sent
    with pytest.raises(SendError) as missing:
        await here.platform.send(to(Place("here", "D1001"), "x", file=str(tmp_path / "none")))
    assert missing.value.fault is SendFault.FORBIDDEN


async def test_the_token_goes_to_slack_only(fake: Fake, here: Account, tmp_path: Path) -> None:
    elsewhere = Attachment(MediaKind.DOCUMENT, ref="http://files.slack.com.invalid/x")
    with pytest.raises(PlatformError, match="not on Slack"):
        await here.platform.fetch(elsewhere, tmp_path / "x")
    file = fake.web.share("a.txt", b"x")
    about = Attachment(MediaKind.DOCUMENT, media_type="text/plain", ref=str(file["url_private"]))
    fake.bot_token = "another"
    with pytest.raises(PlatformError, match="sign in"):
        await here.platform.fetch(about, tmp_path / "x")
    assert not (tmp_path / "x").exists()


async def test_the_longest_text_can_be_edited(fake: Fake, here: Account) -> None:
    place = Place("here", fake.place("D1001"))
    for word in ("x", "<", "中", "𝕏", "&"):
        piece = split_markdown((word * 50 + " ") * 400, PLATFORM.can.limit, PLATFORM.can.measure)[0]
        sent = await here.platform.send(to(place, piece))
        await here.platform.edit(to(place, piece), sent)
    with pytest.raises(SendError) as long:
        await here.platform.edit(to(place, "x" * 4001), sent)
    assert long.value.fault is SendFault.TOO_LONG
    assert fake.refused == []


async def test_plain_is_plain(fake: Fake, here: Account) -> None:
    sent = await here.platform.send(to(Place("here", fake.place("D1001")), "a **b** _c_ <d>", plain=True))
    assert (fake.messages[sent].text, fake.messages[sent].markup) == ("a b c &lt;d&gt;", "")


@pytest.mark.parametrize(
    ("failing", "fault", "after", "uncertain"),
    [
        (Failing(429, retry_after=1.5), SendFault.RATE_LIMITED, 1.5, False),
        (Failing(503), SendFault.TRANSIENT, None, True),
        (Failing(403), SendFault.FORBIDDEN, None, False),
        (Failing(404), SendFault.NOT_FOUND, None, False),
        (Failing(400), SendFault.BAD_FORMAT, None, False),
    ],
)
async def test_refusals_are_named(
    fake: Fake, here: Account, failing: Failing, fault: SendFault, after: float | None, uncertain: bool
) -> None:
    place = Place("here", fake.place("D1001"))
    fake.failing.append(failing)
    with pytest.raises(SendError) as told:
        await here.platform.send(to(place, "x"))
    assert (told.value.fault, told.value.retry_after, told.value.uncertain) == (fault, after, uncertain)


async def test_typing_and_reactions(fake: Fake, here: Account) -> None:
    said = await fake.say("hm", chat="group1")
    (heard,) = await here.until(1)
    await here.platform.typing(Place("here", "group1", said))
    assert fake.typings == ["group1"]
    for _ in range(2):
        await here.platform.react(heard.place, said, "👀")
    assert fake.web.message("group1", said)["reactions"] == [{"name": "eyes", "users": [ME], "count": 1}]
    await here.platform.react(heard.place, said, "")
    assert fake.web.message("group1", said)["reactions"] == []
    with pytest.raises(SendError) as unnamed:
        await here.platform.react(heard.place, said, "🦑")
    assert unnamed.value.fault is SendFault.BAD_FORMAT


async def refusal(fake: Fake, tmp_path: Path, **changes: object) -> PlatformRefusedError:
    async with aiohttp.ClientSession() as http:
        found = Account(PLATFORM, fake, http, tmp_path)
        platform = await found.open(**changes)
        try:
            with pytest.raises(PlatformRefusedError) as refused:
                async for _ in platform.receive():
                    pytest.fail("it stood")
        finally:
            await platform.close()
        return refused.value


async def test_what_will_not_work_is_one_clear_line(fake: Fake, tmp_path: Path) -> None:
    async with fake:
        assert "SLACK_BOT_TOKEN" in str(await refusal(fake, tmp_path, bot_token="nonsense"))
        assert "SLACK_APP_TOKEN" in str(await refusal(fake, tmp_path, app_token="nonsense"))
    async with aiohttp.ClientSession() as http:
        found = Account(PLATFORM, fake, http, tmp_path)
        with pytest.raises(PlatformRefusedError, match="two tokens"):
            await found.open(app_token="")


async def test_socket_mode_that_is_switched_off_is_told(fake: Fake, here: Account) -> None:
    await fake.tell({"type": "disconnect", "reason": "link_disabled", "debug_info": {}})
    async with asyncio.timeout(60):
        while not here.failed:
            await here.changed()
    assert isinstance(here.failed[0], PlatformRefusedError)


EVENT = '{"type": "events_api", "envelope_id": "x1", "payload": {"event": %s}}'
FRAMES = [
    "not json",
    "[]",
    "{}",
    '{"type": 5}',
    "[" * 100_000,
    '{"type": "something_new", "envelope_id": "x1", "payload": {}}',
    '{"type": "events_api", "envelope_id": "x2"}',
    EVENT % '{"type": "message"}',
    EVENT % '{"type": "message", "ts": "x", "channel": "C1"}',
    EVENT % '{"type": "message", "ts": "1", "text": "\\ud83d"}',
    EVENT % '{"type": "team_join", "user": {"id": 5}}',
    EVENT % ('{"type": "message", "blocks": ' + "[" * 100_000),
    '{"type": "interactive", "envelope_id": "x6", "payload": {"type": "block_actions"}}',
    '{"type": "interactive", "envelope_id": "x7", "payload": {"type": "view_closed", "user": {"id": "U1"}}}',
    '{"type": "slash_commands", "envelope_id": "x8", "payload": {"command": "/hermes"}}',
    b'{"type": "events_api", "envelope_id": "\xff\xfe"}',
]


async def test_what_cannot_be_read_is_told_once_and_the_rest_goes_on(fake: Fake, here: Account) -> None:
    for _ in range(2):
        for frame in FRAMES:
            await fake.tell(frame)
    await fake.event({"type": "message", "subtype": "message_changed", "channel": "D1001", "ts": "1.1", "hidden": True})
    await fake.event({"type": "message", "user": ME, "channel": "D1001", "ts": "1.2", "text": "my own"})
    await fake.event({"type": "message", "bot_id": "B0BOT", "channel": "D1001", "ts": "1.3", "text": "my own"})
    half: str = EVENT % '{"type": "message", "user": "U1", "ts": "2.1", "channel": "D1", "text": "half \\ud83d"}'
    await fake.tell(half)
    await fake.say("and me?")
    assert [one.text for one in await here.until(2)] == ["half \ufffd", "and me?"]
    await fake.until(lambda: not fake.waiting())
    assert 1 <= len(here.lines) <= 4
    assert all("\n" not in line and len(line) < 400 for line in here.lines)
    assert here.failed == []
    assert fake.connections == 1


async def test_a_frame_that_is_too_large_ends_the_connection_only(fake: Fake, here: Account) -> None:
    await fake.tell("x" * (16 * 1024 * 1024 + 100))
    await fake.until(lambda: fake.connections == 2)
    await fake.say("still there?")
    assert (await here.until(1))[-1].text == "still there?"
    assert len(here.lines) == 1


async def test_names_that_cannot_be_had_hold_nothing_up(fake: Fake, here: Account) -> None:
    fake.web.rate["users.info"] = 30.0
    await fake.say("who am I?")
    (heard,) = await here.until(1)
    assert (heard.sender.id, heard.sender.name) == ("1001", "")


def test_sections_leave_room() -> None:
    assert SECTION_LIMIT < 3000
