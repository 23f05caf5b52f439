"""Attacks by way of a program's own tools: names of Hermes' tools, results of no call, references to many items."""

import asyncio
import contextlib

import aiohttp
import pytest

from hermes.testing.home import TempHome
from hermes.testing.script import Call, Say
from hermes.testing.server import ScriptedServer
from tests.gateway.platforms.api_server_rig import Api, api, free_port, fresh_key
from tests.gateway.platforms.test_api_server_runs import process

pytestmark = pytest.mark.slow
CHAT = "/v1/chat/completions"


def offer(*names: str) -> list[dict[str, object]]:
    properties = {"path": {"type": "string"}, "content": {"type": "string"}}
    return [
        {"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": properties}}}
        for name in names
    ]


def ask(text: str, *tools: str) -> dict[str, object]:
    return {"model": "hermes", "messages": [{"role": "user", "content": text}], "tools": offer(*tools)}


async def test_names_of_tools_give_no_references_that_a_role_has_not() -> None:
    guest = fresh_key()
    roles = {"gateway": {"roles": {"guest": {"toolsets": ["web"]}}}}
    keys = [{"key": guest, "name": "guest", "role": "guest"}]
    async with api([Say("ok")], keys=keys, more=roles) as it:
        words = ask("See @diff and @folder:. please.", "terminal", "search_files", "read_file")
        assert (await it.ask("POST", CHAT, words, key=guest))[0] == 200
        sent = str(it.model.requests[0].messages[-1]["content"])
        assert "git" not in sent
        assert "[@" not in sent


async def test_a_tool_of_the_program_does_not_hide_what_hermes_has_written() -> None:
    written = Call("write_file", {"path": "run.sh", "content": "echo x\n"}, "call_1")
    async with api([Say(calls=(written,)), Say("ok"), Say("ok")]) as it:
        named = {"X_Hermes_Session_Id": "s"}
        await it.ask("POST", CHAT, ask("write"), **named)
        for live in list(it.gateway.pool.live_sessions):
            await it.gateway.drop_session(live.actor.session_id)
        await it.ask("POST", CHAT, ask("go on", "write_file"), **named)
        entry = next(iter(it.gateway.pool.live_sessions))
        state = it.gateway.app.live_session(entry.actor).tools.context.state
        assert [path for path in state.written_files if path.endswith("run.sh")]


async def test_results_that_nothing_waits_for_begin_no_turn() -> None:
    """Clients send a request again when its answer was slow: the session stands as it was."""
    call = Call("look", {}, "call_1")
    named = {"X_Hermes_Session_Id": "s"}
    async with api([Say(calls=(call,)), Say("first"), Say("second")]) as it:
        await it.ask("POST", CHAT, ask("q", "look"), **named)
        called = {"id": "call_1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
        again = ask("q", "look") | {
            "messages": [
                {"role": "user", "content": "q"},
                {"role": "assistant", "content": None, "tool_calls": [called]},
                {"role": "tool", "tool_call_id": "call_1", "content": "seen"},
            ]
        }
        both = await asyncio.gather(*(it.ask("POST", CHAT, again, **named) for _ in range(3)))
        assert sorted(status for status, _ in both) == [200, 400, 400]
        assert (await it.ask("POST", CHAT, again, **named))[0] == 400
        assert (await it.ask("POST", CHAT, ask("more", "look"), **named))[0] == 200
        roles = [message["role"] for message in it.model.requests[-1].messages[1:]]
        assert roles == ["user", "assistant", "tool", "assistant", "user"]


async def test_a_call_for_the_program_is_not_run_here_after_a_kill() -> None:
    key, port = fresh_key(), free_port()
    calls = (
        Call("write_file", {"path": "taken.txt", "content": "x"}, "call_1"),
        Call("terminal", {"command": "touch begun && sleep 60"}, "call_2"),
    )
    async with ScriptedServer([Say(calls=calls), Say("after"), Say("end")]) as server, aiohttp.ClientSession() as http:
        accounts = {"platforms": {"api_server": {"key": key, "port": port}}}
        with TempHome.for_server(server.url, more_config=accounts) as home:
            it = Api(key, port, server, home, http)
            async with process(home, port):
                sent = asyncio.create_task(it.ask("POST", CHAT, ask("q", "write_file"), X_Hermes_Session_Id="s"))
                await it.until(lambda: list(home.root.rglob("begun")))
            with contextlib.suppress(aiohttp.ClientError):
                await sent
            async with process(home, port):
                assert (await it.ask("POST", CHAT, ask("go on"), X_Hermes_Session_Id="s"))[0] == 200
            assert not list(home.root.rglob("taken.txt"))
    assert "another tool has this name now" in str(server.requests[1].messages)


async def test_a_call_through_the_tool_that_finds_others_is_told_to_the_model() -> None:
    """A call by another name than the program's would reach no one."""
    through = Call("tool_call", {"name": "look", "arguments": {}}, "call_1")
    async with api([Say(calls=(through,)), Say("ok")]) as it:
        status, said = await it.ask("POST", CHAT, ask("q", "look"))
        assert (status, said["choices"][0]["finish_reason"]) == (200, "stop")  # type: ignore[index]


async def test_references_to_items_are_no_larger_than_a_request() -> None:
    async with api([Say("word " * 2_000)], body_limit=100_000) as it:
        _, first = await it.ask("POST", "/v1/responses", {"model": "hermes", "input": "much"})
        item = first["output"][0]["id"]  # type: ignore[index]
        body = {"model": "hermes", "input": [{"type": "item_reference", "id": item}] * 1_000}
        assert (await it.ask("POST", "/v1/responses", body))[0] == 413
