"""The settings of the repository that a folder is in: one that lies elsewhere is not taken for the one around it."""

import subprocess
from pathlib import Path

from hermes.execution.git_programs import find_config_file, read_remotes


def test_the_nearest_repository_in_the_workspace_counts(tmp_path: Path) -> None:
    work, inner = tmp_path / "work", tmp_path / "work/src/inner"
    inner.mkdir(parents=True)
    assert find_config_file(str(inner), str(work)) == ""
    subprocess.run(["git", "init", "-q", work], check=True)
    subprocess.run(["git", "init", "-q", tmp_path / "elsewhere"], check=True)
    assert find_config_file(str(inner), str(work)) == str(work / ".git/config")
    assert find_config_file(str(inner), str(work / "src")) == ""
    (inner / ".git").write_text(f"gitdir: {tmp_path / 'elsewhere/.git'}\n")
    assert find_config_file(str(inner), str(work)) == ""
    (inner / ".git").unlink()
    (inner / ".git").symlink_to(tmp_path / "elsewhere/.git")
    assert find_config_file(str(inner), str(work)) == ""


REMOTES = """[core]
\tbare = false
[remote "origin"]
\turl = git@one.example:a/b.git
\tpushurl = https://two.example/a/b
\tfetch = +refs/heads/*:refs/remotes/origin/*
[remote "both"]
\turl = https://one.example/a
\turl = https://two.example/a
"""


def test_a_remote_has_addresses_where_there_is_one_of_a_kind(tmp_path: Path) -> None:
    git = tmp_path / "work/.git"
    git.mkdir(parents=True)
    (git / "config").write_text(REMOTES)
    work = str(tmp_path / "work")
    named = {"url": "git@one.example:a/b.git", "pushurl": "https://two.example/a/b"}
    assert read_remotes(work, work) == {"origin": named, "both": {}}
    assert read_remotes(work, str(tmp_path / "elsewhere")) == {}
    (git / "config").write_text(f'{REMOTES}[url "https://three.example/"]\n\tinsteadOf = https://one.example/\n')
    assert read_remotes(work, work) == {}
