"""`AIAgent` against a scripted server that runs in a loop of its own, since the agent blocks the test's thread."""

import asyncio
import threading

from hermes import AIAgent
from hermes.testing.home import TempHome
from hermes.testing.script import Reply, ReplyModel
from hermes.testing.server import ScriptedServer


class Served:
    """A scripted server in a loop of its own."""

    def __init__(self, replies: list[Reply] | ReplyModel) -> None:
        self.server = ScriptedServer(replies)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> ScriptedServer:
        self._thread.start()
        return asyncio.run_coroutine_threadsafe(self.server.__aenter__(), self._loop).result(10)

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self.server.__aexit__(None, None, None), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()


def make_agent(server: ScriptedServer, home: TempHome, **options: object) -> AIAgent:
    """Return an agent that asks this server and works in the home's folder."""
    known = {"model": "m", "provider": "custom", "base_url": server.url, "api_key": "x", "cwd": str(home.cwd)}
    return AIAgent(**{**known, **options})  # type: ignore[arg-type]
