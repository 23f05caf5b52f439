"""Which locks are those of sessions."""

from pathlib import Path

from hermes.config.home import HermesHome
from hermes.sessions.open_sessions import list_lock_files


def test_the_locks_that_sessions_share_are_none_of_theirs(tmp_path: Path) -> None:
    home = HermesHome(tmp_path)
    assert list_lock_files(home) == []
    home.locks.mkdir()
    shared = ("auth", "gateway", "memory", "memory-ada", "skills")
    for name in (*shared, "20261123_020732_f636a5", "memorial"):
        (home.locks / f"{name}.lock").touch()
    assert [file.stem for file in list_lock_files(home)] == ["20261123_020732_f636a5", "memorial"]
