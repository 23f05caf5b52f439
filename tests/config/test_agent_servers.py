"""MCP servers of other agents' files: how each format is read, and that a yes holds for a definition as it is."""

import json
import os
from pathlib import Path

import pytest

from hermes.config.agent_servers import (
    AgentServer,
    agree_to_server,
    forget_server,
    has_server_changed,
    is_agreed_server,
    list_agent_servers,
    list_unread_keys,
    list_usable_servers,
    refuse_server,
)
from hermes.config.home import HermesHome
from hermes.config.other_agents import OTHER_AGENTS, agree_to_agent
from hermes.config.settings import McpServerSettings
from hermes.config.trusted_folders import set_trust

CLAUDE, CODEX, OPENCODE = OTHER_AGENTS
SECRET = "tok-" + os.urandom(12).hex()


def read(folder: Path, name: str, text: object, agent: object = CLAUDE, **environ: str) -> dict[str, AgentServer]:
    """The servers of one file of a project, by name."""
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text if isinstance(text, str) else json.dumps(text))
    assert agent in OTHER_AGENTS
    found = list_agent_servers(agent, {"HOME": "/nowhere", **environ}, str(folder), has_project=True)  # type: ignore[arg-type]
    return {one.name: one for one in found}


def test_claude_code(tmp_path: Path) -> None:
    servers = {
        "one": {
            "command": "${BIN:-node}",
            "args": ["${ROOT}/x.js", "${CLAUDE_PROJECT_DIR}/y", "${NONE:-}"],
            "env": {"A": "${KEY}", "B": "${NONE:-b}", "C": "${ROOT:-c}", "N": 3},
            "timeout": 5000,
        },
        "two": {"type": "http", "url": "${BASE:-https://h}/mcp", "headers": {"Authorization": "Bearer ${KEY}"}},
        "sse": {"type": "sse", "url": "https://h/sse"},
        "socket": {"type": "ws", "url": "wss://h"},
        "helped": {"type": "http", "url": "https://h", "headersHelper": "sh x"},
        "unset": {"command": "x", "args": ["${NOT_SET}"]},
        "none": {},
        "wrong": "text",
    }
    found = read(tmp_path, ".mcp.json", {"mcpServers": servers}, ROOT="/r", KEY=SECRET)
    work = str(tmp_path)
    one = found["one"].settings
    assert (one.command, one.args, one.cwd) == ("node", ("/r/x.js", f"{work}/y", ""), work)
    assert dict(one.env) == {"A": "${KEY}", "B": "b", "C": "${ROOT}", "N": "3"} and one.timeout == 5.0
    assert found["one"].variables == ("KEY", "ROOT") and found["one"].is_project
    two = found["two"].settings
    assert (two.url, dict(two.headers)) == ("https://h/mcp", {"Authorization": "Bearer ${KEY}"})
    assert found["sse"].settings.url == "https://h/sse"
    problems = {name: server.problem for name, server in found.items() if server.problem}
    assert sorted(problems) == ["helped", "none", "socket", "unset"] and "NOT_SET" in problems["unset"]
    assert SECRET not in repr(found)


def test_codex(tmp_path: Path) -> None:
    text = """
        model = "x"
        [mcp_servers.one]
        command = "./bin/serve"
        args = ["a"]
        cwd = "sub"
        env_vars = ["MINE", {name = "THEIRS"}]
        enabled_tools = ["read"]
        disabled_tools = ["drop"]
        startup_timeout_sec = 20
        tool_timeout_sec = 90
        [mcp_servers.one.env]
        PLAIN = "p"
        [mcp_servers.two]
        url = "https://h/mcp"
        bearer_token_env_var = "KEY"
        enabled = false
        env_http_headers = {"X-One" = "ONE"}
        [mcp_servers.far]
        command = "x"
        environment_id = "cloud"
    """
    found = read(tmp_path, ".codex/config.toml", text, CODEX, MINE="m")
    one, two = found["one"].settings, found["two"].settings
    assert (one.command, one.cwd) == (f"{tmp_path}/sub/bin/serve", f"{tmp_path}/sub")
    assert dict(one.env) == {"MINE": "${MINE}", "THEIRS": "", "PLAIN": "p"}
    assert (one.tools.include, one.tools.exclude) == (("read",), ("drop",))
    assert (one.connect_timeout, one.timeout) == (20, 90)
    assert not two.enabled and dict(two.headers) == {"X-One": "${ONE}", "Authorization": "Bearer ${KEY}"}
    assert found["far"].problem


@pytest.mark.parametrize("nested", [False, True])
def test_opencode(tmp_path: Path, nested: bool) -> None:
    servers = """{
        // a comment
        "one": {"type": "local", "command": ["npx", "-y", "{env:PACKAGE}"], "environment": {"K": "{env:KEY}"},},
        "two": {"type": "remote", "url": "https://h", "headers": {"A": "Bearer {env:KEY}"}, "enabled": false},
        "file": {"type": "local", "command": ["x", "{file:~/key}"]},
    }"""
    text = f'{{"mcp": {{"servers": {servers}, "timeout": 3}}}}' if nested else f'{{"mcp": {servers}}}'
    found = read(tmp_path, "opencode.jsonc", text, OPENCODE, PACKAGE="p", KEY=SECRET)
    one = found["one"].settings
    assert (one.command, one.args, dict(one.env)) == ("npx", ("-y", "p"), {"K": "${KEY}"})
    assert not found["two"].settings.enabled and dict(found["two"].settings.headers) == {"A": "Bearer ${KEY}"}
    assert "file" in found["file"].problem


def test_what_opencodes_file_holds_beside_servers_is_named(tmp_path: Path) -> None:
    file = tmp_path / "opencode" / "opencode.jsonc"
    file.parent.mkdir()
    file.write_text('{"agent": {"a": {}}, "plugin": ["x"], "theme": "t", // c\n "mcp": {}}')
    environ = {"HOME": "/nowhere", "XDG_CONFIG_HOME": str(tmp_path)}
    found = [name for name, _ in list_unread_keys(OPENCODE, environ)]
    assert found == ["opencode.jsonc: agent", "opencode.jsonc: plugin"]
    assert list_unread_keys(CLAUDE, environ) == []


def test_a_file_that_cannot_be_read_names_no_server(tmp_path: Path) -> None:
    for text in ("", "[]", "{", '{"mcpServers": []}', '{"mcpServers": {"a": 1}}', "[" * 100_000):
        assert read(tmp_path, ".mcp.json", text) == {}
    (tmp_path / ".mcp.json").unlink()
    os.mkfifo(tmp_path / ".mcp.json")
    assert list_agent_servers(CLAUDE, {"HOME": "/nowhere"}, str(tmp_path), has_project=True) == []


def test_claude_codes_own_file_has_servers_for_all_projects_and_for_this_one(tmp_path: Path) -> None:
    document = {
        "mcpServers": {"all": {"command": "x"}},
        "projects": {"/work": {"mcpServers": {"here": {"command": "y"}}}, "/else": {"mcpServers": {"no": {}}}},
    }
    (tmp_path / ".claude.json").write_text(json.dumps(document))
    found = list_agent_servers(CLAUDE, {"HOME": str(tmp_path)}, "/work", has_project=True)
    assert [(one.name, one.is_project, one.settings.cwd) for one in found] == [
        ("all", False, ""),
        ("here", False, "/work"),
    ]


def test_a_server_is_used_after_its_yes_and_asks_again_when_it_has_changed(tmp_path: Path) -> None:
    home, work = HermesHome(tmp_path / "hermes"), tmp_path / "work"
    home.root.mkdir()
    work.mkdir()
    environ = {"HOME": str(tmp_path)}
    (work / "serve.py").write_text("1")
    (work / "other.py").write_text("1")

    def write(**server: object) -> None:
        (work / ".mcp.json").write_text(json.dumps({"mcpServers": {"one": server}}))

    def look() -> tuple[list[str], list[str]]:
        agreed, waiting = list_usable_servers(home, environ, str(work))
        return [one.name for one in agreed], [one.name for one in waiting]

    write(command="python", args=["serve.py"])
    assert look() == ([], [])
    agree_to_agent(home, CLAUDE)
    assert look() == ([], []), "the folder is not trusted"
    set_trust(home.trust_file, str(work), trusted=True)
    assert look() == ([], ["one"])
    _, (server,) = list_usable_servers(home, environ, str(work))
    refuse_server(home, server)
    assert look() == ([], []), "a no is not told again"
    forget_server(home, server)
    assert look() == ([], ["one"])
    refuse_server(home, server)
    agree_to_server(home, server)
    assert look() == (["one"], []) and is_agreed_server(home, server)
    (work / "other.py").write_text("2")
    assert look() == (["one"], [])
    (work / "serve.py").write_text("2")
    assert look() == ([], ["one"]), "the program that it names has changed"
    (work / "serve.py").write_text("1")
    assert look() == (["one"], [])
    write(command="python", args=["serve.py"], env={"A": "b"})
    assert look() == ([], ["one"])
    write(command="python", args=["serve.py"])
    set_trust(home.trust_file, str(work), trusted=False)
    assert look() == ([], [])


def test_a_program_above_the_servers_folder_is_compared_too(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "serve.js").write_text("1")
    definition = {"command": "node", "args": ["../serve.js"], "cwd": "sub"}
    first = read(tmp_path, ".mcp.json", {"mcpServers": {"s": definition}})["s"]
    environ = {"HOME": "/nowhere"}
    assert not has_server_changed(first, environ, str(tmp_path))
    (tmp_path / "serve.js").write_text("2")
    assert has_server_changed(first, environ, str(tmp_path))
    (tmp_path / "serve.js").write_text("1")
    assert not has_server_changed(first, environ, str(tmp_path))
    (tmp_path / ".mcp.json").unlink()
    assert has_server_changed(first, environ, str(tmp_path))


def test_the_yes_is_for_one_folder(tmp_path: Path) -> None:
    """A project that is copied with its file is asked about by itself."""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / ".mcp.json").write_text('{"mcpServers": {"s": {"command": "x"}}}')
    first, second = (
        list_agent_servers(CLAUDE, {"HOME": "/nowhere"}, str(tmp_path / name), has_project=True)[0]
        for name in ("one", "two")
    )
    assert first.consent_key != second.consent_key and first.digest != second.digest
    assert first.settings == McpServerSettings(command="x", cwd=str(tmp_path / "one"))
