"""The files below a folder, as the chat offers them behind an `@`."""

import asyncio
import os
import threading
from pathlib import Path

from hermes.admin.file_index import FileIndex


async def test_who_types_on_while_files_are_looked_for_starts_no_second_search(tmp_path: Path) -> None:
    for number in range(2_000):
        (tmp_path / f"file{number}").touch()
    index, ready = FileIndex(), threading.Barrier(4)

    def find() -> int:
        ready.wait(60)
        return id(index.list_paths(str(tmp_path)))

    assert len(set(await asyncio.gather(*(asyncio.to_thread(find) for _ in range(4))))) == 1


def test_folders_within_each_other_end_nothing(tmp_path: Path) -> None:
    (tmp_path / "leaf.txt").touch()
    folder = os.open(tmp_path, os.O_RDONLY)
    for _ in range(490):
        os.mkdir("d", dir_fd=folder)
        below = os.open("d", os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = below
    os.close(folder)
    assert FileIndex().find_paths("leaf", str(tmp_path)) == ["leaf.txt"]


def test_links_odd_names_and_hidden_files_are_not_offered(tmp_path: Path) -> None:
    inside = tmp_path / "tree"
    (inside / "src").mkdir(parents=True)
    for name in ("src/key.py", "src/key\x1b[31m.py", "src/key file.py", "src/.key", ".env"):
        (inside / name).touch()
    (tmp_path / "keys").mkdir()
    (tmp_path / "keys" / "key.pem").touch()
    (inside / "away").symlink_to(tmp_path / "keys")
    (inside / "src" / "loop").symlink_to(inside)
    os.mkfifo(inside / "key.fifo")
    index = FileIndex()
    assert [one for one in index.find_paths("key", str(inside)) if "fifo" not in one] == ["src/key.py"]
    assert index.find_paths("env", str(inside)) == [] and index.find_paths("pem", str(inside)) == []
