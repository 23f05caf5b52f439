"""Tests of the look at links in a home."""

import os
from pathlib import Path

import pytest

from hermes.config.home import locate_home
from hermes.safety.paths import Places
from hermes.safety.start_links import _list_links, explain_start_link, find_start_links
from hermes.sessions.backend_factory import resolve_places


@pytest.fixture
def places(tmp_path: Path) -> Places:
    home = tmp_path.resolve() / "home"
    (home / "code/work").mkdir(parents=True)
    environ = {"HOME": str(home), "PATH": f"/usr/bin:{home}/scripts/:{home}/linked:{home}/code/.venv/bin"}
    return resolve_places(environ, locate_home(environ), str(home / "code/work"))


def link(places: Places, name: str, target: str) -> None:
    path = Path(places.home, name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(target)


@pytest.mark.parametrize(
    ("name", "target", "found"),
    [
        ("scripts/tool", "../code/work/tool.py", "tool.py"),
        ("linked", "code/work/bin", "bin"),
        (".a/b/c/d/deep", "../../../../code/work/x", "x"),
        (".a/b/c/d/e/deeper", "../../../../../code/work/x", ""),
        (".a/link", "../.b/link", ""),
        (".zshrc", "shown", ""),
        (".config", "code/work/config", "config"),
        (".a/code", "..", ""),
        (".a/code", "../code", ""),
        (".a/work", "../code/work", ""),
        (".vim", "code/work", "."),
        (".pyenv/versions/work", "../../code/work/.venv", ""),
        (".local/bin/python4", "../../.pyenv/versions/4/bin/python", ""),
        (".app/env/null", "/dev/null", ""),
        (".venv/bin/work", "../../code/work/main", ""),
        ("shown", "code/work/x", ""),
    ],
)
def test_where_a_link_leads_that_is_obeyed(places: Places, name: str, target: str, found: str) -> None:
    link(places, name, target)
    targets = [one for one, _ in find_start_links(places) if one.startswith(places.workspace)]
    assert targets == ([os.path.normpath(f"{places.workspace}/{found}")] if found else [])


def test_links_that_commands_make_in_their_workspace_keep_nothing(places: Places) -> None:
    work = f"{places.home}/.dotfiles"
    link(places, ".dotfiles/vim/a", f"{work}/b")
    link(places, ".zshrc", ".dotfiles/zshrc")
    here = Places(home=places.home, hermes=places.hermes, workspace=work)
    assert [one for one, _ in find_start_links(here)] == [f"{work}/zshrc"]
    assert f"{places.home}/.zshrc leads to it" in explain_start_link(f"{work}/zshrc", here)


def test_nearer_links_are_found_first(places: Places) -> None:
    names = (".a/b/c/d/deep", ".a/b/c/deep", ".z/near", ".near")
    for name in names:
        link(places, name, f"{places.workspace}/x")
    assert list(_list_links(places.home, ())) == [f"{places.home}/{name}" for name in reversed(names)]
