"""A chat for tests: a real App over a scripted server, and a desk that records."""

from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from hermes.core.events import Event, TurnEnded
from hermes.runtime.mailbox import InboundMessage
from hermes.sessions.app import App
from hermes.sessions.options import SessionOptions
from hermes.testing.command_context import RecordingContext
from hermes.testing.home import TempHome
from hermes.testing.script import Reply, ReplyModel
from hermes.testing.server import ScriptedServer


@dataclass
class Chat:
    """An open session with a model that says what it is told to."""

    app: App
    desk: RecordingContext
    server: ScriptedServer
    home: TempHome
    events: list[Event] = field(default_factory=list)

    async def say(self, text: str) -> TurnEnded:
        return await self.desk.actor.post(InboundMessage(text=text, cwd=str(self.home.cwd)))

    def sent(self, what: str) -> list[object]:
        """A member of each request's body."""
        return [request.json.get(what) for request in self.server.requests]


@asynccontextmanager
async def chat(
    replies: ReplyModel | Iterable[Reply] | None = None,
    *,
    config: Mapping[str, object] | None = None,
    reviews: bool = False,
    window: int | None = None,
    more: Callable[[TempHome], None] | None = None,
) -> AsyncIterator[Chat]:
    async with ScriptedServer(replies if replies is not None else [], context_length=window) as server:
        with TempHome.for_server(server.url, more_config=config) as home:
            if more is not None:
                more(home)
            options = SessionOptions(cwd=str(home.cwd), allow=("*",), reviews=reviews)
            async with App(home.environ, options) as app:
                actor = await app.open_session()
                here = Chat(app, RecordingContext(app, actor), server, home)
                actor.subscribe(here.events.append)
                yield here
