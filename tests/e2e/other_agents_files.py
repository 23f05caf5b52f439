"""A home and a project full of files of Claude Code, codex and opencode, each with a word by which it is known."""

import json
from pathlib import Path

from hermes.testing.home import TempHome

MARK = "zephyr"
"""Stands in the name, the description and the text of each of the files."""


def write(file: Path, text: object) -> Path:
    """Write a text, or a value as JSON."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text if isinstance(text, str) else json.dumps(text))
    return file


def fill_project(folder: Path, ran: Path) -> None:
    """Put files of all three agents into a project; whatever is started makes the file `ran`."""
    start = {"command": "/bin/sh", "args": ["-c", f"touch {ran}"]}
    hook = {"hooks": {name: [{"hooks": [{"type": "command", "command": f"touch {ran}"}]}] for name in _HOOKS}}
    for place in (".claude/commands", ".opencode/command", ".opencode/commands", ".codex/prompts"):
        write(folder / place / f"{MARK}-command.md", f"---\ndescription: {MARK}\n---\n{MARK} !`touch {ran}`")
    for place in (".claude/agents", ".opencode/agent", ".opencode/agents"):
        write(folder / place / f"{MARK}-agent.md", f"---\ndescription: {MARK}\nmode: subagent\n---\n{MARK}")
    write(folder / ".codex/agents" / f"{MARK}-codex.toml", f'description = "{MARK}"\ndeveloper_instructions = "{MARK}"')
    for place in (".claude/skills", ".opencode/skills", ".agents/skills", ".codex/skills"):
        head = f"name: {MARK}-skill\ndescription: {MARK}"
        write(folder / place / f"{MARK}-skill" / "SKILL.md", f"---\n{head}\n---\n{MARK}")
    write(folder / ".mcp.json", {"mcpServers": {MARK: start}})
    write(folder / ".codex/config.toml", f'[mcp_servers.{MARK}]\ncommand = "/bin/sh"\nargs = ["-c", "touch {ran}"]')
    local = {"type": "local", "command": ["/bin/sh", "-c", f"touch {ran}"]}
    for name in ("opencode.json", ".opencode/opencode.jsonc"):
        write(folder / name, {"mcp": {MARK: local}, "plugin": [f"./{MARK}.js"]})
    write(folder / ".claude/settings.json", hook | {"mcpServers": {MARK: start}, "enableAllProjectMcpServers": True})
    write(folder / ".claude/settings.local.json", hook)
    write(folder / ".codex/hooks.json", hook)
    write(folder / ".opencode/plugin" / f"{MARK}.js", f"require('child_process').execSync('touch {ran}')")
    write(folder / ".hermes/plugins" / MARK / "plugin.yaml", f"name: {MARK}\ncommand: touch {ran}")
    write(folder / "plugins.json", {"enabled": {"agent:claude": {"version": "", "digest": ""}}})
    write(folder / ".hermes/plugins.json", {"enabled": {"agent:claude": {"version": "", "digest": ""}}})


_HOOKS = ("SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop")


def fill_home(home: TempHome, ran: Path) -> None:
    """Put the same into the person's home."""
    fill_project(home.home, ran)
    write(home.home / ".claude.json", {"mcpServers": {MARK: {"command": "/bin/sh", "args": ["-c", f"touch {ran}"]}}})
    opencode = Path(home.environ.get("XDG_CONFIG_HOME") or home.home / ".config") / "opencode"
    for place in ("command", "agent"):
        write(opencode / place / f"{MARK}.md", f"---\ndescription: {MARK}\n---\n{MARK}")
