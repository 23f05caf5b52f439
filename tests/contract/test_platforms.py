"""What every chat platform is held to, each with its fake of the same name (`tests/vendors/`).

What a platform says that it cannot do is skipped, by name.
"""

import asyncio
import contextlib
import importlib.util
import os
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
from msgspec import structs

from hermes.core.chats import Button, ChatKind, MediaKind, Outgoing
from hermes.gateway.accounts import platform_names
from hermes.gateway.platform import (
    MenuEntry,
    PlatformError,
    PlatformMenu,
    PlatformRefusedError,
    Resend,
    SendError,
    SendFault,
)
from hermes.testing.fake_platform import Failing
from hermes.testing.platform_rig import Rig, rigged
from tests.vendors import load_fake

NAMES = [name for name in platform_names() if importlib.util.find_spec(f"tests.vendors.{name}")]


@pytest.fixture(params=NAMES)
async def rig(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Rig]:
    async with rigged(request.param, load_fake(request.param), tmp_path) as one:
        yield one


def needs(rig: Rig, ability: str) -> None:
    if not getattr(rig.can, ability):
        pytest.skip(f"{rig.descriptor.title} says: no {ability}")


def test_there_are_platforms_to_hold_to_it() -> None:
    assert NAMES


async def test_what_is_said_comes_in_once(rig: Rig) -> None:
    await rig.listening()
    message_id = await rig.fake.say("hello, world")
    arrival = await rig.hear(message_id)
    assert (arrival.text, arrival.sender.id, arrival.sender.bot) == ("hello, world", rig.fake.person, False)
    assert (arrival.place.platform, arrival.place.kind) == ("here", ChatKind.DM)
    assert arrival.place.thread in ("", message_id)  # every mail that answers none begins a thread
    assert arrival.event_id
    assert arrival.verified
    again = await rig.hear(await rig.fake.say("hello, world"))
    assert [one.text for one in rig.arrivals] == ["hello, world", "hello, world"]
    assert again.event_id != arrival.event_id
    if rig.can.senders:
        stranger = await rig.hear(await rig.fake.say("me too", person=rig.fake.stranger))
        assert stranger.sender.id == rig.fake.stranger
        assert stranger.place.lane != arrival.place.lane


async def test_groups_have_many_people_and_a_name_to_call(rig: Rig) -> None:
    if rig.can.dm_only:
        pytest.skip(f"{rig.descriptor.title} says: no groups")
    await rig.listening()
    plain = await rig.hear(await rig.fake.say("among us", chat="group1"))
    called = await rig.hear(await rig.fake.say("what now?", chat="group1", mention=True, person=rig.fake.stranger))
    assert plain.place.chat == called.place.chat == rig.fake.chat_id("group1")
    assert plain.place.kind is ChatKind.GROUP
    assert (plain.mentioned, called.mentioned) == (False, True)
    assert called.text.endswith("what now?")
    assert called.sender.id == rig.fake.stranger
    other = await rig.hear(await rig.fake.say("elsewhere", chat="group2"))
    assert other.place.lane != plain.place.lane


async def test_threads_are_places_of_their_own(rig: Rig) -> None:
    needs(rig, "threads")
    platform = await rig.listening()
    outside = await rig.hear(await rig.fake.say("outside", chat="group1"))
    inside = await rig.hear(await rig.fake.say("inside", chat="group1", thread=rig.fake.topic))
    assert inside.place.thread == rig.fake.topic
    assert inside.place.lane != outside.place.lane
    await platform.send(Outgoing(place=inside.place, text="answer", key="k"))
    assert [one.text for one in rig.fake.shown("group1", rig.fake.topic)] == ["answer"]
    assert not rig.fake.shown("group1")


async def test_an_answer_to_a_message_says_to_which(rig: Rig) -> None:
    platform = await rig.listening()
    place = await rig.place()
    sent = await platform.send(Outgoing(place=place, text="what I said", key="k"))
    arrival = await rig.hear(await rig.fake.say("about that", reply_to=sent))
    if arrival.reply is None:
        pytest.skip(f"{rig.descriptor.title} has no answers to messages")
    assert (arrival.reply.message_id, arrival.reply.own) == (sent, True)
    assert "what I said" in arrival.reply.text
    await platform.send(Outgoing(place=place, text="indeed", key="l", reply_to=arrival.message_id))
    assert rig.fake.shown()[-1].reply_to == arrival.message_id


async def test_nothing_is_acknowledged_before_the_next_is_asked_for(rig: Rig) -> None:
    if not (rig.can.redelivers or rig.can.history):
        pytest.skip(f"{rig.descriptor.title} neither delivers again nor has a history")
    await rig.listening()
    await rig.place()
    await rig.shut()
    said = await rig.fake.say("on the way")
    platform = await rig.open()
    event = ""
    async with asyncio.timeout(60), contextlib.aclosing(platform.receive()) as batches:
        async for batch in batches:
            if event := next((one.event_id for one in batch.arrivals if one.message_id == said), ""):
                break  # as if the machine stopped before it is on disk
    assert event
    await rig.listening()
    assert (await rig.hear(said)).event_id == event
    later = await rig.hear(await rig.fake.say("later"))
    known = [one.message_id for one in rig.arrivals]
    await rig.listening()
    last = await rig.hear(await rig.fake.say("last"))
    assert later.message_id not in [one.message_id for one in rig.arrivals[len(known) :]]
    assert rig.arrivals[-1] == last


async def test_what_comes_twice_has_one_id(rig: Rig) -> None:
    await rig.listening()
    said = await rig.fake.say("only once")
    first = await rig.hear(said)
    await rig.fake.again(said)
    await rig.hear(await rig.fake.say("next"))
    assert {one.event_id for one in rig.arrivals if one.text == "only once"} == {first.event_id}


async def test_it_connects_again(rig: Rig) -> None:
    platform = await rig.listening()
    place = await rig.place()
    await rig.fake.drop()
    await rig.hear(await rig.fake.say("after a break"))
    await rig.fake.down()
    with pytest.raises(SendError) as error:
        await platform.send(Outgoing(place=place, text="to nobody", key="k"))
    assert error.value.fault is SendFault.TRANSIENT
    while_away = await rig.fake.say("while you were away")
    known = rig.connections
    await rig.fake.up()
    await rig.until(lambda: rig.connections > known)
    if rig.can.redelivers or rig.can.history:
        await rig.hear(while_away)
    await rig.hear(await rig.fake.say("back"))
    assert [one.text for one in rig.arrivals if one.message_id == while_away] in ([], ["while you were away"])
    await platform.send(Outgoing(place=place, text="here", key="l"))
    assert rig.fake.shown()[-1].text == "here"


async def test_a_message_is_sent_and_changed(rig: Rig) -> None:
    platform = await rig.listening()
    place = await rig.place()
    sent = await platform.send(Outgoing(place=place, text="**first** words", key="k", silent=True))
    assert sent == rig.fake.shown()[-1].message_id
    assert "first" in rig.fake.shown()[-1].text
    assert rig.fake.shown()[-1].chat == rig.fake.chat_id(place.chat)
    needs(rig, "edit")
    changed = Outgoing(place=place, text="second `words`", key="k")
    await platform.edit(changed, sent)
    await platform.edit(changed, sent)
    assert len(rig.fake.shown()) == 1
    assert "second" in rig.fake.shown()[-1].text
    with pytest.raises(SendError) as error:
        await platform.edit(changed, sent[:-1] + ("1" if sent[-1] != "1" else "2") * 3)
    assert error.value.fault is SendFault.NOT_FOUND
    assert rig.can.draft is False or await platform.draft(changed) is None


async def test_it_is_seen_to_be_typing(rig: Rig) -> None:
    needs(rig, "typing")
    platform = await rig.listening()
    place = await rig.place()
    await platform.typing(place)
    await rig.fake.until(lambda: rig.fake.typings)


async def test_it_shows_a_menu_of_commands(rig: Rig) -> None:
    needs(rig, "menu")
    platform = await rig.listening()
    arrival = await rig.hear(await rig.fake.say("hello"))
    entries = (MenuEntry("new", "begin"), MenuEntry("reload-mcp", "again"), MenuEntry("字", "no name everywhere"))
    people = {arrival.sender.id: (*entries, MenuEntry("model", "choose")), "77": entries}
    await platform.set_menu(PlatformMenu(everybody=entries[:1], everything=entries, people=people))
    assert "new" in rig.fake.menu() and "字" not in rig.fake.menu()


async def test_it_reacts(rig: Rig) -> None:
    needs(rig, "reactions")
    platform = await rig.listening()
    arrival = await rig.hear(await rig.fake.say("nice"))
    await platform.react(arrival.place, arrival.message_id, "👀")
    assert rig.fake.reactions[arrival.message_id]
    await platform.react(arrival.place, arrival.message_id, "")
    assert not rig.fake.reactions[arrival.message_id]


async def test_buttons_are_pressed(rig: Rig) -> None:
    needs(rig, "buttons")
    platform = await rig.listening()
    place = await rig.place()
    token = "t" * 64
    rows = ((Button("Yes", token), Button("No", "n", danger=True)), (Button("Always", "a"),))
    sent = await platform.send(Outgoing(place=place, text="Sure?", key="k", buttons=rows))
    assert rig.fake.shown()[-1].buttons == (("Yes", token), ("No", "n"), ("Always", "a"))
    await rig.fake.press(sent, token, person=rig.fake.stranger)
    await rig.until(lambda: any(one.press for one in rig.arrivals))
    pressed = next(one for one in rig.arrivals if one.press)
    assert (pressed.press, pressed.sender.id, pressed.message_id) == (token, rig.fake.stranger, sent)
    assert pressed.place.chat == place.chat
    await platform.edit(Outgoing(place=place, text="Sure? Yes.", key="k"), sent)
    assert rig.fake.shown()[-1].buttons == ()


async def test_files_go_both_ways(rig: Rig, tmp_path: Path) -> None:
    needs(rig, "media")
    platform = await rig.listening()
    content = bytes(range(256)) * 300
    for name in ("in.bin", "out.pdf", "out.png"):
        (tmp_path / name).write_bytes(content)
    arrival = await rig.hear(await rig.fake.say("look at this", files=[tmp_path / "in.bin"]))
    (attachment,) = arrival.attachments
    assert (arrival.text, attachment.kind) == ("look at this", MediaKind.DOCUMENT)
    assert attachment.size in (None, len(content))
    target = Path(attachment.path) if attachment.path else tmp_path / "fetched"
    if not attachment.path:
        await platform.fetch(attachment, target)
    assert target.read_bytes() == content
    await platform.send(Outgoing(place=arrival.place, text="here", key="k", file=str(tmp_path / "out.pdf")))
    await platform.send(
        Outgoing(place=arrival.place, key="l", file=str(tmp_path / "out.png"), kind=MediaKind.IMAGE, reply_to="")
    )
    shown = [file for one in rig.fake.shown() for file in one.files]
    assert [(file.name, file.content) for file in shown] == [("out.pdf", content), ("out.png", content)]
    assert "here" in rig.fake.text()
    (tmp_path / "link.png").symlink_to(tmp_path / "out.pdf")
    for name in ("gone.png", "link.png"):  # a link was no link when the file was judged
        with pytest.raises(SendError) as error:
            await platform.send(Outgoing(place=arrival.place, key="m", file=str(tmp_path / name)))
        assert error.value.fault is SendFault.FORBIDDEN


@pytest.mark.parametrize("sign", ["x", "天", "😀"])
async def test_the_limit_is_the_platforms(rig: Rig, sign: str) -> None:
    platform = await rig.listening()
    place = await rig.place()
    count = rig.can.limit // rig.can.measure(sign)
    while rig.can.measure(sign * count) > rig.can.limit:
        count -= 1
    await platform.send(Outgoing(place=place, text=sign * count, key="k"))
    assert rig.fake.text() == sign * count
    with pytest.raises(SendError) as error:
        await platform.send(Outgoing(place=place, text=sign * (count + 2), key="l"))
    assert error.value.fault is SendFault.TOO_LONG


@pytest.mark.parametrize(
    ("failing", "fault"),
    [
        (Failing(429, 7), SendFault.RATE_LIMITED),
        (Failing(500), SendFault.TRANSIENT),
        (Failing(drop=True), SendFault.TRANSIENT),
        (Failing(400), SendFault.BAD_FORMAT),
        (Failing(403), SendFault.FORBIDDEN),
        (Failing(404), SendFault.NOT_FOUND),
    ],
    ids=["429", "500", "drop", "400", "403", "404"],
)
async def test_errors_are_understood(rig: Rig, failing: Failing, fault: SendFault) -> None:
    platform = await rig.listening()
    place = await rig.place()
    message = Outgoing(place=place, text="some **words**", key="k")
    rig.fake.failing.append(failing)
    with pytest.raises(SendError) as error:
        await platform.send(message)
    assert error.value.fault is fault
    assert error.value.retry_after == failing.retry_after
    token = max((str(value) for value in rig.fake.options().values()), key=len)
    assert token not in str(error.value)
    await platform.send(structs.replace(message, plain=fault is SendFault.BAD_FORMAT))
    assert [("words" in one.text) for one in rig.fake.shown()] == [True]


async def test_an_answer_that_is_lost_is_uncertain(rig: Rig) -> None:
    platform = await rig.listening()
    place = await rig.place()
    message = Outgoing(place=place, text="some words", key="k")
    rig.fake.failing.append(Failing(drop=True, after=True))
    with pytest.raises(SendError) as error:
        await platform.send(message)
    assert (error.value.fault, error.value.uncertain) == (SendFault.TRANSIENT, True)
    match rig.can.resend:
        case Resend.SAFE:
            await platform.send(message)
            assert len(rig.fake.shown()) == 1
        case Resend.CHECK:
            assert await platform.find_sent(message) == rig.fake.shown()[0].message_id
            assert await platform.find_sent(structs.replace(message, key="other", text="other words")) is None
        case Resend.BLIND:
            pytest.skip(f"{rig.descriptor.title} cannot tell what was sent")


async def test_a_wrong_token_is_refused(rig: Rig) -> None:
    given = rig.fake.options()
    wrong = {
        name: value[:-4] + "Wr0n"
        for name in rig.descriptor.secrets
        if isinstance(value := given.get(name), str) and value
    }
    if not wrong:
        pytest.skip(f"{rig.descriptor.title} has no secrets")
    with pytest.raises(PlatformRefusedError) as error:
        platform = await rig.open(**wrong)
        async with asyncio.timeout(60), contextlib.aclosing(platform.receive()) as batches:
            async for _ in batches:
                pass
    assert not any(value in str(error.value) for value in wrong.values())


async def test_without_a_server_it_is_lost_and_not_refused(rig: Rig) -> None:
    await rig.fake.down()
    with pytest.raises((PlatformError, OSError, aiohttp.ClientError)) as error:
        platform = await rig.open()
        async with asyncio.timeout(60), contextlib.aclosing(platform.receive()) as batches:
            async for _ in batches:
                pass
    assert not isinstance(error.value, PlatformRefusedError)


def _open_things() -> tuple[int, set[str]]:
    names = {task.get_name() for task in asyncio.all_tasks() if task is not asyncio.current_task()}
    return len(os.listdir("/proc/self/fd")), names


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="this system does not list open files")
@pytest.mark.parametrize("name", NAMES)
async def test_closing_leaves_nothing_open(name: str, tmp_path: Path) -> None:
    async with rigged(
        name, load_fake(name), tmp_path
    ) as rig:  # what is made once a process: resolvers' threads, tables
        await rig.listening()
    before = _open_things()
    async with rigged(name, load_fake(name), tmp_path) as rig:
        platform = await rig.listening()
        place = await rig.place()
        sending = asyncio.create_task(platform.send(Outgoing(place=place, text="words", key="k")))
        await rig.shut()
        await asyncio.wait({sending})
        assert sending.exception() is None or isinstance(sending.exception(), SendError | PlatformError)
    async with asyncio.timeout(60):
        while _open_things() != before:  # noqa: ASYNC110 - nothing tells when the system has closed them
            await asyncio.sleep(0.01)
