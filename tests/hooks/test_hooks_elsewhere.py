"""Hooks at questions, compressions, stops and the ends of sessions, and what is kept of their calls."""

import json

from hermes.admin.plugins import PluginAdmin
from hermes.core.events import Notice
from hermes.core.outcomes import ExitReason
from hermes.runtime.mailbox import InboundMessage
from hermes.testing.script import Call, Say
from tests.hooks.hooked_home import HookedHome, open_hooked

PUSH = Say(calls=(Call("terminal", {"command": "git push --force"}),))


def told(hooked: HookedHome, name: str) -> list[dict[str, object]]:
    return [one for one in hooked.read_record() if one["hook_event_name"] == name]


async def test_a_question_is_refused_before_anybody_is_asked() -> None:
    hooks = {"PermissionRequest": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "<no.sh>"}]}]}
    script = "#!/bin/sh\ncat > /dev/null\necho 'never forced' >&2\nexit 2\n"
    async with open_hooked([PUSH, Say("done")], hooks, scripts={"no.sh": script}) as hooked:
        await hooked.actor.post(InboundMessage(text="go"))
        assert "never forced" in hooked.server.requests[1].conversation[-1].text


async def test_refusals_and_the_end_of_a_turn_are_told() -> None:
    hooks = {
        "PermissionDenied": [{"hooks": [{"type": "command", "command": "<record>"}]}],
        "on_session_end": [{"command": "<record>"}],
        "SessionEnd": [{"hooks": [{"type": "command", "command": "<record>"}]}],
        "post_api_request": [{"command": "<record>"}],
    }
    async with open_hooked([PUSH, Say("done")], hooks) as hooked:
        await hooked.actor.post(InboundMessage(text="go"))
        await hooked.app.close_session(hooked.actor)
        assert told(hooked, "PermissionDenied")[0]["tool_name"] == "Bash"
        assert told(hooked, "on_session_end")[0]["text"] == "done"
        assert told(hooked, "SessionEnd")[0]["reason"] == "other"
        assert [one["extra"]["number"] for one in told(hooked, "post_api_request")] == [1, 2]  # type: ignore[index]
        (record, *_) = PluginAdmin(hooked.home.environ).list_hook_records()
        assert record.calls >= 5 and record.failures == 0 and record.slow_ms > 0


async def test_a_request_is_refused_and_the_turn_ends_by_name() -> None:
    hooks = {"pre_api_request": [{"command": "<two.sh>"}]}
    script = "#!/bin/sh\nif grep -q '\"number\":2'; then echo 'one request is enough' >&2; exit 2; fi\n"
    call = Say(calls=(Call("terminal", {"command": "true"}),))
    async with open_hooked([call, Say("done")], hooks, scripts={"two.sh": script}) as hooked:
        ended = await hooked.actor.post(InboundMessage(text="go"))
        assert ended.reason is ExitReason.HOOK_STOPPED and "one request is enough" in ended.error
        assert len(hooked.server.requests) == 1


async def test_a_hook_ends_the_turn() -> None:
    answer = json.dumps({"continue": False, "stopReason": "the budget of the day is spent"})
    hooks = {"PostToolUse": [{"hooks": [{"type": "command", "command": f"echo '{answer}'"}]}]}
    call = Say(calls=(Call("terminal", {"command": "true"}),))
    async with open_hooked([call, Say("never")], hooks) as hooked:
        ended = await hooked.actor.post(InboundMessage(text="go"))
        assert ended.reason is ExitReason.HOOK_STOPPED and "the budget of the day is spent" in ended.error


async def test_nothing_is_made_shorter_where_a_hook_says_no() -> None:
    hooks = {"PreCompact": [{"matcher": "manual", "hooks": [{"type": "command", "command": "echo later >&2; exit 2"}]}]}
    async with open_hooked([Say("one")], hooks) as hooked:
        lines: list[str] = []
        hooked.actor.subscribe(lambda event: lines.append(event.text) if isinstance(event, Notice) else None)
        await hooked.actor.post(InboundMessage(text="go"))
        assert await hooked.actor.compress() is False
        assert any("later" in line for line in lines)


async def test_a_message_does_not_join_a_turn_unseen() -> None:
    hooks = {"UserPromptSubmit": [{"hooks": [{"type": "command", "command": "<check.sh>"}]}]}
    script = "#!/bin/sh\nif grep -q hunter2; then exit 2; fi\n"
    call = Say(calls=(Call("terminal", {"command": "true"}),))
    async with open_hooked([call, Say("first")], hooks, scripts={"check.sh": script}) as hooked:
        first = hooked.actor.post(InboundMessage(text="go"))
        second = hooked.actor.steer(InboundMessage(text="and hunter2"))
        assert (await first).text == "first"
        assert (await second).reason is ExitReason.HOOK_STOPPED
        assert "hunter2" not in str([one.body for one in hooked.server.requests])


async def test_several_hooks_run_side_by_side_and_the_strictest_counts() -> None:
    entries = [{"type": "command", "command": command} for command in ("sleep 0.2", "exit 2", "sleep 0.2")]
    hooks = {"PreToolUse": [{"hooks": entries}]}
    async with open_hooked([Say(calls=(Call("terminal", {"command": "true"}),)), Say("done")], hooks) as hooked:
        assert (await hooked.actor.post(InboundMessage(text="go"))).refused == 1


async def test_two_hooks_that_change_a_call_differently_refuse_it() -> None:
    def change(command: str) -> dict[str, str]:
        answer = {"hookSpecificOutput": {"hookEventName": "PreToolUse", "updatedInput": {"command": command}}}
        return {"type": "command", "command": f"echo '{json.dumps(answer)}'"}

    hooks = {"PreToolUse": [{"hooks": [change("echo a > out.txt"), change("echo b > out.txt")]}]}
    async with open_hooked([Say(calls=(Call("terminal", {"command": "true"}),)), Say("done")], hooks) as hooked:
        assert (await hooked.actor.post(InboundMessage(text="go"))).refused == 1
        assert not (hooked.home.cwd / "out.txt").exists()


async def test_stopping_a_turn_ends_a_running_hook() -> None:
    hooks = {"PreToolUse": [{"hooks": [{"type": "command", "command": "touch <root>/begun; exec sleep 300"}]}]}
    async with open_hooked([Say(calls=(Call("terminal", {"command": "true"}),)), Say("done")], hooks) as hooked:
        turn = hooked.actor.post(InboundMessage(text="go"))
        await hooked.wait_for(hooked.home.root / "begun")
        hooked.actor.stop()
        assert (await turn).reason is ExitReason.INTERRUPTED
