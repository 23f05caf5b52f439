"""A backup is one of the whole gateway, and of nothing that a link leads to."""

import asyncio
import os
import socket
import stat
from pathlib import Path

import pytest

from hermes.admin import backup_files
from hermes.admin.backup import BackupArchive, create_backup, restore_backup
from hermes.testing.home import TempHome
from hermes.testing.script import Say
from hermes.testing.server import ScriptedServer
from tests.forked_hermes import run_hermes
from tests.gateway.gateway_rig import home_for, running
from tests.sessions.stored_sessions import say_in
from tests.vendors.telegram import Fake

pytestmark = pytest.mark.slow


def names_in(file: object) -> set[str]:
    with BackupArchive(Path(str(file))) as archive:
        return {one.name for one in archive.manifest.files}


def write(path: Path, text: str, mode: int = 0o644) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)


async def test_a_restored_gateway_runs_on_with_all_of_it() -> None:
    """H3: scripts, webhooks, people and their files, media and workspace come back, private to the user."""
    async with ScriptedServer([Say("Hello."), Say("Again.")]) as server, Fake() as fake:
        accounts = {"webhook": {"port": 0}, "telegram": {"batch_seconds": 0.05, **fake.options()}}
        with TempHome.for_server(server.url, more_config={"platforms": accounts}) as home:
            write(home.hermes / "scripts" / "backups.sh", "#!/bin/sh\necho all is well\n", 0o755)
            write(home.hermes / "skills" / "mine" / "SKILL.md", "---\nname: mine\ndescription: d\n---\nx")
            write(home.hermes / "workspace" / "report.txt", "the report")
            write(home.hermes / "people" / "telegram_6660" / "list.txt", "milk")
            write(home.hermes / "media" / "telegram" / "a.txt", "a")
            job = ("cron", "add", "@daily", "--script", "backups.sh", "--no-agent", "--name", "backups")
            assert (await run_hermes(home, *job)).code == 0
            assert (await run_hermes(home, "webhook", "add", "ci", "--prompt", "{a}")).code == 0
            assert (await run_hermes(home, "people", "add", "anna", "--name", "Anna")).code == 0
            assert (await run_hermes(home, "people", "link", "anna", "telegram", fake.person)).code == 0
            file = home.root / "whole.zip"
            made = await run_hermes(home, "backup", str(file), "--commands-may-read")
            assert made.code == 0 and "webhooks.json" in made.stderr, made.stderr
            with home_for(server, {"telegram": fake}) as other:
                done = await run_hermes(other, "restore", str(file), "--yes")
                assert done.code == 0, done.stderr
                assert "script scripts/backups.sh" in done.stdout and "webhook ci" in done.stdout
                for path in other.hermes.rglob("*"):
                    assert not path.lstat().st_mode & 0o077 or path.is_symlink(), path
                assert (other.hermes / "people/telegram_6660/list.txt").read_text() == "milk"
                assert (other.hermes / "workspace/report.txt").read_text() == "the report"
                async with running(other):
                    await fake.say("hi")
                    await fake.until(lambda: "Hello." in fake.text())
                    ran = await run_hermes(other, "cron", "run", "backups")
                    assert ran.code == 0 and "all is well" in ran.stdout, ran.stderr
                    assert "ci" in (await run_hermes(other, "webhook", "list")).stdout
                    busy = await run_hermes(other, "restore", str(file), "--yes")
                    assert busy.code == 75 and "`hermes gateway stop`" in busy.stderr, busy.stderr
                    assert "/quit" not in busy.stderr


async def test_the_limit_leaves_out_the_largest_and_says_so() -> None:
    with TempHome({}) as home:
        await say_in(home, "s1", "words")
        write(home.hermes / "workspace" / "small.txt", "small")
        write(home.hermes / "workspace" / "node_modules" / "x.js", "x")
        with open(home.hermes / "workspace" / "huge.bin", "wb") as huge:
            huge.truncate(3_000_000)
        made = await run_hermes(home, "backup", "--limit", "2")
        assert made.code == 0 and "huge.bin" in made.stderr and "node_modules" in made.stderr, made.stderr
        (file,) = (home.hermes / "backups").glob("*.zip")
        kept = {one for one in names_in(file) if one.startswith("workspace/")}
        assert kept == {"workspace/small.txt"}
        # What a restore replaces of people's own files is kept, the large file included.
        done = restore_backup(home.environ, file)
        folder = Path(str(done["kept_in"]))
        assert folder.parent == home.hermes and folder.stat().st_mode & 0o777 == 0o700
        assert (folder / "workspace" / "huge.bin").stat().st_size == 3_000_000
        assert not (home.hermes / "workspace" / "huge.bin").exists()


async def test_links_pipes_and_sockets_stay_out() -> None:
    with TempHome({}) as home:
        await say_in(home, "s1", "words")
        secret = home.home / ".ssh" / "id_key"
        write(secret, "a private key", 0o600)
        workspace = home.hermes / "workspace"
        write(workspace / "plain.txt", "plain")
        (workspace / "link").symlink_to(secret)
        (workspace / "folder").symlink_to(secret.parent)
        (workspace / "loop").symlink_to(workspace)
        os.mkfifo(workspace / "pipe")
        write(workspace / "back\\slash", "x")
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(str(workspace / "s"))
            async with asyncio.timeout(60):
                made = await asyncio.to_thread(create_backup, home.environ)
        assert {one for one in names_in(made["file"]) if one.startswith("workspace")} == {"workspace/plain.txt"}
        left_out = made["left_out"]
        assert isinstance(left_out, list)
        assert {str(workspace / one) for one in ("link", "folder", "loop", "pipe", "s")} <= {*left_out}


def test_a_folder_that_becomes_a_link_meanwhile_leads_nowhere(tmp_path: Path) -> None:
    """A command of the agent swaps a folder between the listing and the reading: no key gets into the archive."""
    home, keys = tmp_path / "home", tmp_path / "keys"
    write(home / "workspace" / "d" / "id_key", "nothing")
    write(keys / "id_key", "a private key", 0o600)
    root = os.open(home, os.O_RDONLY)
    try:
        note = backup_files.LeftOutFiles("workspace")
        (found,) = backup_files.list_tree(root, "workspace", note, bulk=True)
        (home / "workspace" / "d").rename(home / "workspace" / "gone")
        (home / "workspace" / "d").symlink_to(keys)
        with pytest.raises(OSError), backup_files.open_beneath(root, found[0]):
            pass
        (home / "workspace" / "d").unlink()
        (home / "workspace" / "d").mkdir()
        os.mkfifo(home / "workspace" / "d" / "id_key")
        with pytest.raises(OSError), backup_files.open_beneath(root, found[0]):
            pass
    finally:
        os.close(root)


async def test_a_file_that_grows_meanwhile_does_not_grow_the_backup(tmp_path: Path) -> None:
    with TempHome({}) as home:
        await say_in(home, "s1", "words")
        log = home.hermes / "workspace" / "log.txt"
        write(log, "x" * 1000)
        stop = asyncio.Event()

        async def grow() -> None:
            while not stop.is_set():
                with open(log, "a") as file:
                    file.write("y" * 100_000)
                await asyncio.sleep(0)

        growing = asyncio.create_task(grow())
        async with asyncio.timeout(60):
            made = await asyncio.to_thread(create_backup, home.environ, tmp_path / "b.zip")
        stop.set()
        await growing
        with BackupArchive(Path(str(made["file"]))) as archive:
            archive.verify_members()
            (one,) = [member for member in archive.manifest.files if member.name == "workspace/log.txt"]
        assert one.size <= log.stat().st_size and stat.S_IMODE(os.stat(str(made["file"])).st_mode) == 0o600
