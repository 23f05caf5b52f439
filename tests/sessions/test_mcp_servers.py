"""MCP servers of the settings: which a session has, what they are given, and that they hold nothing up."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from blockbuster import BlockBuster
from msgspec import structs

from hermes.commands.context import PromptScope
from hermes.commands.named_prompts import describe_prompt, list_named_prompts
from hermes.config.home import HermesHome
from hermes.config.settings import McpServerSettings, McpTrust, Settings
from hermes.core.errors import ConfigError, ToolError
from hermes.execution.supervisor import Supervisors
from hermes.mcp.server_spec import McpServerSpec
from hermes.runtime.mailbox import InboundMessage
from hermes.safety.secrets.redactor import Redactor
from hermes.sessions.app import App
from hermes.sessions.mcp_servers import open_servers, select_servers
from hermes.sessions.options import SessionOptions
from hermes.testing.home import TempHome
from hermes.testing.script import Call, Say
from hermes.testing.server import ScriptedServer
from tests.sessions.test_event_loop import CHEAP, MEASURED

PROGRAM = Path(__file__).parent.parent / "mcp" / "broken_server.py"
ORACLE = PROGRAM.with_name("oracle_server.py")
TOKEN = "tok-" + os.urandom(12).hex()


def settings(**servers: McpServerSettings) -> Settings:
    return Settings(mcp_servers={name.replace("_", " "): server for name, server in servers.items()})


TWO = settings(
    one=McpServerSettings(command="x"), two_b=McpServerSettings(url="http://x"), no=McpServerSettings(enabled=False)
)


@pytest.mark.parametrize(
    ("asked", "disabled", "names"),
    [
        (None, (), ("one", "two_b")),
        (("file",), (), ()),
        ((), (), ()),
        (("file", "mcp"), (), ("one", "two_b")),
        (("mcp-two_b",), (), ("two_b",)),
        (("all",), ("mcp-one",), ("two_b",)),
        (None, ("mcp",), ()),
    ],
)
def test_which_servers_a_session_has(asked: Sequence[str] | None, disabled: Sequence[str], names: object) -> None:
    assert select_servers(TWO, asked, disabled) == names


def test_names_that_cannot_be() -> None:
    with pytest.raises(ConfigError, match="no toolset 'mcp-three'"):
        select_servers(TWO, ("mcp-three",), ())
    with pytest.raises(ConfigError, match="'a_b' cannot be a server's name beside 'a b'"):
        select_servers(Settings(mcp_servers={"a b": McpServerSettings(), "a_b": McpServerSettings()}), None, ())
    with pytest.raises(ConfigError, match="'!' cannot be a server's name"):
        select_servers(Settings(mcp_servers={"!": McpServerSettings()}), None, ())


async def specs(made: Settings, folder: Path, redactor: Redactor | None = None, **environ: str) -> list[McpServerSpec]:
    wardens = Supervisors({})
    found = open_servers(
        made, {"HOME": "/h", **environ}, HermesHome(folder), wardens, redactor or Redactor(), workspace="/w"
    )
    return [server.spec for server in found.servers]


async def test_variables_are_filled_in_and_kept_secret(tmp_path: Path) -> None:
    made = settings(
        a=McpServerSettings(command="~/x", env={"A_TOKEN": "${MY}", "B": "b-${MY}"}, cwd="~/w", trust=McpTrust.ALWAYS),
        b=McpServerSettings(url="http://h/${P}", headers={"Authorization": "Bearer ${MY}"}),
    )
    redactor = Redactor()
    one, two = await specs(made, tmp_path, redactor, MY=TOKEN, P="p")
    assert (one.command, one.folder, one.asks_approval) == ("/h/x", "/h/w", False)
    assert dict(one.env) == {"A_TOKEN": TOKEN, "B": f"b-{TOKEN}"}
    assert (two.url, dict(two.headers)) == ("http://h/p", {"authorization": f"Bearer {TOKEN}"}) and two.asks_approval
    assert TOKEN not in repr(one) + repr(two) + redactor.redact(f"x {TOKEN} y")
    assert TOKEN not in repr(made) or "${MY}" in repr(made)


@pytest.mark.parametrize(
    ("server", "problem"),
    [
        (McpServerSettings(command="x", env={"A": "${NOT_SET}"}), "names the variable NOT_SET, which is not set"),
        (McpServerSettings(), "needs a `command` or a `url`"),
        (McpServerSettings(command="x", url="http://y"), "needs a `command` or a `url`"),
    ],
)
async def test_one_that_is_set_up_wrongly_is_broken_by_itself(
    server: McpServerSettings, problem: str, tmp_path: Path
) -> None:
    bad, good = await specs(settings(bad=server, good=McpServerSettings(command="x")), tmp_path)
    assert problem in bad.settings_problem and not good.settings_problem


async def test_a_turn_with_a_server_does_not_block_and_leaves_no_secret() -> None:
    calls = [Call("tool_call", {"name": f"mcp__srv__{name}", "arguments": {}}) for name in ("noise", "env", "echo")]
    served = {"command": sys.executable, "args": ["-I", str(PROGRAM)], "env": {"S_TOKEN": TOKEN}, "trust": "always"}
    more = {"mcp_servers": {"srv": served}, "command_allowlist": ["connect mcp:srv"]}
    async with ScriptedServer([Say(calls=(one,)) for one in calls] + [Say("ok")]) as server:
        with TempHome.for_server(server.url, more_config=more) as home:
            async with App(home.environ, SessionOptions(cwd=str(home.cwd))) as app:
                guard = BlockBuster("hermes")
                waits = [function for name, function in guard.functions.items() if name not in CHEAP]
                for function in waits:
                    for file, names in {**MEASURED, "hermes/execution/line_program.py": {"_append_redacted"}}.items():
                        function.can_block_in(file, names)
                actor = await app.open_session()
                for function in waits:
                    function.activate()
                try:
                    ended = await actor.post(InboundMessage(text="go", cwd=str(home.cwd)))
                finally:
                    for function in waits:
                        function.deactivate()
            assert ended.text == "ok"
            results = [text for request in server.requests for text in request.results.values()]
            assert not any("internal error" in text or "Not allowed" in text for text in results)
            assert '"S_TOKEN"' in results[-1] + "".join(results) and TOKEN not in "".join(results)
            held = [file for file in home.hermes.rglob("*") if file.is_file() and file.name != "config.yaml"]
            assert (home.hermes / "logs" / "mcp-srv.log") in held
            assert not [file for file in held if TOKEN.encode() in file.read_bytes()]
            assert all(file.stat().st_mode & 0o077 == 0 for file in held if "mcp" in file.name)


async def test_a_program_of_the_workspace_is_not_taken_for_the_one_that_is_meant(tmp_path: Path) -> None:
    work = tmp_path / "work"
    (work / "bin").mkdir(parents=True)
    planted = work / "bin" / "mcp-thing"
    planted.write_text("#!/bin/sh\ntouch ran\n")
    planted.chmod(0o755)
    wardens = Supervisors(os.environ)
    made = settings(thing=McpServerSettings(command="mcp-thing"))
    environ = {"HOME": str(tmp_path), "PATH": f"{work}/bin:.:{os.environ['PATH']}"}
    found = open_servers(made, environ, HermesHome(tmp_path / "home"), wardens, Redactor(), workspace=str(work))
    with pytest.raises(ToolError, match=r"mcp-thing cannot be found"):
        await found.servers[0].connect()
    await found.close()
    await wardens.close()
    assert not list(tmp_path.rglob("ran"))


async def test_a_prompt_of_a_server_joins_the_message_as_untrusted_content() -> None:
    served = {"command": sys.executable, "args": [str(ORACLE), "stdio"]}
    async with ScriptedServer([Say("ok"), Say("ok")]) as server:
        with TempHome.for_server(server.url, more_config={"mcp_servers": {"srv": served}}) as home:
            async with App(home.environ, SessionOptions(cwd=str(home.cwd))) as app:
                scope = PromptScope(folder=str(home.cwd), taken=frozenset())
                assert not any(one.server for one in await list_named_prompts(app, scope))  # a list starts nothing
                actor = await app.open_session()
                (started,) = app.services.mcp_servers().servers
                await started.first_attempt.wait()
                found = {one.name: one for one in await list_named_prompts(app, scope) if one.server}
                prompt = found["mcp-srv-review-code"]
                assert describe_prompt(prompt).endswith("(a prompt of the MCP server srv)")
                assert await list_named_prompts(app, structs.replace(scope, own=False, skills=False)) == []
                text = prompt.format_prompt("python short")
                ended = await actor.post(InboundMessage(text=text, cwd=str(home.cwd)))
                taint = app.live_session(actor).tools.state.taint
                assert ended.text == "ok" and "mcp:srv" in taint.list_sources()
        sent = next(body for one in server.requests if "review-code" in (body := one.body.decode()))
        assert "Review this python code, short." in sent and "/mcp-srv-review-code python short" in sent
        before, _, _ = sent.partition("Review this python code")
        assert "<untrusted" in before.rpartition("/mcp-srv-review-code")[2]
