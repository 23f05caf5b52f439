"""Reading and writing files of every kind."""

import os
import resource
import stat
import time
from pathlib import Path

import pytest

from hermes.core.messages import Source, ToolStatus
from tests.tools.tool_session import Session


async def test_lines_are_numbered_and_windows_go_on(session: Session) -> None:
    (session.cwd / "a.txt").write_text("".join(f"line {number}\n" for number in range(1, 11)))
    result = await session.call("read_file", path="a.txt", offset=3, limit=2)
    assert result.text == "3|line 3\n4|line 4\n[lines 3-4 of 10; go on with offset=5]"
    assert result.provenance is not None and result.provenance.source is Source.FILE
    assert (await session.text("read_file", path="a.txt", offset=9)) == "9|line 9\n10|line 10"
    assert "has 10 lines; line 11 is after its end" in await session.text("read_file", path="a.txt", offset=11)


async def test_to_read_a_file_is_not_to_ask_for_processes(session: Session) -> None:
    # Where there may be some, beside untrusted content, the whole workspace is saved in each turn.
    (session.cwd / "a.txt").write_text("one\n")
    await session.text("read_file", path="a.txt")
    assert session.state.started_processes is None


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        (b"", "f is empty."),
        (b"one", "1|one"),
        (b"one\n", "1|one"),
        (b"one\n\n", "1|one\n2|"),
        (b"one\r\ntwo\r\n", "1|one\n2|two"),
        ("täglich 天气".encode(), "1|täglich 天气"),
        ("\ufeffone\n".encode(), "1|one"),
        ("one\ntwö\n".encode("utf-16"), "1|one\n2|twö\n[the file is UTF-16-LE]"),
        ("one\ntwö\n".encode("utf-16-be"), "f is a binary file of 16 bytes; it has no lines to show."),
        (b"\xfe\xff" + "twö".encode("utf-16-be"), "1|twö\n[the file is UTF-16-BE]"),
        (b"caf\xe9\n", "1|café\n[not UTF-8, shown as Latin-1]"),
        (b"\x7fELF\0\0\1", "f is a binary file of 7 bytes; it has no lines to show."),
    ],
)
async def test_bytes_of_every_kind(session: Session, data: bytes, shown: str) -> None:
    (session.cwd / "f").write_bytes(data)
    assert await session.text("read_file", path="f") == shown


async def test_long_lines_and_many_lines_are_capped(session: Session) -> None:
    (session.cwd / "wide").write_text("é" * 5_000 + "\nnext\n")
    text = await session.text("read_file", path="wide")
    assert text == f"1|{'é' * 2_000} [line cut]\n2|next"
    (session.cwd / "many").write_text(("x" * 99 + "\n") * 3_000)
    text = await session.text("read_file", path="many", limit=9_999)
    assert len(text) <= 100_000 and "go on with offset=" in text
    (session.cwd / "short").write_text("y\n" * 3_000)
    text = await session.text("read_file", path="short", limit=9_999)
    assert "lines 1-2000 of 3000; go on with offset=2001" in text


async def test_a_huge_file_is_read_by_offset_without_loading_it(session: Session) -> None:
    line = b"0123456789" * 10 + b"\n"
    block = line * 10_000
    with open(session.cwd / "huge", "wb") as file:
        file.writelines(block for _ in range(190))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started = time.process_time()
    with open(session.cwd / "huge", "rb") as file:
        assert sum(block.count(b"\n") for block in iter(lambda: file.read(1 << 16), b"")) == 1_900_000
    counted = time.process_time()
    text = await session.text("read_file", path="huge", offset=1_899_999, limit=2)
    assert text == "\n".join(f"{number}|{'0123456789' * 10}" for number in (1_899_999, 1_900_000))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20_000
    # 1.3 times what it costs to read and count the lines; to take them apart costs much more.
    assert (time.process_time() - counted) / (counted - started) < 7
    first = await session.text("read_file", path="huge", limit=1)
    assert "go on with offset=2" in first and "191900000 bytes" in first


async def test_one_line_of_many_megabytes(session: Session) -> None:
    (session.cwd / "line").write_bytes(b"z" * 5_000_000 + b"\nend\n")
    assert await session.text("read_file", path="line") == f"1|{'z' * 2_000} [line cut]\n2|end"


async def test_only_regular_files_are_read(session: Session) -> None:
    os.mkfifo(session.cwd / "pipe")

    async def said(path: str) -> str:
        result = await session.call("read_file", path=path)
        assert result.status in (ToolStatus.ERROR, ToolStatus.REFUSED)
        return result.text

    assert "it is a named pipe" in await said("pipe")
    (session.cwd / "d").mkdir()
    (session.cwd / "d" / "x.py").touch()
    assert await said("d") == "d is a folder. It holds: x.py."
    assert "Similar names there: x.py" in await said("d/x.pyc")
    assert "neither does its folder" in await said("no/such/file")


async def test_a_secret_is_not_read_by_any_name(session: Session) -> None:
    home = Path(session.context.places.home)
    (home / ".ssh").mkdir()
    (home / ".ssh" / "id_rsa").write_text("key")
    (session.cwd / "link").symlink_to(home / ".ssh" / "id_rsa")
    for path in (
        "~/.ssh/id_rsa",
        "../home/.ssh/id_rsa",
        "link",
        f"/proc/self/root{home}/.ssh/id_rsa",
        "~/.hermes/.env",
    ):
        assert (await session.call("read_file", path=path)).status is ToolStatus.REFUSED, path


async def test_writing_makes_folders_and_says_what_it_did(session: Session) -> None:
    assert await session.text("write_file", path="a/b/c.txt", content="one\ntwo\n") == (
        "Created a/b/c.txt: 8 bytes, 2 lines."
    )
    assert (session.cwd / "a/b/c.txt").read_text() == "one\ntwo\n"
    assert (await session.text("write_file", path="a/b/c.txt", content="x")).startswith("Replaced")


async def test_writing_keeps_mode_line_ends_encoding_and_links(session: Session) -> None:
    path = session.cwd / "script"
    path.write_bytes("\ufeffold\r\nlines\r\n".encode())
    path.chmod(0o750)
    (session.cwd / "link").symlink_to("script")
    said = await session.text("write_file", path="link", content="new\nlines\n")
    assert path.read_bytes() == "\ufeffnew\r\nlines\r\n".encode() and stat.S_IMODE(path.stat().st_mode) == 0o750
    assert (session.cwd / "link").is_symlink() and "CRLF" in said
    (session.cwd / "wide").write_bytes("old\n".encode("utf-16"))
    await session.text("write_file", path="wide", content="neu: ä\n")
    assert (session.cwd / "wide").read_bytes() == "neu: ä\n".encode("utf-16")


async def test_a_file_that_changed_meanwhile_is_not_overwritten(session: Session) -> None:
    path = session.cwd / "f"
    path.write_text("one\n")
    await session.text("read_file", path="f")
    path.write_text("somebody else's\n")
    refused = await session.call("write_file", path="f", content="mine\n")
    assert refused.status is ToolStatus.ERROR and "changed on disk" in refused.text
    assert path.read_text() == "somebody else's\n"
    await session.text("read_file", path="f")
    assert (await session.call("write_file", path="f", content="mine\n")).status is ToolStatus.OK
    assert (await session.call("write_file", path="f", content="again\n")).status is ToolStatus.OK


async def test_what_cannot_be_written_is_said(session: Session) -> None:
    (session.cwd / "d").mkdir()
    os.mkfifo(session.cwd / "pipe")
    for path, said in (("d", "is a folder"), ("pipe", "a named pipe"), ("d/../pipe/x", "cannot be written")):
        result = await session.call("write_file", path=path, content="x")
        assert result.status in (ToolStatus.ERROR, ToolStatus.REFUSED) and said in result.text, result.text


async def test_a_full_disk_leaves_the_old_file(session: Session) -> None:
    path = session.cwd / "f"
    path.write_text("old")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4_096, hard))
    try:
        result = await session.call("write_file", path="f", content="x" * 10_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert result.status is ToolStatus.ERROR and "cannot be written" in result.text
    assert path.read_text() == "old" and [entry.name for entry in session.cwd.iterdir()] == ["f"]


async def test_a_path_that_leads_nowhere_is_refused(session: Session) -> None:
    (session.cwd / "loop").symlink_to("loop")
    for path in ("a\0b", "/proc/1/root/etc/passwd", "x" * 5_000, "loop"):
        for name, more in (("read_file", {}), ("write_file", {"content": "x"})):
            result = await session.call(name, path=path, **more)
            assert result.status in (ToolStatus.REFUSED, ToolStatus.ERROR), path
            assert "internal error" not in result.text


@pytest.mark.parametrize(
    "path",
    [
        "~/.ssh/authorized_keys",
        "~/.bashrc",
        "~/.hermes/config.yaml",
        "~/.hermes/hermes.db",
        "~/.aws/credentials",
        "/etc/cron.d/x",
        "/usr/local/bin/x",
        ".git/hooks/pre-commit",
        "sub/.git/config",
        "../home/.profile",
        "/proc/self/root/etc/x",
        "/dev/sda",
    ],
)
async def test_paths_that_are_not_written(session: Session, path: str) -> None:
    result = await session.call("write_file", path=path, content="x")
    assert result.status is ToolStatus.REFUSED
    patched = f"*** Begin Patch\n*** Add File: {path}\n+x\n*** End Patch"
    assert (await session.call("patch", mode="patch", patch=patched)).status is ToolStatus.REFUSED


async def test_broken_syntax_is_said(session: Session) -> None:
    for path, content, said in (
        ("a.py", "def f(:\n", "line 1"),
        ("a.json", '{"a": }', "line 1 column"),
        ("a.yaml", "a: [1\nb", "line"),
        ("a.toml", "a = ", "Invalid value"),
    ):
        assert f"Syntax error now in {path}: " in (text := await session.text("write_file", path=path, content=content))
        assert said in text
    for path, content in (
        ("b.py", "x = '\\d'\n"),
        ("b.json", "[1]"),
        ("b.yaml", "a: 1\n---\nb: 2\n"),
        ("b.toml", "a = 1\n"),
    ):
        assert "Syntax" not in await session.text("write_file", path=path, content=content)


async def test_no_tool_makes_a_repository_that_git_obeys(session: Session) -> None:
    for name in ("HEAD", "objects/k", "refs/k", "config"):
        result = await session.call("write_file", path=f"docs/{name}", content="[core]\nfsmonitor = touch pwned\n")
    assert result.status is ToolStatus.REFUSED and "git" in result.text
    added = "".join(f"*** Add File: gd/{name}\n+x\n" for name in ("objects/k", "refs/k", "HEAD", "config"))
    await session.call("patch", mode="patch", patch=f"*** Begin Patch\n{added}*** End Patch")
    for folder in ("docs", "gd"):
        assert not {"HEAD", "objects", "refs"} <= {one.name for one in (session.cwd / folder).iterdir()}
        assert not (session.cwd / folder / "config").exists()
    for name in ("sub/.git", "sub/deep/.git"):
        result = await session.call("write_file", path=name, content="gitdir: ../gd\n")
        assert result.status is ToolStatus.REFUSED


async def test_a_project_with_the_names_of_git_is_written(session: Session) -> None:
    for name in ("config", "refs/index.md", "hooks/use_state.ts", "app/objects/cube.py", "info/attributes"):
        assert (await session.call("write_file", path=name, content="x\n")).status is ToolStatus.OK, name
