"""Which files a command names, and when they are still those that were enabled."""

import os
from pathlib import Path

import pytest

from hermes.config.plugin_consents import PluginConsent, PluginConsents
from hermes.hooks.definitions import read_definitions
from hermes.hooks.hook_files import HookFiles, HookFilesError, find_present_files, list_script_paths
from hermes.hooks.hook_sets import HookPlace, HookSet, HookSetState, read_hook_set


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


@pytest.mark.parametrize(
    ("command", "names"),
    [
        ("<>/check.sh --log <>/log.txt", {"check.sh", "log.txt"}),
        ("<>/check.sh >> <>/log.txt 2>><>/other.txt", {"check.sh"}),
        ("cat <>/log.txt > <>/other.txt; <>/check.sh &><>/log.txt", {"log.txt", "check.sh"}),
        ("sh -c '<>/check.sh >> <>/log.txt'", {"check.sh"}),
        ("tee >(<>/check.sh) <> <>/log.txt", {"check.sh", "log.txt"}),
        ("echo x > <>/check.sh && <>/check.sh", {"check.sh"}),
    ],
)
def test_what_a_command_writes_is_no_part_of_it(tmp_path: Path, command: str, names: set[str]) -> None:
    for name in ("check.sh", "log.txt", "other.txt"):
        (tmp_path / name).write_text("")
    text = command.replace("<>/", f"{tmp_path}/")
    found = list_script_paths(
        read_definitions({"Stop": [{"command": text}]}).hooks, str(tmp_path), {"PATH": "/usr/bin"}
    )
    assert {Path(one).name for one in find_present_files(found)} == names


@pytest.mark.parametrize(("command", "is_bound"), [("~/hooks/check.sh", False), ("hooks/check.sh", True)])
def test_hooks_that_are_enabled_in_the_home_hold_in_all_projects(tmp_path: Path, command: str, is_bound: bool) -> None:
    home, project = tmp_path / "ann", tmp_path / "ann/project"
    for folder in (home, project):
        (folder / "hooks").mkdir(parents=True)
        (folder / "hooks/check.sh").write_text(f"# in {folder}")
    place = HookPlace(name="hooks", file="config.yaml", section={"Stop": [{"command": command}]})
    consents = PluginConsents(tmp_path / "plugins.json")

    def read_set(folder: Path) -> HookSet:
        return read_hook_set(place, str(folder), {"HOME": str(home), "PATH": "/usr/bin"}, consents)

    enabled = read_set(home)
    consents.enable(enabled.key, PluginConsent("", enabled.digest))
    assert enabled.only_folder == (str(home) if is_bound else "")
    assert read_set(home).state is HookSetState.ENABLED
    assert read_set(project).state is (HookSetState.OFF if is_bound else HookSetState.ENABLED)
