"""Tokens in the store: private, refreshed once for all, and not lost."""

import asyncio
import os
import resource
import stat
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec import structs

from hermes.core.errors import ConfigError, HermesError, StoreError
from hermes.oauth.sign_in import SignIn
from tests.oauth.oauth_client import NAME, open_keeper, open_store, sign_in
from tests.vendors.oauth_server import FakeOAuthServer, fake_oauth_server

PROCESSES = int(os.environ.get("SIGN_IN_PROCESSES", "12"))


@pytest.fixture
async def server() -> AsyncIterator[FakeOAuthServer]:
    async with fake_oauth_server() as made:
        yield made


async def store_sign_in(server: FakeOAuthServer, folder: Path, **changes: object) -> SignIn:
    found = structs.replace(await sign_in(server.url), **changes)
    await open_keeper(folder).store_sign_in(found)
    return found


async def test_the_file_is_private_and_remembers(server: FakeOAuthServer, tmp_path: Path) -> None:
    told: list[str] = []
    found = await store_sign_in(server, tmp_path)
    file = tmp_path / "oauth.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    os.chmod(file, 0o644)
    store = open_store(tmp_path)
    store._on_secret = told.append
    assert store.read(NAME) == found and store.read("mcp:other") is None and store.list_names() == [NAME]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert told == [found.access_token, found.refresh_token]
    assert store.delete(NAME) and not store.delete(NAME)


@pytest.mark.parametrize("content", ["[]", "{", '{"sign_ins": {"a": 5}}', "link"])
def test_a_file_that_cannot_be_used_says_so(content: str, tmp_path: Path) -> None:
    file = tmp_path / "oauth.json"
    if content == "link":
        file.symlink_to(tmp_path / "other")
    else:
        file.write_text(content)
    with pytest.raises(ConfigError):
        open_store(tmp_path).read(NAME)


async def test_a_token_is_used_until_it_ends_soon(server: FakeOAuthServer, tmp_path: Path) -> None:
    found = await store_sign_in(server, tmp_path)
    assert await open_keeper(tmp_path).find_token() == found.access_token
    await store_sign_in(server, tmp_path, expires_at=1.0)
    fresh = await open_keeper(tmp_path).find_token()
    assert fresh and server.refreshes == 1 and await open_keeper(tmp_path).find_token() == fresh
    assert await open_keeper(tmp_path).refresh("a token of long ago") == fresh and server.refreshes == 1


async def test_many_calls_refresh_once(server: FakeOAuthServer, tmp_path: Path) -> None:
    found = await store_sign_in(server, tmp_path)
    server.refresh_delay = 0.05
    keepers = [open_keeper(tmp_path) for _ in range(4)]
    tokens = await asyncio.gather(*(keeper.refresh(found.access_token) for keeper in keepers for _ in range(10)))
    assert len(set(tokens)) == 1 and tokens[0] not in ("", found.access_token)
    assert (server.refreshes, server.reuses) == (1, 0)


@pytest.mark.slow
async def test_many_processes_refresh_once(server: FakeOAuthServer, tmp_path: Path) -> None:
    found = await store_sign_in(server, tmp_path)
    script = Path(__file__).with_name("oauth_client.py")
    root = str(Path(__file__).parents[2])
    arguments = [sys.executable, str(script), str(tmp_path), found.access_token]
    running = [
        await asyncio.create_subprocess_exec(*arguments, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": root})
        for _ in range(PROCESSES)
    ]
    async with asyncio.timeout(120):
        tokens = [(await one.communicate())[0].decode() for one in running]
    assert len(set(tokens)) == 1 and tokens[0] not in ("", found.access_token)
    assert (server.refreshes, server.reuses) == (1, 0)


async def test_a_refresh_that_nobody_waits_for_is_stored(server: FakeOAuthServer, tmp_path: Path) -> None:
    found = await store_sign_in(server, tmp_path)
    server.refresh_delay = 0.1
    keeper = open_keeper(tmp_path)
    refreshing = asyncio.create_task(keeper.refresh(found.access_token))
    await server.refresh_began.wait()
    refreshing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await refreshing
    await keeper.close()
    stored = open_store(tmp_path).read(NAME)
    assert stored is not None and stored.access_token != found.access_token
    assert await open_keeper(tmp_path).refresh(stored.access_token) and server.reuses == 0


async def test_a_sign_in_that_has_ended_is_not_tried_again(server: FakeOAuthServer, tmp_path: Path) -> None:
    """As after a kill between the server's answer and the store: the refresh token is used up, and nobody has the
    new one.
    """
    found = await store_sign_in(server, tmp_path)
    server.loses_answers = True
    with pytest.raises(HermesError):
        await open_keeper(tmp_path).refresh(found.access_token)
    assert open_store(tmp_path).read(NAME) == found  # the server was not heard: the sign-in stays
    server.loses_answers = False
    assert await open_keeper(tmp_path).refresh(found.access_token) == ""
    ended = open_store(tmp_path).read(NAME)
    assert ended is not None and not ended.access_token and not ended.refresh_token
    assert "invalid_grant" in ended.ended_because and server.reuses == 1
    requests = len(server.heads)
    assert await open_keeper(tmp_path).find_token() == "" and len(server.heads) == requests


async def test_what_the_server_says_of_a_failure_holds_no_token(server: FakeOAuthServer, tmp_path: Path) -> None:
    found = await store_sign_in(server, tmp_path, token_endpoint="http://127.0.0.1:9/token")
    with pytest.raises(HermesError) as raised:
        await open_keeper(tmp_path).refresh(found.access_token)
    assert found.refresh_token not in str(raised.value) and found.access_token not in str(raised.value)


async def test_a_full_disk_ends_no_sign_in(server: FakeOAuthServer, tmp_path: Path) -> None:
    """The server's answer ends the old refresh token, so nothing is asked while the answer could not be stored."""
    found = await store_sign_in(server, tmp_path)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (16, hard))
    try:
        with pytest.raises(StoreError, match="cannot be written"):
            await open_keeper(tmp_path).refresh(found.access_token)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert server.refreshes == 0
    assert await open_keeper(tmp_path).refresh(found.access_token) not in ("", found.access_token)
    assert (server.refreshes, server.reuses) == (1, 0)


def test_a_folder_in_the_place_of_the_file_has_a_name(tmp_path: Path) -> None:
    (tmp_path / "oauth.json").mkdir()
    with pytest.raises(ConfigError, match="is not a file"):
        open_store(tmp_path).read(NAME)


def test_tokens_that_a_killed_writer_has_left_are_removed(tmp_path: Path) -> None:
    left = tmp_path / ".oauth.json.e07921696b3c"
    left.write_text("{}")
    open_store(tmp_path).write(NAME, SignIn(access_token="a"))
    assert not left.exists() and open_store(tmp_path).list_names() == [NAME]
