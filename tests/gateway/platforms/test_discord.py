"""Discord's wire: going on after a break, what was missed, limits, and bad input."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path

import aiohttp
import pytest

from hermes.core.chats import Batch, Button, ChatKind, Outgoing, Place
from hermes.gateway.platform import PlatformError, PlatformRefusedError, SendError, SendFault
from hermes.gateway.platforms.discord.adapter import PLATFORM
from hermes.testing.fake_platform import Failing
from tests.gateway.chat_account import Account, account, to
from tests.vendors.discord import Fake
from tests.vendors.discord_rest import ME, ROLE, message_body, user_body


@pytest.fixture
def fake() -> Fake:
    return Fake()


@pytest.fixture
async def here(fake: Fake, tmp_path: Path) -> AsyncIterator[Account]:
    async with account(PLATFORM, fake, tmp_path) as found:
        yield found


async def test_a_message_is_heard_with_all_that_belongs_to_it(fake: Fake, here: Account, tmp_path: Path) -> None:
    first = await fake.say("good morning")
    note = tmp_path / "note.txt"
    note.write_text("paper")
    await fake.say("look", chat="group1", thread="8001", mention=True, reply_to=first, files=[note])
    dm, aside = await here.until(2)
    assert (dm.text, dm.place.kind, dm.place.chat, dm.sender.id) == ("good morning", ChatKind.DM, "91001", "1001")
    assert not dm.mentioned
    assert abs(dm.at - time.time()) < 60
    assert (aside.text, aside.mentioned) == ("look", True)
    assert (aside.place.chat, aside.place.thread, aside.place.kind) == ("group1", "8001", ChatKind.GROUP)
    assert aside.reply is not None
    assert (aside.reply.message_id, aside.reply.text, aside.reply.own) == (first, "good morning", False)
    await here.platform.fetch(aside.attachments[0], tmp_path / "in.txt")
    assert (tmp_path / "in.txt").read_text() == "paper"
    assert not fake.refused


async def test_a_mention_of_the_bots_role_is_one_of_the_bot(fake: Fake, here: Account) -> None:
    channel = fake.place("group1")
    body = message_body(fake.snowflake(), channel, user_body("1001"), f"<@&{ROLE}> what now?")
    await fake.deliver(body | {"mention_roles": [ROLE]})
    (heard,) = await here.until(1)
    assert (heard.text, heard.mentioned) == ("what now?", True)
    assert here.cursors["roles"] == ROLE


async def test_what_was_handed_on_and_stickers_are_words(fake: Fake, here: Account) -> None:
    channel = fake.place("91001")
    body = message_body(fake.snowflake(), channel, user_body("1001"), "")
    handed: dict[str, object] = {"message": {"content": "somebody's words", "attachments": []}}
    await fake.deliver(body | {"message_snapshots": [handed], "sticker_items": [{"id": "1", "name": "wave"}]})
    (heard,) = await here.until(1)
    assert (heard.text, heard.forwarded) == ("somebody's words\n[sticker: wave]", True)


async def test_it_names_no_sequence_before_it_is_on_disk(fake: Fake, here: Account) -> None:
    """A batch that was given and not taken comes again, to the same object and to a new one."""
    await here.stop()
    await here.open()
    fake.interval = 20
    async with aclosing(here.platform.receive()) as batches:
        assert not (await anext(batches)).arrivals
        await fake.say("first")
        assert [one.text for one in (await anext(batches)).arrivals] == ["first"]
        before = fake.heartbeats
        await fake.until(lambda: fake.heartbeats >= before + 3)
        session = next(iter(fake.sessions.values()))
        assert session.confirmed < len(session.log)
    async with aclosing(here.platform.receive()) as batches:
        found = [await anext(batches), await anext(batches)]
    assert [one.text for batch in found for one in batch.arrivals] == ["first"]
    here.listen()
    assert [one.text for one in await here.until(1)] == ["first"]
    assert fake.identified == 1


async def test_it_goes_on_with_its_session_after_a_break_and_after_a_restart(fake: Fake, here: Account) -> None:
    await fake.drop()
    await fake.say("one")
    await here.until(1)
    await fake.down()
    await asyncio.sleep(0.05)
    await fake.up()
    await fake.say("two")
    await here.until(2)
    await here.again()
    await fake.say("three")
    await here.until(3)
    await fake.tell({"op": 7, "d": None})
    await fake.say("four")
    assert [one.text for one in await here.until(4)] == ["one", "two", "three", "four"]
    await fake.until(lambda: fake.resumed == 4)
    assert fake.identified == 1


async def test_what_was_missed_is_read_from_the_history(fake: Fake, here: Account) -> None:
    """The session is gone, as after hours: known channels are read, in order, within six hours."""
    await fake.say("hello")
    await fake.say("hello", chat="group1", thread="8001")
    await here.until(2)
    await here.stop()
    fake.forget()
    for number in range(7):
        await fake.say(f"missed {number}")
        await fake.say(f"aside {number}", chat="group1", thread="8001", mention=True)
    await here.open()
    here.listen()
    heard = (await here.until(16))[2:]
    assert [one.text for one in heard if not one.place.thread] == [f"missed {number}" for number in range(7)]
    aside = [one for one in heard if one.place.thread]
    assert [one.text for one in aside] == [f"aside {number}" for number in range(7)]
    assert all(one.mentioned and one.place.chat == "group1" and one.place.kind is ChatKind.GROUP for one in aside)
    await fake.say("and now")
    assert (await here.until(17))[-1].text == "and now"
    assert fake.identified == 2


async def test_an_invalid_session_is_begun_anew(fake: Fake, here: Account) -> None:
    await fake.say("hello")
    await here.until(1)
    await fake.tell({"op": 9, "d": False})
    await fake.until(lambda: fake.identified == 2)
    await fake.say("again")
    await here.until(2)


async def test_more_than_a_page_is_missed(fake: Fake, here: Account) -> None:
    await fake.say("hello")
    await here.until(1)
    await here.stop()
    fake.forget()
    for number in range(120):
        await fake.say(str(number))
    await here.open()
    here.listen()
    heard = await here.until(101)
    assert [one.text for one in heard[1:]] == [str(number) for number in range(20, 120)]
    assert any("More than 100 messages were missed" in line for line in here.lines)


async def test_a_connection_that_is_dead_is_noticed(fake: Fake, here: Account) -> None:
    fake.interval = 40
    await fake.drop()
    await fake.until(lambda: fake.heartbeats > 2)
    fake.acknowledging = False
    await fake.until(lambda: fake.resumed > 1)
    fake.acknowledging = True
    assert any("has stopped answering" in line for line in here.lines)
    await fake.say("still there?")
    await here.until(1)


async def test_a_button_is_acknowledged_once_it_is_on_disk(fake: Fake, here: Account) -> None:
    await fake.say("may you?", chat="group1")
    (said,) = await here.until(1)
    rows = ((Button("Yes", "yes-1"), Button("No", "no-1", danger=True)),)
    asked = await here.platform.send(to(said.place, "May I?", "k1", buttons=rows))
    assert fake.messages[asked].buttons == (("Yes", "yes-1"), ("No", "no-1"))
    await fake.press(asked, "no-1", person=fake.stranger)
    pressed = (await here.until(2))[1]
    assert (pressed.press, pressed.message_id, pressed.sender.id) == ("no-1", asked, fake.stranger)
    assert pressed.place.chat == "group1"
    await fake.until(lambda: list(fake.rest.waiting.values()) == [6])
    await here.platform.edit(to(said.place, "You may not."), asked)
    assert (fake.messages[asked].text, fake.messages[asked].buttons) == ("You may not.", ())


async def test_one_key_is_shown_once(fake: Fake, here: Account) -> None:
    place = Place("here", fake.place("91001"))
    message = to(place, "**bold**", "key-1")
    fake.failing.append(Failing(drop=True, after=True))
    with pytest.raises(SendError) as broken:
        await here.platform.send(message)
    assert (broken.value.fault, broken.value.uncertain) == (SendFault.TRANSIENT, True)
    found = await here.platform.find_sent(message)
    assert found == await here.platform.send(message)
    assert [one.text for one in fake.shown()] == ["**bold**"]
    assert await here.platform.find_sent(to(place, "other words", "key-2")) is None
    # The same words under another key are another message.
    assert await here.platform.find_sent(to(place, "**bold**", "key-3")) is None


async def test_what_was_sent_before_it_was_tried_is_something_else(fake: Fake, here: Account) -> None:
    place = Place("here", fake.place("91001"))
    await here.platform.send(to(place, "Done.", "key-1"))
    await here.again()
    assert await here.platform.find_sent(to(place, "Done.", "key-2", since=time.time() + 3600)) is None
    assert await here.platform.find_sent(to(place, "Done.", "key-2", reply_to=fake.snowflake())) is None
    assert await here.platform.find_sent(to(place, "Done.", "key-1", since=time.time())) is not None


async def test_files_go_out_as_they_are(fake: Fake, here: Account, tmp_path: Path) -> None:
    file = tmp_path / "a plan.bin"
    file.write_bytes(bytes(range(256)) * 300)
    message = to(Place("here", fake.place("91001")), "the plan", "k", file=str(file), silent=True)
    sent = await here.platform.send(message)
    assert [(one.name, one.content) for one in fake.messages[sent].files] == [("a plan.bin", file.read_bytes())]
    assert fake.rest.history[sent]["flags"] == 1 << 12
    assert await here.platform.find_sent(message) == sent
    with pytest.raises(SendError) as missing:
        await here.platform.send(to(Place("here", "91001"), "x", file=str(tmp_path / "none")))
    assert missing.value.fault is SendFault.FORBIDDEN


async def test_nobody_is_rung_and_plain_is_plain(fake: Fake, here: Account) -> None:
    place = Place("here", fake.place("group1"))
    await here.platform.send(to(place, "@everyone <@1001> look", plain=True))
    assert fake.rest.pinged == []
    sent = await here.platform.send(to(place, "**a** [b](http://c.invalid)", plain=True))
    assert "**" not in fake.messages[sent].text


async def test_the_limit_is_of_code_points(fake: Fake, here: Account) -> None:
    place = Place("here", fake.place("91001"))
    await here.platform.send(to(place, "𝕏" * 1999 + "中"))
    with pytest.raises(SendError) as long:
        await here.platform.send(to(place, "𝕏" * 2001))
    assert long.value.fault is SendFault.TOO_LONG


@pytest.mark.slow
async def test_no_request_is_made_that_a_bucket_does_not_allow(fake: Fake, here: Account) -> None:
    place = Place("here", fake.place("91001"))
    fake.rest.bucket, fake.rest.bucket_seconds = 2, 3.0
    await here.platform.send(to(place, "1"))
    await here.platform.send(to(place, "2"))
    with pytest.raises(SendError) as full:
        await here.platform.send(to(place, "3"))
    assert full.value.fault is SendFault.RATE_LIMITED
    assert full.value.retry_after is not None
    assert 0 < full.value.retry_after <= 3.0
    await asyncio.sleep(full.value.retry_after)
    await here.platform.send(to(place, "3"))
    assert fake.refused == []
    assert [one.text for one in fake.shown()] == ["1", "2", "3"]


@pytest.mark.parametrize(
    ("failing", "fault", "after", "uncertain"),
    [
        (Failing(429, retry_after=1.5), SendFault.RATE_LIMITED, 1.5, False),
        (Failing(503), SendFault.TRANSIENT, None, True),
        (Failing(403), SendFault.FORBIDDEN, None, False),
    ],
)
async def test_refusals_are_named(
    fake: Fake, here: Account, failing: Failing, fault: SendFault, after: float | None, uncertain: bool
) -> None:
    fake.failing.append(failing)
    with pytest.raises(SendError) as told:
        await here.platform.send(to(Place("here", fake.place("91001")), "x"))
    assert (told.value.fault, told.value.retry_after, told.value.uncertain) == (fault, after, uncertain)


async def test_gone_chats_and_messages_are_not_found(fake: Fake, here: Account) -> None:
    with pytest.raises(SendError) as gone:
        await here.platform.send(to(Place("here", "404"), "x"))
    assert gone.value.fault is SendFault.NOT_FOUND
    with pytest.raises(SendError) as unknown:
        await here.platform.edit(to(Place("here", fake.place("91001")), "x"), "404")
    assert unknown.value.fault is SendFault.NOT_FOUND


async def test_typing_and_reactions(fake: Fake, here: Account) -> None:
    said = await fake.say("hm", chat="group1", thread="8001")
    (heard,) = await here.until(1)
    await here.platform.typing(heard.place)
    assert fake.typings == ["8001"]
    await here.platform.react(heard.place, said, "👀")
    assert fake.rest.history[said]["reactions"]
    await here.platform.react(heard.place, said, "")
    assert not fake.rest.history[said]["reactions"]


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
        error = await refusal(fake, tmp_path, token="nonsense")
        assert "does not take the bot's token" in str(error)
        fake.privileged = False
        error = await refusal(fake, tmp_path)
        assert "Message Content Intent" in str(error)
    async with aiohttp.ClientSession() as http:
        found = Account(PLATFORM, fake, http, tmp_path)
        with pytest.raises(PlatformRefusedError, match="DISCORD_BOT_TOKEN"):
            await found.open(token="")


async def test_a_platform_that_is_down_is_tried_again(fake: Fake, tmp_path: Path) -> None:
    async with fake, aiohttp.ClientSession() as http:
        await fake.down()
        found = Account(PLATFORM, fake, http, tmp_path)
        platform = await found.open()
        with pytest.raises(PlatformError, match="cannot be reached") as down:
            await anext(platform.receive())
        assert not isinstance(down.value, PlatformRefusedError)
        await platform.close()


FRAMES = [
    "not json",
    "[]",
    '"text"',
    "{}",
    '{"op": "x"}',
    '{"op": 77, "d": {}}',
    '{"op": 0, "t": null, "s": null, "d": null}',
    '{"op": 0, "t": "SOMETHING_NEW", "s": 5, "d": {"a": [1, 2]}}',
    '{"op": 0, "t": "MESSAGE_CREATE", "s": 6, "d": {}}',
    '{"op": 0, "t": "MESSAGE_CREATE", "s": 6, "d": {"id": "x", "channel_id": "1", "author": {"id": "5"}}}',
    '{"op": 0, "t": "MESSAGE_CREATE", "s": 7, "d": {"id": "9", "channel_id": 1, "author": {"id": "5"}, "flags": []}}',
    '{"op": 0, "t": "INTERACTION_CREATE", "s": 8, "d": {"id": "1", "type": 3, "token": "t"}}',
    '{"op": 0, "t": "GUILD_CREATE", "s": 9, "d": {"id": 5}}',
    b'{"op": 0, "t": "MESSAGE_CREATE", "s": 10, "d": {"id": "\xff\xfe"}}',
    '{"op": 0, "t": "MESSAGE_CREATE", "s": 11, "d": {"content": "\\ud83d"}}',
    "[" * 100_000,
    '{"op": 0, "t": "MESSAGE_CREATE", "s": 12, "d": {"embeds": ' + "[" * 100_000,
]


async def test_what_cannot_be_read_is_told_once_and_the_rest_goes_on(fake: Fake, here: Account) -> None:
    for _ in range(2):
        for frame in FRAMES:
            await fake.tell(frame)
    half = '{"op": 0, "t": "MESSAGE_CREATE", "s": 9, "d": {"id": "9", "channel_id": "7", "content": "half \\ud83d",'
    await fake.tell(half + ' "author": {"id": "5"}}}')
    await fake.say("and me?")
    assert [one.text for one in await here.until(2)] == ["half \ufffd", "and me?"]
    assert 1 <= len(here.lines) <= 4
    assert all("\n" not in line and len(line) < 400 for line in here.lines)
    assert here.failed == []
    assert fake.resumed == 0


async def test_a_frame_that_is_too_large_does_not_come_for_ever(fake: Fake, here: Account) -> None:
    await fake.say("hello")
    await here.until(1)
    await fake.dispatch("MESSAGE_CREATE", {"id": "1", "content": "x" * (16 * 1024 * 1024 + 100)})
    await fake.until(lambda: fake.identified == 2)
    await fake.say("still there?")
    assert (await here.until(2))[-1].text == "still there?"
    assert any("too large" in line for line in here.lines)


async def test_answers_that_are_not_json_are_errors_of_the_platform(fake: Fake, here: Account) -> None:
    place = Place("here", fake.place("91001"))
    fake.rest.history["7"] = {"id": 7, "channel_id": "91001", "author": None}
    fake.rest.history["8"] = message_body("8", "91001", user_body(ME), "x")
    assert await here.platform.find_sent(Outgoing(place=place, text="x", key="k", since=-1e12)) == "8"
    assert any("history cannot be read" in line for line in here.lines)


def test_the_descriptor_says_what_is_there() -> None:
    assert PLATFORM.secrets == ("token",)
    assert json.dumps(PLATFORM.variables) == '{"token": "DISCORD_BOT_TOKEN"}'
    assert PLATFORM.can.measure("@everyone") == len("@\u200beveryone")
    assert Batch() == Batch((), ())
