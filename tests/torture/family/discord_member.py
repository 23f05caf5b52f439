"""People on Discord whose clients are discord.py: what the bot sends, it reads, and what they say, it sends."""

import asyncio
import warnings
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import yarl

from tests.vendors.discord import Fake
from tests.vendors.discord_rest import ME

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # it imports `audioop`
    import discord
    import discord.gateway
    import discord.http

Message = discord.Message
CHANNEL = "7001"


class Member(discord.Client):
    """A person's client: it says what it is told to, and keeps what the bot says, edits applied."""

    def __init__(self, person: str) -> None:
        intents = discord.Intents(guilds=True, guild_messages=True, dm_messages=True, message_content=True)
        super().__init__(intents=intents, max_messages=1000, guild_ready_timeout=0.05)
        self.person = person
        self.heard: dict[int, discord.Message] = {}
        self.mistakes: list[str] = []
        self._news = asyncio.Event()

    async def on_message(self, message: discord.Message) -> None:
        if str(message.author.id) == ME:
            self._keep(message)

    async def on_message_edit(self, _: discord.Message, after: discord.Message) -> None:
        if str(after.author.id) == ME:
            self._keep(after)

    async def on_error(self, event_method: str, /, *_: object, **__: object) -> None:
        self.mistakes.append(f"discord.py could not take {event_method}")

    def _keep(self, message: discord.Message) -> None:
        self.heard[message.id] = message
        self._news.set()

    async def say(
        self, text: str, *, channel: str = "", reply_to: int = 0, files: Sequence[Path] = ()
    ) -> discord.Message:
        """Say something to the bot: in a direct chat, or in a channel or thread."""
        place = self.get_partial_messageable(int(channel or "9" + self.person))
        answered = discord.MessageReference(message_id=reply_to, channel_id=place.id) if reply_to else None
        attached = [discord.File(path) for path in files]
        if answered is not None:
            return await place.send(text, files=attached, reference=answered)
        return await place.send(text, files=attached)

    def said(self, *, before: int = 0, channel: str = "") -> list[discord.Message]:
        """What the bot has said here, behind a message, in order."""
        place = int(channel or "9" + self.person)
        found = [one for one in self.heard.values() if one.channel.id == place and one.id > before]
        return sorted(found, key=lambda one: one.id)

    async def until(self, seen: Callable[[], object], seconds: float) -> None:
        """Wait until something is so. Raises TimeoutError."""
        async with asyncio.timeout(seconds):
            while not seen():
                self._news.clear()
                await self._news.wait()


@asynccontextmanager
async def members(fake: Fake, *people: str) -> AsyncIterator[dict[str, Member]]:
    """Clients of these people, connected."""
    route, socket = discord.http.Route, discord.gateway.DiscordWebSocket
    real = route.BASE, socket.DEFAULT_GATEWAY
    route.BASE, socket.DEFAULT_GATEWAY = fake.url + "/api/v10", yarl.URL(fake.socket_url)
    fake.groups.add(CHANNEL)
    fake.place(CHANNEL)
    found = {person: Member(person) for person in people}
    tasks: list[asyncio.Task[None]] = []
    for person, client in found.items():
        fake.place("9" + person)
        fake.members[f"person-{person}"] = person
        await client.__aenter__()
        tasks.append(asyncio.create_task(client.start(f"person-{person}")))
        await asyncio.wait_for(client.wait_until_ready(), 60)
    try:
        yield found
    finally:
        for client in found.values():
            await client.close()
        await asyncio.gather(*tasks, return_exceptions=True)
        route.BASE, socket.DEFAULT_GATEWAY = real
