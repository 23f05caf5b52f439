"""Commands in a sandbox, by bubblewrap and by Landlock: work stays easy, and what is refused is named."""

import asyncio
import contextlib
import os
import socket
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import msgspec
import pytest

from hermes.core.errors import ToolError
from hermes.execution.base import CommandExit, DeniedPath, NetworkMode, ShellCommand, StopOutcome, StopPatience
from hermes.execution.git_settings import strip_harmful_settings
from hermes.execution.layout import AccessLayout, PathAccess
from hermes.execution.sandbox.backend import SandboxBackend, SandboxedCommand
from hermes.execution.sandbox.planted_files import PlantedFiles
from hermes.execution.sandbox.policy import SandboxPolicy, build_layout, hide_sockets
from hermes.execution.sandbox.probe import SandboxMechanism, SandboxProbe, SandboxSupport
from hermes.execution.sandbox.seatbelt import build_profile
from hermes.safety.paths import Places
from tests.cpu_cost import count_cpu_units
from tests.execution.test_local import NEVER, runs, until
from tests.requirements import require_sandbox

pytestmark = pytest.mark.slow

WAYS = (SandboxMechanism.BUBBLEWRAP, SandboxMechanism.LANDLOCK)
PROBES = {way: SandboxProbe(os.environ, (way,)) for way in WAYS}


def policy(folder: Path, **changes: object) -> SandboxPolicy:
    home, work = folder / "home", folder / "work"
    for one in (home / ".hermes/skills", home / ".ssh", work, folder / "other"):
        one.mkdir(parents=True, exist_ok=True)
    (home / ".hermes/skills/s").write_text("a skill\n")
    (home / ".hermes/auth.json").write_text("a key\n")
    (home / ".ssh/id_ed25519").write_text("a key\n")
    (home / ".ssh/known_hosts").write_text("a host\n")
    (folder / "other/file").write_text("before\n")
    values: dict[str, object] = {
        "places": Places(home=str(home), hermes=str(home / ".hermes"), workspace=str(work)),
        "private": ("/var/tmp",),
        "network": NetworkMode.OFF,
    }
    return SandboxPolicy(**{**values, **changes})  # type: ignore[arg-type]


class Case:
    """A backend in a folder, and what its last command printed."""

    def __init__(self, folder: Path, way: SandboxMechanism, **changes: object) -> None:
        self.folder = folder
        self.policy = policy(folder, **changes)
        self.work = Path(self.policy.places.workspace)
        environment = {**os.environ, "HOME": self.policy.places.home, "OPENAI_API_KEY": "x" * 20}
        self.backend = SandboxBackend(environment, self.policy, probe=PROBES[way])
        self.output = bytearray()

    def remake(self, made: SandboxPolicy) -> None:
        """Use a backend of another policy."""
        environment = {**os.environ, "HOME": made.places.home}
        self.policy, self.backend = made, SandboxBackend(environment, made, probe=self.backend._probe)

    @property
    def text(self) -> str:
        return self.output.decode()

    async def start(self, text: str, **changes: object) -> SandboxedCommand:
        self.output.clear()
        values: dict[str, object] = {"cwd": str(self.work), **changes}
        return await self.backend.start(ShellCommand(text=text, **values), self.output.extend)  # type: ignore[arg-type]

    async def run(self, text: str, **changes: object) -> CommandExit:
        async with asyncio.timeout(60):
            return await (await self.start(text, **changes)).wait()


@pytest.fixture(params=WAYS)
async def case(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Case]:
    held = await PROBES[request.param].find_support()
    require_sandbox(request.param, held.is_usable, held.reason)
    made = Case(tmp_path.resolve(), request.param)
    yield made
    await made.backend.close()


@pytest.fixture
async def bwrap(tmp_path: Path) -> AsyncIterator[Case]:
    held = await PROBES[SandboxMechanism.BUBBLEWRAP].find_support()
    require_sandbox("bubblewrap", held.is_usable, held.reason)
    made = Case(tmp_path.resolve(), SandboxMechanism.BUBBLEWRAP, private=("/tmp", "/var/tmp"))
    yield made
    await made.backend.close()


@pytest.fixture
def unseen_folder() -> Iterator[Path]:
    """A folder that no sandbox of other tests shows: sockets that vanish there cost these no second start."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        yield Path(folder).resolve()


async def test_everyday_work(case: Case) -> None:
    ended = await case.run(
        "mkdir -p a/b && echo hi > a/b/c && mv a/b/c d && ln d e && ln -s d f && chmod 755 d && cat f"
    )
    assert (ended.code, case.text) == (0, "hi\n")
    assert (case.work / "d").stat().st_nlink == 2
    assert (await case.run('t=$(mktemp) && echo tmp > "$t" && cat "$t" && rm "$t"')).code == 0 and case.text == "tmp\n"
    assert (await case.run("echo out; echo err >&2; exit 3")).code == 3 and case.text == "out\nerr\n"
    assert (await case.run("sleep 0.01 | cat; echo ${PIPESTATUS[0]} < <(true)")).code == 0


async def test_state_is_kept_and_the_sandboxs_own_variables_are_no_part_of_it(case: Case) -> None:
    ended = await case.run("mkdir d; cd d; export NAME='two\nlines'; unset LANG", report_state=True)
    assert ended.state is not None and ended.state.cwd == str(case.work / "d")
    assert ended.state.environment == {"NAME": "two\nlines"}
    follows = {"environment": ended.state.environment, "unset": ended.state.unset, "cwd": ended.state.cwd}
    await case.run('pwd; echo "$NAME"', **follows)
    assert case.text == f"{case.work}/d\ntwo\nlines\n"


class ScriptedProbe(SandboxProbe):
    """Finds bubblewrap as it is here, and names a script that does something before it runs that."""

    def __init__(self, folder: Path, script: str) -> None:
        super().__init__(os.environ, (SandboxMechanism.BUBBLEWRAP,))
        self.program = folder / "bwrap"
        self._script = script

    async def find_support(self) -> SandboxSupport:
        found = await super().find_support()
        is_start = 'case "$*" in *--args*)'  # and no trial of a network of the session's own
        self.program.write_text(f'#!/bin/sh\n{is_start} {self._script};; esac\nexec {found.program} "$@"\n')
        self.program.chmod(0o755)
        return msgspec.structs.replace(found, program=str(self.program))


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines()


@pytest.mark.parametrize("pty", [False, True])
@pytest.mark.parametrize("network", [NetworkMode.OFF, NetworkMode.ON])
async def test_a_socket_that_vanishes_before_it_is_hidden_costs_a_second_start(
    bwrap: Case, unseen_folder: Path, network: NetworkMode, pty: bool
) -> None:
    """The script removes the socket after it was listed, and before bubblewrap would lay an empty file over it."""
    folder = unseen_folder
    path = folder / "other/s"
    made = Case(folder, SandboxMechanism.BUBBLEWRAP, private=(), network=NetworkMode.ON)
    told = f"tr '\\0' '\\n' <\"/proc/self/fd/$2\" >{folder}/told.$$; echo told.$$ >>{folder}/starts"
    probe = ScriptedProbe(folder, f"{told}; rm -f {path}")
    made.backend = SandboxBackend(os.environ, made.policy, probe=probe)
    try:
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(str(path))
            listening.listen()
            assert str(path) in hide_sockets(build_layout(made.backend._policy), ()).paths_with(PathAccess.HIDDEN)
            ended = await made.run("echo ran >>ran; echo out; exit 3", network=network, pty=pty)
        assert (ended.code, made.text.replace("\r", "")) == (3, "out\n")
        assert (made.work / "ran").read_text() == "ran\n"
        first, *more, last = [set((folder / one).read_text().split("\n")) for one in _lines(folder / "starts")]
        assert str(path) in first - last
        for one in more:  # another program's socket may vanish in the same moment: no start is made for nothing
            assert any(not os.path.lexists(gone) for gone in one - last)
    finally:
        await made.backend.close()


CONNECT = "import socket; socket.socket(socket.AF_UNIX).connect('{name}')"
LISTEN = (
    "import socket, time; s = socket.socket(socket.AF_UNIX); s.bind('own'); s.listen(); open('up', 'w'); time.sleep(60)"
)


@pytest.mark.parametrize("network", [NetworkMode.OFF, NetworkMode.ON])
async def test_a_socket_in_the_workspace_is_hidden_unless_a_command_listens_on_it(
    tmp_path: Path, network: NetworkMode
) -> None:
    """The person's own program, such as tmux, would do what it is told outside of the sandbox."""
    held = await PROBES[SandboxMechanism.BUBBLEWRAP].find_support()
    require_sandbox("bubblewrap", held.is_usable, held.reason)
    made = Case(tmp_path.resolve(), SandboxMechanism.BUBBLEWRAP, network=network)
    with socket.socket(socket.AF_UNIX) as listening, contextlib.chdir(made.work):
        listening.bind("outer")
        listening.listen()
        try:
            assert (await made.run(f'python3 -c "{CONNECT.format(name="outer")}"', network=network)).code == 1
            server = await made.start(f'python3 -c "{LISTEN}"', network=network)
            await until((made.work / "up").exists)
            assert (await made.run(f'python3 -c "{CONNECT.format(name="own")}"', network=network)).code == 0
            assert (await made.run(f'python3 -c "{CONNECT.format(name="outer")}"', network=network)).code == 1
            await server.stop()
        finally:
            await made.backend.close()


async def test_a_socket_of_a_name_that_is_in_use_elsewhere_is_a_file_as_any_other(bwrap: Case, tmp_path: Path) -> None:
    """Commands can leave thousands of them: each that is hidden costs a mount."""
    with socket.socket(socket.AF_UNIX) as outer, socket.socket(socket.AF_UNIX) as stale:
        outer.bind(str(tmp_path / "server.sock"))
        outer.listen()
        (bwrap.work / "run").mkdir()
        stale.bind(str(bwrap.work / "run/server.sock"))
        stale.close()
        assert (await bwrap.run("rm -r run")).code == 0 and not (bwrap.work / "run").exists()


async def test_a_socket_in_the_workspace_leaves_that_writable(case: Case) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(case.work / "dev.sock"))
        server.listen()
        assert (await case.run("echo hi > new; mkdir d")).code == 0 and (case.work / "d").is_dir()


async def test_sockets_that_vanish_at_each_start_end_the_tries(bwrap: Case, unseen_folder: Path) -> None:
    folder = unseen_folder
    made = Case(folder, SandboxMechanism.BUBBLEWRAP, private=())
    starts = folder / "starts"
    starts.touch()
    probe = ScriptedProbe(folder, f"rm {folder}/other/s$(wc -l <{starts}); echo start >>{starts}")
    made.backend = SandboxBackend(os.environ, made.policy, probe=probe)
    with contextlib.ExitStack() as opened:
        for number in range(9):
            listening = opened.enter_context(socket.socket(socket.AF_UNIX))
            listening.bind(f"{folder}/other/s{number}")
            listening.listen()
        try:
            assert (await made.run("echo ran >ran")).code == 1
        finally:
            await made.backend.close()
    assert made.text.count("bwrap: ") == 1 and f"{folder}/other/s4" in made.text  # those of the last start alone
    assert starts.read_text() == "start\n" * 5 and not (made.work / "ran").exists()


async def test_only_a_command_that_did_not_begin_is_started_again(bwrap: Case, tmp_path: Path) -> None:
    """Its words and its exit code may be those of a sandbox that could not be made."""
    ended = await bwrap.run('echo ran >>ran; echo "bwrap: Can\'t create file at /x"; ls /proc/self/fd; exit 1')
    assert ended.code == 1 and (bwrap.work / "ran").read_text() == "ran\n"
    assert bwrap.text.split("/x\n")[1].split() == ["0", "1", "2", "3"]  # no handle of ours is left in it
    made = Case(tmp_path.resolve(), SandboxMechanism.BUBBLEWRAP)
    starts = tmp_path / "starts"
    made.backend = SandboxBackend(
        os.environ, made.policy, probe=ScriptedProbe(tmp_path.resolve(), f"echo start >>{starts}; echo no; exit 1")
    )
    try:
        ended = await made.run("echo ran >>again")
        assert (ended.code, made.text) == (1, "no\n") and not (made.work / "again").exists()
        # Once, since nothing changed, or a few times where programs of this machine open and close sockets.
        assert 1 <= starts.read_text().count("start\n") <= 5
    finally:
        await made.backend.close()


async def test_keys_cannot_be_read_and_the_rest_can(case: Case) -> None:
    await case.run("cat ~/.ssh/id_ed25519 ~/.hermes/auth.json; cat ~/.ssh/known_hosts ~/.hermes/skills/s; env")
    assert "a key" not in case.text and "x" * 20 not in case.text
    assert "a host" in case.text and "a skill" in case.text


async def test_a_grant_opens_one_place_for_the_session(case: Case) -> None:
    ended = await case.run("echo after > ../other/file")
    assert ended.code and case.backend.find_denied_path("", str(case.work), case.text) == DeniedPath(
        str(case.folder / "other/file"), is_write=True
    )
    case.backend.grant_write(str(case.folder / "other"))
    assert (await case.run("echo after > ../other/file; echo new > ../other/new; echo x > ../no")).code
    assert (case.folder / "other/file").read_text() == "after\n" and (case.folder / "other/new").exists()
    assert not (case.folder / "no").exists()


@pytest.mark.parametrize("name", [".ssh", ".hermes", ".bashrc", "", ".hermes/config.yaml", ".ssh/id_ed25519"])
async def test_no_grant_opens_what_is_protected(case: Case, name: str) -> None:
    with pytest.raises(ToolError, match="not opened"):
        case.backend.grant_write(f"{case.policy.places.home}/{name}")
    for path in ("/", "/etc", "/usr/bin", "/proc/sys", "/run", str(case.folder / "missing")):
        with pytest.raises(ToolError):
            case.backend.grant_write(path)


@pytest.mark.parametrize(
    "line",
    [
        "touch: cannot touch '{}/new': Read-only file system",
        "mkdir: cannot create directory ‘{}/new/x’: Permission denied",
        "bash: line 1: {}/new: Read-only file system",
        "OSError: [Errno 30] Read-only file system: '{}/new'",
        "Error: EROFS: read-only file system, open '{}/new'",
        "open {}/new: read-only file system",
        "fatal: could not create work tree dir '../other/new': Read-only file system",
        "rm: cannot remove '{}': Device or resource busy",
        "error: could not write {}/new: Permission denied (os error 13)",
    ],
)
async def test_a_refused_write_names_its_path(case: Case, line: str) -> None:
    other = str(case.folder / "other")
    assert case.backend.find_denied_path("", str(case.work), f"first\n{line.format(other)}\nlast\n") == DeniedPath(
        other, is_write=True
    )


@pytest.mark.parametrize(
    "line",
    [
        "all is well",
        "cat: /etc/shadow: Permission denied",
        "cat: {}/.ssh/id_ed25519: Permission denied",
        "touch: cannot touch '{}/.bashrc': Read-only file system",
        "touch: cannot touch '/new': Read-only file system",
        "touch: cannot touch '/proc/sys/x': Permission denied",
        "ssh: Permission denied (publickey).",
        "chmod: changing permissions of 'mine': Operation not permitted",
    ],
)
async def test_other_refusals_name_nothing(case: Case, line: str) -> None:
    (case.work / "mine").write_text("")
    assert case.backend.find_denied_path("", str(case.work), line.format(case.policy.places.home)) is None


@pytest.mark.parametrize("shell", ["/bin/sh: 1: ", "/usr/bin/bash: line 1: "])
async def test_the_shell_that_complains_is_not_the_path_that_was_refused(case: Case, shell: str) -> None:
    output = f"{shell}{case.work}/notes.txt: Read-only file system"
    said = "".join(case.backend.explain_denials("x", str(case.work), output, failed=True))
    assert "from being written" not in said


async def test_temporary_files_are_the_sessions_own(bwrap: Case) -> None:
    await bwrap.run("cd /tmp && mkdir d && echo mine > d/file; ls /tmp", report_state=True)
    assert not Path("/tmp/d/file").exists()
    outside = Path(bwrap.backend.to_local_path("/tmp/d/file"))
    assert outside.read_text() == "mine\n" and bwrap.backend.to_command_path(str(outside)) == "/tmp/d/file"
    assert (await bwrap.run("pwd; cat file", cwd="/tmp/d")).code == 0 and bwrap.text == "/tmp/d\nmine\n"
    assert bwrap.backend.to_local_path("/tmpx/../tmp") == str(outside.parent.parent)
    await bwrap.run(
        "i=0; while [ $i -lt 300 ]; do mkdir -p x && cd x || break; i=$((i+1)); done; mkdir -m 0 z", cwd="/tmp"
    )
    root = outside.parent.parent.parent
    await bwrap.backend.close()
    assert not root.exists()


@pytest.mark.needs("procps")
async def test_a_terminal(case: Case) -> None:
    ended = await case.run("test -t 0 && test -t 1 && stty size && echo -n > /dev/tty && ps -o tty= -p $$", pty=True)
    assert ended.code == 0 and "40 120" in case.text
    running = await case.start("trap 'echo caught; exit 7' INT; echo ready; while :; do sleep 0.05; done", pty=True)
    await until(lambda: "ready" in case.text)
    await running.write(b"\x03")
    async with asyncio.timeout(60):
        assert (await running.wait()).code == 7
    assert "caught" in case.text


async def test_input_goes_in(case: Case) -> None:
    running = await case.start("cat; echo end", interactive=True)
    await running.write(b"hello\n")
    running.close_input()
    assert (await running.wait()).code == 0 and case.text == "hello\nend\n"


def processes_with(word: str) -> list[int]:
    found = []
    for one in os.listdir("/proc"):
        if one.isdigit():
            try:
                if word.encode() in Path(f"/proc/{one}/cmdline").read_bytes():
                    found.append(int(one))
            except (FileNotFoundError, ProcessLookupError):
                continue
    return found


TREES = {
    "obeys": ("echo up; sleep 600.{n}; true", NEVER),
    "daemon": (
        "(setsid sh -c 'trap \"\" INT TERM; echo up; while :; do sleep 600.{n}; done' &); sleep 600.{n}",
        StopPatience(kill=600),
    ),
}


@pytest.mark.parametrize("kind", TREES)
async def test_stop_ends_the_whole_tree(case: Case, kind: str) -> None:
    text, patience = TREES[kind]
    mark = f"600.{os.getpid()}{time.monotonic_ns() % 10**6}"
    running = await case.start(text.replace("600.{n}", mark), stop_patience=patience)
    await until(lambda: "up" in case.text and bool(processes_with(mark)))
    async with asyncio.timeout(60):
        assert await running.stop() is StopOutcome.GONE
    assert not processes_with(mark)
    assert not runs(running.pid)


async def test_a_second_stop_kills_at_once(case: Case) -> None:
    running = await case.start("trap '' INT TERM; echo up; while :; do sleep 0.1; done", stop_patience=NEVER)
    await until(lambda: "up" in case.text)
    stopping = asyncio.create_task(running.stop())
    await asyncio.sleep(0.05)
    stopping.cancel()
    await asyncio.wait({stopping})
    async with asyncio.timeout(60):
        assert await running.stop() is StopOutcome.GONE


async def test_what_a_command_leaves_running_is_known(case: Case) -> None:
    mark = f"601.{os.getpid()}"
    running = await case.start(f"sleep {mark} >/dev/null 2>&1 & echo started")
    assert (await running.wait()).left_running and case.text == "started\n"
    assert processes_with(mark)
    stopping = asyncio.create_task(running.stop())
    await asyncio.sleep(0.01)
    stopping.cancel()
    await asyncio.wait({stopping})
    assert await running.stop() is StopOutcome.GONE and not processes_with(mark)


async def test_limits_are_set(case: Case) -> None:
    await case.run("ulimit -c; ulimit -u; ulimit -n")
    core, count, files = (int(line) for line in case.text.split())
    assert core == 0 and count <= 4096 and files <= 65_536
    if case.backend._local and (await case.backend.require_support()).mechanism is SandboxMechanism.BUBBLEWRAP:
        await case.run("cat /proc/self/oom_score_adj")
        assert int(case.text) >= 500


async def test_what_cannot_start_is_told(case: Case) -> None:
    with pytest.raises(ToolError, match="does not exist"):
        await case.run("true", cwd=str(case.folder / "nowhere"))
    with pytest.raises(ToolError, match="too long"):
        await case.run("echo " + "x" * 140_000)
    with pytest.raises(ToolError, match="null"):
        await case.run("echo \0")


@pytest.mark.needs("git")
async def test_a_harmless_repository_works(case: Case) -> None:
    text = "git init -q r && cd r && git config user.name me && git config user.email me@x && git remote add o https://h/x.git"
    ended = await case.run(f"{text} && echo a > a && git add a && git commit -qm a && cd .. && git clone -q r c")
    assert (ended.code, case.text, case.backend.notices) == (0, "", [])
    assert (await case.run("cd c && git log --oneline | wc -l && git checkout -qb other")).code == 0
    assert (await case.run("rm -rf r c && ls")).code == 0 and case.text == ""


@pytest.mark.needs("git")
async def test_planted_hooks_are_taken_away_and_told(case: Case) -> None:
    await case.run("git init -q r; echo x > r/.git/hooks/pre-commit; git -C r config core.pager bad; true")
    assert "pre-commit.held" in case.text and "let git run programs" in case.text
    assert len(case.backend.notices) == 2
    assert not (case.work / "r/.git/hooks/pre-commit").exists()
    assert "pager" not in (case.work / "r/.git/config").read_text()
    assert "pager" in (case.work / "r/.git/config.held").read_text()


@pytest.mark.needs("git")
async def test_what_the_person_does_meanwhile_is_theirs(case: Case) -> None:
    await case.run("git init -q r")
    hook = case.work / "r/.git/hooks/pre-commit"
    hook.write_text("mine")
    assert (await case.run("true")).code == 0
    assert hook.read_text() == "mine" and not case.backend.notices
    await case.run("echo theirs > r/.git/hooks/pre-commit; true")
    assert hook.read_text() in ("mine", "theirs\n") and (hook.read_text() == "mine" or not hook.exists())


async def test_a_folder_of_its_own_network(case: Case) -> None:
    held = await case.backend.require_support()
    assert case.backend.contained and case.backend.name == "sandbox"
    if held.mechanism is not SandboxMechanism.BUBBLEWRAP:
        return
    (case.work / "serve.py").write_text(
        "import socket\ns = socket.create_server(('127.0.0.1', 18123))\n"
        "socket.create_connection(('127.0.0.1', 18123)).close()\nprint('served')\n"
    )
    assert (await case.run("python3 serve.py")).code == 0 and case.text == "served\n"


async def test_missing_is_refused_with_the_reason(tmp_path: Path) -> None:
    backend = SandboxBackend(os.environ, policy(tmp_path), probe=SandboxProbe({"PATH": "/nowhere"}, ()))
    with pytest.raises(ToolError, match=r"there is none here.*terminal\.backend"):
        await backend.start(ShellCommand(text="touch made", cwd=str(tmp_path)), lambda data: None)
    assert not (tmp_path / "made").exists()
    await backend.close()


async def test_the_probe_says_what_holds() -> None:
    held = await SandboxProbe(os.environ).find_support()
    assert held.is_usable and held.mechanism in held.describe() and "files, keys, network, processes" in held.describe()
    none = await SandboxProbe(os.environ, ()).find_support()
    assert not none.is_usable and none.describe().startswith("No sandbox here: ")
    assert msgspec.json.decode(msgspec.json.encode(held), type=SandboxSupport) == held


async def test_a_bwrap_that_fails_gives_way_to_landlock(tmp_path: Path) -> None:
    found = await SandboxProbe(os.environ, (SandboxMechanism.LANDLOCK,)).find_support()
    if not found.is_usable:
        pytest.skip("no Landlock here")
    made = SandboxProbe(os.environ)
    assert (await made.find_support()) is (await made.find_support())


def test_home_as_workspace_opens_no_dotted_folder(tmp_path: Path) -> None:
    made = policy(tmp_path.resolve())
    home = made.places.home
    for name in ("docs", "bin", ".config", ".cache"):
        Path(home, name).mkdir()
    layout = build_layout(msgspec.structs.replace(made, places=msgspec.structs.replace(made.places, workspace=home)))
    assert layout.paths_with(PathAccess.WRITE) == [f"{home}/docs"]
    assert layout.access_of(f"{home}/.hermes/hermes.db") is PathAccess.HIDDEN
    assert layout.access_of(f"{home}/.hermes/skills/s") is PathAccess.READ
    above = msgspec.structs.replace(
        made, places=msgspec.structs.replace(made.places, workspace=str(tmp_path.resolve()))
    )
    assert build_layout(above).paths_with(PathAccess.WRITE) == [f"{home}/docs"]


DANGEROUS = (
    "[alias]\n\tx = !id",
    "[core]\n\tfsmonitor = x",
    "[core] pager = x",
    "[include]\n\tpath = x",
    '[filter "a"]\n\tclean = x',
    '[remote "o"]\n\turl = ext::sh -c x',
    '[remote "o"]\n\turl = -x',
    "[core]\n\tsshCommand = x",
    "[CORE]\n\tHOOKSPATH=x",
    '[submodule "a"]\n\tupdate = !x',
    "[user]\n\tname = a\\\n[core]pager=x",
    '[user]\n\tname = "a\\\n[core]\n\tpager = x',
    "[credential]\n\thelper = !x",
    "[core]\n\tworktree = /",
    "[diff]\n\texternal = x",
    "[gpg]\n\tprogram = x",
    "[user]\r\n\tname = a\x0b[core]\n\tpager=x",
    '[remote "o"]\n\tuploadpack = x',
    '[protocol "ext"]\n\tallow = always',
)


@pytest.mark.parametrize("line", DANGEROUS)
def test_settings_that_run_programs_are_no_harmless_ones(line: str) -> None:
    clean = strip_harmful_settings(f"[core]\n\tbare = false\n{line}\n")
    assert clean != f"[core]\n\tbare = false\n{line}\n"
    for word in ("x", "pager", "always"):
        assert f"= {word}" not in clean and f"={word}" not in clean
    assert "bare = false" in clean and strip_harmful_settings(clean) == clean


def test_a_large_tree_is_looked_at_quickly(tmp_path: Path) -> None:
    for number in range(1500):
        (tmp_path / f"a{number % 30}" / f"b{number}").mkdir(parents=True)
    plants = PlantedFiles()
    plants.record_baseline([str(tmp_path)])
    # About 10.
    cost = count_cpu_units(lambda: plants.quarantine_new([str(tmp_path)], lambda path: False))
    assert cost < 50 and plants.is_complete


def test_seatbelts_profile() -> None:
    kinds = {"/w": PathAccess.WRITE, "/w/.git/hooks": PathAccess.READ, '/h/.s"sh': PathAccess.HIDDEN}
    text = build_profile(AccessLayout(access_by_path=kinds, pinned=("/w/.git",)), "/private/tmp/h", NetworkMode.OFF)
    lines = text.splitlines()
    assert lines[:3] == ["(version 1)", "(allow default)", "(deny file-write*)"]
    assert lines.index('(allow file-read* file-write* (subpath "/w"))') < lines.index(
        '(deny file-write* (subpath "/w/.git/hooks"))'
    )
    assert '(deny file-read* file-write* network-outbound (subpath "/h/.s\\"sh"))' in lines
    assert '(deny file-write-unlink (literal "/w/.git"))' in lines and lines[-1] == "(deny network*)"
    assert text.count("(") == text.count(")") and "deny network*)" not in build_profile(
        AccessLayout(access_by_path={}), "/t", NetworkMode.ON
    )


async def test_nothing_in_it_outlives_its_session(case: Case) -> None:
    mark = f"602.{os.getpid()}"
    late = "sh -c 'trap \"\" INT; while :; do sleep 0.02; echo x > late; done'"
    assert (await case.run(f"(setsid {late} >/dev/null 2>&1 &); (sleep {mark} >/dev/null 2>&1 &)")).left_running
    await case.backend.close()
    assert not processes_with(mark)
    (case.work / "late").unlink(missing_ok=True)
    await asyncio.sleep(0.06)
    assert not (case.work / "late").exists()
