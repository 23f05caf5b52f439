"""What is the person's own is on disk while commands run: whatever ends Hermes then, the next session knows it."""

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from hermes.execution.sandbox.baseline import BaselineFile
from hermes.execution.sandbox.planted_files import LookBudget, PlantedFiles
from hermes.safety.paths import Places
from hermes.safety.start_links import explain_start_link, find_start_links

KILLED = """
import os, sys
from hermes.execution.sandbox.baseline import BaselineFile
from hermes.execution.sandbox.planted_files import LookBudget, PlantedFiles
folder, work = sys.argv[1:]
PlantedFiles(BaselineFile(folder, work)).record_baseline([work])
os.makedirs(f"{work}/new/.git/hooks")
for name in ("HEAD", "hooks/pre-commit"):
    open(f"{work}/new/.git/{name}", "w").write("theirs")
open(f"{work}/new/.git/config", "w").write("[core]\\n\\tfsmonitor = theirs\\n")
os.makedirs(f"{work}/.vscode")
open(f"{work}/.vscode/tasks.json", "w").write("theirs")
open(f"{work}/.git/hooks/commit-msg", "w").write("theirs")
open(f"{work}/.envrc", "w").write("theirs")
os.kill(os.getpid(), 9)
"""


def opened(tmp_path: Path) -> PlantedFiles:
    (tmp_path / "home").mkdir(exist_ok=True)
    return PlantedFiles(BaselineFile(str(tmp_path / "home" / "baselines"), str(tmp_path / "work")))


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A workspace with what the person wants to be obeyed."""
    folder = tmp_path / "work"
    (folder / ".git" / "hooks").mkdir(parents=True)
    for name, text in (("HEAD", "x"), ("config", "[core]\n\tpager = mine\n"), ("hooks/commit-msg", "mine")):
        (folder / ".git" / name).write_text(text)
    (folder / ".envrc").write_text("mine")
    return folder


def test_what_a_killed_session_left_is_not_the_persons(tmp_path: Path, work: Path) -> None:
    (tmp_path / "home").mkdir()
    arguments = [sys.executable, "-c", KILLED, str(tmp_path / "home" / "baselines"), str(work)]
    assert subprocess.run(arguments, check=False).returncode == -9
    notes = opened(tmp_path).record_baseline([str(work)])
    assert len(notes) == 5, notes
    assert not (work / "new/.git/hooks/pre-commit").exists() and not (work / ".vscode/tasks.json").exists()
    assert "fsmonitor" not in (work / "new/.git/config").read_text()
    assert (work / ".envrc").read_text() == (work / ".git/hooks/commit-msg").read_text() == "mine"
    assert "mine" in (work / ".git/config").read_text()


def test_what_the_person_does_between_sessions_is_theirs(tmp_path: Path, work: Path) -> None:
    first = opened(tmp_path)
    assert not first.record_baseline([str(work)])
    first.forget_baseline()
    assert not (tmp_path / "home" / "baselines").exists()
    (work / ".mise.toml").write_text("mine")
    assert not opened(tmp_path).record_baseline([str(work)]) and (work / ".mise.toml").exists()


def test_a_second_session_takes_nothing_of_the_first_ones_commands_for_the_persons(tmp_path: Path, work: Path) -> None:
    first, second = opened(tmp_path), opened(tmp_path)
    first.record_baseline([str(work)])
    (work / ".mcp.json").write_text("theirs")
    notes = second.record_baseline([str(work)])
    assert len(notes) == 1 and not (work / ".mcp.json").exists()
    first.forget_baseline()
    assert {one.suffix for one in (tmp_path / "home" / "baselines").iterdir()} == {"", ".lock"}
    second.forget_baseline()
    assert not (tmp_path / "home" / "baselines").exists()


@pytest.mark.parametrize("way", ["at first", "meanwhile", "by another session"])
def test_what_a_killed_session_left_in_an_opened_place_is_not_the_persons(tmp_path: Path, work: Path, way: str) -> None:
    other, third = tmp_path / "other", tmp_path / "third"
    for folder in (other, third):
        folder.mkdir()
    files = BaselineFile(str(tmp_path / "home" / "baselines"), str(work))
    (tmp_path / "home").mkdir()
    first, second = PlantedFiles(files), opened(tmp_path)
    first.record_baseline([str(work), str(other)] if way == "at first" else [str(work)])
    if way == "by another session":
        second.record_baseline([str(work), str(other)])
    first.record_opened([str(work), str(third), *([str(other)] if way == "meanwhile" else [])])
    for folder in (other, third):
        (folder / ".envrc").write_text("theirs")
    for stored in (files, second._stored):
        if stored is not None and stored._lock >= 0:
            os.close(stored._lock)  # as the kernel does when a process is killed
    assert len(opened(tmp_path).record_baseline([str(work)])) == 2
    assert not (other / ".envrc").exists() and not (third / ".envrc").exists()


def test_what_a_process_made_before_a_folder_around_it_is_opened_is_not_the_persons(tmp_path: Path, work: Path) -> None:
    plants = opened(tmp_path)
    plants.record_baseline([str(work)])
    (work / ".mcp.json").write_text("theirs")
    (tmp_path / ".mcp.json").write_text("mine")
    assert plants.record_opened([str(tmp_path), str(work)]) == [str(tmp_path)]
    assert len(plants.quarantine_new([str(tmp_path)], lambda path: False)) == 1
    assert not (work / ".mcp.json").exists() and (tmp_path / ".mcp.json").exists()


def test_what_a_link_on_the_way_to_a_kept_file_brings_is_moved_aside(tmp_path: Path, work: Path) -> None:
    for folder in ("shell", "theirs"):
        (work / folder).mkdir()
        (work / folder / "bashrc").write_text(folder)
    plants = opened(tmp_path)
    plants.record_baseline([str(work)], [str(work / "shell/bashrc")])
    (work / "shell").rename(work / "away")
    (work / "shell").symlink_to("theirs")
    assert plants.quarantine_new([str(work)], lambda path: False)
    assert not (work / "shell/bashrc").exists()


def test_settings_of_git_are_written_back_where_the_kernel_does_not_keep_them(tmp_path: Path, work: Path) -> None:
    first, config = opened(tmp_path), work / ".git/config"
    first.is_enforced = False
    first.record_baseline([str(work)])
    before = config.read_bytes()
    changed = before + b"[user]\n\tname = x\n"
    config.write_bytes(changed)
    first.quarantine_new([str(work)], lambda path: True)
    assert config.read_bytes() == before
    config.write_bytes(changed)
    first.quarantine_new([str(work)], lambda path: False)
    assert config.read_bytes() == changed
    assert not first.record_baseline([str(work)]), "what was allowed is not taken back by another look"
    config.write_bytes(before)
    assert len(first.record_baseline([str(work)])) == 1 and config.read_bytes() != before


def test_the_baseline_is_for_its_owner_alone(tmp_path: Path, work: Path) -> None:
    opened(tmp_path).record_baseline([str(work)])
    assert {one.stat().st_mode & 0o777 for one in (tmp_path / "home" / "baselines").iterdir()} == {0o600}


def test_what_is_written_as_it_was_stays(tmp_path: Path, work: Path) -> None:
    plants = opened(tmp_path)
    plants.record_baseline([str(work)])
    os.replace(work / ".envrc", work / "x")
    (work / ".envrc").write_text("mine")
    assert not plants.quarantine_new([str(work)], lambda path: False)
    (work / ".envrc").chmod(0o755)
    assert len(plants.quarantine_new([str(work)], lambda path: False)) == 1
    assert not os.stat(work / ".envrc").st_mode & 0o111


@pytest.mark.parametrize("name", ["rebase-merge/git-rebase-todo", "rebase-apply/git-rebase-todo", "sequencer/todo"])
def test_steps_of_a_stopped_rebase_run_nothing_new(tmp_path: Path, work: Path, name: str) -> None:
    todo = work / ".git" / name
    todo.parent.mkdir()
    todo.write_text("pick a\nexec mine\npick b\n")
    plants = opened(tmp_path)
    plants.record_baseline([str(work)])
    todo.write_text("exec mine\npick b\n  exec theirs\nx theirs\n")
    assert len(plants.quarantine_new([str(work)], lambda path: False)) == 1
    assert todo.read_text() == "exec mine\npick b\n"
    todo.write_text("pick b\n")
    assert not plants.quarantine_new([str(work)], lambda path: False)


def test_a_strategy_is_one_of_gits_own(tmp_path: Path, work: Path) -> None:
    plants = opened(tmp_path)
    plants.record_baseline([str(work)])
    (work / ".git/rebase-merge").mkdir()
    for said, left in (("ours\n", "ours\n"), ("theirs-program\n", "ort\n")):
        (work / ".git/rebase-merge/strategy").write_text(said)
        plants.quarantine_new([str(work)], lambda path: False)
        assert (work / ".git/rebase-merge/strategy").read_text() == left


def test_what_start_files_lead_to_is_protected(tmp_path: Path) -> None:
    home, dotfiles = tmp_path / "home", tmp_path / "home" / "dotfiles"
    for folder in (dotfiles / "autostart", home / ".config" / "fish"):
        folder.mkdir(parents=True)
    for name in ("bashrc", "config.fish", "README.md", "autostart/x.desktop"):
        (dotfiles / name).write_text("mine")
    (home / ".bashrc").symlink_to(dotfiles / "bashrc")
    (home / ".config/autostart").symlink_to("../dotfiles/autostart")
    (home / ".config/fish/config.fish").symlink_to(dotfiles / "config.fish")
    places = Places(home=str(home), hermes=str(home / ".hermes"), workspace=str(home))
    targets = tuple(target for target, _ in find_start_links(places))
    assert targets == tuple(str(dotfiles / name) for name in ("autostart", "bashrc", "config.fish"))
    for name in ("bashrc", "autostart/x.desktop", "autostart/new.desktop", "config.fish"):
        assert explain_start_link(str(dotfiles / name), places)
    assert not explain_start_link(str(dotfiles / "README.md"), places)

    (home / ".zshrc").symlink_to(dotfiles / "README.md")
    plants = PlantedFiles()
    plants.record_baseline([str(home)], targets)
    (dotfiles / "bashrc").write_text("theirs")
    (dotfiles / "autostart/new.desktop").write_text("theirs")
    assert len(plants.quarantine_new([str(home)], lambda path: False)) == 2
    assert (dotfiles / "bashrc").read_text() == "mine" and not (dotfiles / "autostart/new.desktop").exists()


def test_a_link_of_the_persons_stays_and_comes_back(tmp_path: Path, work: Path) -> None:
    for name in ("own", "gone"):
        (work / name).mkdir()
    for name, target in ((".claude", "own"), (".husky", "gone")):
        (work / name).symlink_to(target)
    files = opened(tmp_path)
    files.record_baseline([str(work)])
    (work / ".husky").unlink()
    (work / ".husky").symlink_to("/tmp")
    assert len(files.quarantine_new([str(work)], lambda path: False)) == 1
    assert os.readlink(work / ".claude") == "own" and os.readlink(work / ".husky") == "gone"


def test_a_look_is_cut_short_by_its_own_work_and_not_by_that_of_others() -> None:
    def work_for(seconds: float) -> None:
        began = time.thread_time()
        while time.thread_time() - began < seconds:
            pass

    budget, other = LookBudget(0.05, 1e9), threading.Thread(target=work_for, args=(0.2,))
    other.start()
    other.join()
    assert not budget.is_used_up()
    work_for(0.05)
    assert budget.is_used_up()
    assert LookBudget(1e9, 0).is_used_up(), "nothing is waited for without an end"
