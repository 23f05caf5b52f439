"""Every home writes itself into a list, so that commands of one home never see another."""

import os
import stat
from pathlib import Path

from msgspec.structs import replace

from hermes.config.home import locate_home
from hermes.config.known_homes import list_known_homes, locate_known_homes
from hermes.execution.layout import PathAccess
from hermes.execution.sandbox.policy import build_layout, find_tools, make_policy
from hermes.safety.paths import read_refusal, write_refusal
from hermes.sessions.backend_factory import resolve_places


def make_home(environ: dict[str, str], root: Path) -> None:
    home = locate_home({**environ, "HERMES_HOME": str(root)})
    home.ensure_exists()
    home.ensure_exists()
    home.env_file.write_text("A=b\n")


def test_all_homes_are_hidden_wherever_they_lie(tmp_path: Path) -> None:
    root = tmp_path.resolve()
    environ = {"HOME": str(root / "user"), "PATH": os.environ["PATH"]}
    homes = (root / "user/h1", root / "elsewhere/h2", root / "user/.hermes")
    for one in homes:
        make_home(environ, one)
    listed = locate_known_homes(environ)
    assert listed is not None and listed.read_text().splitlines() == [str(one) for one in homes]
    assert stat.S_IMODE(listed.stat().st_mode) == 0o600 and stat.S_IMODE(listed.parent.stat().st_mode) == 0o700
    assert list_known_homes(listed) == tuple(map(str, homes))
    (root / "work").mkdir()
    places = resolve_places(environ, locate_home({**environ, "HERMES_HOME": str(homes[0])}), str(root / "work"))
    layout = build_layout(replace(make_policy(places, find_tools(places, environ)), private=()))
    for one in homes:
        assert layout.access_of(f"{one}/.env") is PathAccess.HIDDEN
        assert read_refusal(f"{one}/.env", places) and write_refusal(f"{one}/.env", places)


def test_a_folder_that_is_no_home_any_more_is_not_hidden(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path.resolve())}
    make_home(environ, tmp_path / "h1")
    (tmp_path / "h1/.env").unlink()
    assert list_known_homes(locate_known_homes(environ)) == ()


def test_a_list_that_cannot_be_written_stops_nothing(tmp_path: Path) -> None:
    (tmp_path / ".local").write_text("a file")
    make_home({"HOME": str(tmp_path)}, tmp_path / "h1")
    assert list_known_homes(tmp_path / ".local/state/hermes/homes") == ()
    assert locate_known_homes({"HOME": "relative"}) is None
