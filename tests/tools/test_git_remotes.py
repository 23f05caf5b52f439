"""The addresses of git's remotes."""

from pathlib import Path

from hermes.tools.git_remotes import read_remotes

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
