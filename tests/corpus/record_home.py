"""Write `home.tar.gz`, `request.json` and `frames.jsonl`: what an older Hermes leaves on disk and says over its socket.

Run with the interpreter and in the folder of the older tree: `python .../tests/corpus/record_home.py OUT`. The names
below are those of the older tree and stay as they are.
"""

import asyncio
import contextlib
import importlib
import io
import json
import sqlite3
import sys
import tarfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

HERMES = sys.executable, "-m", "hermes"
READ = "Read notes.txt, and remember what it says."
SESSION = "before"
WAITING = "waiting"


def old(module: str) -> Any:
    """Return a module of the older tree."""
    return importlib.import_module(module)


async def work(home: Any, server: Any, out: Path) -> None:
    """Have two turns with calls, a memory and a job; keep the body of the last request."""
    App, Options = old("hermes.app.wiring").App, old("hermes.app.options").Options  # noqa: N806
    Inbound = old("hermes.runtime.mailbox").Inbound  # noqa: N806
    (home.cwd / "notes.txt").write_text("The harbour master is called Ines. 语言\n", encoding="utf-8")
    async with App(home.environ, Options(cwd=str(home.cwd))) as app:
        actor = await app.open_session(SESSION, create=True)
        await actor.post(Inbound(text=READ, cwd=str(home.cwd)))
    done = await home.run(*HERMES, "-z", "And what was her name?", "--resume", SESSION)
    assert done.code == 0, done
    (out / "request.json").write_bytes(server.requests[-1].body)
    adding = "cron", "add", "0 7 * * *", "Say good morning.", "--name", "morning", "--zone", "Europe/Berlin"
    done = await home.run(*HERMES, *adding, "--model", "mock-model", "--catch-up", "last", "--jitter", "60")
    assert done.code == 0, done
    done = await home.run(*HERMES, "auth", "add", "openrouter", "--env", "OPENROUTER_API_KEY")
    assert done.code == 0, done
    done = await home.run(*HERMES, "webhook", "add", "build", "--prompt", "The build says {payload}")
    assert done.code == 0, done


@contextlib.asynccontextmanager
async def relay(path: Path, said: list[dict[str, object]]) -> AsyncIterator[None]:
    """Stand before the gateway's socket and write down what both sides say."""
    real = path.with_name("real.sock")
    path.rename(real)
    numbers = iter(range(100))

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        number = next(numbers)
        there, back = await asyncio.open_unix_connection(real, limit=1 << 25)

        async def pass_on(side: str, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
            while line := await source.readline():
                said.append({"connection": number, "side": side, "bytes": line.decode()})
                target.write(line)
                await target.drain()
            target.close()

        await asyncio.gather(pass_on("client", reader, back), pass_on("server", there, writer))

    async with await asyncio.start_unix_server(serve, path, limit=1 << 25):
        yield
    path.unlink()
    real.rename(path)


async def talk(home: Any, chat: Any, out: Path) -> None:
    """Have a gateway answer a chat, and the command line talk with that gateway."""
    running, frames = old("tests.gateway.gateway_rig").running, old("hermes.app.ports.frames")
    remote, inbound = old("hermes.app.ports.remote"), old("hermes.runtime.mailbox").Inbound
    said: list[dict[str, object]] = []
    async with running(home) as it:
        await chat.say("hello from the chat")
        await chat.until(chat.shown)
        await it.gateway.outbox.settled(10)
        path = home.hermes / "run" / "gateway.sock"
        async with relay(path, said):
            for arguments in (("-z", "through the gateway"), ("gateway", "status", "--json"), ("gateway", "reload")):
                done = await home.run(*HERMES, *arguments)
                assert done.code == 0, done
            with contextlib.closing(sqlite3.connect(home.hermes / "hermes.db")) as database:
                (session_id,) = database.execute("SELECT session_id FROM chat_sessions").fetchone()
            wire = await remote.connected(path)
            wire.send(frames.Attach(session_id=session_id, asks=True, language="en"))
            session = remote.RemoteSession(wire, await wire.next())
            asked = asyncio.get_running_loop().create_future()
            session.subscribe(
                lambda event: asked.set_result(event.approval_id) if type(event).__name__ == "ApprovalAsked" else None
            )
            session.listen()
            ended = session.post(inbound(text="reset it", cwd=str(home.cwd)))
            session.approvals.answer(await asked, scope=old("hermes.core.outcomes").AnswerScope.DENY, by="person")
            await ended
            session.front = Shown()
            await session.command("title", "A title", session.front)
            with contextlib.suppress(Exception):
                await session.command("nonsense", "", session.front)
            await session.close()
            wire = await remote.connected(path)
            wire.send(frames.Attach(session_id="nobody"))
            await wire.next()
            await wire.close()
        await it.gateway.outbox.settled(10)
    said = [one for one in said if one["bytes"]]
    for one in said:
        frame = json.loads(str(one["bytes"]))
        if "environ" in frame:
            frame["environ"] = {"LANG": "C.UTF-8"}
        if frame["type"] == "oneshot":
            frame["cwd"] = "CWD"
            one["bytes"] = json.dumps(frame, ensure_ascii=False) + "\n"
    (out / "frames.jsonl").write_text("".join(json.dumps(one, ensure_ascii=False) + "\n" for one in said))


class Shown:
    """Takes what a command tells."""

    def tell(self, text: str, level: object = None) -> None:
        """Take lines."""

    def show(self, markdown: str) -> None:
        """Take a text."""


async def wait(home: Any, out: Path) -> None:
    """Let a question wait, and pack the home as it is in that moment."""
    App, Options = old("hermes.app.wiring").App, old("hermes.app.options").Options  # noqa: N806
    inbound = old("hermes.runtime.mailbox").Inbound
    asked = asyncio.get_running_loop().create_future()
    async with App(home.environ, Options(cwd=str(home.cwd))) as app:
        actor = await app.open_session(WAITING, create=True)
        actor.approvals.can_ask = True
        actor.subscribe(lambda event: asked.set_result(event) if type(event).__name__ == "ApprovalAsked" else None)
        turn = actor.post(inbound(text="reset it", cwd=str(home.cwd)))
        await asked
        pack(home.hermes, out / "home.tar.gz")
        actor.stop()
        await turn


def pack(folder: Path, target: Path) -> None:
    """Pack a home without locks and logs; databases as one file each."""
    with tarfile.open(target, "w:gz", compresslevel=9) as packed:
        for path in sorted(folder.rglob("*")):
            name = path.relative_to(folder)
            if not path.is_file() or name.parts[0] in ("run", "logs", "cache") or path.name.endswith(("-wal", "-shm")):
                continue
            data = copied(path) if path.suffix == ".db" else path.read_bytes()
            entry = tarfile.TarInfo(str(name))
            entry.size, entry.mode = len(data), path.stat().st_mode & 0o777
            packed.addfile(entry, io.BytesIO(data))


def copied(path: Path) -> bytes:
    """Return a whole database as one file."""
    with contextlib.closing(sqlite3.connect(path)) as source, contextlib.closing(sqlite3.connect(":memory:")) as copy:
        source.backup(copy)
        return copy.serialize()


async def main() -> None:
    """Record everything into the folder that is named."""
    out = Path(sys.argv[1]).resolve()
    script = old("hermes.testing.script")
    Say, Call = script.Say, script.Call  # noqa: N806
    reset = Say(calls=(Call("terminal", {"command": "git reset --hard"}),))
    todo = {"todos": [{"id": "1", "content": "read it", "status": "in_progress"}]}
    note = {"target": "memory", "action": "add", "content": "The harbour has two quays."}
    later = {"target": "user", "action": "add", "content": "Knows Ines, the harbour master."}
    written = {"path": "notes.txt", "content": "Ines\n"}
    replies = [
        Say("I note it.", reasoning="a thought", calls=(Call("memory", note), Call("todo", todo))),
        Say("I look.", calls=(Call("read_file", {"path": "notes.txt"}), Call("terminal", {"command": "echo 1"}))),
        Say(calls=(Call("memory", later), Call("write_file", written))),
        Say("She is called Ines."),
        Say("Ines."),
        Say("for the chat"),
        Say("for the caller"),
        reset,
        Say("not reset"),
        reset,
    ]
    async with (
        old("hermes.testing.server").ScriptedServer(replies) as server,
        old("hermes.testing.chats.ntfy").Fake() as chat,
    ):
        with old("tests.gateway.gateway_rig").home_for(server, {"ntfy": chat}) as home:
            await work(home, server, out)
            await talk(home, chat, out)
            await wait(home, out)


if __name__ == "__main__":
    sys.path.insert(0, "")
    asyncio.run(main())
