"""Hooks in sessions: programs that run for real, beside a scripted model."""

import json
from pathlib import Path

import pytest

from hermes.core.events import Notice, Refused
from hermes.core.outcomes import ExitReason
from hermes.runtime.mailbox import InboundMessage
from hermes.sessions.app import App
from hermes.sessions.options import SessionOptions
from hermes.testing.home import TempHome
from hermes.testing.plugins import enable_plugin
from hermes.testing.script import Call, Say
from hermes.testing.server import ScriptedServer
from tests.hooks.hooked_home import open_hooked

SHELL_CALL = Say(calls=(Call("terminal", {"command": "echo hello > out.txt"}),))
BLOCK = "#!/bin/sh\ncat >/dev/null\necho 'not in this project' >&2\nexit 2\n"


def bash_hook(command: str) -> dict[str, object]:
    return {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": command}]}]}


async def test_a_guard_refuses_a_call_and_the_model_reads_why() -> None:
    async with open_hooked([SHELL_CALL, Say("done")], bash_hook("<guard.sh>"), scripts={"guard.sh": BLOCK}) as hooked:
        events: list[object] = []
        hooked.actor.subscribe(events.append)
        ended = await hooked.actor.post(InboundMessage(text="go"))
        assert ended.text == "done" and ended.refused == 1
        told = hooked.server.requests[1].conversation[-1].text
        assert "not in this project" in told and "Nothing was done" in told
        assert not (hooked.home.cwd / "out.txt").exists()
        refused = [one for one in events if isinstance(one, Refused)]
        assert len(refused) == 1 and "not in this project" in refused[0].reason


async def test_a_call_is_told_in_the_terms_of_the_other_agent() -> None:
    async with open_hooked([SHELL_CALL, Say("done")], bash_hook("<record>")) as hooked:
        await hooked.actor.post(InboundMessage(text="go"))
        (told,) = hooked.read_record()
        assert told["tool_name"] == "Bash" and told["tool_input"] == {"command": "echo hello > out.txt"}
        assert told["hook_event_name"] == "PreToolUse" and told["permission_mode"] == "default"
        assert told["cwd"] == str(hooked.home.cwd) and told["session_id"] == hooked.actor.session_id
        lines = [json.loads(line) for line in Path(str(told["transcript_path"])).read_text().splitlines()]
        assert [one["type"] for one in lines] == ["user", "assistant"]
        assert lines[1]["message"]["content"][0]["name"] == "terminal"
        assert (hooked.home.cwd / "out.txt").read_text() == "hello\n"


async def test_a_hook_that_is_not_enabled_does_not_run() -> None:
    async with open_hooked(
        [SHELL_CALL, Say("done")], bash_hook("<guard.sh>"), scripts={"guard.sh": BLOCK}, enable=False
    ) as hooked:
        await hooked.actor.post(InboundMessage(text="go"))
        assert (hooked.home.cwd / "out.txt").exists()
        assert any("not enabled" in line for line in hooked.notices)


async def test_a_script_that_was_changed_refuses_and_does_not_run() -> None:
    answers = [SHELL_CALL, Say("first"), SHELL_CALL, Say("second")]
    scripts = {"guard.sh": "#!/bin/sh\nexit 0\n"}
    async with open_hooked(answers, bash_hook("<guard.sh>"), scripts=scripts) as hooked:
        await hooked.actor.post(InboundMessage(text="go"))
        (hooked.home.cwd / "out.txt").unlink()
        (hooked.home.home / "hooks/guard.sh").write_text("#!/bin/sh\ntouch ran\n")
        await hooked.actor.post(InboundMessage(text="again"))
        assert "has changed since it was enabled" in hooked.server.requests[3].conversation[-1].text
        assert not (hooked.home.cwd / "out.txt").exists() and not (hooked.home.cwd / "ran").exists()


async def test_arguments_that_a_hook_changes_are_decided_about_anew() -> None:
    answer = {"hookSpecificOutput": {"hookEventName": "PreToolUse", "updatedInput": {"command": "git push --force"}}}
    async with open_hooked(
        [SHELL_CALL, Say("done")],
        bash_hook("<change.sh>"),
        scripts={"change.sh": f"#!/bin/sh\ncat >/dev/null\necho '{json.dumps(answer)}'\n"},
    ) as hooked:
        ended = await hooked.actor.post(InboundMessage(text="go"))
        assert ended.refused == 1  # nobody can be asked about the forced push, and an allow lifts nothing


async def test_an_allow_lifts_nothing() -> None:
    answer = {"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "allow"}}
    push = Say(calls=(Call("terminal", {"command": "git push --force"}),))
    async with open_hooked([push, Say("done")], bash_hook(f"echo '{json.dumps(answer)}'")) as hooked:
        assert (await hooked.actor.post(InboundMessage(text="go"))).refused == 1


async def test_a_question_of_a_hook_is_asked_where_the_rules_allow() -> None:
    answer = {"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "ask"}}
    async with open_hooked([SHELL_CALL, Say("done")], bash_hook(f"echo '{json.dumps(answer)}'")) as hooked:
        assert (await hooked.actor.post(InboundMessage(text="go"))).refused == 1  # nobody is there to be asked


async def test_a_message_that_is_refused_never_reaches_the_model() -> None:
    hooks = {"UserPromptSubmit": [{"hooks": [{"type": "command", "command": "<check.sh>"}]}]}
    script = "#!/bin/sh\nif grep -q hunter2; then echo 'no passwords' >&2; exit 2; fi\n"
    async with open_hooked([Say("hello")], hooks, scripts={"check.sh": script}) as hooked:
        ended = await hooked.actor.post(InboundMessage(text="my password is hunter2"))
        assert ended.reason is ExitReason.HOOK_STOPPED and "no passwords" in ended.error
        assert hooked.server.requests == []
        assert (await hooked.actor.post(InboundMessage(text="hi"))).text == "hello"
        assert "hunter2" not in str(hooked.server.requests[0].body)


async def test_context_is_added_to_the_message_and_the_prompt_stays() -> None:
    hooks = {
        "SessionStart": [{"hooks": [{"type": "command", "command": "echo 'branch: main'"}]}],
        "pre_llm_call": [{"command": 'echo \'{"context": "today is quiet"}\''}],
    }
    async with open_hooked([Say("one"), Say("two")], hooks) as hooked:
        await hooked.actor.post(InboundMessage(text="first"))
        await hooked.actor.post(InboundMessage(text="second"))
        first, second = hooked.server.requests
        assert "branch: main" in str(first.body) and str(second.body).count("branch: main") == 1
        assert str(second.body).count("today is quiet") == 2
        assert first.system == second.system and "branch" not in first.system


async def test_context_beyond_the_budget_goes_to_a_file() -> None:
    hooks = {"pre_llm_call": [{"command": "yes 'a long line of context' | head -n 400"}]}
    async with open_hooked([Say("one")], hooks) as hooked:
        await hooked.actor.post(InboundMessage(text="first"))
        sent = str(hooked.server.requests[0].body)
        assert sent.count("a long line of context") < 100 and "use read_file on it" in sent


async def test_an_answer_goes_on_while_a_hook_says_so() -> None:
    hooks = {"Stop": [{"hooks": [{"type": "command", "command": "<stop.sh>"}]}]}
    script = "#!/bin/sh\nif grep -q '\"stop_hook_active\":false'; then echo 'run the tests' >&2; exit 2; fi\n"
    async with open_hooked([Say("half"), Say("whole")], hooks, scripts={"stop.sh": script}) as hooked:
        ended = await hooked.actor.post(InboundMessage(text="go"))
        assert ended.text == "whole" and ended.calls == 2
        assert "run the tests" in hooked.server.requests[1].conversation[-1].text


async def test_results_and_answers_are_redacted_by_transforms() -> None:
    hooks = {
        "transform_tool_result": [{"matcher": "terminal", "command": "echo 'output hidden'"}],
        "transform_llm_output": [{"command": 'echo \'{"text": "shorter"}\''}],
    }
    shown: list[str] = []
    async with open_hooked([SHELL_CALL, Say("a long answer")], hooks) as hooked:
        hooked.actor.subscribe(lambda event: shown.append(type(event).__name__ + str(getattr(event, "text", ""))))
        ended = await hooked.actor.post(InboundMessage(text="go"))
        assert ended.text == "shorter" and "output hidden" in hooked.server.requests[1].conversation[-1].text
        assert not any("a long answer" in one for one in shown)


async def test_a_transform_that_fails_leaves_the_text_out() -> None:
    hooks = {"transform_tool_result": [{"command": "exit 1"}]}
    call = Say(calls=(Call("terminal", {"command": "echo the-output"}),))
    async with open_hooked([call, Say("done")], hooks) as hooked:
        await hooked.actor.post(InboundMessage(text="go"))
        told = hooked.server.requests[1].conversation[-1].text
        assert "could not answer" in told and "the-output" not in told.replace("echo the-output", "")


async def test_an_observer_that_fails_is_a_shown_line() -> None:
    hooks = {"PostToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "no-such-program"}]}]}
    async with open_hooked([SHELL_CALL, Say("done")], hooks) as hooked:
        lines: list[str] = []
        hooked.actor.subscribe(lambda event: lines.append(event.text) if isinstance(event, Notice) else None)
        assert (await hooked.actor.post(InboundMessage(text="go"))).text == "done"
        assert any("could not answer at post_tool_call" in line for line in lines)


async def test_guards_refuse_however_they_fail() -> None:
    for command in ("exit 1", "no-such-program", "echo '{not json'", "kill -9 $$", "echo '[' >&2; exit 127"):
        async with open_hooked([SHELL_CALL, Say("done")], bash_hook(command)) as hooked:
            ended = await hooked.actor.post(InboundMessage(text="go"))
            assert ended.refused == 1 and not (hooked.home.cwd / "out.txt").exists(), command


async def test_plain_text_at_exit_0_is_no_decision() -> None:
    async with open_hooked([SHELL_CALL, Say("done")], bash_hook("echo looks fine")) as hooked:
        assert (await hooked.actor.post(InboundMessage(text="go"))).refused == 0


async def test_a_guard_that_takes_too_long_refuses() -> None:
    hooks = {"PreToolUse": [{"hooks": [{"type": "command", "command": "sleep 60", "timeout": 0.2}]}]}
    async with open_hooked([SHELL_CALL, Say("done")], hooks) as hooked:
        assert (await hooked.actor.post(InboundMessage(text="go"))).refused == 1


@pytest.mark.parametrize("backend", ["local", pytest.param("sandbox", marks=pytest.mark.needs("bubblewrap"))])
async def test_no_tool_writes_what_a_hook_runs(backend: str) -> None:
    hooks = {"PostToolUse": [{"hooks": [{"type": "command", "command": "<root>/work/check.sh"}]}]}
    ways = [
        Call("write_file", {"path": "check.sh", "content": "#!/bin/sh\ntouch owned\n"}),
        Call("terminal", {"command": "echo 'touch owned' >> check.sh"}),
        Call("terminal", {"command": "mv check.sh other.sh; echo 'touch owned' > check.sh; chmod +x check.sh"}),
    ]
    answers = [*(Say(calls=(way,)) for way in ways), Say("done")]
    async with ScriptedServer(answers) as server:
        settings = {"terminal": {"backend": backend}}
        with TempHome.for_server(server.url, more_config=settings) as home:
            script = home.cwd / "check.sh"
            script.write_text("#!/bin/sh\ncat > /dev/null\n")
            script.chmod(0o755)
            text = json.dumps(hooks).replace("<root>", str(home.root))
            home.write_config({**(home.config or {}), "hooks": json.loads(text)})
            enable_plugin(home.environ, "hooks", str(home.cwd))
            async with App(home.environ, SessionOptions(cwd=str(home.cwd))) as app:
                actor = await app.open_session()
                assert (await actor.post(InboundMessage(text="go"))).text == "done"
            assert not (home.cwd / "owned").exists()
            if backend == "sandbox":
                assert script.read_text() == "#!/bin/sh\ncat > /dev/null\n"
