"""What is mail's own: numbers of mails, waiting for news, threads, what goes over the wire, TLS."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec import structs

from hermes.core.chats import MediaKind, Outgoing, Place
from hermes.gateway.platform import PlatformError, PlatformRefusedError, SendError, SendFault
from hermes.testing.platform_rig import Rig, rigged
from hermes.testing.script import Call, Say
from hermes.testing.server import ScriptedServer
from tests.certificates import certificate
from tests.gateway.chat_account import Hurried
from tests.gateway.gateway_rig import home_for, running, said
from tests.vendors import load_fake
from tests.vendors.email import ME, Fake


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    async with rigged("email", load_fake("email"), tmp_path) as one:
        yield one


@pytest.fixture
def fake(rig: Rig) -> Fake:
    assert isinstance(rig.fake, Fake)
    return rig.fake


async def test_it_begins_after_what_is_there_and_goes_on_where_it_was(rig: Rig, fake: Fake) -> None:
    await fake.say("from before it was set up")
    await rig.listening()
    first = await rig.hear(await fake.say("hello"))
    assert rig.cursors["mail"] == f"{fake.box.validity}:2"
    await rig.shut()
    later = [await fake.say(f"m{number}") for number in range(3)]
    await rig.listening()
    await rig.hear(later[-1])
    assert [one.text for one in rig.arrivals] == ["hello", "m0", "m1", "m2"]
    assert first.place.thread == first.message_id
    assert [one.flags for one in fake.box.mails[:4]] == [set(), *[{"\\Seen"}] * 3]


async def test_mails_that_are_numbered_anew_are_read_anew_with_the_same_ids(rig: Rig, fake: Fake) -> None:
    await rig.listening()
    first = await rig.hear(await fake.say("hello"))
    await rig.shut()
    fake.box.renumber()
    last = await fake.say("on")
    await rig.listening()
    await rig.hear(last)
    assert [one.event_id for one in rig.arrivals[:2]] == [first.event_id] * 2
    assert "numbered" in rig.lines[0] and len(rig.lines) == 1


async def test_it_is_told_or_asks(rig: Rig, fake: Fake) -> None:
    await rig.listening()
    while not fake.box.idling:  # noqa: ASYNC110 - the fake's state
        await asyncio.sleep(0.01)
    fake.box.abilities = "IMAP4rev1"
    rig.around = structs.replace(rig.around, clock=Hurried())
    await rig.listening(mark_seen=False)
    assert (await rig.hear(await fake.say("polled"))).text == "polled"
    assert not fake.box.idling and not fake.box.mails[-1].flags


async def test_threads(rig: Rig, fake: Fake) -> None:
    platform = await rig.listening()
    fake.subject = "Re: Fwd: Tea"
    first = await rig.hear(await fake.say("is there any?"))
    assert (first.text, first.place.name) == ("Tea\n\nis there any?", "Tea")
    fake.subject = "Re: Tea"
    sent = await platform.send(Outgoing(place=first.place, text="yes", key="k", reply_to=first.message_id))
    answer = await rig.hear(await fake.say("good", reply_to=sent))
    assert (answer.place.thread, answer.text) == (first.message_id, "good")
    await platform.send(Outgoing(place=answer.place, text="indeed", key="l", reply_to=answer.message_id))
    wire = fake.taken[-1].content.decode()
    head = wire.partition("\r\n\r\n")[0].replace("\r\n ", " ")
    assert f"References: <{first.message_id}> <{answer.message_id}>" in head
    assert f"In-Reply-To: <{answer.message_id}>" in head
    assert "Subject: Re: Tea" in head and "Auto-Submitted: auto-replied" in head
    await rig.shut()
    platform = await rig.open()
    await platform.send(Outgoing(place=first.place, text="after a restart", key="m"))
    head = fake.taken[-1].content.decode().partition("\r\n\r\n")[0].replace("\r\n ", " ")
    assert f"References: <{first.message_id}>" in head and "Subject: Re: Tea" in head


async def test_without_threads_a_person_is_one_conversation(rig: Rig, fake: Fake) -> None:
    platform = await rig.listening(threads=False)
    fake.subject = "Tea"
    lanes = {(await rig.hear(await fake.say(text))).place.lane for text in ("one", "two", "/new")}
    assert len(lanes) == 1
    assert [one.text for one in rig.arrivals] == ["Tea\n\none", "Tea\n\ntwo", "/new"]
    await platform.send(Outgoing(place=Place("here", fake.person), text="a notice", key="k"))
    assert "In-Reply-To" not in fake.taken[-1].content.decode()


async def test_a_repeated_mail_has_the_same_id(rig: Rig, fake: Fake) -> None:
    platform = await rig.listening()
    message = Outgoing(place=await rig.place(), text="**bold** and <script>", key="k")
    assert await platform.send(message) == await platform.send(message)
    assert len(fake.taken) == 2 and len(fake.messages) == 1
    assert fake.shown()[0].markup == "html" and b"<strong>bold</strong>" in fake.taken[0].content
    assert b"<script>" not in fake.taken[0].content.partition(b"text/html")[2]
    await platform.send(structs.replace(message, plain=True, key="l"))
    assert fake.shown()[-1].markup == ""


async def test_who_is_no_address_gets_nothing(rig: Rig, fake: Fake) -> None:
    platform = await rig.listening()
    for chat in ("nobody", "a@b\r\nRCPT TO:<x@y>", "a@b, c@d", "<a@b> SIZE=1"):
        with pytest.raises(SendError) as error:
            await platform.send(Outgoing(place=Place("here", chat), text="x", key="k"))
        assert error.value.fault is SendFault.NOT_FOUND
    assert not fake.taken


async def test_a_file_of_a_mail_that_is_gone(rig: Rig, fake: Fake, tmp_path: Path) -> None:
    platform = await rig.listening()
    (tmp_path / "a.txt").write_text("words")
    arrival = await rig.hear(await fake.say("look", files=[tmp_path / "a.txt"]))
    assert (arrival.attachments[0].kind, arrival.attachments[0].size) == (MediaKind.DOCUMENT, 5)
    fake.box.mails.clear()
    for _ in range(2):
        with pytest.raises(PlatformError, match="is gone"):
            await platform.fetch(arrival.attachments[0], tmp_path / "x")
        fake.box.validity += 1


async def test_a_wrong_password_of_smtp_and_none_at_all(rig: Rig, fake: Fake) -> None:
    platform = await rig.open(password="wr0ng")
    with pytest.raises(SendError, match="535") as error:
        await platform.send(Outgoing(place=Place("here", fake.person), text="x", key="k"))
    assert error.value.fault is SendFault.UNKNOWN and "wr0ng" not in str(error.value)
    for wrong in ({"password": ""}, {"address": ""}, {"imap_host": ""}, {"address": "no address"}):
        with pytest.raises(PlatformRefusedError):
            await rig.open(**wrong)


async def test_no_password_goes_over_the_net_in_the_open(rig: Rig, fake: Fake) -> None:
    for wrong in ({"imap_host": "mail.example.org", "security": "none"}, {"security": "starttls"}):
        platform = await rig.open(**wrong)
        with pytest.raises(PlatformRefusedError, match=r"TLS|read"):
            async for _ in platform.receive():
                pass
    assert not fake.box.commands


@contextlib.asynccontextmanager
async def wrapped(port: int, tls: ssl.SSLContext, *, first: bytes = b"") -> AsyncIterator[int]:
    """A door with TLS before a server: from the start, or (`first`) after the client has asked for it."""

    async def met(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        raw = writer.transport
        far, back = await asyncio.open_connection("127.0.0.1", port)
        try:
            with contextlib.suppress(ssl.SSLError, OSError):  # the client may not trust us
                await passed(reader, writer, far, back)
        finally:
            for one in (raw, writer.transport, back.transport):
                one.abort()

    async def passed(
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        far: asyncio.StreamReader,
        back: asyncio.StreamWriter,
    ) -> None:
        if first:
            if first.startswith(b"*"):
                writer.write(first)
                while b"STARTTLS" not in (line := await reader.readline()):
                    writer.write(b"* CAPABILITY IMAP4rev1 STARTTLS\r\n" + line.split()[0] + b" OK\r\n")
                await far.readline()
                writer.write(line.split()[0] + b" OK go on\r\n* CAPABILITY FORGED\r\n")
            else:
                writer.write(first)
                await reader.readline()
                writer.write(b"250-x\r\n250 STARTTLS\r\n")
                await reader.readline()
                await far.readline()
                writer.write(b"220 go on\r\n250 forged\r\n")
            await writer.start_tls(tls)
        await asyncio.gather(_pump(reader, back), _pump(far, writer))

    server = await asyncio.start_server(met, "127.0.0.1", 0, ssl=None if first else tls)
    try:
        yield int(server.sockets[0].getsockname()[1])
    finally:
        server.close()
        await server.wait_closed()


async def _pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError, ssl.SSLError):
        while piece := await source.read(65536):
            sink.write(piece)
            await sink.drain()
    sink.transport.abort()


@pytest.mark.parametrize("way", ["tls", "starttls"])
async def test_tls_from_the_start_and_from_the_middle(rig: Rig, fake: Fake, tmp_path: Path, way: str) -> None:
    context, authority = certificate(tmp_path)
    greetings = (b"", b"") if way == "tls" else (b"* OK hello\r\n", b"220 hello\r\n")
    async with (
        wrapped(fake.box.port, context, first=greetings[0]) as imap,
        wrapped(fake.submission.port, context, first=greetings[1]) as smtp,
    ):
        ports = {"imap_port": imap, "smtp_port": smtp, "security": way}
        rig.around = structs.replace(rig.around, tls=lambda: ssl.create_default_context(cafile=str(authority)))
        platform = await rig.listening(**ports)
        arrival = await rig.hear(await fake.say("x" * 300_000))
        assert len(arrival.text) == 300_000
        await platform.send(Outgoing(place=arrival.place, text="y" * 40_000, key="k"))
        assert fake.text() == "y" * 40_000
        await rig.shut()
        rig.around = structs.replace(rig.around, tls=ssl.create_default_context)
        platform = await rig.open(**ports)
        with pytest.raises(PlatformError, match="not trusted"):
            async for _ in platform.receive():
                pass
        with pytest.raises(SendError, match="not trusted"):
            await platform.send(Outgoing(place=arrival.place, text="z", key="l"))


async def test_an_answer_with_a_file_is_one_mail() -> None:
    async with ScriptedServer([Say("Here it is.\nMEDIA:report.txt")]) as server, Fake() as chat:
        with home_for(server, {"email": chat}, owners=[chat.person]) as home:
            workspace = home.hermes / "workspace"
            workspace.mkdir()
            (workspace / "report.txt").write_text("the report")
            async with running(home) as on:
                await chat.say("send me the report")
                await chat.until(lambda: any(one.files for one in chat.shown()))
                await on.gateway.outbox.wait_until_idle(60)
        (mail,) = chat.shown()
        assert "Here it is." in mail.text and [one.name for one in mail.files] == ["report.txt"]


async def test_mails_in_the_gateway() -> None:
    script = [Say("Hello **back**."), Say(calls=(Call("terminal", {"command": "git push --force"}),)), Say("done")]
    async with ScriptedServer(script) as server, Fake() as chat:
        with home_for(server, {"email": chat}, owners=[chat.person]) as home:
            async with running(home):
                chat.subject = "Tea"
                await chat.say("hello")
                await chat.until(lambda: "Hello back." in chat.text())
                chat.subject = "Re: Tea"
                await chat.say("reset it", reply_to=chat.shown()[-1].message_id)
                await chat.until(lambda: "/approve" in chat.text())
                await chat.say("/deny", reply_to=chat.shown()[-1].message_id)
                await chat.until(lambda: "done" in chat.text())
        assert said(server, 0) == "Tea\n\nhello"
        assert "refused" in server.requests[2].body.decode() or "not allowed" in server.requests[2].body.decode()
        assert {one.recipients for one in chat.taken} == {(chat.person,)}
        assert not chat.refused
        assert ME not in {one.recipients[0] for one in chat.taken}
