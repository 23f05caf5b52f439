"""Which files count as those that hooks run."""

from pathlib import Path

import pytest

from hermes.config.plugin_consents import PluginConsent, PluginConsents
from hermes.hooks.definitions import read_definitions
from hermes.hooks.hook_files import find_present_files, list_script_paths
from hermes.hooks.hook_sets import HookPlace, HookSet, HookSetState, read_hook_set


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
