"""The branch of a folder is read from the repository's files."""

import os
from pathlib import Path

from hermes.admin.git_branch import read_branch


def test_a_branch_a_commit_a_worktree_and_none(tmp_path: Path) -> None:
    assert read_branch(str(tmp_path)) == ""
    git, inner = tmp_path / ".git", tmp_path / "a" / "b"
    git.mkdir()
    inner.mkdir(parents=True)
    (git / "HEAD").write_text("ref: refs/heads/feature/x\n")
    assert read_branch(str(inner)) == "feature/x"
    (git / "HEAD").write_text("0123456789" * 4 + "\n")
    assert read_branch(str(inner)) == "0123456"
    (inner / ".git").write_text(f"gitdir: {git / 'worktrees' / 'b'}\n")
    (git / "worktrees" / "b").mkdir(parents=True)
    (git / "worktrees" / "b" / "HEAD").write_text("ref: refs/heads/side\n")
    assert read_branch(str(inner)) == "side"


def test_what_is_no_head_is_not_shown_and_waited_for(tmp_path: Path) -> None:
    git = tmp_path / ".git"
    git.mkdir()
    (git / "HEAD").write_text("a secret of another file\n")
    assert read_branch(str(tmp_path)) == ""
    (git / "HEAD").write_text("ref: refs/heads/a\x1b[2Jb\u202e\n")
    assert "\x1b" not in read_branch(str(tmp_path)) and "\u202e" not in read_branch(str(tmp_path))
    (git / "HEAD").unlink()
    os.mkfifo(git / "HEAD")
    assert read_branch(str(tmp_path)) == ""
