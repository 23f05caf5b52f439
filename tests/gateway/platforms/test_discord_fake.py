"""discord.py judges the fake Discord: what it can do with the real one it does with ours."""

import asyncio
import base64
import io
import warnings
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
import yarl

from hermes.testing.fake_platform import Failing
from tests.vendors.discord import Fake
from tests.vendors.opus_file import make_opus

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # it imports `audioop`
    import discord
    import discord.gateway
    import discord.http


class Judge(discord.Client):
    """A bot that keeps what it is told."""

    def __init__(self) -> None:
        intents = discord.Intents(guilds=True, guild_messages=True, dm_messages=True, message_content=True)
        super().__init__(intents=intents, max_messages=None, guild_ready_timeout=0.05)
        self.heard: list[discord.Message] = []
        self.pressed: list[discord.Interaction] = []
        self.news = asyncio.Event()

    async def on_message(self, message: discord.Message) -> None:
        self.heard.append(message)
        self.news.set()

    async def on_interaction(self, interaction: discord.Interaction) -> None:
        await interaction.response.defer()
        self.pressed.append(interaction)
        self.news.set()

    async def on_resumed(self) -> None:
        self.news.set()

    async def until(self, seen: Callable[[], object]) -> None:
        async with asyncio.timeout(60):
            while not seen():
                self.news.clear()
                await self.news.wait()


@asynccontextmanager
async def judged(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[Fake, Judge]]:
    async with Fake() as fake:
        fake.groups.add("7001")
        fake.place("7001")
        monkeypatch.setattr(discord.http.Route, "BASE", fake.url + "/api/v10")
        monkeypatch.setattr(discord.gateway.DiscordWebSocket, "DEFAULT_GATEWAY", yarl.URL(fake.socket_url))
        async with Judge() as judge:
            task = asyncio.create_task(judge.start(fake.token))
            try:
                await asyncio.wait_for(judge.wait_until_ready(), 60)
                yield fake, judge
            finally:
                await judge.close()
                await task


async def test_it_hears_and_answers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    picture = tmp_path / "cat.png"
    picture.write_bytes(b"\x89PNG" + bytes(64))
    async with judged(monkeypatch) as (fake, judge):
        said = await fake.say("hello", mention=True, chat="7001", files=[picture])
        answer_to = await fake.say("and this", reply_to=said)
        await judge.until(lambda: len(judge.heard) == 2)
        first, second = judge.heard
        assert first.guild is not None
        assert judge.user in first.mentions
        assert first.channel.id == 7001
        assert await first.attachments[0].read() == picture.read_bytes()
        assert isinstance(second.channel, discord.DMChannel)
        assert second.reference is not None
        assert str(second.reference.message_id) == said

        async with first.channel.typing():
            sent = await first.reply("yes", file=discord.File(io.BytesIO(b"paper"), "paper.txt"), mention_author=False)
        await sent.edit(content="yes!")
        await first.add_reaction("👀")
        shown = fake.messages[str(sent.id)]
        assert (shown.text, shown.edits, shown.reply_to, shown.chat) == ("yes!", 1, said, "7001")
        assert [(one.name, one.content) for one in shown.files] == [("paper.txt", b"paper")]
        assert fake.typings == ["7001"]
        found = [str(one.id) async for one in first.channel.history(limit=10)]
        assert found == [str(sent.id), said]
        newer = [one.content async for one in second.channel.history(after=discord.Object(int(answer_to) - 1))]
        assert newer == ["and this"]
        reread = await first.channel.fetch_message(first.id)
        assert [(one.emoji, one.me) for one in reread.reactions] == [("👀", True)]
        assert not fake.refused


async def test_voice_messages(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    note = tmp_path / "note.ogg"
    note.write_bytes(make_opus(2.0))
    async with judged(monkeypatch) as (fake, judge):
        await fake.say("", chat="7001", files=[note])
        await judge.until(lambda: judge.heard)
        assert judge.heard[0].flags.voice
        channel = judge.heard[0].channel
        post = discord.http.Route("POST", "/channels/{channel_id}/attachments", channel_id=channel.id)
        size = len(note.read_bytes())
        wanted = {"files": [{"id": "0", "filename": "answer.ogg", "file_size": size}]}
        (place,) = (await judge.http.request(post, json=wanted))["attachments"]
        async with aiohttp.ClientSession() as http, http.put(place["upload_url"], data=note.read_bytes()) as answer:
            assert answer.status == 200
        about = {"id": "0", "filename": "answer.ogg", "uploaded_filename": place["upload_filename"]}
        send = discord.http.Route("POST", "/channels/{channel_id}/messages", channel_id=channel.id)
        full = about | {"duration_secs": 2.0, "waveform": base64.b64encode(bytes([0, 255])).decode()}
        for wrong, code in (
            ({"flags": 8192, "attachments": [full], "content": "x"}, 50159),
            ({"flags": 8192, "attachments": []}, 50160),
            ({"flags": 8192, "attachments": [about]}, 50161),
            ({"flags": 8192, "attachments": [full | {"uploaded_filename": "gone"}]}, 50146),
        ):
            with pytest.raises(discord.HTTPException) as refused:
                await judge.http.request(send, json=wrong)
            assert refused.value.code == code
        sent = await judge.http.request(send, json={"flags": 8192, "attachments": [full]})
        message = await channel.fetch_message(int(sent["id"]))
        (shown,) = message.attachments
        assert shown.is_voice_message()
        assert (shown.duration, shown.waveform) == (2.0, b"\x00\xff")
        assert await shown.read() == note.read_bytes()
        assert not fake.refused


async def test_buttons_threads_and_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    async with judged(monkeypatch) as (fake, judge):
        await fake.say("go", chat="7001")
        await judge.until(lambda: judge.heard)
        channel = judge.heard[0].channel
        assert isinstance(channel, discord.TextChannel)
        view = discord.ui.View()
        view.add_item(discord.ui.Button(label="Yes", custom_id="yes-1"))
        asked = await channel.send("may I?", view=view, silent=True)
        assert fake.messages[str(asked.id)].buttons == (("Yes", "yes-1"),)
        await fake.press(str(asked.id), "yes-1")
        await judge.until(lambda: judge.pressed)
        assert list(fake.rest.waiting.values()) == [6]
        thread = await channel.create_thread(name="aside", type=discord.ChannelType.public_thread)
        inside = await thread.send("in here")
        assert (fake.messages[str(inside.id)].chat, fake.messages[str(inside.id)].thread) == ("7001", str(thread.id))
        with pytest.raises(discord.HTTPException) as long:
            await channel.send("x" * 2001)
        assert long.value.code == 50035
        with pytest.raises(discord.HTTPException) as empty:
            await channel.send(" ")
        assert empty.value.code == 50006
        with pytest.raises(discord.NotFound):
            await judge.get_partial_messageable(123).send("nobody")
        fake.failing.append(Failing(429, retry_after=0.01))
        await channel.send("𝕏" * 2000)
        assert fake.text("7001").endswith("𝕏" * 2000)


async def test_it_resumes_and_identifies_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    async with judged(monkeypatch) as (fake, judge):
        await fake.drop()
        await fake.say("meanwhile")
        await judge.until(lambda: judge.heard)
        assert (fake.identified, fake.resumed) == (1, 1)
        await fake.tell({"op": 7, "d": None})
        await fake.until(lambda: fake.resumed == 2)
        await fake.say("again there")
        await judge.until(lambda: len(judge.heard) == 2)


async def test_a_wrong_token_and_a_missing_intent_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Fake() as fake:
        monkeypatch.setattr(discord.http.Route, "BASE", fake.url + "/api/v10")
        monkeypatch.setattr(discord.gateway.DiscordWebSocket, "DEFAULT_GATEWAY", yarl.URL(fake.socket_url))
        async with Judge() as judge:
            with pytest.raises(discord.LoginFailure):
                await judge.start("nonsense")
        fake.privileged = False
        async with Judge() as judge:
            with pytest.raises(discord.PrivilegedIntentsRequired):
                await judge.start(fake.token)


async def test_application_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    async with judged(monkeypatch) as (fake, judge):
        tree = discord.app_commands.CommandTree(judge)

        @tree.command(name="title", description="name it")
        async def title(interaction: discord.Interaction, text: str = "") -> None:
            raise AssertionError(text, interaction)  # the judge answers in `on_interaction`

        made = await tree.sync()
        assert [one.name for one in made] == ["title"] == fake.menu()
        number = await fake.call_command("title", "family", chat="7001")
        await judge.until(lambda: judge.pressed)
        (called,) = judge.pressed
        assert called.type is discord.InteractionType.application_command
        assert called.data is not None and called.data["name"] == "title"
        assert fake.rest.waiting[number] == 5  # deferred
        assert not fake.refused
