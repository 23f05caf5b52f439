"""MCP servers in a real process: found, called, asked about, and gone with it, killed or not."""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

from hermes.testing.home import TempHome
from hermes.testing.script import Call, ReplyDelivery, Say
from hermes.testing.server import ScriptedServer
from tests.forked_hermes import run_hermes
from tests.mcp.test_servers import until

PROGRAM = Path(__file__).parent.parent / "mcp" / "broken_server.py"
CANARY = "canary-" + os.urandom(8).hex()


def servers(**more: object) -> dict[str, object]:
    here = {"command": sys.executable, "args": ["-I", str(PROGRAM)], **more}
    return {"mcp_servers": {"srv": here, "off": {"command": "/no/such", "enabled": False}}}


def call(name: str, **arguments: object) -> Call:
    return Call("tool_call", {"name": f"mcp__srv__{name}", "arguments": arguments})


async def test_a_turn_finds_a_tool_and_calls_it() -> None:
    replies = [
        Say(calls=(Call("tool_search", {"query": "echo"}),)),
        Say(calls=(call("echo", a=1), call("env"))),
        Say("done"),
    ]
    config = servers(trust="always", env={"SERVER_TOKEN": "${MY_TOKEN}"})
    async with ScriptedServer(replies) as server:
        with TempHome.for_server(server.url, more_config=config) as home:
            home.more |= {"MY_TOKEN": "mine", "OPENAI_API_KEY": CANARY, "OTHER": CANARY}
            done = await run_hermes(home, "-z", "go", "--allow", "connect mcp:srv")
            assert (done.code, done.stdout) == (0, "done\n"), done.stderr
            found, echoed, variables = [text for one in server.requests[1:] for text in one.results.values()][-3:]
    assert "mcp__srv__echo: [MCP server srv] Tool of a test: echo." in found and "<untrusted" in found
    assert '{"a": 1}' in echoed and CANARY not in variables and '"SERVER_TOKEN": "mine"' in variables
    tools = [json.loads(request.body)["tools"] for request in server.requests]
    assert tools[0] == tools[-1] and "mcp__" not in json.dumps(tools[0]) and "tool_call" in json.dumps(tools[0])


async def test_where_nobody_can_be_asked_a_new_tool_is_refused() -> None:
    async with ScriptedServer([Say(calls=(call("echo"),)), Say("so")]) as server:
        with TempHome.for_server(server.url, more_config=servers()) as home:
            done = await run_hermes(home, "-z", "go", "--no-input")
            assert done.code == 3 and "mcp srv mcp__srv__echo" in done.stderr
            (result,) = server.requests[-1].results.values()
    assert "Not allowed: it is a tool of the MCP server srv" in result


async def test_a_server_that_never_answers_delays_nothing() -> None:
    config = servers(args=["-I", str(PROGRAM), "mute"], connect_timeout=600, timeout=600)
    async with ScriptedServer([Say("hello")]) as server:
        with TempHome.for_server(server.url, more_config=config) as home:
            done = await run_hermes(home, "-z", "go")
            assert (done.code, done.stdout) == (0, "hello\n")  # within the time that `run` has


async def test_nothing_of_a_server_outlives_a_killed_hermes() -> None:
    replies = [Say(calls=(call("spawn"),)), Say("late", delivery=ReplyDelivery(hold_at=0))]
    async with ScriptedServer(replies) as server:
        with TempHome.for_server(server.url, more_config=servers(trust="always")) as home:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "hermes", "-z", "go", cwd=home.cwd, env=home.environ,
                stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
            )  # fmt: skip
            try:
                await server.wait_held(await server.wait_for(2))
                (result,) = server.requests[1].results.values()
                pids = [int(word) for word in result.split() if word.isdigit()]
                assert len(pids) == 2 and all(Path(f"/proc/{pid}").exists() for pid in pids)
            finally:
                process.send_signal(signal.SIGKILL)
                await process.wait()
            await until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids))


async def test_the_command_line_lists_and_tries_servers() -> None:
    with TempHome({**servers(), "model": {"provider": "openai"}}) as home:
        listed = await run_hermes(home, "mcp")
        first = listed.stdout.splitlines()[0].split()
        assert first[:2] == ["off", "stdio"] and first[-1] == "off"
        tried = await run_hermes(home, "mcp", "test", "srv", "--json")
        found = json.loads(tried.stdout)
        assert tried.code == 0 and len(found["tools"]) == 24 and found["seconds"] < 5
        digests = {one["name"]: one["digest"] for one in found["tools"]}
        plain = await run_hermes(home, "mcp", "test", "srv")
        assert f"mcp__srv__echo  {digests['mcp__srv__echo']}" in plain.stdout
        missing = await run_hermes(home, "mcp", "test", "off")
        assert missing.code == 1 and "exit code 127" in missing.stdout
        unknown = await run_hermes(home, "mcp", "test", "other")
        assert unknown.code == 1 and "There is no MCP server 'other'" in unknown.stderr


async def test_nothing_of_a_project_starts_a_server() -> None:
    mark = "started"
    own = {"mcpServers": {"evil": {"command": "touch", "args": [mark]}}, "mcp_servers": {"evil": {"command": "touch"}}}
    async with ScriptedServer([Say("hello")]) as server:
        with TempHome.for_server(server.url) as home:
            for name in (".mcp.json", "config.yaml", ".hermes.json"):
                (home.cwd / name).write_text(json.dumps(own))
            done = await run_hermes(home, "-z", "go")
            assert done.code == 0 and not (home.cwd / mark).exists() and b"mcp" not in server.requests[0].body.lower()
