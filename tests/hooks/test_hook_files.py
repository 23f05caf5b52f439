"""Which files a command names, and when they are still those that were enabled."""

import os
from pathlib import Path

import pytest

from hermes.hooks.definitions import read_definitions
from hermes.hooks.hook_files import HookFiles, HookFilesError, list_script_paths


def list_names(command: str, folder: Path) -> set[str]:
    hooks = read_definitions({"PreToolUse": [{"command": command}]}).hooks
    environ = {"HOME": str(folder / "home"), "PATH": os.environ["PATH"]}
    return {os.path.relpath(one, folder) for one in list_script_paths(hooks, str(folder), environ)}


@pytest.mark.parametrize(
    ("command", "named", "unnamed"),
    [
        ("scripts/a.sh", "scripts/a.sh", ""),
        ("python3 ~/hooks/a.py --fast", "home/hooks/a.py", "--fast"),
        ('"$CLAUDE_PROJECT_DIR"/.claude/hooks/a.sh', ".claude/hooks/a.sh", ""),
        ("${CLAUDE_PROJECT_DIR:-.}/a.sh", "a.sh", ""),
        ("$(git rev-parse --show-toplevel)/scripts/a.sh", "scripts/a.sh", ""),
        ("`pwd`/scripts/a.sh", "scripts/a.sh", ""),
        ("cd scripts && ./a.sh", "scripts/a.sh", ""),
        ("bash -c 'scripts/a.sh | cat'", "scripts/a.sh", ""),
        ("jq . >> notes.log", "", "notes.log"),
        ("cat | tee -a notes.log; sh a.sh", "a.sh", "notes.log"),
        ("echo a.sh", "", "a.sh"),
        ("true 2> errors.txt && sh a.sh", "a.sh", "errors.txt"),
    ],
)
def test_words_name_files(tmp_path: Path, command: str, named: str, unnamed: str) -> None:
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts/a.sh").write_text("")
    found = list_names(command, tmp_path)
    assert (not named or named in found) and unnamed not in found


def test_a_file_that_comes_goes_or_changes_is_seen(tmp_path: Path) -> None:
    file, other = tmp_path / "a.sh", tmp_path / "b.sh"
    file.write_text("one")
    files = HookFiles(b"", lambda: (str(file), str(other)), str(tmp_path))
    first = files.compute_digest()
    assert files.is_unchanged() and files.paths == (str(file),)
    other.write_text("new")
    assert not files.is_unchanged() and files.compute_digest() != first
    other.unlink()
    assert files.compute_digest() == first
    file.write_text("two")
    assert not files.is_unchanged() and files.compute_digest() != first


def test_too_many_files_and_links_are_no_digest(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("")
    (tmp_path / "link").symlink_to("real")
    with pytest.raises(HookFilesError, match="a link leads"):
        HookFiles(b"", lambda: (str(tmp_path / "link"),), str(tmp_path)).compute_digest()
    with pytest.raises(HookFilesError, match="more than"):
        HookFiles(b"", lambda: [f"/{number}" for number in range(501)], str(tmp_path)).compute_digest()
