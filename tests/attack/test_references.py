"""What the fifth attack tried in vain."""

import asyncio
from pathlib import Path

import pytest

from hermes.runtime.mailbox import InboundMessage
from hermes.sessions.app import App
from hermes.sessions.options import SessionOptions
from hermes.testing.home import TempHome
from hermes.testing.script import Call, Say
from hermes.testing.server import ScriptedServer
from tests.attack.obedient_scene import scene
from tests.attack.test_context_poisoning import TOKEN, skill

SECRETS = [
    "~/.ssh/id_rsa",
    "link",
    "LINK/id_rsa",
    "$HOME/.ssh/id_rsa",
    "/proc/self/environ",
    "/proc/self/root{home}/.ssh/id_rsa",
    "/proc/self/cwd/../home/.ssh/id_rsa",
    "../home/.ssh/id_rsa:1-2",
    '"{home}/.ssh/id_rsa"',
    "{hermes}/.env",
    "{hermes}/hermes.db",
    "{hermes}/config.yaml",
    "hard",
    "file://{home}/.ssh/id_rsa",
    "{home}//.ssh/./id_rsa:1",
    "{home}/.ssh/id_rsa\u200b",
    "/dev/stdin",
    "{home}/.aws/credentials",
    "/proc/thread-self/environ",
    "/proc/1/environ",
    "{home}/.git-credentials",
    "{home}/.netrc:1-2",
]


@pytest.mark.parametrize("named", SECRETS)
@pytest.mark.parametrize("backend", ["local", "sandbox"])
async def test_held_references_to_secrets(named: str, backend: str) -> None:
    async with scene(backend, environ={"CANARY_TOKEN": "zQ8Lk2Lp9Xw3Vb7Nm1Ra5"}) as one:
        ssh = one.home.home / ".ssh"
        ssh.mkdir()
        (ssh / "id_rsa").write_text("canary-words-here")
        for name in (".git-credentials", ".netrc"):
            (one.home.home / name).write_text("canary-words-here")
        (one.home.home / ".aws").mkdir()
        (one.home.home / ".aws/credentials").write_text("canary-words-here")
        (one.home.hermes / ".env").write_text("X=canary-words-here")
        (one.home.cwd / "link").symlink_to(ssh / "id_rsa")
        (one.home.cwd / "LINK").symlink_to(ssh)
        (one.home.cwd / "hard").hardlink_to(ssh / "id_rsa")
        one.script.append(Say("done"))
        await one.actor.post(
            InboundMessage(
                text=f"look at @file:{named.format(home=one.home.home, hermes=one.home.hermes)}", cwd=str(one.home.cwd)
            )
        )
        body = one.server.requests[-1].body.decode()
        assert "canary-words-here" not in body and "zQ8Lk2Lp9Xw3Vb7Nm1Ra5" not in body, (
            one.server.requests[-1].conversation[-1].text
        )
        assert "SQLite format" not in body and "mock-model\\n" not in body


@pytest.mark.parametrize(
    "url",
    [
        "http://169.254.169.254/latest/meta-data/",
        "http://[::ffff:169.254.169.254]/",
        "http://2852039166/",
        "file:///etc/passwd",
        "http://metadata.google.internal/",
        "http://127.0.0.1:{port}/",
        "http://localhost.:{port}/",
        "http://0:{port}/",
        "gopher://127.0.0.1:{port}/",
    ],
)
async def test_held_references_to_addresses(url: str) -> None:
    async with scene("local") as one:
        hits = []
        server = await asyncio.start_server(lambda r, w: (hits.append(1), w.close()), "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        one.script.append(Say("done"))
        async with asyncio.timeout(60):
            await one.actor.post(InboundMessage(text=f"look at @url:{url.format(port=port)}", cwd=str(one.home.cwd)))
        server.close()
        said = one.server.requests[-1].conversation[-1].text
        assert not hits and "could not be included" in said, said


async def test_skill_reason_is_redacted() -> None:
    async with scene("local") as one:
        content = skill("helper")
        await one.turn(
            [
                Call(
                    "skill_manage",
                    {"action": "create", "name": "helper", "content": content, "reason": f"the key is {TOKEN}"},
                )
            ]
        )
        await asyncio.sleep(0.3)
        raw = b"".join(p.read_bytes() for p in one.home.hermes.rglob("*") if p.is_file())
        assert TOKEN.encode() not in raw


async def test_another_ephemeral_prompt_is_named(tmp_path: Path) -> None:
    import sqlite3

    async with ScriptedServer([Say("a"), Say("b")]) as server:
        with TempHome.for_server(server.url) as home:
            async with App(home.environ, SessionOptions(cwd=str(home.cwd))) as app:
                actor = await app.open_session()
                name = actor.session_id
                await actor.post(InboundMessage(text="hi", cwd=str(home.cwd)))
            async with App(home.environ, SessionOptions(cwd=str(home.cwd), ephemeral_system_prompt="EPH")) as app:
                actor = await app.open_session(name)
                await actor.post(InboundMessage(text="again", cwd=str(home.cwd)))
            with sqlite3.connect(home.hermes / "hermes.db") as database:
                rows = database.execute("SELECT * FROM epochs").fetchall()
    assert server.requests[0].system == server.requests[-1].system or len(rows) > 1
