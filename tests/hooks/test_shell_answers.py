"""What the end of a program means at each kind of event."""

import json

import msgspec
import pytest

from hermes.hooks.definitions import FOREIGN_EVENTS, HookDefinition, read_definitions
from hermes.hooks.events import HookEvent
from hermes.hooks.foreign_tools import ForeignCall, list_foreign_calls, to_own_arguments
from hermes.hooks.hook import HookCall, HookDecision, HookError, HookOutcome
from hermes.hooks.shell_answers import ProgramEnd, build_input, read_end


def hook(name: str) -> HookDefinition:
    (found,) = read_definitions({name: [{"command": "x"}]}).hooks
    return found


def end(output: object = "", errors: str = "", code: int = 0) -> ProgramEnd:
    return ProgramEnd(code, output if isinstance(output, str) else json.dumps(output), errors)


def specific(event: str, **fields: object) -> dict[str, object]:
    return {"hookSpecificOutput": {"hookEventName": event, **fields}}


NONE, ASK, DENY = HookDecision.NONE, HookDecision.ASK, HookDecision.DENY


@pytest.mark.parametrize(
    ("name", "ended", "expected"),
    [
        ("PreToolUse", end(), HookOutcome()),
        ("PreToolUse", end("looks good"), HookOutcome()),
        ("PreToolUse", end("[1, 2]"), HookOutcome()),
        ("PreToolUse", end(errors="why", code=2), HookOutcome(decision=DENY, reason="why")),
        ("PreToolUse", end(code=2), HookOutcome(decision=DENY, reason="it gave no reason")),
        (
            "PreToolUse",
            end(specific("PreToolUse", permissionDecision="deny", permissionDecisionReason="no")),
            HookOutcome(decision=DENY, reason="no"),
        ),
        ("PreToolUse", end(specific("PreToolUse", permissionDecision="allow")), HookOutcome()),
        ("PreToolUse", end(specific("PreToolUse", permissionDecision="ask")), HookOutcome(decision=ASK)),
        ("PreToolUse", end(specific("PreToolUse", permissionDecision="defer")), HookOutcome(decision=ASK)),
        ("PreToolUse", end({"decision": "block", "reason": "r"}), HookOutcome(decision=DENY, reason="r")),
        ("PreToolUse", end({"decision": "approve"}), HookOutcome()),
        ("pre_tool_call", end({"action": "block", "message": "m"}), HookOutcome(decision=DENY, reason="m")),
        ("PreToolUse", end(specific("PreToolUse", updatedInput={"a": 1})), HookOutcome(arguments={"a": 1})),
        ("PreToolUse", end({"suppressOutput": True, "systemMessage": "hi"}), HookOutcome(notice="hi")),
        (
            "PreToolUse",
            end({"continue": False, "stopReason": "enough"}),
            HookOutcome(decision=DENY, reason="enough", ends_turn=True),
        ),
        ("PostToolUse", end(errors="lint", code=2), HookOutcome(context="lint")),
        ("PostToolUse", end({"decision": "block", "reason": "lint"}), HookOutcome(reason="lint", context="lint")),
        ("PostToolUse", end(specific("PostToolUse", additionalContext="c")), HookOutcome(context="c")),
        ("PostToolUse", end(specific("PostToolUse", updatedMCPToolOutput="t")), HookOutcome(text="t")),
        ("UserPromptSubmit", end("plain"), HookOutcome(context="plain")),
        ("UserPromptSubmit", end({"decision": "block", "reason": "r"}), HookOutcome(decision=DENY, reason="r")),
        ("SessionStart", end("plain"), HookOutcome(context="plain")),
        ("Stop", end("plain"), HookOutcome()),
        ("Stop", end(errors="tests", code=2), HookOutcome(decision=DENY, reason="tests")),
        ("Stop", end({"decision": "block", "reason": "tests"}), HookOutcome(decision=DENY, reason="tests")),
        ("pre_verify", end({"action": "continue", "message": "more"}), HookOutcome(decision=DENY, reason="more")),
        (
            "PermissionRequest",
            end(specific("PermissionRequest", decision={"behavior": "deny", "message": "m"})),
            HookOutcome(decision=DENY, reason="m"),
        ),
        ("PermissionRequest", end(specific("PermissionRequest", decision={"behavior": "allow"})), HookOutcome()),
        ("Notification", end(errors="x", code=2), HookOutcome(notice="x")),
        ("transform_tool_result", end("new"), HookOutcome(text="new")),
        ("transform_tool_result", end(), HookOutcome()),
        ("transform_tool_result", end({"text": "new"}), HookOutcome(text="new")),
    ],
)
def test_what_an_end_means(name: str, ended: ProgramEnd, expected: HookOutcome) -> None:
    assert read_end(hook(name), ended) == expected


@pytest.mark.parametrize(
    "ended",
    [
        end(code=1),
        end(code=127, errors="not found"),
        end(code=-9),
        end("{"),
        end("{not json}"),
        end('{"decision": 5}'),
        end('{"hookSpecificOutput": []}'),
        end(specific("PostToolUse", permissionDecision="deny")),
        end(specific("PreToolUse", permissionDecision="maybe")),
        end({"decision": "perhaps"}),
        end("{" * 100_000),
    ],
)
def test_an_end_that_is_no_answer_is_an_error(ended: ProgramEnd) -> None:
    with pytest.raises(HookError):
        read_end(hook("PreToolUse"), ended)


@pytest.mark.parametrize("name", FOREIGN_EVENTS)
def test_what_every_event_of_the_other_agent_is_told(name: str) -> None:
    call = HookCall(event=FOREIGN_EVENTS[name], session_id="s", folder="/w", mode="plan", text="t", source="k")
    told = msgspec.json.decode(build_input(hook(name), call, ForeignCall("Bash", {"command": "ls"}), "/t.jsonl"))
    assert told["hook_event_name"] == name and told["transcript_path"] == "/t.jsonl"
    assert told["cwd"] == "/w" and told["permission_mode"] == "plan" and told["tool_name"] == "Bash"


def absolute(path: str) -> str:
    return path if path.startswith("/") else f"/w/{path}"


@pytest.mark.parametrize(
    ("tool", "arguments", "expected"),
    [
        ("terminal", {"command": "ls", "timeout": 5}, [("Bash", {"command": "ls", "timeout": 5000})]),
        ("read_file", {"path": "a", "limit": 2}, [("Read", {"file_path": "/w/a", "limit": 2})]),
        ("write_file", {"path": "a", "content": "c"}, [("Write", {"file_path": "/w/a", "content": "c"})]),
        (
            "patch",
            {"path": "a", "old_string": "x", "new_string": "y"},
            [("Edit", {"file_path": "/w/a", "old_string": "x", "new_string": "y"})],
        ),
        ("search_files", {"pattern": "x", "path": "."}, [("Grep", {"pattern": "x", "path": "/w/."})]),
        ("search_files", {"pattern": "*.py", "target": "files"}, [("Glob", {"pattern": "*.py", "target": "files"})]),
        (
            "web_extract",
            {"urls": ["http://a", "http://b"]},
            [("WebFetch", {"url": "http://a", "prompt": ""}), ("WebFetch", {"url": "http://b", "prompt": ""})],
        ),
        ("delegate_task", {"goal": "g"}, [("Task", {"prompt": "g"})]),
        (
            "delegate_task",
            {"tasks": [{"goal": "g"}, {"goal": "h"}]},
            [("Task", {"prompt": "g"}), ("Task", {"prompt": "h"})],
        ),
        ("process", {"action": "submit", "session_id": "1", "data": "rm x"}, [("Bash", {"command": "rm x"})]),
        ("mcp__files__read", {"path": "a"}, [("mcp__files__read", {"path": "a"})]),
    ],
)
def test_calls_in_the_terms_of_the_other_agent(
    tool: str, arguments: dict[str, object], expected: list[tuple[str, dict[str, object]]]
) -> None:
    assert [(one.name, one.arguments) for one in list_foreign_calls(tool, arguments, absolute)] == expected


def test_a_patch_of_several_files_is_several_calls() -> None:
    parts = ("*** Update File: a.py\n@@\n-x\n+y", "*** Add File: .env\n+KEY=1", "*** Delete File: b")
    patch = "\n".join(("*** Begin Patch", *parts, "*** End Patch"))
    found = list_foreign_calls("patch", {"mode": "patch", "patch": patch}, absolute)
    assert [(one.name, one.arguments["file_path"]) for one in found] == [
        ("Edit", "/w/a.py"),
        ("Write", "/w/.env"),
        ("Edit", "/w/b"),
    ]
    assert found[1].arguments["content"] == "KEY=1"


@pytest.mark.parametrize(
    ("tool", "changed", "expected"),
    [
        ("terminal", {"command": "ls -l", "timeout": 1500}, {"command": "ls -l", "timeout": 2}),
        ("read_file", {"file_path": "/w/b"}, {"path": "/w/b"}),
        ("web_extract", {"url": "http://c", "prompt": ""}, {"urls": ["http://c"]}),
        ("mcp__x__y", {"a": 1}, {"a": 1}),
    ],
)
def test_changed_arguments_come_back(tool: str, changed: dict[str, object], expected: dict[str, object]) -> None:
    (call,) = list_foreign_calls(tool, {"path": "a"} if tool != "web_extract" else {"urls": ["http://c"]}, absolute)
    assert to_own_arguments(tool, call, changed) == expected


def test_an_event_of_hermes_is_told_in_its_own_terms() -> None:
    call = HookCall(event=HookEvent.PRE_TOOL_CALL, tool="terminal", arguments={"command": "ls"}, call_id="c")
    told = msgspec.json.decode(build_input(hook("pre_tool_call"), call, None, ""))
    assert told["tool_name"] == "terminal" and told["tool_input"] == {"command": "ls"}
