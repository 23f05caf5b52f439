"""A host that lies: its lists of files, its archives, what it prints, what it leaves in the workspace."""

import asyncio
import io
import os
import tarfile
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from hermes.core.errors import ToolError
from hermes.execution.base import ShellCommand, StopOutcome
from hermes.execution.remote import EarlyOutput, RecordReader
from hermes.execution.ssh.backend import SshBackend
from hermes.execution.ssh.listing import is_link_inside, is_obeyed_name, is_repository_control, parse_listing
from hermes.execution.ssh.sync import copy_bytes, iter_members
from hermes.safety.paths import Places
from tests.cpu_cost import measure_growth
from tests.execution.command_places import Host, sshd
from tests.execution.test_local import runs, until
from tests.execution.test_ssh import Case

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    with sshd(tmp_path_factory.mktemp("sshd")) as made:
        yield made


@pytest.fixture
async def case(host: Host, tmp_path: Path) -> AsyncIterator[Case]:
    made = Case(host, tmp_path.resolve())
    yield made
    host.tells_the_truth()
    await made.backend.close()


def entry(name: str, *, size: object = 5, mtime: object = "1.0", mode: str = "644", kind: str = "f") -> str:
    return f"{kind} {size} {mtime} 1.0 {mode} {name}\0\0"


NO_LISTS = (
    entry("f", size="x"),
    entry("f", size=-5),
    entry("f", size="9" * 40),
    entry("f", mtime="nan"),
    entry("f", mtime="1" * 30),
    entry("f", mode="99"),
    entry("f", kind="p"),
    "f 5\0\0",
    entry("f")[:-1],
    entry("f") + "f 5 1.0",
    "no list",
)


def test_what_is_no_list() -> None:
    for listing in NO_LISTS:
        with pytest.raises(ToolError, match="list of files"):
            parse_listing(listing.encode())


async def test_a_list_that_is_none_changes_nothing_here_and_is_said(case: Case, host: Host) -> None:
    (case.work / "mine").write_text("1\n")
    await case.run("true")
    for listing in NO_LISTS[:2] + NO_LISTS[-3:]:
        host.says(listing)
        ended = await case.run("exit 3")
        assert ended.code == 3 and "list of files" in case.text
        assert os.listdir(case.work) == ["mine"]
    host.tells_the_truth()
    await case.run("echo 2 > mine")
    assert (case.work / "mine").read_text() == "2\n"


async def test_a_list_with_too_many_names_deletes_nothing_here(case: Case, host: Host) -> None:
    (case.work / "mine").write_text("1\n")
    await case.run("true")
    host.pretends("find", "yes x | head -n 500000 | tr '\\n' '\\0'")
    await case.run("true")
    assert "no file was carried over" in case.text and (case.work / "mine").exists()


@pytest.mark.parametrize("program", ["find", "tar"])
async def test_an_answer_without_an_end_is_cut_short(case: Case, host: Host, program: str) -> None:
    await case.run("true")
    host.pretends(program, "exec cat /dev/zero")
    ended = await case.run("echo new > new; exit 3")  # within the time that `run` has
    assert ended.code == 3 and "sends more than it was asked for" in case.text
    assert not os.listdir(case.work)


async def test_a_part_that_cannot_be_read_there_is_not_gone(case: Case, host: Host) -> None:
    (case.work / "mine").write_text("1\n")
    await case.run("true")
    host.says(entry("other", kind="d", mode="755"), code=1)
    await case.run("true")
    assert "cannot be read" in case.text and sorted(os.listdir(case.work)) == ["mine", "other"]


async def test_sizes_that_are_claimed_do_not_lift_the_limit(host: Host, tmp_path: Path) -> None:
    case = Case(host, tmp_path.resolve(), limit=100_000)
    await case.run("true")
    host.says(entry("huge", size=10**14) + entry("small", size=5))
    host.pretends("tar", "head -c 10000000 /dev/zero")
    await case.run("true")
    host.tells_the_truth()
    assert "huge the largest" in case.text and "sends more" in case.text
    assert not os.listdir(case.work)
    await case.backend.close()


async def test_names_are_shown_without_what_a_terminal_obeys(case: Case) -> None:
    await case.run(
        "mkdir -p .vscode; mkdir .git; touch .git/config; "
        "d=$(printf '.husky/\\033]52;c;aGk=\\007\\nx'); mkdir -p \"$d\""
    )
    assert "would obey" in case.text and "\x1b" not in case.text and "\x07" not in case.text
    assert not any("\x1b" in line or "\n" in line for line in case.backend.take_notices())


async def test_what_is_too_deep_or_too_long_does_not_stop_the_rest(case: Case, host: Host) -> None:
    await case.run("true")
    names = ["/".join("a" * 3000), "b" * 300, "/".join("c" * 200)]
    host.says("".join(entry(name, kind="d", mode="755") for name in names))
    await case.run("true")
    host.tells_the_truth()
    assert case.text.count("too long") == 2
    await case.run("echo 1 > plain")
    assert "plain" in os.listdir(case.work)


async def test_links_do_not_lead_out_by_way_of_others(case: Case, tmp_path: Path) -> None:
    await case.run("ln -s . d; ln -s d/../../other/file s; ln -s d/../other t; mkdir e; ln -s ../d e/up")
    assert sorted(os.listdir(case.work)) == ["d", "e"] and os.readlink(case.work / "e/up") == "../d"
    found = [one for one in case.work.rglob("*") if not one.resolve().is_relative_to(case.work)]
    assert found == []


async def test_what_was_not_sent_is_not_replaced(case: Case, tmp_path: Path) -> None:
    (case.work / "out").symlink_to(tmp_path.resolve() / "other")
    os.mkfifo(case.work / "pipe")
    await case.run("echo 1 > out; echo 1 > pipe; echo 1 > new")
    assert (case.work / "out").is_symlink() and (case.work / "pipe").is_fifo() and (case.work / "new").exists()
    assert case.text.count("that was not sent") == 2


async def test_what_file_tools_may_not_write_the_host_does_not_either(host: Host, tmp_path: Path) -> None:
    case = Case(host, tmp_path.resolve())
    inside = Places(home=str(case.work), hermes=str(case.work / ".hermes"), workspace=str(case.work))
    place = host.place(str(case.far), exclude=("node_modules", ".venv"))
    case.backend = SshBackend(os.environ, place, inside)
    names = (
        ".ssh/authorized_keys",
        ".bashrc",
        ".config/systemd/user/x.service",
        ".hermes/config.yaml",
        ".venv/bin/python",
        "sub/node_modules/m/index.js",
        ".GIT/hooks/pre-commit",
        ".git/modules/m/hooks/post-checkout",
        "bare/HEAD",
        "plain",
    )
    await case.run("true")
    host.says("".join(entry(name, size=2) for name in names))
    make = " ".join(f"mkdir -p '{os.path.dirname(name) or '.'}'; echo 1 > '{name}';" for name in names)
    await case.run(make)
    host.tells_the_truth()
    assert [str(one.relative_to(case.work)) for one in case.work.rglob("*") if one.is_file()] == ["plain"]
    assert "and 4 more were not taken over" in case.text
    await case.backend.close()


def test_names_that_programs_here_obey() -> None:
    for name in (".git", "a/.git/config", ".git/hooks", ".Git/Config", ".git/modules/a/b/config", ".git/commondir"):
        assert is_obeyed_name(name), name
    for name in (".git/HEAD", ".git/objects/ab/c", "hooks/x", "config", ".gitignore", ".git/refs/heads/config"):
        assert not is_obeyed_name(name), name
    known = {"b.git/HEAD", ".git/HEAD"}
    for name in ("HEAD", "x/HEAD", "b.git/config", "b.git/hooks/update", "b.git/commondir"):
        assert is_repository_control(name, known), name
    for name in (".git/HEAD", ".git/modules/m/HEAD", "config", "x/hooks/y", "b.git/description"):
        assert not is_repository_control(name, known), name


def test_links_that_stay_inside() -> None:
    assert is_link_inside("a/b/l", "../../x") and is_link_inside("l", "a/./b") and is_link_inside("a/l", "..")
    for name, target in (("l", ".."), ("a/l", "../../x"), ("l", "/etc"), ("l", "a/../b"), ("l", "./../x")):
        assert not is_link_inside(name, target), (name, target)


def archive(build: Callable[[tarfile.TarFile], None], **options: object) -> io.BytesIO:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", **options) as made:  # type: ignore[call-overload]
        build(made)
    file.seek(0)
    return file


def test_an_archive_is_read_as_gnu_tar_writes_it() -> None:
    long = "d/" * 90 + "é" * 90

    def build(made: tarfile.TarFile) -> None:
        for name, data in (("./a", b"1" * 700), (f"./{long}", b""), ("./b", b"2" * 512)):
            info = tarfile.TarInfo(name)
            info.size = len(data)
            made.addfile(info, io.BytesIO(data))
        link = tarfile.TarInfo("./l")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc"
        made.addfile(link)

    file = archive(build, format=tarfile.GNU_FORMAT)
    taken = {}
    for name, size in iter_members(file):
        target = io.BytesIO()
        copy_bytes(file, size, target)
        taken[name] = target.getvalue()
    assert taken == {"a": b"1" * 700, long: b"", "b": b"2" * 512}


def test_an_archive_that_lies_is_read_in_bounds() -> None:
    head = bytearray(512)
    head[0:1], head[124:136], head[156:157] = b"f", b"77777777777\0", b"S"
    for kind in (b"S", b"x", b"g", b"L", b"K", b"1", b"V", b"\xff"):
        head[156:157] = kind
        assert list(iter_members(io.BytesIO(bytes(head) * 100))) == []
    head[124:136], head[156:157] = b"00000000012\0", b"0"
    with pytest.raises(OSError, match="too early"):
        file = io.BytesIO(bytes(head))
        for _, size in iter_members(file):
            copy_bytes(file, size, io.BytesIO())
    for size in (b"-0000000001\0", b"\x80" + b"\0" * 10 + b"\1", b"x" * 12, b"\0" * 12):
        head[124:136] = size
        assert list(iter_members(io.BytesIO(bytes(head)))) == []


async def test_an_archive_with_other_names_and_too_little_in_it(case: Case, host: Host, tmp_path: Path) -> None:
    await case.run("true")

    def build(made: tarfile.TarFile) -> None:
        for name in ("../escaped", "/tmp/escaped", "unasked", "asked"):
            info = tarfile.TarInfo(name)
            info.size, info.mode = 4, 0o4777
            made.addfile(info, io.BytesIO(b"new\n"))

    (host.folder / "archive").write_bytes(archive(build, format=tarfile.GNU_FORMAT).getvalue())
    host.says(entry("asked", size=4, mode="4755") + entry("missing"))
    host.pretends("tar", f"cat {host.folder}/archive")
    await case.run("true")
    assert os.listdir(case.work) == ["asked"] and (case.work / "asked").stat().st_mode & 0o7777 == 0o755
    assert sorted(os.listdir(tmp_path)) == ["far", "home", "other", "work"]
    assert "missing could not be written here" in case.text


async def test_hard_links_come_as_files(case: Case) -> None:
    await case.run("echo 1 > a; ln a b")
    assert (case.work / "a").read_text() == (case.work / "b").read_text() == "1\n"
    assert (case.work / "a").stat().st_nlink == 1


async def test_records_that_say_nothing_are_nothing(case: Case) -> None:
    marks = "P0 x", "X", "X1", "X99999999999999999999 0", "X-1 0", "Bno base64!", "S\\377", "Q", ""
    forged = "; ".join(f"printf '\\036%s:{mark}\\037' \"$HERMES_RUN\"" for mark in marks)
    assert (await case.run(f"{forged}; echo on; exit 3", report_state=True)).code == 3
    assert case.text == "on\n"


def test_a_record_without_an_end_costs_little() -> None:
    def make_feed(size: int) -> Callable[[], None]:
        def feed() -> None:
            taken = bytearray()
            records = RecordReader("m", taken.extend, lambda letter, data: None)
            records.feed(b"\x1em:X")
            for _ in range(size):
                records.feed(b"x" * 1_000)
            for _ in range(3 * size):
                records.feed(b"y")
            records.flush()
            assert len(taken) == 4 + 1_003 * size

        return feed

    # About 15; a quadratic cost would be 100.
    assert measure_growth(make_feed, 700, 7_000) < 45


def test_what_was_said_first_is_bounded_and_inert() -> None:
    early = EarlyOutput()
    for _ in range(1_000):
        early.feed(b"\x1b[31mx" * 1_000)
    early.feed(b"the reason")
    assert len(early.to_text()) <= 4_000 and early.to_text().endswith("the reason") and "\x1b" not in early.to_text()


async def test_a_host_that_hangs_lets_a_person_go(case: Case, host: Host) -> None:
    note = host.folder / "hanging"
    host.pretends("find", f"echo $$ > {note}.new; mv {note}.new {note}; exec sleep 300")
    starting = asyncio.create_task(case.run("true"))
    await until(note.exists)
    pid = int(note.read_text())
    async with asyncio.timeout(60):  # it hangs for longer
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting
        await until(lambda: not runs(pid))
        await case.backend.close()


async def test_the_socket_of_the_connection_is_nobody_elses(case: Case) -> None:
    await case.run("true")
    room = Path(case.backend._socket_folder)
    assert room.stat().st_mode & 0o777 == 0o700 and room.stat().st_uid == os.getuid()
    assert (room / "c").is_socket() and (room / "c").stat().st_mode & 0o077 == 0
    await case.backend.close()
    assert not room.exists()


@pytest.mark.parametrize("name", ["-oProxyCommand=id", "a b", "u;id", "u\nv"])
async def test_a_user_is_a_name(host: Host, tmp_path: Path, name: str) -> None:
    with pytest.raises(ToolError, match="is no name of a user"):
        await Case(host, tmp_path.resolve(), user=name).run("true")


async def test_settings_of_the_persons_that_would_change_what_runs(host: Host, tmp_path: Path) -> None:
    own = (host.folder / "ssh_config").read_text()
    config = tmp_path / "config"
    config.write_text(
        f"{own}  RemoteCommand touch {tmp_path}/remote\n"
        f"  PermitLocalCommand yes\n  LocalCommand touch {tmp_path}/local\n"
        f"  ForwardAgent yes\n  ControlMaster auto\n  ControlPath {tmp_path}/control\n  RequestTTY force\n"
        "  RemoteForward 0 127.0.0.1:1\n  LogLevel DEBUG3\n"
    )
    case = Case(host, tmp_path.resolve(), config=str(config))
    await case.run("echo ${SSH_AUTH_SOCK-none}; test -t 0 || echo no terminal")
    assert case.text == "none\nno terminal\n"
    await case.backend.close()
    assert not {"remote", "local", "control"} & set(os.listdir(tmp_path))


async def test_nothing_that_is_typed_into_a_terminal_is_for_the_client(case: Case) -> None:
    running = await case.backend.start(
        ShellCommand(
            text="stty -echo; echo up; read a; read b; echo =$b", cwd=str(case.work), pty=True, interactive=True
        ),
        case.output.extend,
    )
    await until(lambda: b"up" in case.output)
    await running.write(b"\n~.\n")
    async with asyncio.timeout(60):
        assert (await running.wait()).code == 0
    assert "=~." in case.text and await running.stop() is StopOutcome.GONE


def test_a_list_is_read_whole() -> None:
    made = parse_listing(b"f 5 1.5000 2.0 644 a b\nc\0\0l 3 1.0 1.0 777 l\0a b\0d 1 -1.0 1.0 755 \xff\0\0")
    assert made["a b\nc"].size == 5 and made["a b\nc"].mode == 0o644 and made["l"].target == "a b"
    assert [one.kind for one in made.values()] == ["f", "l", "d"] and parse_listing(b"") == {}
