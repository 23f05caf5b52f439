"""Commands on another host: connections that fail, and files that are carried over, or not."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from hermes.core.errors import ToolError
from hermes.execution.base import CommandExit, ShellCommand, StopOutcome
from hermes.execution.ssh.backend import SshBackend
from hermes.safety.paths import Places
from tests.execution.command_places import Host, sshd
from tests.execution.test_local import runs, until
from tests.execution.test_sandbox import policy

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    with sshd(tmp_path_factory.mktemp("sshd")) as made:
        yield made


class Case:
    """A backend, its workspace here and there, and what its last command printed."""

    def __init__(self, server: Host, folder: Path, **changes: object) -> None:
        self.places: Places = policy(folder).places
        self.work, self.far = folder / "work", folder / "far"
        self.backend = SshBackend(os.environ, server.place(str(self.far), **changes), self.places)
        self.output = bytearray()

    @property
    def text(self) -> str:
        return self.output.decode()

    async def run(self, text: str, **changes: object) -> CommandExit:
        self.output.clear()
        values: dict[str, object] = {"cwd": str(self.work), **changes}
        async with asyncio.timeout(60):
            command = ShellCommand(text=text, **values)  # type: ignore[arg-type]
            return await (await self.backend.start(command, self.output.extend)).wait()


@pytest.fixture
async def case(host: Host, tmp_path: Path) -> AsyncIterator[Case]:
    made = Case(host, tmp_path.resolve())
    yield made
    await made.backend.close()


async def test_what_changes_on_one_side_comes_to_the_other(case: Case) -> None:
    (case.work / "d/e").mkdir(parents=True)
    (case.work / "d/run").write_text("echo ran\n")
    (case.work / "d/run").chmod(0o755)
    (case.work / "link").symlink_to("d/run")
    await case.run("sh link; mkdir new; echo 1 > new/file; chmod 700 new/file; ln -s file new/l; mv d/run d/moved")
    assert case.text == "ran\n"
    assert (case.work / "new/file").read_text() == "1\n" and (case.work / "new/file").stat().st_mode & 0o777 == 0o700
    assert os.readlink(case.work / "new/l") == "file" and not (case.work / "d/run").exists()
    (case.work / "new/file").write_text("2\n")
    (case.work / "new/l").unlink()
    await case.run("cat new/file; ls new; rm -r new d")
    assert case.text == "2\nfile\n" and sorted(os.listdir(case.work)) == ["link"]


async def test_files_that_were_there_before_are_left_alone(case: Case) -> None:
    case.far.mkdir()
    (case.far / "theirs").write_text("theirs\n")
    await case.run("cat theirs; echo mine > mine")
    assert case.text == "theirs\n" and sorted(os.listdir(case.work)) == ["mine"]
    assert (case.far / "theirs").exists()


async def test_a_folder_that_is_gone_there_takes_nothing_with_it(case: Case) -> None:
    (case.work / "precious").write_text("x\n")
    await case.run('rm -rf "$PWD"')
    assert (case.work / "precious").exists() and "is gone" in case.text


async def test_what_was_changed_on_both_sides_stays_as_it_is_here(case: Case) -> None:
    (case.work / "f").write_text("0\n")
    running = await case.backend.start(
        ShellCommand(text="echo there > f; read x", cwd=str(case.work), interactive=True), case.output.extend
    )
    await until(lambda: (case.far / "f").read_text() == "there\n")
    (case.work / "f").write_text("here\n")
    running.close_input()
    await running.wait()
    assert (case.work / "f").read_text() == "here\n" and "yours is kept" in case.text
    await case.run("cat f")
    assert case.text == "here\n"


@pytest.mark.parametrize("way", ["ln -s {out} s", "rm -rf s; ln -s {out} s; echo x > s/file", "ln -s ../../other s"])
async def test_no_link_leads_out_of_the_workspace(case: Case, way: str, tmp_path: Path) -> None:
    out = tmp_path.resolve() / "other"
    (case.work / "s").mkdir()
    (case.work / "s/file").write_text("before\n")
    await case.run(f"rm -r s; {way.format(out=out)}")
    assert not (case.work / "s").is_symlink() and (out / "file").read_text().strip() in ("before", "x")
    await case.run("true")
    assert not (case.work / "s").is_symlink()


async def test_a_link_here_is_not_written_through(case: Case, tmp_path: Path) -> None:
    out = tmp_path.resolve() / "other"
    await case.run("mkdir d; echo 1 > d/file")
    for one in (case.work / "d").iterdir():
        one.unlink()
    (case.work / "d").rmdir()
    (case.work / "d").symlink_to(out)
    running = await case.backend.start(
        ShellCommand(text="mkdir -p d; echo through > d/file; echo new > d/new", cwd=str(case.work)), case.output.extend
    )
    await running.wait()
    assert (out / "file").read_text() == "before\n" and not (out / "new").exists()


async def test_names_from_there_are_not_believed(case: Case, host: Host, tmp_path: Path) -> None:
    await case.run("true")
    names = ("../escaped", "/tmp/escaped", "a/../../b", "./c", "a//b")
    host.says("".join(f"f 5 1.0 1.0 644 {name}\0\0" for name in names))
    try:
        await case.run("true")
    finally:
        host.tells_the_truth()
    assert case.text.count("leads elsewhere") == len(names)
    assert sorted(os.listdir(tmp_path)) == ["far", "home", "other", "work"] and not os.listdir(case.work)


async def test_what_programs_here_obey_is_not_taken_over(case: Case) -> None:
    await case.run("mkdir -p .git/hooks .vscode; echo evil > .git/hooks/post-checkout; echo x > .vscode/tasks.json")
    assert "would obey" in case.text
    assert not (case.work / ".git/hooks/post-checkout").exists() and not (case.work / ".vscode/tasks.json").exists()
    assert case.backend.take_notices() and not case.backend.take_notices()


async def test_keys_in_the_workspace_and_what_is_excluded_are_not_sent(host: Host, tmp_path: Path) -> None:
    case = Case(host, tmp_path.resolve(), exclude=("node_modules", ".git/objects"))
    inside = Places(home=str(case.work), hermes=str(case.work / ".hermes"), workspace=str(case.work))
    case.backend = SshBackend(os.environ, host.place(str(case.far), exclude=("node_modules", ".git/objects")), inside)
    for name in (".ssh/id_ed25519", ".hermes/auth.json", "node_modules/m", ".git/objects/o", ".git/HEAD", "plain"):
        (case.work / name).parent.mkdir(parents=True, exist_ok=True)
        (case.work / name).write_text("x\n")
    await case.run("find . -type f | sort")
    assert case.text == "./.git/HEAD\n./plain\n"
    await case.backend.close()


async def test_what_is_too_large_is_left_out_and_said(host: Host, tmp_path: Path) -> None:
    case = Case(host, tmp_path.resolve(), limit=100_000)
    (case.work / "large").write_bytes(b"x" * 200_000)
    (case.work / "small").write_bytes(b"x" * 2_000)
    await case.run("ls; head -c 300000 /dev/zero > big; echo 1 > little")
    assert "small\n" in case.text and "large the largest" in case.text and "big the largest" in case.text
    assert sorted(os.listdir(case.work)) == ["large", "little", "small"]
    await case.backend.close()


async def test_a_host_with_another_key_is_not_believed(host: Host, tmp_path: Path) -> None:
    known = tmp_path / "known"
    known.write_text(f"[127.0.0.1]:{host.port} {(host.folder / 'other_key.pub').read_text()}")
    config = tmp_path / "config"
    config.write_text(f"Host *\n  UserKnownHostsFile {known}\n  GlobalKnownHostsFile /dev/null\n")
    case = Case(host, tmp_path.resolve(), config=str(config))
    with pytest.raises(ToolError, match="verification failed"):
        await case.run("true")
    await case.backend.close()


@pytest.mark.parametrize("name", ["", "-oProxyCommand=id", "a b", "h;id"])
async def test_a_host_is_a_name(host: Host, tmp_path: Path, name: str) -> None:
    with pytest.raises(ToolError, match="is no host"):
        await Case(host, tmp_path.resolve(), host=name).run("true")


async def test_a_lost_connection_is_told_and_the_next_command_makes_another(case: Case) -> None:
    running = await case.backend.start(
        ShellCommand(text="echo up; sleep 300; true", cwd=str(case.work)), case.output.extend
    )
    await until(lambda: b"up" in case.output)
    keeper = case.backend._remote._standby
    assert keeper is not None
    os.kill(keeper.pid, signal.SIGKILL)
    async with asyncio.timeout(60):
        ended = await running.wait()
    assert (ended.code, ended.left_running) == (-signal.SIGHUP, True) and "connection was lost" in case.text
    await until(lambda: not runs(running.pid))
    assert (await case.run("echo again")).code == 0 and case.text == "again\n"


async def test_a_far_side_that_does_not_answer_makes_a_stop_uncertain(host: Host, tmp_path: Path) -> None:
    case = Case(host, tmp_path.resolve())
    running = await case.backend.start(
        ShellCommand(text="echo up; sleep 300; true", cwd=str(case.work)), case.output.extend
    )
    await until(lambda: b"up" in case.output)
    keeper = case.backend._remote._standby
    assert keeper is not None
    os.kill(keeper.pid, signal.SIGSTOP)
    try:
        async with asyncio.timeout(60):
            assert await running.stop() is StopOutcome.UNCERTAIN
    finally:
        os.kill(keeper.pid, signal.SIGCONT)
        await case.backend.close()
    await until(lambda: not runs(running.pid))


_VICTIM = """
import asyncio, os, sys
from hermes.safety.paths import Places
from hermes.execution.base import ShellCommand
from hermes.execution.ssh.backend import SshBackend, SshOptions
port, key, config, far, work, home = sys.argv[1:]
async def main():
    places = Places(home=home, hermes=home + "/.hermes", workspace=work)
    place = SshOptions(host="127.0.0.1", port=int(port), key=key, config=config, folder=far)
    backend = SshBackend(os.environ, place, places)
    running = await backend.start(ShellCommand(text="setsid sleep 300 & sleep 300; true", cwd=work), lambda data: None)
    print(running.pid, flush=True)
    await running.wait()
asyncio.run(main())
"""


async def test_nothing_runs_on_there_after_a_kill_of_this_process(host: Host, tmp_path: Path) -> None:
    case = Case(host, tmp_path.resolve())
    place = host.place(str(case.far))
    arguments = [str(host.port), place.key, place.config, str(case.far), str(case.work), case.places.home]
    victim = subprocess.Popen([sys.executable, "-c", _VICTIM, *arguments], stdout=subprocess.PIPE, cwd=os.getcwd())
    assert victim.stdout is not None
    with victim.stdout:
        pid = int(await asyncio.to_thread(victim.stdout.readline))
    assert runs(pid)
    victim.kill()
    victim.wait()
    await until(lambda: not runs(pid), 5)
