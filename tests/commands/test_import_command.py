"""`hermes import`: what it finds of another agent, what carries over and what does not, what it does after a yes."""

import json
import os
from pathlib import Path

import pytest
import yaml

from hermes.testing.home import ProgramResult, TempHome
from tests.command_line import run_command_line
from tests.e2e.other_agents_files import MARK, fill_home, fill_project, write

pytestmark = pytest.mark.slow

TOKEN = "tok-" + os.urandom(12).hex()


def call(home: TempHome, *words: str) -> ProgramResult:
    return run_command_line(home, "import", *words)


def fill_claude(home: TempHome) -> None:
    """Put one of everything into the person's home, with what does not carry over."""
    root = home.home / ".claude"
    head = "---\ndescription: Fix it\nargument-hint: '[issue]'\nallowed-tools: Bash(git *)\nmodel: opus\n---\n"
    write(root / "commands/fix.md", head + "Fix $0. !`git status`")
    write(root / "commands/frontend/component.md", "Make $ARGUMENTS")
    write(root / "commands/Shouted.md", "x")
    write(root / "commands/help.md", "x")
    write(root / "agents/rev.md", "---\nname: rev\ntools: Read\nmodel: sonnet\nmemory: user\n---\nReview.")
    write(root / "agents/main.md", "---\nname: main\nmode: primary\n---\nx")
    write(root / "skills/good/SKILL.md", "---\nname: good\ndescription: Is good.\n---\nBe good.")
    write(root / "skills/tooled/SKILL.md", "---\nname: tooled\ndescription: Runs.\n---\nRun scripts/run.py.")
    write(root / "skills/tooled/scripts/run.py", "print(1)")
    write(root / "skills/nameless/SKILL.md", "---\ndescription: Has no name.\n---\nText.")
    hook = {"hooks": [{"type": "command", "command": "x"}]}
    write(root / "settings.json", {"hooks": {"Stop": [hook], "PreToolUse": [hook]}, "permissions": {"allow": ["*"]}})
    write(root / "CLAUDE.md", "x")
    servers = {
        "gh": {"command": "node", "args": ["x.js"], "env": {"GH_TOKEN": TOKEN, "MODE": "${MODE:-fast}"}},
        "socket": {"type": "ws", "url": "wss://h"},
    }
    write(home.home / ".claude.json", {"mcpServers": servers})


def test_the_list_says_what_was_copied() -> None:
    with TempHome({}) as home:
        root = home.home / ".claude"
        write(root / "commands/fix.md", "Fix $0.")
        write(root / "agents/rev.md", "---\nname: rev\ndescription: Reviews.\n---\nReview.")
        write(root / "skills/good/SKILL.md", "---\nname: good\ndescription: Is good.\n---\nBe good.")
        write(home.home / ".claude.json", {"mcpServers": {"gh": {"command": "node", "args": ["x.js"]}}})
        assert "not used; `hermes import claude`" in call(home).stdout
        call(home, "claude", "--yes")
        assert "copied into Hermes' home" in call(home).stdout
        write(root / "commands/later.md", "Later.")
        assert "4 of 5 are in Hermes' home; `hermes import claude`" in call(home).stdout
        call(home, "claude", "--yes")
        write(home.cwd / ".claude/commands/mine.md", "Mine.")
        assert run_command_line(home, "trust", ".").code == 0
        assert "those of this folder: `hermes import claude --read-in-place`" in call(home).stdout


def test_a_dry_run_says_what_carries_over_and_changes_nothing() -> None:
    with TempHome() as home:
        fill_claude(home)
        done = call(home, "claude", "--dry-run")
        assert done.code == 0 and TOKEN not in done.stdout + done.stderr
        for line in (
            "/Shouted  not used: its name is not made of",
            "/help  not used: Hermes has a command of that name",
            "without allowed-tools: a file permits nothing",
            "without model: there is nothing like it here",
            "without !`...`: it is not run by itself",
            "/frontend:component",
            "main  not used: it is a main agent",
            "without memory: there is nothing like it here",
            "without scripts: where it lies they can be read and not run",
            "gh: node x.js  asks for a yes",
            "socket: wss://h  not used: WebSocket is not spoken",
            "hooks: 2 in ",
            "CLAUDE.md: what holds for you everywhere goes into SOUL.md",
            "settings.json: permissions are not taken over",
        ):
            assert line in done.stdout, line
        value = json.loads(call(home, "claude", "--dry-run", "--json").stdout)
        assert value["hooks"] == 2 and not value["read_in_place"]
        assert {one["name"] for one in value["items"] if not one["problem"]} == {
            *("fix", "frontend:component", "rev", "good", "nameless", "tooled", "gh")
        }
        assert list(home.hermes.iterdir()) == []


def test_without_a_yes_nothing_is_done() -> None:
    with TempHome() as home:
        fill_claude(home)
        for words in (["claude"], ["claude", "--read-in-place"]):
            done = call(home, *words)
            assert done.code == 2 and "--yes" in done.stderr
        assert not home.hermes.joinpath("plugins.json").exists() and not home.hermes.joinpath("commands").exists()
        assert call(home, "nobody").code == 2 and call(home, "--stop").code == 2


def test_taking_over_copies_what_carries_over_once() -> None:
    with TempHome() as home:
        fill_claude(home)
        done = call(home, "claude", "--yes")
        assert done.code == 0, done.stderr
        assert "Commands: /fix, /frontend-component." in done.stdout and TOKEN not in done.stdout
        command = home.hermes.joinpath("commands/fix.md").read_text()
        assert command == (
            "---\ndescription: Fix it\nargument-hint: [issue]\n---\nFix $1. (run `git status` and use its output)\n"
        )
        agent = home.hermes.joinpath("agents/rev.md").read_text()
        assert "tools: Read" in agent and "model" not in agent
        assert (home.hermes / "skills/good/SKILL.md").exists() and "nameless" in done.stdout
        assert "1 skill waits for your approval" in done.stdout and not (home.hermes / "skills/tooled").exists()
        config = yaml.safe_load(home.hermes.joinpath("config.yaml").read_text())
        env = {"GH_TOKEN": "${MCP_GH_GH_TOKEN}", "MODE": "fast"}
        assert config["mcp_servers"] == {"gh": {"command": "node", "args": ["x.js"], "env": env}}
        assert TOKEN in home.hermes.joinpath(".env").read_text()
        assert not home.hermes.joinpath("plugins.json").exists()
        again = call(home, "claude", "--yes")
        assert "there is one already, and it stays" in again.stdout and "Nothing new" in again.stdout


def test_reading_in_place_is_agreed_to_and_taken_back() -> None:
    with TempHome() as home:
        fill_claude(home)
        done = call(home, "claude", "--read-in-place", "--yes")
        assert done.code == 0 and "Servers that start: gh." in done.stdout and TOKEN not in done.stdout
        assert "gets: GH_TOKEN, MODE=fast" in done.stdout and "outside of the sandbox: node x.js" in done.stdout
        kept = json.loads(home.hermes.joinpath("plugins.json").read_text())["enabled"]
        assert sorted(kept) == ["agent:claude", f"mcp:{home.home}/.claude.json:gh"]
        assert (
            "read where they lie" in call(home).stdout
            and "gh: node x.js  used" in call(home, "claude", "--dry-run").stdout
        )
        listed = run_command_line(home, "mcp", "list", "--no-connect")
        assert "gh" in listed.stdout
        assert "read no longer" in call(home, "claude", "--stop").stdout
        assert json.loads(home.hermes.joinpath("plugins.json").read_text()) == {"enabled": {}}
        assert "They were not read before." in call(home, "claude", "--stop").stdout


@pytest.mark.parametrize("name", ["claude", "codex", "opencode"])
def test_an_untrusted_project_is_only_counted(name: str) -> None:
    with TempHome() as home:
        ran = home.root / "ran"
        fill_project(home.cwd, ran)
        done = call(home, name, "--read-in-place", "--yes")
        assert done.code == 0 and MARK not in done.stdout and "not looked at" in done.stdout
        assert "not looked at" in call(home).stdout
        assert list(json.loads(home.hermes.joinpath("plugins.json").read_text())["enabled"]) == [f"agent:{name}"]
        run_command_line(home, "trust", ".")
        done = call(home, name, "--dry-run")
        assert f"{MARK} (of the project): /bin/sh -c" in done.stdout
        assert f"{MARK}-{'codex' if name == 'codex' else 'agent'} (of the project)" in done.stdout
        assert not ran.exists()


def test_every_agent_is_found_and_named_by_setup_too() -> None:
    with TempHome() as home:
        assert "No files of Claude Code, codex or opencode are there." in call(home).stdout
        fill_home(home, home.root / "ran")
        rows = json.loads(call(home, "--json").stdout)
        assert [one["agent"] for one in rows] == ["claude", "codex", "opencode"]
        shown = call(home).stdout
        assert "Claude Code  commands: 1, agents: 1, skills: 1, MCP servers: 1, hooks: 5" in shown
        words = ["--provider", "ollama", "--model", "m", "--base-url", "http://127.0.0.1:9/v1", "--no-test", "--yes"]
        done = run_command_line(home, "setup", *words)
        assert "hermes import         use what Claude Code, codex, opencode left here" in done.stdout


def test_a_name_cannot_hide_what_it_is() -> None:
    with TempHome() as home:
        file = home.home / ".claude.json"
        write(file, {"mcpServers": {"a\u202eb\x1b[31m": {"command": "x\x1b[2J"}}})
        assert isinstance(file, Path)
        done = call(home, "claude", "--read-in-place", "--yes")
        assert "\x1b" not in done.stdout and "\u202e" not in done.stdout
