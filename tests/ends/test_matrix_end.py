"""The gateway on a real Synapse, with matrix-nio as the person's client."""

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from nio import AsyncClient, DownloadResponse, Event, RoomMessageMedia, RoomMessageText, UploadResponse

from hermes.testing.home import TempHome
from hermes.testing.script import ReplyDelivery, Say, ScriptedModel
from hermes.testing.server import ScriptedServer
from tests.ends.servers import Program, free_port, synapse, tell
from tests.gateway.gateway_rig import running, said

PYTHON = Path(os.environ.get("HERMES_SYNAPSE", "/nowhere"))
pytestmark = pytest.mark.skipif(not PYTHON.exists(), reason="run by `make ends`: Synapse is not installed")


class Person:
    """Somebody with Element, nearly."""

    def __init__(self, url: str) -> None:
        self.client = AsyncClient(url, "@ann:localhost")
        self.events: list[Event] = []
        self.client.add_event_callback(self._hear, Event)  # type: ignore[arg-type]
        self.room = ""

    async def _hear(self, _room: object, event: Event) -> None:
        if event.sender == "@bot:localhost":
            self.events.append(event)

    async def until(self, seen: Callable[[], object], seconds: float = 120.0) -> None:
        async with asyncio.timeout(seconds):
            while not seen():
                await self.client.sync(timeout=500)

    async def say(self, content: dict[str, object] | str) -> None:
        if isinstance(content, str):
            content = {"msgtype": "m.text", "body": content}
        await self.client.room_send(self.room, "m.room.message", content)

    def met(self) -> bool:
        room = self.client.rooms.get(self.room)
        return room is not None and len(room.users) == 2 and not room.invited_users

    def texts(self) -> list[RoomMessageText]:
        return [one for one in self.events if isinstance(one, RoomMessageText)]

    def edits(self) -> list[RoomMessageText]:
        return [one for one in self.texts() if "m.new_content" in one.source["content"]]

    def shows(self, text: str) -> bool:
        return any(text in one.body for one in self.texts())


@contextlib.asynccontextmanager
async def met(folder: Path, server: ScriptedServer) -> AsyncIterator[tuple[Program, Person, TempHome]]:
    """Synapse, a person on it, and a home for the gateway; both have logged in nowhere yet."""
    port = free_port()
    began = time.monotonic()
    program = await synapse(PYTHON, folder, port)
    tell(f"Synapse up with two users in {time.monotonic() - began:.1f} s")
    url = f"http://127.0.0.1:{port}"
    account = {"homeserver": url, "user": "bot", "password": "pw", "owners": ["@ann:localhost"], "batch_seconds": 0.05}
    person = Person(url)
    try:
        with TempHome.for_server(server.url, more_config={"platforms": {"matrix": account}}) as home:
            yield program, person, home
    finally:
        await person.client.close()
        await program.kill()


async def test_a_real_homeserver(tmp_path: Path) -> None:
    async with ScriptedServer([]) as server, met(tmp_path, server) as (program, person, home):
        words = "".join(f"word{number} " for number in range(60))
        picture = bytes.fromhex("89504e470d0a1a0a") + bytes(range(256)) * 20
        gate = asyncio.Event()

        async def late(_request: object) -> Say:
            await gate.wait()
            return Say("Said while nobody was there.")

        replies = iter(
            [
                Say(words, chunk=12, delivery=ReplyDelivery(pace=0.25)),
                Say("I have it."),
                Say(f"Here. MEDIA:{home.hermes}/workspace/back.png"),
            ]
        )

        async def reply(request: object) -> Say:
            return next(replies, None) or await late(request)

        server.model = ScriptedModel(reply)
        await person.client.login("pw")
        made = await person.client.room_create(invite=["@bot:localhost"], is_direct=True)
        person.room = made.room_id
        async with running(home) as it:
            began = time.monotonic()
            await person.until(person.met)
            tell(f"joined after an invitation in {time.monotonic() - began:.2f} s")

            began = time.monotonic()
            await person.say("hello")
            await person.until(person.texts)
            tell(f"first words shown after {time.monotonic() - began:.2f} s")
            await person.until(lambda: person.edits() and words.strip() in person.edits()[-1].body)
            tell(f"answer streamed by {len(person.edits())} edits in {time.monotonic() - began:.2f} s")
            assert len(person.edits()) >= 2

            uploaded, _ = await person.client.upload(lambda *_: picture, "image/png", "in.bin", filesize=len(picture))
            assert isinstance(uploaded, UploadResponse)
            about = {"mimetype": "application/octet-stream", "size": len(picture)}
            await person.say({"msgtype": "m.file", "body": "in.bin", "url": uploaded.content_uri, "info": about})
            await person.until(lambda: person.shows("I have it."))
            kept = list((home.hermes / "media").rglob("*in.bin"))
            assert [one.read_bytes() for one in kept] == [picture]
            tell(f"a file of {len(picture)} bytes came in whole")

            (home.hermes / "workspace" / "back.png").write_bytes(picture)
            await person.say("and back")
            media: list[RoomMessageMedia] = []
            await person.until(
                lambda: media.extend(one for one in person.events if isinstance(one, RoomMessageMedia)) or media
            )
            back = await person.client.download(media[0].url)
            assert isinstance(back, DownloadResponse) and back.body == picture
            tell("a picture went out whole")

            await person.say("think about it")
            async with asyncio.timeout(120):
                while len(server.requests) < 4:  # noqa: ASYNC110 - the request is another process's
                    await asyncio.sleep(0.05)
            await program.kill()
            gate.set()
            async with asyncio.timeout(120):
                while not any("tried again" in line for line in it.lines):  # noqa: ASYNC110 - nothing tells
                    await asyncio.sleep(0.05)
            began = time.monotonic()
            await program.start()
            await person.until(lambda: person.shows("nobody was there"), 60)
            tell(f"Synapse was killed in a turn; the answer stood {time.monotonic() - began:.1f} s after its new start")
            assert sum("nobody was there" in one.body for one in person.texts() if one not in person.edits()) <= 1
            await person.say("after the kill")
            known = len(person.texts())
            await person.until(lambda: len(person.texts()) > known)
            assert said(server, 4) == "after the kill"
            tell("and what was said after that was answered")
        assert len(server.requests) == 5
