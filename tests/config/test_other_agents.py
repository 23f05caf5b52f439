"""Where other agents keep their files, and which of these places may be read."""

import json
import os
from pathlib import Path

import pytest

from hermes.config.home import HermesHome
from hermes.config.other_agents import (
    OTHER_AGENTS,
    FileKind,
    agree_to_agent,
    find_agent,
    find_project_file,
    list_agreed_agents,
    list_agreed_places,
    list_hook_files,
    list_present_agents,
    withdraw_agent,
)
from hermes.config.trusted_folders import set_trust
from hermes.core.errors import ConfigError

CLAUDE, CODEX, OPENCODE = OTHER_AGENTS


def make_home(tmp_path: Path) -> tuple[HermesHome, dict[str, str]]:
    home = HermesHome(tmp_path / "hermes")
    home.root.mkdir()
    return home, {"HOME": str(tmp_path)}


def test_an_agents_folder_is_where_its_variable_says() -> None:
    assert CLAUDE.locate_root({"HOME": "/h"}) == "/h/.claude"
    assert CLAUDE.locate_root({"HOME": "/h", "CLAUDE_CONFIG_DIR": "/c"}) == "/c"
    assert CODEX.locate_root({"HOME": "/h", "CODEX_HOME": "relative"}) == "/h/.codex"
    assert OPENCODE.locate_root({"HOME": "/h", "XDG_CONFIG_HOME": "/x"}) == "/x/opencode"
    assert OPENCODE.locate_root({}) == "" and find_agent("nobody") is None


def test_nothing_may_be_read_before_the_yes_and_nothing_after_it_was_taken_back(tmp_path: Path) -> None:
    home, environ = make_home(tmp_path)
    (tmp_path / ".claude/commands").mkdir(parents=True)
    assert list_present_agents(environ) == [CLAUDE]
    assert list_agreed_places(FileKind.COMMANDS, home, environ, str(tmp_path)) == []
    agree_to_agent(home, CLAUDE)
    assert home.consent_file.stat().st_mode & 0o777 == 0o600
    (place,) = list_agreed_places(FileKind.COMMANDS, home, environ, str(tmp_path))
    assert (place.path, place.is_project) == (str(tmp_path / ".claude/commands"), False)
    assert withdraw_agent(home, CLAUDE) and not withdraw_agent(home, CLAUDE)
    assert list_agreed_places(FileKind.COMMANDS, home, environ) == []
    home.consent_file.write_text("{")
    with pytest.raises(ConfigError, match="damaged"):
        list_agreed_agents(home)


def test_a_project_counts_where_it_is_trusted_and_comes_behind_the_home(tmp_path: Path) -> None:
    home, environ = make_home(tmp_path)
    work, other = tmp_path / "work", tmp_path / "other"
    for folder in (work, other, tmp_path):
        (folder / ".claude/skills").mkdir(parents=True)
        (folder / ".agents/skills").mkdir(parents=True)
    (work / ".opencode").mkdir()
    (work / ".opencode/skills").symlink_to(other / ".claude/skills")
    agree_to_agent(home, CLAUDE)

    def list_paths(folder: Path) -> list[str]:
        found = list_agreed_places(FileKind.SKILLS, home, environ, str(folder))
        return [os.path.relpath(place.path, tmp_path) for place in found]

    assert list_paths(work) == [".claude/skills"]
    set_trust(home.trust_file, str(work), trusted=True)
    assert list_paths(work) == [".claude/skills", "work/.claude/skills"]
    assert list_paths(other) == [".claude/skills"]
    agree_to_agent(home, CODEX)
    agree_to_agent(home, OPENCODE)
    shared = [".claude/skills", ".agents/skills", "work/.claude/skills", "work/.agents/skills"]
    assert list_paths(work) == shared, "a folder counts once, and a link to one that is not trusted not at all"


def test_hook_files_are_named_by_agent_and_scope(tmp_path: Path) -> None:
    def write(path: str, value: object) -> Path:
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(value if isinstance(value, str) else json.dumps(value))
        return file

    one = {"matcher": "Bash", "hooks": [{"type": "command", "command": "x"}, {"type": "prompt"}]}
    mine = write("home/.claude/settings.json", {"permissions": {}, "hooks": {"PreToolUse": [one], "Stop": [one]}})
    theirs = write("work/.claude/settings.local.json", {"hooks": {"Stop": [one]}})
    codex = write("home/.codex/hooks.json", {"hooks": {"SessionStart": [one]}})
    write("work/.claude/settings.json", {"hooks": {}})
    write("work/.codex/hooks.json", "{ broken")
    environ = {"HOME": str(tmp_path / "home")}
    assert [(one.agent, one.path) for one in list_hook_files(environ)] == [("claude", mine), ("codex", codex)]
    found = list_hook_files(environ, str(tmp_path / "work"))
    assert [(one.agent, one.is_project, one.count) for one in found] == [
        ("claude", False, 4),
        ("codex", False, 2),
        ("claude", True, 2),
    ]
    assert found[-1].path == theirs
    at_home = list_hook_files(environ, str(tmp_path / "home"))
    assert [(one.agent, one.is_project) for one in at_home] == [("claude", False), ("codex", False)]
    theirs.unlink()
    os.mkfifo(theirs)
    assert len(list_hook_files(environ, str(tmp_path / "work"))) == 2


def test_a_file_of_a_project_is_known_by_its_agent(tmp_path: Path) -> None:
    assert find_project_file(FileKind.AGENTS, str(tmp_path), "x.md") is None
    (tmp_path / ".opencode/agent").mkdir(parents=True)
    (tmp_path / ".opencode/agent/x.md").write_text("x")
    assert find_project_file(FileKind.AGENTS, str(tmp_path), "x.md") == (OPENCODE, ".opencode/agent/x.md")
