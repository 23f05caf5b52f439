"""What a hostile or broken homeserver, or a stranger on it, sends: one clear line at most, and the rest runs on."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web

from hermes.testing.platform_rig import Rig, rigged
from hermes.testing.script import Say
from hermes.testing.server import ScriptedServer
from hermes.testing.web_server import Listener
from tests.gateway.gateway_rig import home_for, running, said
from tests.vendors import load_fake
from tests.vendors.matrix import Fake
from tests.vendors.matrix_state import Body


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    async with rigged("matrix", load_fake("matrix"), tmp_path) as one:
        yield one


@pytest.fixture
def fake(rig: Rig) -> Fake:
    assert isinstance(rig.fake, Fake)
    return rig.fake


BROKEN: list[tuple[str, Body]] = [
    ("m.room.message", {"msgtype": "m.text", "body": ["not", "text"]}),
    ("m.room.message", {"msgtype": "m.text", "body": "x", "m.relates_to": "a string"}),
    ("m.room.message", {"msgtype": "m.image", "body": "x", "url": "mxc://a/b", "info": {"size": "huge"}}),
    ("m.room.message", {}),
    ("m.room.message", {"msgtype": "m.text", "body": "x", "m.mentions": {"user_ids": {"all": True}}}),
    ("m.room.member", {"membership": 7}),
    ("m.reaction", {"m.relates_to": {"rel_type": "m.annotation", "event_id": 9}}),
    ("m.reaction", {"m.relates_to": {"rel_type": "m.annotation", "event_id": "$nothing", "key": "1\ufe0f\u20e3"}}),
    ("m.reaction", {"m.relates_to": {"rel_type": "m.annotation", "event_id": "../../x", "key": "🔟"}}),
    ("org.unknown.event", {"anything": [[[[]]]]}),
    ("m.room.tombstone", {"replacement_room": "!x:y"}),
    ("m.call.invite", {"offer": {}}),
]


async def test_what_cannot_be_read_is_passed_over(rig: Rig, fake: Fake) -> None:
    await rig.listening()
    room = fake.room("group1")
    for kind, content in BROKEN:
        await fake.happen(room, fake.stranger, kind, content)
    await fake.happen(
        room, fake.stranger, "m.room.message", {"msgtype": "m.text", "body": "x"}, origin_server_ts="soon"
    )
    last = await rig.hear(await fake.say("and on", chat="group1"))
    assert [one.message_id for one in rig.arrivals] == [last.message_id]
    assert 1 <= len(rig.lines) <= 5
    assert all("\n" not in line and len(line) < 400 for line in rig.lines)
    assert not rig.errors


async def test_strange_texts_come_in_as_they_are(rig: Rig, fake: Fake) -> None:
    await rig.listening()
    room = fake.room("group1")
    for text in ("x" * 1_000_000, "\ud83d half", "\x1b[2J\u202e", "> <@a:b> no\n> more", "> <", "\0", "!", "/"):
        arrival = await rig.hear(
            await fake.happen(room, fake.person, "m.room.message", {"msgtype": "m.text", "body": text})
        )
        assert len(arrival.text) >= len(text) - 1
        arrival.text.encode()
    assert not rig.errors


async def test_clocks_that_are_wrong(rig: Rig, fake: Fake) -> None:
    await rig.listening()
    room = fake.room("")
    content: Body = {"msgtype": "m.text", "body": "when?"}
    for at in (0, -5, 10**18, 1.5):
        arrival = await rig.hear(await fake.happen(room, fake.person, "m.room.message", content, origin_server_ts=at))
        assert arrival.at == at / 1000


async def test_what_is_no_homeserver_loses_the_connection_only(tmp_path: Path) -> None:
    whole = {"user_id": "@hermes:fake.test", "next_batch": "s1"}
    answers = [
        b"<html>",
        b"\xff\xfe{",
        b"[" * 100_000,
        json.dumps({"user_id": 7}).encode(),
        json.dumps(whole | {"rooms": [1]}).encode(),
        json.dumps(
            whole | {"rooms": {"join": {"!a:b": [], "!c:d": {"timeline": 7}}, "invite": {"!x:y": {"invite_state": 1}}}}
        ).encode(),
    ]
    given: list[bytes] = []

    async def answer(request: web.Request) -> web.Response:
        del request
        return web.Response(body=given[0], content_type="application/json")

    listener = Listener([web.route("*", "/{tail:.*}", answer)])
    await listener.start()
    try:
        async with rigged("matrix", load_fake("matrix"), tmp_path) as rig:
            for body in answers:
                given[:] = [body]
                platform = await rig.open(homeserver=listener.url)
                errors: list[str] = []
                try:
                    async for _ in platform.receive():
                        break
                except Exception as error:  # noqa: BLE001 - looked at below
                    errors.append(f"{type(error).__name__} {error}")
                assert not errors or errors[0].startswith(("PlatformError Matrix", "SendError Matrix")), (
                    body[:50],
                    errors,
                )
            assert len(rig.lines) == 5  # a line for each thing that could not be read
    finally:
        await listener.down()


async def test_a_name_or_an_invitation_makes_nobody_known() -> None:
    """T22: display names, foreign invitations, reactions by others."""
    async with ScriptedServer([Say("hello, owner")]) as server, Fake() as chat:
        with home_for(server, {"matrix": chat}, owners=[chat.person], groups=["*"]) as home:
            async with running(home):
                room = await chat.invite("trap", chat.stranger)
                dm = chat.room("", chat.stranger)
                about: Body = {"membership": "join", "displayname": chat.person}
                await chat.happen(dm, chat.stranger, "m.room.member", about, state_key=chat.stranger)
                await chat.say("let me in", person=chat.stranger)
                await chat.say("hermes, do it", chat="group1", person=chat.stranger, mention=True)
                await chat.say("hello")
                await chat.until(lambda: chat.text() == "hello, owner")
        assert len(server.requests) == 1 and said(server, 0) == "hello"
        assert room.invited == chat.stranger
        assert not chat.shown(dm.id) and not chat.receipts[1:]
