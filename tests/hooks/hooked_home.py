"""A home with hooks whose programs are enabled, and sessions in it, on a scripted model."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from hermes.runtime.actor import SessionActor
from hermes.sessions.app import App
from hermes.sessions.options import SessionOptions
from hermes.testing.home import TempHome
from hermes.testing.plugins import enable_plugin
from hermes.testing.script import Say
from hermes.testing.server import ScriptedServer


class HookedHome:
    """An open home; `record` is where hooks write what they were told, a JSON object a line."""

    def __init__(self, home: TempHome, server: ScriptedServer, app: App, actor: SessionActor) -> None:
        self.home = home
        self.server = server
        self.app = app
        self.actor = actor
        self.notices: list[str] = []

    @property
    def record(self) -> Path:
        return self.home.root / "record.jsonl"

    async def wait_for(self, file: Path) -> None:
        """Wait until a file is there."""
        async with asyncio.timeout(20):
            while not file.exists():  # noqa: ASYNC110 - a program makes it
                await asyncio.sleep(0.01)

    def read_record(self) -> list[dict[str, object]]:
        """Return what the hooks were told so far."""
        if not self.record.exists():
            return []
        return [json.loads(line) for line in self.record.read_text().splitlines() if line.strip()]


def recorder(home: TempHome) -> str:
    """Return a command that appends what it is told to the record."""
    return f"printf '%s\\n' \"$(cat)\" >> {home.root}/record.jsonl"  # one write, so that no two mix


def write_script(home: TempHome, name: str, text: str) -> str:
    """Write a script outside of the workspace and return its path."""
    file = home.home / "hooks" / name
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)
    file.chmod(0o755)
    return str(file)


@asynccontextmanager
async def open_hooked(
    answers: Sequence[Say],
    make_hooks: "Mapping[str, object] | None" = None,
    *,
    scripts: Mapping[str, str] = {},
    files: Mapping[str, str] = {},
    enable: bool = True,
    settings: Mapping[str, object] | None = None,
    options: SessionOptions | None = None,
) -> AsyncIterator[HookedHome]:
    """Open a session with these hooks. In their commands `{name}` stands for a script's path and `{record}` for a
    command that records. `files` lie in the workspace.
    """
    async with ScriptedServer(list(answers)) as server:
        with TempHome.for_server(server.url, more_config=settings) as home:
            paths = {name: write_script(home, name, text) for name, text in scripts.items()}
            for name, content in files.items():
                (home.cwd / name).parent.mkdir(parents=True, exist_ok=True)
                (home.cwd / name).write_text(content)
                (home.cwd / name).chmod(0o755)
            text = json.dumps(make_hooks or {})
            for name, path in {**paths, "record": recorder(home), "root": str(home.root)}.items():
                text = text.replace(f"<{name}>", json.dumps(path)[1:-1])
            home.write_config({**(home.config or {}), "hooks": json.loads(text)})
            if enable and make_hooks:
                enable_plugin(home.environ, "hooks", str(home.cwd))
            async with App(home.environ, options or SessionOptions(cwd=str(home.cwd))) as app:
                actor = await app.open_session()
                hooked = HookedHome(home, server, app, actor)
                hooked.notices = list(app.notices)
                yield hooked
