"""A session's folder for temporary files goes with it, or with the next start when its process was killed."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from hermes.execution.sandbox.tmpdir import SandboxTmpdir, find_abandoned, remove_folders

HOLDER = """
import sys, time
from hermes.execution.sandbox.tmpdir import SandboxTmpdir
made = SandboxTmpdir((), sys.argv[1])
open(made.tmp + "/work", "w").close()
print(made.root, flush=True)
sys.stdin.read()
"""


async def test_what_a_killed_process_left_is_found_and_what_a_living_one_has_is_not(tmp_path: Path) -> None:
    parent = str(tmp_path)
    started = subprocess.Popen(
        [sys.executable, "-c", HOLDER, parent],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.getcwd()},
        text=True,
    )
    with started:
        assert started.stdout is not None
        root = started.stdout.readline().strip()
        own = SandboxTmpdir((), parent)
        assert Path(root, "tmp/work").exists() and find_abandoned(parent) == []
        started.send_signal(signal.SIGKILL)
        started.wait()
    assert find_abandoned(parent) == [root]
    await remove_folders(find_abandoned(parent))
    assert not Path(root).exists() and Path(own.root).exists() and find_abandoned(parent) == []
    await own.close()
    assert list(tmp_path.iterdir()) == []


def test_a_folder_of_somebody_elses_making_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "hermes-other").mkdir()
    (tmp_path / "hermes-linked").symlink_to(tmp_path / "hermes-other")
    (tmp_path / "hermes-half").mkdir()
    (tmp_path / "hermes-half/lock.new").touch()
    assert find_abandoned(str(tmp_path)) == []


@pytest.mark.parametrize(("name", "mode"), [("hermes-agent", 0o700), ("hermes-research", 0o755)])
def test_a_folder_that_a_person_made_is_not_taken_for_one(tmp_path: Path, name: str, mode: int) -> None:
    """A clone, say, in which some tool keeps a file of that name."""
    (tmp_path / name).mkdir(mode)
    (tmp_path / name / "lock").write_text("")
    (tmp_path / "hermes-abcd1234").mkdir(0o700)
    (tmp_path / "hermes-abcd1234" / "lock").write_text("pid 7")
    assert find_abandoned(str(tmp_path)) == []
