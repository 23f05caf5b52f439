"""What is Matrix's own: where news are read from, rooms, mentions, threads, buttons, errors."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec import structs

from hermes.core.chats import Button, ChatKind, MediaKind, Outgoing, Place
from hermes.gateway.platform import PlatformError, PlatformRefusedError, SendError, SendFault
from hermes.testing.fake_platform import Failing
from hermes.testing.platform_rig import Rig, rigged
from tests.vendors import load_fake
from tests.vendors.matrix import Fake
from tests.vendors.matrix_state import ME
from tests.vendors.opus_file import make_opus


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    async with rigged("matrix", load_fake("matrix"), tmp_path) as one:
        yield one


@pytest.fixture
def fake(rig: Rig) -> Fake:
    assert isinstance(rig.fake, Fake)
    return rig.fake


async def knows(sender: str) -> bool:
    return sender == Fake.person


async def test_news_are_asked_for_when_those_before_are_on_disk(rig: Rig, fake: Fake) -> None:
    await rig.listening()
    await rig.place()
    await rig.shut()
    before = rig.cursors["since"]
    said = await fake.say("one")
    platform = await rig.open()
    fake.syncs.clear()
    async with contextlib.aclosing(platform.receive()) as batches:
        async for batch in batches:
            if batch.arrivals:
                break
        assert fake.syncs == [before]
        await fake.say("two")
        assert fake.syncs == [before]
        async for batch in batches:
            if batch.arrivals:
                break
        assert fake.syncs[0] == before and fake.syncs[-1] > before
    assert said != batch.arrivals[0].message_id


async def test_a_gap_is_filled_from_the_history(rig: Rig, fake: Fake) -> None:
    await rig.listening()
    await rig.place()
    await rig.shut()
    fake.window = 5
    said = [await fake.say(f"m{number}") for number in range(230)]
    await rig.listening()
    await rig.hear(said[-1])
    assert [one.text for one in rig.arrivals[1:]] == [f"m{number}" for number in range(230)]
    assert not rig.lines


async def test_a_gap_that_is_too_large_is_said(rig: Rig, fake: Fake) -> None:
    await rig.listening()
    await rig.place()
    await rig.shut()
    fake.window = 5
    said = [await fake.say(f"m{number}") for number in range(520)]
    await rig.listening()
    await rig.hear(said[-1])
    assert len(rig.arrivals) == 1 + 505
    assert len(rig.lines) == 1 and "500 messages were missed" in rig.lines[0]


@pytest.mark.parametrize(
    ("join", "who", "joins"), [("people", 0, True), ("people", 1, False), ("all", 1, True), ("none", 0, False)]
)
async def test_whose_invitations_are_accepted(rig: Rig, fake: Fake, join: str, who: int, joins: bool) -> None:
    rig.around = structs.replace(rig.around, is_known_sender=knows)
    await rig.listening(join=join)
    person = (fake.person, fake.stranger)[who]
    room = await fake.invite("club", person, direct=True)
    await fake.happen(room, person, "m.room.message", {"msgtype": "m.text", "body": "welcome"})
    last = await rig.hear(await fake.say("elsewhere"))
    assert (ME in room.members) is joins
    if joins:
        await rig.until(lambda: any(one.text == "welcome" for one in rig.arrivals))
        welcome = next(one for one in rig.arrivals if one.text == "welcome")
        assert (welcome.place.kind, welcome.place.lane != last.place.lane) == (ChatKind.DM, True)
        assert fake.account_data["m.direct"] == {person: [room.id]}


async def test_how_it_is_addressed(rig: Rig, fake: Fake) -> None:
    await rig.listening()
    room = fake.room("group1")
    for body, more, mentioned, text in (
        ("hermes, what now?", {}, True, "what now?"),
        ("@hermes:fake.test: what now?", {}, True, "what now?"),
        ("and you, Hermes?", {}, True, "and you, Hermes?"),
        ("hermeset", {}, False, "hermeset"),
        ("Hermes: no", {"m.mentions": {"user_ids": ["@other:fake.test"]}}, False, "Hermes: no"),
        ("you there?", {"m.mentions": {"user_ids": [ME]}}, True, "you there?"),
        ("!new", {}, False, "/new"),
        ("!new idea", {}, False, "/new idea"),
        ("!!", {}, False, "!!"),
    ):
        said = await fake.happen(room, fake.person, "m.room.message", {"msgtype": "m.text", "body": body, **more})
        arrival = await rig.hear(said)
        assert (arrival.mentioned, arrival.text) == (mentioned, text), body


async def test_what_others_change_or_programs_say(rig: Rig, fake: Fake) -> None:
    await rig.listening()
    room = fake.room("group1")
    said = await fake.say("first", chat="group1")
    change = {"rel_type": "m.replace", "event_id": said}
    fresh = {"msgtype": "m.text", "body": "other"}
    await fake.happen(
        room,
        fake.person,
        "m.room.message",
        {**fresh, "body": "* other", "m.new_content": fresh, "m.relates_to": change},
    )
    await fake.happen(room, ME, "m.room.message", {"msgtype": "m.text", "body": "from another device"})
    notice = await rig.hear(
        await fake.happen(room, fake.person, "m.room.message", {"msgtype": "m.notice", "body": "beep"})
    )
    assert notice.sender.bot
    assert [one.text for one in rig.arrivals] == ["first", "beep"]
    where = {"msgtype": "m.location", "body": "The café", "geo_uri": "geo:48.1,11.5"}
    assert (
        await rig.hear(await fake.happen(room, fake.person, "m.room.message", where))
    ).text == "The café\ngeo:48.1,11.5"
    voice = {"msgtype": "m.audio", "body": "v.ogg", "url": "mxc://fake.test/v", "org.matrix.msc3245.voice": {}}
    heard = await rig.hear(await fake.happen(room, fake.person, "m.room.message", voice))
    assert (heard.attachments[0].kind, heard.text) == (MediaKind.VOICE, "")


async def test_an_encrypted_room_is_said_once_to_people_who_are_known(rig: Rig, fake: Fake) -> None:
    rig.around = structs.replace(rig.around, is_known_sender=knows)
    await rig.listening()
    secret = {"algorithm": "m.megolm.v1.aes-sha2", "ciphertext": "x"}
    for person in (fake.stranger, fake.person):
        for _ in range(2):
            await fake.happen(fake.room("", person), person, "m.room.encrypted", secret)
    await fake.until(fake.shown)
    await rig.place()
    assert len([line for line in rig.lines if "encrypted" in line]) == 2
    assert [one.chat for one in fake.shown()] == [fake.room("").id]
    assert "encrypted" in fake.text()
    await rig.shut()
    await rig.listening()
    await fake.happen(fake.room(""), fake.person, "m.room.encrypted", secret)
    await rig.hear(await fake.say("done"))
    assert len(fake.shown()) == 1


async def test_buttons_after_a_restart_and_beyond_ten(rig: Rig, fake: Fake) -> None:
    platform = await rig.listening()
    place = await rig.place()
    inside = structs.replace(place, thread=(await rig.hear(await fake.say("root"))).message_id)
    rows = tuple((Button(f"Choice {number}", f"t{number}"),) for number in range(12))
    sent = await platform.send(Outgoing(place=inside, text="Which?", key="k", buttons=rows))
    shown = fake.messages[sent]
    assert "🔟 Choice 9" in shown.text and "🇧 Choice 11" in shown.text
    assert len(fake.reactions[sent]) == 12
    await rig.listening()
    await fake.press(sent, "t11")
    await rig.until(lambda: any(one.press for one in rig.arrivals))
    pressed = rig.arrivals[-1]
    assert (pressed.press, pressed.place.lane) == ("t11", inside.lane)


async def test_a_text_beyond_the_event_goes_without_html(rig: Rig, fake: Fake) -> None:
    platform = await rig.listening()
    place = await rig.place()
    sent = await platform.send(Outgoing(place=place, text="a", key="k"))
    text = "\n".join("`<`" * 20 for _ in range(250))
    await platform.edit(Outgoing(place=place, text=text, key="k"), sent)
    assert fake.messages[sent].markup == ""
    assert not fake.refused
    await platform.edit(Outgoing(place=place, text="**b**", key="k"), sent)
    assert fake.messages[sent].markup == "org.matrix.custom.html"


async def test_a_password_is_used_again_when_the_token_ends(rig: Rig, fake: Fake) -> None:
    platform = await rig.listening(access_token="", user="hermes", password=fake.password)
    place = await rig.place()
    device = rig.cursors["device"]
    known = rig.connections
    fake.tokens.clear()
    await fake.drop()
    await rig.until(lambda: rig.connections > known)
    await rig.hear(await fake.say("still there?"))
    await platform.send(Outgoing(place=place, text="yes", key="k"))
    assert set(fake.tokens.values()) == {device}
    assert fake.text() == "yes"
    with pytest.raises(PlatformRefusedError) as error:
        platform = await rig.open(access_token="", user="hermes", password="wr0ng")
        async for _ in platform.receive():
            pass
    assert "password" in str(error.value) and "wr0ng" not in str(error.value)


async def test_messages_of_people_who_are_known_are_marked_as_read(rig: Rig, fake: Fake) -> None:
    rig.around = structs.replace(rig.around, is_known_sender=knows)
    await rig.listening()
    await fake.say("not yours", person=fake.stranger)
    said = await fake.say("hello")
    await fake.until(lambda: said in fake.receipts)
    assert fake.receipts == [said]


async def test_files_and_their_faults(rig: Rig, fake: Fake, tmp_path: Path) -> None:
    platform = await rig.listening()
    place = await rig.place()
    room = fake.room("")
    locked = {"msgtype": "m.image", "body": "a.png", "file": {"url": "mxc://fake.test/x", "key": {}}}
    arrival = await rig.hear(await fake.happen(room, fake.person, "m.room.message", locked))
    assert "encrypted" in arrival.attachments[0].problem
    for ref in ("mxc://fake.test/gone", "mxc://fake.test/../../x", "mxc://fake.test", "mxc://"):
        with pytest.raises(PlatformError):
            await platform.fetch(structs.replace(arrival.attachments[0], ref=ref, problem=""), tmp_path / "x")
        assert not (tmp_path / "x").exists()
    for number, (sound, is_voice) in enumerate(
        ((make_opus(30.0, loud=(0, 2)), True), (b"OggS of another kind", False))
    ):
        (tmp_path / "v.ogg").write_bytes(sound)
        file = str(tmp_path / "v.ogg")
        await platform.send(Outgoing(place=place, key=f"k{number}", file=file, kind=MediaKind.VOICE))
        sent = next(event for _, event in reversed(room.events) if event["sender"] == ME)
        content = sent["content"]
        assert isinstance(content, dict)
        assert content["msgtype"] == "m.audio" and ("org.matrix.msc3245.voice" in content) is is_voice
        if is_voice:
            about = content["org.matrix.msc1767.audio"]
            assert content["info"]["duration"] == about["duration"] == 30_000
            assert len(about["waveform"]) == 86 and set(about["waveform"]) <= set(range(1025))
            assert about["waveform"][0] == 1024


async def test_what_the_server_says_is_understood(rig: Rig, fake: Fake) -> None:
    platform = await rig.listening()
    place = await rig.place()
    fake.failing.append(Failing(413))
    with pytest.raises(SendError) as error:
        await platform.send(Outgoing(place=place, text="x", key="k"))
    assert error.value.fault is SendFault.TOO_LONG
    with pytest.raises(SendError) as error:
        await platform.send(Outgoing(place=Place("here", "!nowhere:fake.test"), text="x", key="k"))
    assert error.value.fault is SendFault.FORBIDDEN
    with pytest.raises(PlatformRefusedError, match="homeserver"):
        platform = await rig.open(homeserver=fake.url + "/nothing")
        async with asyncio.timeout(60):
            async for _ in platform.receive():
                pass
    for wrong in ({"homeserver": ""}, {"access_token": ""}):
        with pytest.raises(PlatformRefusedError):
            await rig.open(**wrong)
