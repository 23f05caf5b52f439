"""A gateway with an owner and two users on a Telegram of our own, for tests of what people do in chats."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from msgspec import Struct

from hermes.testing.fake_platform import Shown
from hermes.testing.home import TempHome
from hermes.testing.recorded import RecordedRequest
from hermes.testing.script import Reply, Say, ScriptedModel
from hermes.testing.server import ScriptedServer
from tests.gateway.gateway_rig import Running, home_for, running
from tests.vendors.telegram import Fake

ANNA, BEN = "1002", "1003"


class ChatStage(Struct):
    """A gateway with an owner and two users."""

    server: ScriptedServer
    chat: Fake
    home: TempHome
    on: Running

    async def ask(
        self, text: str, expected: str, *, person: str = "", chat: str = "", files: tuple[Path, ...] = ()
    ) -> str:
        """Say something, and wait until the expected words have been shown since; return what has."""
        before = len(self.chat.shown())
        await self.chat.say(text, person=person, chat=chat, mention=bool(chat), files=files)
        await self.chat.until(lambda: expected in self._since(before))
        return self._since(before)

    def _since(self, before: int) -> str:
        return "\n".join(one.text for one in self.chat.shown()[before:])

    async def question(self) -> Shown:
        """The newest message with buttons, once there is one."""
        await self.chat.until(lambda: any(one.buttons for one in self.chat.shown()))
        return [one for one in self.chat.shown() if one.buttons][-1]

    async def session_of(self, user_id: str = "") -> str:
        """The newest session of a person."""
        row = await self.on.app.services.store.sessions.get_latest(person=user_id)
        assert row is not None
        return row.id

    async def count_sessions(self) -> int:
        """How many sessions are stored, empty ones too."""
        store = self.on.app.services.store
        return len(await store.sessions.find("2", limit=99)) + len(await store.sessions.find("nothing", limit=99))


def repeat_words(request: RecordedRequest) -> Reply:
    """Answer with what was said, and with how many messages the model was sent."""
    return Say(f"heard {request.last_user_text.split()[0]} of {len(request.messages)}")


@asynccontextmanager
async def chat_stage(
    model: ScriptedModel | None = None, more: Mapping[str, object] | None = None, **common: object
) -> AsyncIterator[ChatStage]:
    """Run the gateway; without a model what was said is repeated."""
    async with ScriptedServer(model or ScriptedModel(repeat_words)) as server, Fake() as chat:
        settings: dict[str, object] = {
            "owners": [chat.person],
            "allow": [ANNA, BEN],
            "groups": [chat.chat_id("group1")],
        }
        with home_for(server, {"telegram": chat}, more, **{**settings, **common}) as home:
            async with running(home) as on:
                yield ChatStage(server, chat, home, on)
