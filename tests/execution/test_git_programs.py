"""The settings of the repository that a folder is in: one that lies elsewhere is not taken for the one around it."""

import subprocess
from pathlib import Path

import pytest

from hermes.execution.git_programs import find_config_file


@pytest.mark.needs("git")
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
