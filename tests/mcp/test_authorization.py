"""Servers that want a sign-in: tokens that are refreshed unseen, what a person is told, and `hermes mcp login`."""

import asyncio
import contextlib
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import unquote

import msgspec
import pytest

from hermes.core.errors import ToolError
from hermes.mcp.authorization import McpAuthorization, McpAuthorizationDeps, McpSignInSettings
from hermes.mcp.servers import McpEnvironment, McpServers
from hermes.oauth.sign_in import SignIn
from hermes.oauth.token_store import TokenStore
from tests.fake_keyring import install_fake_keyring
from tests.mcp.test_servers import HERE, call, spec
from tests.oauth.oauth_client import AgreeingPerson, send
from tests.vendors.oauth_server import FakeOAuthServer, fake_oauth_server

pytestmark = pytest.mark.slow


@pytest.fixture
def upstream() -> Iterator[str]:
    """A server made with the official SDK, which wants no tokens itself."""
    arguments = [sys.executable, str(HERE / "oracle_server.py"), "sse"]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{process.stdout.readline().strip()}/mcp"
        process.kill()


@pytest.fixture
async def fake(upstream: str) -> AsyncIterator[FakeOAuthServer]:
    async with fake_oauth_server(upstream) as made:
        yield made


@contextlib.asynccontextmanager
async def using(fake: FakeOAuthServer, folder: Path, person: AgreeingPerson | None = None) -> AsyncIterator[McpServers]:
    url = f"{fake.url}/mcp"
    deps = McpAuthorizationDeps(store=TokenStore(folder / "oauth.json", folder / "run"), send=send, person=person)
    around = McpEnvironment(
        environ={},
        supervisors=None,  # type: ignore[arg-type] - no program is started
        logs=folder,
        known_file=folder / "known.json",
        open_authorization=lambda spec: McpAuthorization(spec.name, url, McpSignInSettings(), deps),
    )
    servers = McpServers([spec(name="notes", command="", url=url)], around)
    try:
        yield servers
    finally:
        await servers.close()


async def test_a_token_that_has_ended_is_replaced_unseen(fake: FakeOAuthServer, tmp_path: Path) -> None:
    async with using(fake, tmp_path, AgreeingPerson()) as servers:
        (server,) = servers.servers
        await server.connect()
        assert await call(server, "add", a=1, b=2) == "3"
    async with using(fake, tmp_path) as servers:
        (server,) = servers.servers
        await server.connect()
        before = len(fake.heads)
        fake.expire_access_tokens()
        assert await call(server, "add", a=1, b=2) == "3"
        assert fake.heads[before:].count("POST /token") == 1
        fake.expire_access_tokens()
        sums = await asyncio.gather(*(call(server, "add", a=number, b=1) for number in range(10)))
        assert sums == [str(number + 1) for number in range(10)]
    assert (fake.sign_ins, fake.refreshes, fake.reuses) == (1, 2, 0)


async def test_nobody_there_means_that_the_person_is_told_what_to_do(fake: FakeOAuthServer, tmp_path: Path) -> None:
    async with using(fake, tmp_path) as servers:
        (server,) = servers.servers
        with pytest.raises(ToolError, match="it wants you to sign in: `hermes mcp login notes`"):
            await server.connect()
        assert "hermes mcp login notes" in server.problem
    assert fake.sign_ins == fake.registrations == 0


async def test_a_token_of_another_server_is_not_sent(fake: FakeOAuthServer, tmp_path: Path) -> None:
    async with using(fake, tmp_path, AgreeingPerson()) as servers:
        await servers.servers[0].connect()
    store = TokenStore(tmp_path / "oauth.json", tmp_path / "run")
    stored = store.read("mcp:notes")
    assert stored is not None
    async with fake_oauth_server() as other:
        async with using(other, tmp_path) as servers:
            with pytest.raises(ToolError, match="it wants you to sign in"):
                await servers.servers[0].connect()
        assert other.heads == ["POST /mcp"]
        assert not any(stored.access_token in token for token in other.tokens)
    assert store.read("mcp:notes") == stored


@pytest.mark.parametrize("place", ["file", "keyring"])
async def test_the_command_signs_in_over_ssh_and_out_again(fake: FakeOAuthServer, tmp_path: Path, place: str) -> None:
    config = {"mcp_servers": {"notes": {"url": f"{fake.url}/mcp"}}, "token_store": place}
    (tmp_path / "config.yaml").write_text(json.dumps(config))
    environ = {**os.environ, "HERMES_HOME": str(tmp_path), "HOME": str(tmp_path), "SSH_CONNECTION": "1"}
    if place == "keyring":
        environ |= install_fake_keyring(tmp_path, {"PYTHONPATH": str(Path(__file__).parents[2])})

    async def start(*words: str) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "hermes",
            "mcp",
            *words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=environ,
        )

    async with asyncio.timeout(60):
        running = await start("login", "notes")
        assert running.stdout is not None and running.stdin is not None
        shown = ""
        while "/authorize?" not in shown:
            shown = (await running.stdout.readline()).decode()
        running.stdin.write(f"{await asyncio.to_thread(AgreeingPerson._find_end, shown.strip())}\n".encode())
        said = (await running.communicate())[0].decode()
        assert running.returncode == 0 and "You are signed in." in said and "5 tools" in said
        if place == "keyring":
            (kept,) = json.loads((tmp_path / "keyring.json").read_text()).values()
            stored = msgspec.json.decode(kept, type=SignIn)
            told = (tmp_path / "oauth.json").read_text()
            assert json.loads(told) == {"sign_ins": {"mcp:notes": {"place": "keyring"}}}
        else:
            found = TokenStore(tmp_path / "oauth.json", tmp_path / "run").read("mcp:notes")
            assert found is not None
            stored = found
        assert stored.access_token not in said + shown
        running = await start("test", "notes")
        assert b"5 tools" in (await running.communicate())[0]
        running = await start("logout", "notes")
        assert b"The tokens of notes are deleted." in (await running.communicate())[0]
        running = await start("test", "notes")
        assert b"it wants you to sign in" in (await running.communicate())[0]
    assert fake.sign_ins == 1
    told = b"".join(file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())
    assert stored.access_token.encode() not in told and stored.refresh_token.encode() not in told


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ({"command": "x"}, "is a program"),
        ({"url": "https://x.example", "headers": {"Authorization": "Bearer t"}}, "is given its token in `headers`"),
        (None, "There is no MCP server"),
    ],
)
def test_servers_that_are_not_signed_in_to(entry: object, said: str, tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(json.dumps({"mcp_servers": {"notes": entry} if entry else {}}))
    environ = {**os.environ, "HERMES_HOME": str(tmp_path), "HOME": str(tmp_path)}
    arguments = [sys.executable, "-m", "hermes", "mcp", "login", "notes"]
    done = subprocess.run(arguments, env=environ, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode != 0 and said in done.stderr


async def test_an_answer_with_another_state_signs_nobody_in(fake: FakeOAuthServer, tmp_path: Path) -> None:
    class Misled(AgreeingPerson):
        async def show_address(self, url: str) -> None:
            state = url.partition("state=")[2].partition("&")[0]
            address = unquote(url.partition("redirect_uri=")[2].partition("&")[0])
            self.urls.append(f"{address}?code=x&state={state[::-1]}")
            with pytest.raises(HTTPError, match="404"):  # the port takes no notice of it
                await asyncio.to_thread(self._follow, self.urls[0])
            self._pasted.set_result(self.urls[0])

    async with using(fake, tmp_path, Misled()) as servers:
        with pytest.raises(ToolError, match="its state is a different one"):
            await servers.servers[0].connect()
    assert not (tmp_path / "oauth.json").exists()
