"""Hooks as settings describe them."""

import pytest

from hermes.hooks.definitions import DEFAULT_SECONDS, MAX_SECONDS, read_definitions
from hermes.hooks.events import EVENT_TRAITS, HookEvent
from hermes.hooks.matchers import CallRule, MatcherError, ToolMatcher


def test_every_event_has_traits() -> None:
    assert set(EVENT_TRAITS) == set(HookEvent)


def test_both_forms_are_read() -> None:
    found = read_definitions(
        {
            "PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "a"}, {"command": "b"}]}],
            "pre_llm_call": [{"command": "c", "timeout": 5}],
        }
    )
    assert not found.refused
    assert [(one.event, one.command, one.seconds, one.is_foreign) for one in found.hooks] == [
        (HookEvent.PRE_TOOL_CALL, "a", DEFAULT_SECONDS, True),
        (HookEvent.PRE_TOOL_CALL, "b", DEFAULT_SECONDS, True),
        (HookEvent.PRE_LLM_CALL, "c", 5.0, False),
    ]


@pytest.mark.parametrize(
    ("section", "name", "words"),
    [
        ({"WorktreeCreate": [{"command": "x"}]}, "WorktreeCreate", "no such event"),
        ({"Stop": [{"hooks": [{"type": "http", "url": "http://x"}]}]}, "Stop", "'http' are not run"),
        ({"Stop": [{"hooks": [{"type": "prompt", "prompt": "ok?"}]}]}, "Stop", "'prompt' are not run"),
        ({"Stop": [{"hooks": [{"type": "agent"}]}]}, "Stop", "'agent' are not run"),
        ({"Stop": [{"hooks": [{"type": "mcp_tool"}]}]}, "Stop", "'mcp_tool' are not run"),
        ({"Stop": [{"command": ""}]}, "Stop", "no command"),
        ({"Stop": [{"command": "x\0y"}]}, "Stop", "no command"),
        ({"Stop": [{"command": "x", "onError": "go"}]}, "Stop", "'onError' is not known"),
        ({"Stop": [{"command": "x", "timeout": "soon"}]}, "Stop", "`timeout`"),
        ({"Stop": [{"command": "x", "timeout": True}]}, "Stop", "`timeout`"),
        ({"Stop": [{"command": "x", "timeout": -1}]}, "Stop", "`timeout`"),
        ({"Stop": [{"command": "x", "shell": "powershell"}]}, "Stop", "shell"),
        ({"Stop": {"command": "x"}}, "Stop", "no list"),
        ({"Stop": ["x"]}, "Stop", "no mapping"),
        ({"Stop": [{"hooks": "x"}]}, "Stop", "no list"),
        ({"Stop": [{"hooks": ["x"]}]}, "Stop", "no mapping"),
        ({"PreToolUse": [{"matcher": "(", "hooks": [{"command": "x"}]}]}, "PreToolUse", "regular expression"),
        ({"PreToolUse": [{"hooks": [{"command": "x", "if": "(("}]}]}, "PreToolUse", "`if`"),
        ("x", "hooks", "no mapping"),
    ],
)
def test_what_cannot_be_run_is_refused_by_name(section: object, name: str, words: str) -> None:
    found = read_definitions(section)
    assert not found.hooks and [one.name for one in found.refused] == [name] and words in found.refused[0].reason


def test_a_long_time_is_cut() -> None:
    (hook,) = read_definitions({"Stop": [{"command": "x", "timeout": 1e9}]}).hooks
    assert hook.seconds == MAX_SECONDS


@pytest.mark.parametrize(
    ("matcher", "names", "expected"),
    [
        ("", ["terminal", "Bash"], True),
        ("*", ["x"], True),
        ("Bash", ["terminal", "Bash"], True),
        ("terminal", ["terminal", "Bash"], True),
        ("Bas", ["terminal", "Bash"], False),
        ("Edit|Write", ["patch", "Edit", "MultiEdit"], True),
        ("Edit, Write", ["write_file", "Write"], True),
        ("Notebook.*", ["NotebookEdit"], True),
        ("mcp__.*__write.*", ["mcp__files__write_file"], True),
        ("mcp__files", ["mcp__files__write_file"], False),
        ("^Bash$", ["terminal", "Bash"], True),
    ],
)
def test_matchers(matcher: str, names: list[str], *, expected: bool) -> None:
    assert ToolMatcher(matcher).matches(names) is expected


@pytest.mark.parametrize(
    ("rule", "arguments", "expected"),
    [
        ("Bash(git *)", {"command": "git push"}, True),
        ("Bash(git:*)", {"command": "git push"}, True),
        ("Bash(git *)", {"command": "cd x && git push"}, True),
        ("Bash(git *)", {"command": "echo git"}, False),
        ("Bash(npm run test)", {"command": "npm run test"}, True),
        ("Bash", {"command": "ls"}, True),
        ("Edit(*.ts)", {"file_path": "/w/a.ts"}, False),
        ("Bash(git *)", {}, True),
    ],
)
def test_rules(rule: str, arguments: dict[str, object], *, expected: bool) -> None:
    assert CallRule(rule).matches(["terminal", "Bash"], arguments) is expected


def test_a_rule_of_a_file_is_compared_with_its_name() -> None:
    assert CallRule("Edit(*.ts)").matches(["Edit"], {"file_path": "/w/src/a.ts"})
    assert CallRule("Write(src/**)").matches(["Write"], {"file_path": "/w/src/a/b.ts"})
    with pytest.raises(MatcherError):
        CallRule("Bash(")
