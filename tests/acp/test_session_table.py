"""Sessions of an editor: opened, listed, loaded, resumed, closed and deleted; and what is asked wrongly."""

import pytest

from hermes.core.messages import Message, Role, ToolCallPart, ToolResultPart, ToolStatus, user_message
from hermes.store.records import NewSession
from hermes.store.store import Store
from hermes.testing.home import TempHome
from hermes.testing.script import Call, Say
from hermes.testing.server import ScriptedServer
from hermes.util.clock import SystemClock
from tests.acp.conftest import QUIET, OpenEditor
from tests.acp.editor import Editor, RpcFaultError

pytestmark = pytest.mark.slow


async def test_a_session_is_listed_loaded_and_goes_on() -> None:
    replies = [
        Say("First.", reasoning="thought", calls=(Call("write_file", {"path": "a.txt", "content": "x"}),)),
        Say("Written."),
        Say("Second."),
        Say("Third."),
    ]
    async with ScriptedServer(replies) as server:
        with TempHome.for_server(server.url, more_config=QUIET) as home:
            async with Editor(home) as editor:
                session = await editor.open_session()
                await editor.prompt(session, "one")
            async with Editor(home) as editor:
                await editor.begin()
                listed = await editor.request("session/list", {"cwd": str(home.cwd)})
                assert [(one["sessionId"], one["title"]) for one in listed["sessions"]] == [(session, "one")]
                assert (await editor.request("session/list", {"cwd": "/elsewhere"}))["sessions"] == []
                params = {"sessionId": session, "cwd": str(home.cwd), "mcpServers": []}
                identity, answer = editor.send_request("session/load", params)
                state = await answer
                assert identity and state["modes"]["currentModeId"] == "ask"
                assert editor.join_text("user_message_chunk") == "one"
                assert editor.join_text() == "First.Written."
                assert editor.join_text("agent_thought_chunk") == "thought"
                (call,) = editor.find_calls().values()
                assert (call["kind"], call["status"]) == ("edit", "completed")
                assert await editor.prompt(session, "two") == "end_turn"
                assert await editor.request("session/close", {"sessionId": session}) == {}
                with pytest.raises(RpcFaultError) as caught:
                    await editor.prompt(session, "three")
                assert caught.value.code == -32002
                before = len(editor.updates)
                await editor.request("session/resume", params)
                assert await editor.prompt(session, "three") == "end_turn"
                told = {one["sessionUpdate"] for one in editor.updates[before:]}
                assert "user_message_chunk" not in told
                assert await editor.request("session/delete", {"sessionId": session}) == {}
                assert await editor.request("session/delete", {"sessionId": session}) == {}
                assert (await editor.request("session/list", {}))["sessions"] == []
                with pytest.raises(RpcFaultError):
                    await editor.request("session/load", params)


async def test_a_long_session_is_loaded_whole_and_in_order() -> None:
    """Results are shown with their calls, wherever a batch ends."""
    async with ScriptedServer([]) as server:
        with TempHome.for_server(server.url, more_config=QUIET) as home:
            store = await Store.open(home.hermes, SystemClock())
            await store.sessions.create(
                NewSession(id="long", source="acp", model="mock-model", provider="custom", cwd=str(home.cwd))
            )
            messages: list[Message] = []
            for number in range(101):
                call = ToolCallPart(call_id=f"c{number}", name="terminal", arguments='{"command": "x"}')
                result = ToolResultPart(call_id=f"c{number}", name="terminal", status=ToolStatus.OK, text=f"r{number}")
                messages += [user_message(f"q{number}."), Message(role=Role.ASSISTANT, parts=(call,))]
                messages.append(Message(role=Role.TOOL, parts=(result,)))
            await store.messages.append("long", 1, None, messages)
            await store.close()
            async with Editor(home) as editor:
                await editor.begin()
                known = {"sessionId": "long", "cwd": str(home.cwd), "mcpServers": []}
                await editor.request("session/load", known)
                assert editor.join_text("user_message_chunk") == "".join(f"q{number}." for number in range(101))
                calls = editor.find_calls()
                assert [*calls] == [f"c{number}" for number in range(101)]
                for number in range(101):
                    assert f"r{number}" in calls[f"c{number}"]["content"][0]["content"]["text"]


async def test_a_session_in_which_nothing_was_said_is_opened_again() -> None:
    async with ScriptedServer([Say("Hello.")]) as server:
        with TempHome.for_server(server.url, more_config=QUIET) as home:
            async with Editor(home) as editor:
                session = await editor.open_session()
            async with Editor(home) as editor:
                await editor.begin()
                params = {"sessionId": session, "cwd": str(home.cwd), "mcpServers": []}
                await editor.request("session/load", params)
                assert await editor.prompt(session, "hi") == "end_turn"


async def test_only_a_whole_id_opens_or_deletes_a_session(open_editor: OpenEditor) -> None:
    async with open_editor([Say("Hello.")]) as editor:
        session = await editor.open_session()
        await editor.prompt(session, "title")
        for name in (session[:12], "title", "", "../x"):
            with pytest.raises(RpcFaultError) as caught:
                params = {"sessionId": name, "cwd": str(editor.home.cwd), "mcpServers": []}
                await editor.request("session/load", params)
            assert caught.value.code == -32002
            assert await editor.request("session/delete", {"sessionId": name}) == {}
        assert len((await editor.request("session/list", {}))["sessions"]) == 1


async def test_options_and_modes_are_set_and_told(open_editor: OpenEditor) -> None:
    config = {"providers": {"other": {"base_url": "http://127.0.0.1:9/v1", "api_key": "x", "models": ["big"]}}}
    async with open_editor([], config=config) as editor:
        await editor.begin()
        made = await editor.request("session/new", {"cwd": str(editor.home.cwd), "mcpServers": []})
        session, options = made["sessionId"], {one["id"]: one for one in made["configOptions"]}
        assert {one["category"] for one in options.values()} == {"mode", "model", "thought_level"}
        assert all("group" in one for one in options["model"]["options"])
        assert options["model"]["currentValue"] == "custom:mock-model"

        async def set_option(name: str, value: str) -> dict[str, str]:
            params = {"sessionId": session, "configId": name, "value": value}
            now = (await editor.request("session/set_config_option", params))["configOptions"]
            return {one["id"]: one["currentValue"] for one in now}

        assert (await set_option("thinking", "high"))["thinking"] == "high"
        assert (await set_option("model", "other:big"))["model"] == "other:big"
        assert (await set_option("model", "custom:mock-model"))["model"] == "custom:mock-model"
        assert (await set_option("mode", "plan"))["mode"] == "plan"
        assert editor.list_updates("current_mode_update")[-1]["currentModeId"] == "plan"
        await editor.request("session/set_mode", {"sessionId": session, "modeId": "ask"})
        assert editor.list_updates("config_option_update")[-1]["configOptions"][0]["currentValue"] == "ask"
        for name, value in (("thinking", "?"), ("model", "none:none"), ("mode", "auto"), ("what", "x")):
            with pytest.raises(RpcFaultError) as caught:
                await set_option(name, value)
            assert caught.value.code == -32602


async def test_a_slash_command_answers_and_changes_what_is_told(open_editor: OpenEditor) -> None:
    async with open_editor([]) as editor:
        session = await editor.open_session()
        assert await editor.prompt(session, "/reasoning high") == "end_turn"
        values = {
            one["id"]: one["currentValue"] for one in editor.list_updates("config_option_update")[-1]["configOptions"]
        }
        assert values["thinking"] == "high"
        assert await editor.prompt(session, "/nonsense") == "end_turn"
        assert "There is no command /nonsense" in editor.join_text()
        assert await editor.prompt(session, "/reasoning nonsense") == "end_turn"
        assert "There is no effort" in editor.join_text()


async def test_what_is_asked_wrongly_gets_its_error(open_editor: OpenEditor) -> None:
    async with open_editor([]) as editor:
        with pytest.raises(RpcFaultError) as caught:
            await editor.request("session/list", {})
        assert caught.value.code == -32600
        about = await editor.begin(protocolVersion=99)
        assert about["protocolVersion"] == 1
        for method, params, code in (
            ("session/fork", {}, -32602),
            ("nothing", {}, -32601),
            ("session/new", {"cwd": "relative", "mcpServers": []}, -32602),
            ("session/new", {"cwd": "/does/not/exist", "mcpServers": []}, -32602),
            ("session/new", {"cwd": 7, "mcpServers": []}, -32602),
            ("session/prompt", {"sessionId": "none", "prompt": []}, -32002),
            ("authenticate", {"methodId": "other"}, -32602),
        ):
            with pytest.raises(RpcFaultError) as caught:
                await editor.request(method, params)
            assert caught.value.code == code, method
        editor.send_line(b"{")
        editor.send_line(b"[1]")
        await editor.wait_for(lambda: len([one for one in editor.notified if "error" in one]) == 2)
        assert [one["error"]["code"] for one in editor.notified if "error" in one] == [-32700, -32600]
        session = await editor.request("session/new", {"cwd": str(editor.home.cwd), "mcpServers": []})
        with pytest.raises(RpcFaultError) as caught:
            await editor.request("session/prompt", {"sessionId": session["sessionId"], "prompt": []})
        assert caught.value.code == -32602


async def test_a_fork_begins_with_all_that_was_said_and_goes_on_by_itself(open_editor: OpenEditor) -> None:
    replies = [Say("One."), Say("Two."), Say("Three."), Say("endless " * 500, chunk=1)]
    async with open_editor(replies) as editor:
        session = await editor.open_session()
        known = {"cwd": str(editor.home.cwd), "mcpServers": []}
        for wrong in ({"sessionId": session}, {"sessionId": "none"}, {"sessionId": session, "cwd": "/does/not/exist"}):
            with pytest.raises(RpcFaultError):
                await editor.request("session/fork", known | wrong)  # nothing was said yet; nothing there
        await editor.prompt(session, "first")
        made = await editor.request("session/fork", {"sessionId": session, **known})
        assert made["sessionId"] != session and made["configOptions"]
        await editor.prompt(made["sessionId"], "in the fork")
        await editor.prompt(session, "in the other")
        assert editor.server is not None
        said = [[one["content"] for one in sent.messages if one["role"] == "user"] for sent in editor.server.requests]
        assert [len(one) for one in said] == [1, 2, 2]
        assert "in the fork" in str(said[1]) and "in the fork" not in str(said[2])
        listed = (await editor.request("session/list", {}))["sessions"]
        assert {one["sessionId"] for one in listed} == {session, made["sessionId"]}
        _, answer = editor.send_request(
            "session/prompt", {"sessionId": session, "prompt": [{"type": "text", "text": "go on"}]}
        )
        await editor.wait_for(lambda: "endless" in editor.join_text())
        with pytest.raises(RpcFaultError, match="at work"):
            await editor.request("session/fork", {"sessionId": session, **known})
        editor.notify("session/cancel", {"sessionId": session})
        assert (await answer)["stopReason"] == "cancelled"


async def test_without_a_model_it_is_said_what_is_missing() -> None:
    with TempHome({"model": {"provider": "anthropic", "default": "claude-opus-5"}}) as home:
        async with Editor(home, capabilities={"auth": {"terminal": True}}) as editor:
            about = await editor.begin()
            assert [one.get("type") for one in about["authMethods"]] == [None, "terminal"]
            for method, params in (
                ("session/new", {"cwd": str(home.cwd), "mcpServers": []}),
                ("authenticate", {"methodId": "hermes-setup"}),
            ):
                with pytest.raises(RpcFaultError, match="hermes setup") as caught:
                    await editor.request(method, params)
                assert caught.value.code == -32000


async def test_a_turn_that_was_cut_off_by_a_kill_goes_on_with_the_next_prompt() -> None:
    replies = [Say(calls=(Call("terminal", {"command": "touch begun; sleep 300"}),)), Say("It was cut off.")]
    async with ScriptedServer(replies) as server:
        with TempHome.for_server(server.url, more_config=QUIET) as home:
            async with Editor(home) as editor:
                session = await editor.open_session()
                params = {"sessionId": session, "prompt": [{"type": "text", "text": "run"}]}
                _, answer = editor.send_request("session/prompt", params)
                await editor.wait_for(lambda: any(one.get("status") == "in_progress" for one in editor.updates))
                editor.process.kill()
                with pytest.raises(ConnectionError):
                    await answer
            async with Editor(home) as editor:
                await editor.begin()
                params = {"sessionId": session, "cwd": str(home.cwd), "mcpServers": []}
                await editor.request("session/load", params)
                await editor.wait_for(lambda: "cut off" in editor.join_text("agent_thought_chunk"))
                assert await editor.prompt(session, "go on") == "end_turn"
                assert editor.join_text().endswith("It was cut off.")
