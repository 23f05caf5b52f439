"""Files replaced as a whole, with the folders that are missing."""

import os
from pathlib import Path

import pytest

from hermes.util.atomic_write import write_atomic


def test_missing_folders_are_made_when_they_are_asked_for(tmp_path: Path) -> None:
    told: list[str] = []
    write_atomic(tmp_path / "a" / "b" / "c.txt", b"x", check=told.append, make_folders=True)
    assert (tmp_path / "a" / "b" / "c.txt").read_bytes() == b"x"
    assert told == [str(tmp_path / "a" / "b" / "c.txt")]
    with pytest.raises(FileNotFoundError):
        write_atomic(tmp_path / "other" / "c.txt", b"x")
    assert not (tmp_path / "other").exists()


def test_a_link_that_appears_where_a_folder_is_missing_is_not_followed(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.mkdir()

    def swap(_: str) -> None:
        os.symlink(target, tmp_path / "new")

    with pytest.raises(OSError, match=r"Not a directory|symbolic links"):
        write_atomic(tmp_path / "new" / "sub" / "c.txt", b"x", check=swap, make_folders=True)
    assert not list(target.iterdir())


def test_what_is_refused_makes_nothing(tmp_path: Path) -> None:
    def no(real: str) -> None:
        raise PermissionError(real)

    with pytest.raises(PermissionError):
        write_atomic(tmp_path / "new" / "c.txt", b"x", check=no, make_folders=True)
    assert not list(tmp_path.iterdir())
