"""A home with a scripted model for tests of sub-agents, and processes of Hermes in it, one after the other."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from hermes.core.events import Event, SubAgentChanged, TurnEnded
from hermes.runtime.actor import SessionActor
from hermes.runtime.mailbox import InboundMessage
from hermes.sessions.app import App
from hermes.sessions.options import SessionOptions
from hermes.store.sub_agents import SubAgentRow
from hermes.testing.home import TempHome
from hermes.testing.script import Ending, ReplyDelivery, Say
from hermes.testing.server import ScriptedServer
from tests.sessions.sub_agents.team_model import TeamModel

HANGING = Say("never ends", delivery=ReplyDelivery(ending=Ending.HANG, at=2))


class Rig:
    """The home, its model's server, and what was published in the session at the top."""

    def __init__(self, server: ScriptedServer, home: TempHome) -> None:
        self.server = server
        self.home = home
        self.events: list[Event] = []

    @asynccontextmanager
    async def process(
        self, session_id: str | None = None, **options: object
    ) -> AsyncIterator[tuple[App, SessionActor]]:
        chosen = {"cwd": str(self.home.cwd), "allow": ("*",), "goes_on": True} | options
        async with App(self.home.environ, SessionOptions(**chosen)) as app:  # type: ignore[arg-type]
            actor = await app.open_session(session_id)
            actor.subscribe(self.events.append)
            yield app, actor

    async def say(self, actor: SessionActor, text: str = "go") -> TurnEnded:
        return await actor.post(InboundMessage(text=text, cwd=str(self.home.cwd)))

    @property
    def changes(self) -> list[SubAgentChanged]:
        return [one for one in self.events if isinstance(one, SubAgentChanged)]

    async def wait_for(self, check: Callable[[], object]) -> None:
        """Wait until a check of what was published holds."""
        async with asyncio.timeout(30):
            while not check():  # noqa: ASYNC110 - the events come from outside of the test
                await asyncio.sleep(0.005)


@asynccontextmanager
async def rig(model: TeamModel, config: dict[str, object] | None = None) -> AsyncIterator[Rig]:
    async with ScriptedServer(model) as server:
        with TempHome.for_server(server.url, more_config=config) as home:
            yield Rig(server, home)


async def list_rows(app: App, actor: SessionActor) -> list[SubAgentRow]:
    return await app.services.store.sub_agents.list_tree(actor.session_id)
