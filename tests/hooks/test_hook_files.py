"""Which files count as those that hooks run."""

from pathlib import Path

import pytest

from hermes.hooks.definitions import read_definitions
from hermes.hooks.hook_files import list_script_paths


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
    assert {Path(one).name for one in found} == names
