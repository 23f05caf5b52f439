"""Hooks in the manner of people who wrote theirs for Claude Code: shell with jq, Python, node, one-liners.

Each is a scene: the settings' hooks, their scripts, what the model calls, and what its public documentation says that
comes of it, but with guards that fail closed and nothing widened.
"""

import json
from collections.abc import Mapping

from msgspec import Struct

from hermes.testing.script import Call


class Scene(Struct, frozen=True, kw_only=True):
    """A hook, what it meets, and what is to come of it."""

    name: str
    hooks: Mapping[str, object]
    scripts: Mapping[str, str] = {}
    """By the name that `<name>` in a command stands for; outside of the workspace."""
    files: Mapping[str, str] = {}
    """In the workspace."""
    calls: tuple[Call, ...] = ()
    needs: tuple[str, ...] = ()
    messages: tuple[str, ...] = ("go",)
    refused: int = 0
    told: tuple[str, ...] = ()
    """Texts that the model is sent."""
    untold: tuple[str, ...] = ()
    shown: tuple[str, ...] = ()
    """Texts that the person is shown."""
    made: Mapping[str, str] = {}
    """Texts that files hold in the end, by their paths below the workspace."""
    absent: tuple[str, ...] = ()
    is_stopped: bool = False
    """Whether the last turn ends by a hook."""
    requests: int = 0
    """How many requests the model gets; 0: any number."""


def on(event: str, command: str, matcher: str = "", **fields: object) -> dict[str, object]:
    """Return settings with one hook."""
    handler = {"type": "command", "command": command, **fields}
    return {event: [{**({"matcher": matcher} if matcher else {}), "hooks": [handler]}]}


def say(event: str, **fields: object) -> str:
    return json.dumps({"hookSpecificOutput": {"hookEventName": event, **fields}})


WRITE = Call("write_file", {"path": "notes.txt", "content": "one\n"})
ENV = Call("write_file", {"path": ".env.local", "content": "A=1\n"})
ECHO = Call("terminal", {"command": "echo hello > out.txt"})
READ = Call("read_file", {"path": "data.txt"})
DATA = {"data.txt": "payload-17\n"}
JQ_GUARD = """#!/bin/bash
INPUT=$(cat)
COMMAND=$(echo "$INPUT" | jq -r '.tool_input.command // empty')
if [[ "$COMMAND" =~ out\\.txt ]]; then
  jq -n '{hookSpecificOutput: {hookEventName: "PreToolUse", permissionDecision: "deny",
    permissionDecisionReason: "out.txt is made by the build"}}'
fi
exit 0
"""
PYTHON_GUARD = """#!/usr/bin/env python3
import json, sys
data = json.load(sys.stdin)
path = data["tool_input"].get("file_path", "")
if ".env" in path or path.endswith(".lock"):
    print("no edits of " + path.rsplit("/", 1)[-1], file=sys.stderr)
    sys.exit(2)
"""
NODE_GUARD = """#!/usr/bin/env node
let text = '';
process.stdin.on('data', (part) => (text += part));
process.stdin.on('end', () => {
  const call = JSON.parse(text);
  if (call.tool_name === 'Write' && !call.tool_input.content.startsWith('# ')) {
    process.stdout.write(JSON.stringify({decision: 'block', reason: 'begin with a heading'}));
  }
});
"""
STOP_TESTS = """#!/bin/bash
active=$(python3 -c 'import json,sys; print(json.load(sys.stdin)["stop_hook_active"])')
[ "$active" = "True" ] && exit 0
if ! sh "$CLAUDE_PROJECT_DIR/run-tests.sh" >/dev/null 2>&1; then
  echo "the tests fail: mend them first" >&2
  exit 2
fi
"""
TRANSCRIPT = """#!/usr/bin/env python3
import json, sys
told = json.load(sys.stdin)
rows = [json.loads(line) for line in open(told["transcript_path"])]
first = rows[0]["message"]["content"]
text = first if isinstance(first, str) else first[0]["text"]
open(told["cwd"] + "/seen.txt", "w").write(rows[0]["type"] + ":" + text)
"""
CHECK_AFTER = """#!/bin/bash
file=$(jq -r '.tool_input.file_path')
if grep -q one "$file"; then echo "line 1: say two, not one" >&2; exit 2; fi
"""
FORMATTER = """#!/bin/bash
jq -r '.tool_input.file_path' | { read -r path; sed -i 's/one/formatted/' "$path"; }
"""
TWICE = """#!/usr/bin/env python3
import json, sys
first, second = sys.stdin.read(), sys.stdin.read()
assert not second
print(json.dumps({"decision": "approve", "reason": json.loads(first)["tool_name"]}))
"""
LOG_THEN_JSON = """#!/bin/bash
cat > /dev/null
echo "checking the command"
echo '{"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "deny"}}'
"""

SCENES = (
    Scene(
        name="a guard with jq answers deny",
        hooks=on("PreToolUse", "<guard.sh>", "Bash"),
        scripts={"guard.sh": JQ_GUARD},
        calls=(ECHO,),
        needs=("jq",),
        refused=1,
        told=("out.txt is made by the build",),
        absent=("out.txt",),
    ),
    Scene(
        name="a guard in Python keeps files",
        hooks=on("PreToolUse", "python3 <guard.py>", "Edit|MultiEdit|Write"),
        scripts={"guard.py": PYTHON_GUARD},
        calls=(ENV, WRITE),
        refused=1,
        told=("no edits of .env.local",),
        absent=(".env.local",),
        made={"notes.txt": "one"},
    ),
    Scene(
        name="a guard in node blocks in the old form",
        hooks=on("PreToolUse", "node <guard.js>", "Write"),
        scripts={"guard.js": NODE_GUARD},
        calls=(WRITE,),
        needs=("node",),
        refused=1,
        told=("begin with a heading",),
        absent=("notes.txt",),
    ),
    Scene(
        name="a one-liner in the settings exits with 2",
        hooks=on(
            "PreToolUse",
            "python3 -c \"import json, sys; path=json.load(sys.stdin).get('tool_input',{}).get('file_path','');"
            " sys.exit(2 if any(p in path for p in ['.env', '.git/']) else 0)\"",
            "Edit|Write",
        ),
        calls=(ENV, WRITE),
        refused=1,
        absent=(".env.local",),
        made={"notes.txt": "one"},
    ),
    Scene(
        name="commands are logged by a pipe, and the log changes nothing",
        hooks=on("PreToolUse", "jq -r '.tool_input.command' >> \"$CLAUDE_PROJECT_DIR/commands.log\"", "Bash"),
        files={"commands.log": "begin\n"},
        calls=(ECHO, Call("terminal", {"command": "true again"})),
        needs=("jq",),
        made={"commands.log": "echo hello > out.txt\ntrue again", "out.txt": "hello"},
    ),
    Scene(
        name="tee writes a log beside",
        hooks=on("PreToolUse", "cat | tee -a $HOME/calls.log > /dev/null", "*"),
        calls=(ECHO, WRITE, Call("terminal", {"command": "true"})),
        made={"out.txt": "hello", "notes.txt": "one", "../home/calls.log": '"tool_name":"Write"'},
    ),
    Scene(
        name="a formatter after edits",
        hooks=on("PostToolUse", "<format.sh>", "Edit|Write"),
        scripts={"format.sh": FORMATTER},
        calls=(WRITE,),
        needs=("jq",),
        made={"notes.txt": "formatted"},
    ),
    Scene(
        name="a check after edits tells the model",
        hooks=on("PostToolUse", "<check.sh>", "Write"),
        scripts={"check.sh": CHECK_AFTER},
        calls=(WRITE,),
        needs=("jq",),
        told=("line 1: say two, not one",),
        made={"notes.txt": "one"},
    ),
    Scene(
        name="a block after a call is feedback",
        hooks=on(
            "PostToolUse", "echo '" + json.dumps({"decision": "block", "reason": "run the linter"}) + "'", "Write"
        ),
        calls=(WRITE,),
        told=("run the linter",),
        made={"notes.txt": "one"},
    ),
    Scene(
        name="context after a call",
        hooks=on("PostToolUse", f"echo '{say('PostToolUse', additionalContext='two tests cover it')}'", "Read"),
        files=DATA,
        calls=(READ,),
        told=("two tests cover it", "payload-17"),
    ),
    Scene(
        name="a result is replaced after a call",
        hooks=on("PostToolUse", f"echo '{say('PostToolUse', updatedToolOutput='[left out]')}'", "Read"),
        files=DATA,
        calls=(READ,),
        told=("[left out]",),
        untold=("payload-17",),
    ),
    Scene(
        name="context at the start as plain text",
        hooks=on("SessionStart", "echo Branch: main; echo Open issues: 4", "startup"),
        told=("Branch: main", "Open issues: 4"),
    ),
    Scene(
        name="context at the start as JSON",
        hooks=on("SessionStart", f"echo '{say('SessionStart', additionalContext='use pnpm')}'"),
        told=("use pnpm",),
    ),
    Scene(
        name="a start of another kind is not meant",
        hooks=on("SessionStart", "echo resumed-only", "resume|clear"),
        untold=("resumed-only",),
    ),
    Scene(
        name="context with each message",
        hooks=on("UserPromptSubmit", 'echo "The clock says noon."'),
        told=("The clock says noon.",),
    ),
    Scene(
        name="a message is blocked by JSON",
        hooks=on("UserPromptSubmit", "<check.py>"),
        scripts={
            "check.py": "#!/usr/bin/env python3\nimport json, sys, re\n"
            "if re.search(r'(?i)password\\s*=', json.load(sys.stdin)['prompt']):\n"
            "    print(json.dumps({'decision': 'block', 'reason': 'take the password out'}))\n"
        },
        messages=("password = fish",),
        is_stopped=True,
        shown=("take the password out",),
        untold=("fish",),
    ),
    Scene(
        name="a message is blocked by exit code 2",
        hooks=on("UserPromptSubmit", "grep -qv secret-word || { echo 'not that' >&2; exit 2; }"),
        messages=("the secret-word",),
        is_stopped=True,
        shown=("not that",),
        untold=("secret-word",),
    ),
    Scene(
        name="tests run before an end, once",
        hooks=on("Stop", "<stop.sh>"),
        scripts={"stop.sh": STOP_TESTS},
        files={"run-tests.sh": "exit 1\n"},
        told=("the tests fail: mend them first",),
        requests=2,
    ),
    Scene(
        name="tests that pass end the turn",
        hooks=on("Stop", "<stop.sh>"),
        scripts={"stop.sh": STOP_TESTS},
        files={"run-tests.sh": "exit 0\n"},
        requests=1,
    ),
    Scene(
        name="a stop is blocked by JSON, and never for ever",
        hooks=on("Stop", "echo '" + json.dumps({"decision": "block", "reason": "go on"}) + "'"),
        told=("go on",),
        requests=9,
    ),
    Scene(
        name="the transcript is read",
        hooks=on("PreToolUse", "<read.py>", "Bash"),
        scripts={"read.py": TRANSCRIPT},
        calls=(ECHO,),
        messages=("remember the fern",),
        made={"seen.txt": "user:remember the fern", "out.txt": "hello"},
    ),
    Scene(
        name="arguments are changed",
        hooks=on(
            "PreToolUse",
            f"echo '{say('PreToolUse', permissionDecision='allow', updatedInput={'command': 'echo other > out.txt'})}'",
            "Bash",
        ),
        calls=(ECHO,),
        made={"out.txt": "other"},
        told=("changed the arguments",),
    ),
    Scene(
        name="an ask has nobody to ask",
        hooks=on("PreToolUse", f"echo '{say('PreToolUse', permissionDecision='ask')}'", "Bash"),
        calls=(ECHO,),
        refused=1,
        absent=("out.txt",),
    ),
    Scene(
        name="an allow lifts no question",
        hooks=on("PreToolUse", f"echo '{say('PreToolUse', permissionDecision='allow')}'", "Bash"),
        calls=(Call("terminal", {"command": "git push --force"}),),
        refused=1,
    ),
    Scene(
        name="a yes to a question lifts it not",
        hooks=on("PermissionRequest", f"echo '{say('PermissionRequest', decision={'behavior': 'allow'})}'", "Bash"),
        calls=(Call("terminal", {"command": "git push --force"}),),
        refused=1,
    ),
    Scene(
        name="a no to a question",
        hooks=on(
            "PermissionRequest",
            f"echo '{say('PermissionRequest', decision={'behavior': 'deny', 'message': 'by hand only'})}'",
            "Bash",
        ),
        calls=(Call("terminal", {"command": "git push --force"}),),
        refused=1,
        told=("by hand only",),
    ),
    Scene(
        name="the turn ends by continue: false",
        hooks=on("PreToolUse", "echo '" + json.dumps({"continue": False, "stopReason": "enough for today"}) + "'"),
        calls=(ECHO,),
        refused=1,
        is_stopped=True,
        shown=("enough for today",),
        absent=("out.txt",),
    ),
    Scene(
        name="a line for the person",
        hooks=on(
            "PostToolUse", "echo '" + json.dumps({"systemMessage": "coverage fell", "suppressOutput": True}) + "'"
        ),
        calls=(ECHO,),
        shown=("coverage fell",),
        untold=("coverage fell",),
    ),
    Scene(
        name="a missing script is a no",
        hooks=on("PreToolUse", '"$CLAUDE_PROJECT_DIR"/.claude/hooks/guard.sh', "Bash"),
        calls=(ECHO,),
        refused=1,
        absent=("out.txt",),
    ),
    Scene(
        name="exit code 1 of a guard is a no",
        hooks=on("PreToolUse", "cat > /dev/null; exit 1", "Bash"),
        calls=(ECHO,),
        refused=1,
        absent=("out.txt",),
    ),
    Scene(
        name="exit code 1 of an observer is a line",
        hooks=on("PostToolUse", "echo broken >&2; exit 1", "Bash"),
        calls=(ECHO,),
        shown=("broken",),
        untold=("broken",),
        made={"out.txt": "hello"},
    ),
    Scene(
        name="the input is read twice",
        hooks=on("PreToolUse", "<twice.py>", "Bash"),
        scripts={"twice.py": TWICE},
        calls=(ECHO,),
        made={"out.txt": "hello"},
    ),
    Scene(
        name="the input is not read at all, and is large",
        hooks=on("PreToolUse", "exit 0", "Write"),
        calls=(Call("write_file", {"path": "big.txt", "content": "x" * 300_000}),),
        made={"big.txt": "xxx"},
    ),
    Scene(
        name="a guard that writes without end is a no",
        hooks=on("PreToolUse", "yes", "Bash"),
        calls=(ECHO,),
        refused=1,
        absent=("out.txt",),
    ),
    Scene(
        name="much context goes to a file",
        hooks=on("UserPromptSubmit", "python3 -c \"print('word ' * 5000)\""),
        told=("tokens are in",),
        untold=("word " * 1000,),
    ),
    Scene(
        name="JSON behind lines of a log is text, which decides nothing",
        hooks=on("PreToolUse", "<log.sh>", "Bash"),
        scripts={"log.sh": LOG_THEN_JSON},
        calls=(ECHO,),
        made={"out.txt": "hello"},
    ),
    Scene(
        name="a guard whose JSON is broken is a no",
        hooks=on("PreToolUse", 'echo \'{"decision": "approve"\'', "Bash"),
        calls=(ECHO,),
        refused=1,
        absent=("out.txt",),
    ),
    Scene(
        name="an answer for another event is a no",
        hooks=on("PreToolUse", f"echo '{say('PostToolUse', additionalContext='x')}'", "Bash"),
        calls=(ECHO,),
        refused=1,
    ),
    Scene(
        name="a rule narrows a guard to some commands",
        hooks=on("PreToolUse", "echo 'no pushes' >&2; exit 2", "Bash", **{"if": "Bash(git push*)"}),
        calls=(ECHO, Call("terminal", {"command": "cd . && git push origin main"})),
        refused=1,
        told=("no pushes",),
        made={"out.txt": "hello"},
    ),
    Scene(
        name="a rule for edits of some files",
        hooks=on("PreToolUse", "exit 2", "Edit|Write", **{"if": "Edit(*.txt)"}),
        calls=(WRITE, Call("write_file", {"path": "notes.md", "content": "one\n"})),
        refused=1,
        absent=("notes.txt",),
        made={"notes.md": "one"},
    ),
    Scene(
        name="nobody waits for an async hook",
        hooks=on("PreToolUse", "cat > /dev/null; sleep 30; exit 2", "Bash", **{"async": True}),
        calls=(ECHO,),
        made={"out.txt": "hello"},
    ),
    Scene(
        name="bash is the shell",
        hooks=on("PreToolUse", '[[ "$(cat)" == *\'"tool_name":"Bash"\'* ]] && exit 2 || exit 0', "Bash"),
        calls=(ECHO,),
        refused=1,
        told=("it gave no reason",),
    ),
    Scene(
        name="a notifier that has no desktop",
        hooks=on("Notification", "notify-send 'Hermes' 'look' 2>/dev/null || true", "permission_prompt"),
        calls=(ECHO,),
        made={"out.txt": "hello"},
    ),
    Scene(
        name="a matcher with a regular expression",
        hooks=on("PreToolUse", "exit 2", "^(Write|mcp__memory__.*)$"),
        calls=(WRITE, ECHO),
        refused=1,
        absent=("notes.txt",),
        made={"out.txt": "hello"},
    ),
    Scene(
        name="a script of the project by a relative path",
        hooks=on("PreToolUse", "sh scripts/guard.sh", "Bash"),
        files={"scripts/guard.sh": "cat > /dev/null; echo 'by the project' >&2; exit 2\n"},
        calls=(ECHO,),
        refused=1,
        told=("by the project",),
    ),
    Scene(
        name="a script below the folder that the command changes to",
        hooks=on("PreToolUse", 'cd "$CLAUDE_PROJECT_DIR/scripts" && ./guard.sh', "Bash"),
        files={"scripts/guard.sh": "#!/bin/sh\necho 'from its folder' >&2; exit 2\n"},
        calls=(ECHO,),
        refused=1,
        told=("from its folder",),
    ),
    Scene(
        name="a request is not made shorter",
        hooks=on("PreCompact", "echo '" + json.dumps({"decision": "block", "reason": "later"}) + "'", "manual|auto"),
    ),
    Scene(
        name="a sub-agent's end is none of this turn",
        hooks=on("SubagentStop", "echo '" + json.dumps({"decision": "block", "reason": "not-for-this-turn"}) + "'"),
        untold=("not-for-this-turn",),
        requests=1,
    ),
    Scene(
        name="a handler of another type is refused by name",
        hooks={"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "prompt", "prompt": "Is it safe?"}]}]},
        calls=(ECHO,),
        made={"out.txt": "hello"},
        shown=("prompt",),
    ),
    Scene(
        name="a guard that takes too long is a no",
        hooks=on("PreToolUse", "sleep 60", "Bash", timeout=0.3),
        calls=(ECHO,),
        refused=1,
        absent=("out.txt",),
    ),
)
