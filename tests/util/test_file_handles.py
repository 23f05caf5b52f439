"""Paths that are opened by handle: links, missing folders, what is no file, and what is swapped meanwhile.

Each test runs against both ways: the kernel's one call for a path without links, and the walk by names.
"""

import os
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from hermes.util.file_handles import HeldPath, RefusedPathError, find_real_path, hold_path, open_folder, walk_path

Hold = Callable[..., HeldPath]


@pytest.fixture(params=[hold_path, walk_path])
def hold(request: pytest.FixtureRequest) -> Hold:
    found: Hold = request.param
    return found


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path.resolve()
    (root / "a/b").mkdir(parents=True)
    (root / "a/b/file").write_text("here")
    (root / "other").mkdir()
    (root / "other/file").write_text("there")
    return root


def read(hold: Hold, path: str | Path) -> str:
    with hold(str(path)) as held, os.fdopen(held.open_read()) as file:
        return file.read()


@pytest.mark.parametrize("path", ["a/b/file", "a//b/./file", "a/b/../b/file", "a/../a/b/file", "../{name}/a/b/file"])
def test_a_path_is_read_however_it_is_written(hold: Hold, tree: Path, path: str) -> None:
    assert read(hold, f"{tree}/{path.format(name=tree.name)}") == "here"


@pytest.mark.parametrize("target", ["a/b", "{root}/a/b", "./a/../a/b", "other/../a/b", "second"])
def test_links_are_followed_by_hand(hold: Hold, tree: Path, target: str) -> None:
    (tree / "second").symlink_to("a/b")
    (tree / "link").symlink_to(target.format(root=tree))
    with hold(f"{tree}/link/file") as held:
        assert held.real == f"{tree}/a/b/file" == os.path.realpath(f"{tree}/link/file")
    assert read(hold, f"{tree}/link/file") == "here"


def test_each_link_and_the_end_are_judged(hold: Hold, tree: Path) -> None:
    (tree / "one").symlink_to("two")
    (tree / "two").symlink_to("a")
    seen: list[str] = []
    hold(f"{tree}/one/b/file", lambda real: seen.append(real) or "").close()
    assert seen[-3:] == [f"{tree}/one", f"{tree}/two", f"{tree}/a/b/file"]
    for refused in seen[-3:]:
        with pytest.raises(RefusedPathError, match="no"):
            hold(f"{tree}/one/b/file", lambda real, bad=refused: "no" if real == bad else "")


def test_a_link_in_its_place_can_be_kept(hold: Hold, tree: Path) -> None:
    (tree / "link").symlink_to("a/b/file")
    with hold(f"{tree}/link", follow=False) as held:
        assert held.real == f"{tree}/link" and stat.S_ISLNK(held.read_status().st_mode)
        with pytest.raises(OSError, match="not a regular file"):
            held.open_read()
        held.remove()
    assert (tree / "a/b/file").exists() and not (tree / "link").is_symlink()


def test_links_in_a_circle_end(hold: Hold, tree: Path) -> None:
    (tree / "x").symlink_to("y")
    (tree / "y").symlink_to("x")
    with pytest.raises(OSError, match="symbolic links"):
        hold(f"{tree}/x/file")
    last = tree / "a/b/file"
    for number in range(40):
        (tree / f"l{number}").symlink_to(last)
        last = tree / f"l{number}"
    assert read(hold, last) == "here"
    (tree / "l40").symlink_to(last)
    with pytest.raises(OSError, match="symbolic links"):
        hold(f"{tree}/l40")


def test_missing_folders_are_known_and_made(hold: Hold, tree: Path) -> None:
    (tree / "dangling").symlink_to("new/deep")
    with hold(f"{tree}/dangling/x/file") as held:
        assert (held.real, held.missing) == (f"{tree}/new/deep/x/file", ("new", "deep", "x"))
        with pytest.raises(FileNotFoundError):
            held.open_read()
        held.replace(b"made")
    assert (tree / "new/deep/x/file").read_text() == "made"
    for path in ("gone/../a", "gone/.."):
        with pytest.raises(FileNotFoundError):
            hold(f"{tree}/{path}")
    (tree / "slash").symlink_to("a/b/file/")
    for path in ("a/b/file/below", "a/b/file/", "a/b/file/.", "slash", "a/b/file/.."):
        with pytest.raises(NotADirectoryError):
            hold(f"{tree}/{path}")
    with hold(f"{tree}/a/b/") as held:
        assert held.real == f"{tree}/a/b" and held.list_names() == ["file"]


def test_what_is_no_file_is_not_opened(hold: Hold, tree: Path) -> None:
    os.mkfifo(tree / "pipe")
    for name in ("pipe", "a"):
        with hold(f"{tree}/{name}") as held, pytest.raises(OSError, match="not a regular file"):
            held.open_read()
    with hold("/dev/null") as held, pytest.raises(OSError, match="not a regular file"):
        held.open_read()


def test_what_is_swapped_afterwards_changes_nothing(hold: Hold, tree: Path) -> None:
    with hold(f"{tree}/a/b/file") as held, hold(f"{tree}/a/b/new/one") as second:
        (tree / "a/b").rename(tree / "a/was")
        (tree / "a/b").symlink_to(tree / "other")
        with os.fdopen(held.open_read()) as file:
            assert file.read() == "here"
        held.replace(b"changed")
        second.replace(b"made")
    assert (tree / "other/file").read_text() == "there" and (tree / "a/was/file").read_text() == "changed"
    assert (tree / "a/was/new/one").exists() and not (tree / "other/new").exists()


def test_a_link_in_the_place_of_a_missing_folder_is_refused(hold: Hold, tree: Path) -> None:
    with hold(f"{tree}/a/new/file") as held:
        (tree / "a/new").symlink_to(tree / "other")
        with pytest.raises(NotADirectoryError):
            held.replace(b"x")
    assert (tree / "other/file").read_text() == "there"


def test_a_file_keeps_its_mode_and_a_link_lends_none(hold: Hold, tree: Path) -> None:
    (tree / "a/b/file").chmod(0o750)
    with hold(f"{tree}/a/b/file") as held:
        held.replace(b"x")
    (tree / "link").symlink_to("a/b/file")
    with hold(f"{tree}/link", follow=False) as held:
        held.replace(b"y")
    assert stat.S_IMODE((tree / "a/b/file").stat().st_mode) == 0o750 and (tree / "a/b/file").read_bytes() == b"x"
    assert stat.S_ISREG((tree / "link").lstat().st_mode) and not (tree / "link").stat().st_mode & 0o111


def test_names_are_listed_changed_and_removed(hold: Hold, tree: Path) -> None:
    with hold(f"{tree}/a/b") as held:
        assert held.list_names() == ["file"]
    with hold(f"{tree}/a/b/file") as held:
        held.rename("other name")
    with hold(f"{tree}/a/b/other name") as held:
        held.remove()
    with hold(f"{tree}/a/b") as held:
        held.remove()
    assert os.listdir(tree / "a") == []
    with hold("/") as held:
        assert held.real == "/" and "dev" in held.list_names()


def test_a_folder_behind_a_link_is_not_opened(tree: Path) -> None:
    (tree / "link").symlink_to("a")
    os.close(open_folder(f"{tree}/a/b"))
    for path in ("link", "link/b", "a/b/file"):
        with pytest.raises(NotADirectoryError):
            open_folder(f"{tree}/{path}")
    with pytest.raises(FileNotFoundError):
        open_folder(f"{tree}/none/b")


def test_no_handle_is_left(hold: Hold, tree: Path) -> None:
    before = len(os.listdir("/proc/self/fd")) if os.path.exists("/proc/self/fd") else 0
    (tree / "link").symlink_to("a")
    for path in ("link/b/file", "a/b/file", "none/x", "link"):
        hold(f"{tree}/{path}").close()
        with pytest.raises(RefusedPathError):
            hold(f"{tree}/{path}", lambda _: "no")
    assert not before or len(os.listdir("/proc/self/fd")) == before


WRITER = """
import sys
from hermes.util.file_handles import hold_path
data, number = [b"a" * 300_000, b"b" * 300_000], 0
print("begun", flush=True)
while True:
    with hold_path(sys.argv[1]) as held:
        held.replace(data[number % 2])
    number += 1
"""


def test_a_kill_leaves_no_half_written_file(tree: Path) -> None:
    """Killed at any moment, also before the temporary file has its new name, the file is the old one or the new one."""
    path = tree / "whole"
    path.write_bytes(b"a" * 300_000)
    for number in range(25):
        writer = subprocess.Popen([sys.executable, "-c", WRITER, path], stdout=subprocess.PIPE)
        assert writer.stdout is not None and writer.stdout.readline() == b"begun\n"
        seen = path.stat().st_ino
        while path.stat().st_ino == seen:
            pass
        time.sleep(number * 0.0002)  # the moment of the kill is what differs from round to round
        writer.kill()
        writer.communicate()
        assert path.read_bytes() in (b"a" * 300_000, b"b" * 300_000)


@pytest.mark.parametrize(
    "path",
    str.split(
        "a/b/file a/b a/b/none a/none/below a/b/file/below link link/b/file a/up a/up/other/file a/b/leaf a/b/loop gone"
        " gone/below a/../a/b//file a/b/. a/b/.. link/.. link/../other ../{name}/a /proc/self/cwd / //etc"
    ),
)
def test_a_real_path_is_what_python_says(tree: Path, path: str) -> None:
    (tree / "link").symlink_to("a")
    (tree / "a/up").symlink_to("..")
    (tree / "a/b/leaf").symlink_to("file")
    (tree / "a/b/loop").symlink_to("loop")
    (tree / "gone").symlink_to("nowhere/at/all")
    named = os.path.join(tree, path.format(name=tree.name))
    assert find_real_path(named) == os.path.realpath(named)


def test_no_part_of_a_path_with_a_null_character_is_looked_at(tree: Path) -> None:
    for path in (f"{tree}/a\0/file", f"{tree}/a/b\0c"):
        with pytest.raises(ValueError, match="null"):
            find_real_path(path)
        with pytest.raises(ValueError, match="null"):
            hold_path(path)
    with pytest.raises(ValueError, match="null"):
        open_folder(f"{tree}/a\0b")
