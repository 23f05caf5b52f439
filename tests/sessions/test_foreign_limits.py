"""Agents of other programs: no limit of their files is lost."""

import pytest

from hermes.sessions.features.foreign_limits import ForeignLimits, read_foreign_limits


@pytest.mark.parametrize(
    ("fields", "tools", "without"),
    [
        ({}, None, ()),
        ({"tools": "Read"}, None, ()),
        ({"disallowedTools": "[Bash(rm *), WebFetch]"}, None, ("Bash", "WebFetch")),
        ({"disallowedTools": "Write"}, None, ("Write", "write_file", "patch")),
        ({"disallowedTools": "mcp__github__drop, mcp__docs"}, None, ("mcp-github", "mcp-docs")),
        ({"tools": "", "tools.write": "false", "tools.read": "true"}, None, ("write", "write_file", "patch")),
        ({"tools.*": "false", "tools.read": "true"}, ("read",), ()),
        ({"permission.edit": "deny", "permission.bash": "ask"}, None, ("edit", "write_file", "patch")),
        ({"permission.bash": "", "permission.bash.*": "allow", "permission.bash.rm *": "deny"}, None, ("bash",)),
        ({"permission.*": "deny", "permission.read": "allow", "permission.bash.git *": "allow"}, ("read",), ()),
        ({"sandbox_mode": "read-only"}, None, ("write_file", "patch", "terminal", "process")),
        ({"permissionMode": "plan"}, None, ("write_file", "patch", "terminal", "process")),
        ({"permissionMode": "bypassPermissions", "sandbox_mode": "danger-full-access"}, None, ()),
    ],
)
def test_what_limits_mean(fields: dict[str, str], tools: tuple[str, ...] | None, without: tuple[str, ...]) -> None:
    assert read_foreign_limits(fields) == ForeignLimits(tools=tools, without=without)


@pytest.mark.parametrize(
    "fields",
    [
        {"permissions": "action: shell"},
        {"permissions.effect": "deny"},
        {"permission": "deny"},
        {"permission.mymcp_*": "deny"},
        {"tools.mymcp_*": "false"},
        {"disabled": "true"},
        {"disable": "true"},
        {"mode": "primary"},
    ],
)
def test_what_is_not_known_keeps_an_agent_from_being_used(fields: dict[str, str]) -> None:
    assert read_foreign_limits(fields).problem
