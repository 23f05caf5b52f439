"""Git worktrees for runs: real git, nothing of the repository's own is run, work is never lost."""

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from hermes.config.trusted_folders import read_trusted_folders, set_trust
from hermes.core.errors import BusyError, UsageError
from hermes.execution.git import Git
from hermes.execution.worktrees import Worktrees
from hermes.testing.home import TempHome
from hermes.testing.script import Call, Say, ScriptedModel
from hermes.testing.server import ScriptedServer
from tests.forked_hermes import run_hermes

pytestmark = pytest.mark.slow


def git(environ: Mapping[str, str], folder: Path, *words: str) -> str:
    who = ("-c", "user.name=a", "-c", "user.email=a@b.invalid", "-c", "init.defaultBranch=main")
    done = subprocess.run(
        ["git", *who, *words], cwd=folder, env=dict(environ), capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def repository(home: TempHome) -> Path:
    folder = home.cwd
    git(home.environ, folder, "init", "-q")
    (folder / "sub").mkdir()
    for name in ("a.txt", "sub/b.txt"):
        (folder / name).write_text("one\n")
    git(home.environ, folder, "add", ".")
    git(home.environ, folder, "commit", "-qm", "first")
    return folder


@pytest.mark.needs("git")
def test_a_clean_worktree_goes_and_leaves_no_branch() -> None:
    with TempHome({}) as home:
        folder = repository(home)
        desk = Worktrees(home.environ)
        with desk.open_worktree(folder / "sub") as (made, said):
            assert Path(made.folder).name == "sub" and (Path(made.folder) / "b.txt").read_text() == "one\n"
            assert not Path(made.folder).is_relative_to(folder) and not Path(made.folder).is_relative_to(home.hermes)
            assert desk.list_worktrees()[0]["in_use"]
        assert said == [f"The worktree {made.name} had no changes and is removed."]
        assert (
            desk.list_worktrees() == [] and git(home.environ, folder, "branch", "--format=%(refname:short)") == "main"
        )
        assert git(home.environ, folder, "worktree", "list").count("\n") == 0


@pytest.mark.needs("git")
def test_work_stays_and_is_said_with_how_to_merge_it() -> None:
    with TempHome({}) as home:
        folder = repository(home)
        desk = Worktrees(home.environ)
        with desk.open_worktree(folder, "fix") as (made, said):
            Path(made.folder, "a.txt").write_text("two\n")
            Path(made.folder, "new.txt").write_text("new\n")
        assert "2 changed files" in said[0] and any(f"merge {made.branch}" in line for line in said)
        with desk.open_worktree(folder, "fix") as (again, said):
            assert not again.fresh and Path(again.folder, "a.txt").read_text() == "two\n"
            git(home.environ, Path(again.folder), "add", ".")
            git(home.environ, Path(again.folder), "commit", "-qm", "second")
        assert "1 commit" in said[0] and (folder / "a.txt").read_text() == "one\n"
        with pytest.raises(UsageError, match="holds work"):
            desk.remove_worktree("fix")
        git(home.environ, folder, "merge", "-q", made.branch)
        assert (folder / "a.txt").read_text() == "two\n"
        desk.remove_worktree("fix", force=True)
        assert desk.list_worktrees() == [] and not Path(made.folder).exists()


@pytest.mark.needs("git")
def test_a_run_that_fails_loses_nothing() -> None:
    with TempHome({}) as home:
        folder = repository(home)
        desk = Worktrees(home.environ)
        with pytest.raises(RuntimeError), desk.open_worktree(folder, "fix") as (made, said):
            Path(made.folder, "a.txt").write_text("two\n")
            raise RuntimeError
        assert said and desk.list_worktrees()[0]["changes"] == 1


@pytest.mark.needs("git")
def test_two_runs_do_not_share_one() -> None:
    with TempHome({}) as home:
        folder = repository(home)
        desk = Worktrees(home.environ)
        with desk.open_worktree(folder, "fix"), pytest.raises(BusyError), desk.open_worktree(folder, "fix"):
            pass
        with desk.open_worktree(folder) as (one, _), desk.open_worktree(folder) as (other, _):
            assert one.name != other.name


@pytest.mark.needs("git")
def test_it_is_trusted_as_the_folder_is() -> None:
    with TempHome({}) as home:
        folder = repository(home)
        trust = home.hermes / "trust.json"
        desk = Worktrees(home.environ)
        with desk.open_worktree(folder):
            assert read_trusted_folders(trust) == ()
        set_trust(trust, str(folder), trusted=True)
        with desk.open_worktree(folder) as (made, _):
            assert os.path.realpath(made.folder) in read_trusted_folders(trust)
        assert read_trusted_folders(trust) == (str(folder),)


@pytest.mark.needs("git")
def test_nothing_of_the_repository_runs() -> None:
    with TempHome({}) as home:
        folder = repository(home)
        proof = home.root / "proof"
        script = home.root / "evil.sh"
        script.write_text(f"#!/bin/sh\necho $0 $@ >> {proof}\ncat\n")
        script.chmod(0o755)
        (folder / ".gitattributes").write_text("* filter=evil diff=evil\n")
        git(home.environ, folder, "add", ".")
        git(home.environ, folder, "commit", "-qm", "attributes")
        for name in ("filter.evil.smudge", "filter.evil.clean", "diff.evil.textconv", "core.fsmonitor", "core.pager"):
            git(home.environ, folder, "config", name, str(script))
        git(home.environ, folder, "config", "filter.evil.required", "true")
        for hook in ("post-checkout", "pre-commit", "reference-transaction", "post-index-change"):
            (folder / ".git/hooks" / hook).write_bytes(script.read_bytes())
            (folder / ".git/hooks" / hook).chmod(0o755)
        desk = Worktrees(home.environ)
        with pytest.raises(UsageError, match="hermes trust"), desk.open_worktree(folder):
            pass
        # Even of a repository that the person trusts nothing is run.
        set_trust(home.hermes / "trust.json", str(folder), trusted=True)
        with desk.open_worktree(folder, "fix") as (made, _):
            Path(made.folder, "a.txt").write_text("two\n")
            assert not proof.exists()
            # What stands in the worktree may name any other place as its repository.
            evil = home.root / "evil.git"
            git(home.environ, home.root, "clone", "-q", "--bare", str(folder), str(evil))
            git(home.environ, evil, "config", "core.fsmonitor", str(script))
            Path(made.folder, ".git").write_text(f"gitdir: {evil}\n")
        assert desk.list_worktrees()[0]["changes"] == 1
        desk.remove_worktree("fix", force=True)
        assert not proof.exists()
        Git(folder, home.environ).run_git("status", "--porcelain")
        assert not proof.exists()


@pytest.mark.needs("git")
def test_where_there_is_no_repository_it_is_said() -> None:
    with TempHome({}) as home:
        desk = Worktrees(home.environ)
        with pytest.raises(UsageError, match="in no git repository"), desk.open_worktree(home.cwd):
            pass
        git(home.environ, home.cwd, "init", "-q")
        with pytest.raises(UsageError, match="has no commit yet"), desk.open_worktree(home.cwd):
            pass
        repository(home)
        for name in ("../x", "a/b", "-x", "x.json", "", "a..b"):
            if name:
                with pytest.raises(UsageError), desk.open_worktree(home.cwd, name):
                    pass


@pytest.mark.needs("git")
async def test_a_run_works_in_its_worktree() -> None:
    plan = [Say(calls=(Call("write_file", {"path": "made.txt", "content": "made\n"}),)), Say("done")]
    async with ScriptedServer(ScriptedModel(plan)) as server:
        with TempHome.for_server(server.url) as home:
            folder = repository(home)
            done = await run_hermes(home, "-z", "make it", "-w", "task")
            assert (done.code, done.stdout) == (0, "done\n"), done
            assert not (folder / "made.txt").exists()
            assert "1 changed file" in done.stderr and "hermes worktree remove task --force" in done.stderr
            rows = json.loads((await run_hermes(home, "worktree", "list", "--json")).stdout)
            assert (Path(rows[0]["folder"]) / "made.txt").read_text() == "made\n"
            done = await run_hermes(home, "worktree", "remove", "tsak")
            assert done.code == 1 and "Did you mean 'task'?" in done.stderr
