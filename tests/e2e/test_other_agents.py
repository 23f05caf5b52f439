"""Files of other agents in a session: nothing of them before the yes, nothing of a project before trust, and after both
commands, agents, skills and servers by a fixed order of names.
"""

import sys
from pathlib import Path

import pytest

from hermes.commands.context import PromptScope
from hermes.commands.named_prompts import describe_prompt, find_named_prompt, list_named_prompts
from hermes.config.agent_servers import agree_to_server, list_agent_servers
from hermes.config.home import HermesHome
from hermes.config.other_agents import OTHER_AGENTS, agree_to_agent, find_agent
from hermes.config.trusted_folders import set_trust
from hermes.core.errors import UsageError
from hermes.runtime.mailbox import InboundMessage
from hermes.sessions.app import App
from hermes.sessions.options import SessionOptions
from hermes.testing.home import TempHome
from hermes.testing.recorded import RecordedRequest
from hermes.testing.script import Call, Say
from hermes.testing.server import ScriptedServer
from tests.e2e.other_agents_files import MARK, fill_home, fill_project, write
from tests.sessions.sub_agents.rig import rig
from tests.sessions.sub_agents.team_model import TeamModel, delegate, find_goal, read_results

pytestmark = pytest.mark.slow

SERVER = Path(__file__).parent.parent / "mcp" / "broken_server.py"
FIRST_REQUEST_LIMIT = 12_000


def agree(home: TempHome, *names: str) -> None:
    for name in names or [one.name for one in OTHER_AGENTS]:
        agent = find_agent(name)
        assert agent is not None
        agree_to_agent(HermesHome(home.hermes), agent)


def trust(home: TempHome) -> None:
    set_trust(home.hermes / "trust.json", str(home.cwd), trusted=True)


async def ask(home: TempHome, server: ScriptedServer, text: str = "go") -> tuple[RecordedRequest, list[str]]:
    """Say something in a new session; return its first request, and the notices."""
    before = len(server.requests)
    async with App(home.environ, SessionOptions(cwd=str(home.cwd))) as app:
        actor = await app.open_session()
        await actor.post(InboundMessage(text=text, cwd=str(home.cwd)))
        return server.requests[before], [str(line) for line in app.services.notices]


@pytest.mark.parametrize("is_agreed", [False, True])
async def test_of_an_untrusted_project_nothing_starts_and_nothing_is_read(is_agreed: bool) -> None:
    """Also not where the person has agreed to these agents in folders that they trust."""
    async with ScriptedServer([Say("ok")]) as server:
        with TempHome.for_server(server.url) as home:
            ran = home.root / "ran"
            fill_project(home.cwd, ran)
            if is_agreed:
                agree(home)
            first, notices = await ask(home, server)
            assert MARK not in first.body.decode() and len(first.body) <= FIRST_REQUEST_LIMIT
            assert not ran.exists() and not any("MCP" in line for line in notices)
            async with App(home.environ, SessionOptions(cwd=str(home.cwd))) as app:
                scope = PromptScope(folder=str(home.cwd), taken=frozenset())
                assert not any(MARK in one.name for one in await list_named_prompts(app, scope))
                with pytest.raises(UsageError, match="belongs to another program"):
                    await find_named_prompt(app, f"{MARK}-command", scope)
                assert not app.services.settings.mcp_servers


async def test_one_prompt_imports_nothing_of_this_where_nothing_is_agreed_to() -> None:
    async with ScriptedServer([Say("ok")]) as server:
        with TempHome.for_server(server.url) as home:
            fill_project(home.cwd, home.root / "ran")
            done = await home.run(sys.executable, "-X", "importtime", "-m", "hermes", "-z", "go")
            assert done.code == 0 and "hermes.sessions.services" in done.stderr
            for name in ("config.other_agents", "config.agent_servers", "foreign_limits", "foreign_prompts"):
                assert name not in done.stderr


async def test_before_the_yes_nothing_is_read_of_the_home_and_of_trusted_projects() -> None:
    async with ScriptedServer([Say("ok")]) as server:
        with TempHome.for_server(server.url) as home:
            ran = home.root / "ran"
            fill_home(home, ran)
            fill_project(home.cwd, ran)
            trust(home)
            first, _ = await ask(home, server)
            assert MARK not in first.body.decode() and not ran.exists()


async def test_after_the_yes_files_are_read_and_no_server_starts_without_its_own() -> None:
    async with ScriptedServer([Say("ok"), Say("ok"), Say("ok")]) as server:
        with TempHome.for_server(server.url) as home:
            ran = home.root / "ran"
            fill_project(home.cwd, ran)
            trust(home)
            agree(home, "claude")
            first, notices = await ask(home, server)
            assert f"- {MARK}-skill: {MARK}" in first.system and f"- {MARK}-agent: {MARK}" in first.system
            assert f"{MARK}-codex" not in first.system and len(first.body) <= FIRST_REQUEST_LIMIT
            assert not ran.exists()
            (line,) = [one for one in notices if "MCP" in one]
            assert line.startswith(f"MCP servers are not started, since they are new or have changed: {MARK}.")
            second, _ = await ask(home, server, f"/{MARK}-skill now")
            assert f"[Skill {MARK}-skill, which the person asked for:]" in second.body.decode()


async def test_a_damaged_file_of_agreements_is_told_and_nothing_starts() -> None:
    async with ScriptedServer([Say("ok")]) as server:
        with TempHome.for_server(server.url) as home:
            home.hermes.joinpath("plugins.json").write_text("{")
            with pytest.raises(Exception, match="damaged"):
                await ask(home, server)
            assert not server.requests


async def test_commands_count_in_a_fixed_order_and_run_nothing() -> None:
    async with ScriptedServer([]) as server:
        with TempHome.for_server(server.url) as home:
            agree(home)
            trust(home)
            write(home.home / ".claude/commands/one.md", "claude home $0 !`touch x`")
            write(home.home / ".claude/commands/sub/two.md", "claude nested")
            write(home.home / ".codex/prompts/one.md", "codex home")
            write(home.home / ".codex/prompts/three.md", "codex $FILE")
            write(home.cwd / ".claude/commands/one.md", "claude project")
            write(home.cwd / ".claude/commands/four.md", "claude project")
            write(home.cwd / ".claude/commands/help.md", "not this one")
            marked = write(home.cwd / ".claude/commands/five.md", "written beside a page")
            write(home.cwd / ".hermes/commands/six.md", "ours")
            write(home.cwd / ".opencode/command/six.md", "opencode project")
            async with App(home.environ, SessionOptions(cwd=str(home.cwd))) as app:
                await app.services.store.tainted_files.mark_all([(str(marked.resolve()), b"1", ("a page",))], [])
                scope = PromptScope(folder=str(home.cwd), taken=frozenset(["help"]), skills=False)
                found = {one.name: one for one in await list_named_prompts(app, scope)}
                assert sorted(found) == ["four", "one", "six", "sub:two", "three"]
                assert found["one"].format_prompt("a b") == "claude home a (run `touch x` and use its output)"
                assert found["six"].body == "ours" and found["four"].project
                assert describe_prompt(found["three"]) == "codex $FILE (a command of codex)"
                prompt = await find_named_prompt(app, "prompts:three", scope)
                assert prompt is not None and prompt.format_prompt("FILE=x") == "codex x"
                guest = PromptScope(folder=str(home.cwd), taken=frozenset(), skills=False, own=False)
                assert await list_named_prompts(app, guest) == []


async def test_skills_of_the_home_and_the_project_come_behind_our_own() -> None:
    async with ScriptedServer([Say("ok")]) as server:
        with TempHome.for_server(server.url) as home:
            agree(home)
            trust(home)
            head = "---\ndescription: {}\n---\nText."
            write(home.home / ".claude/skills/one/SKILL.md", head.format("of the home"))
            write(home.cwd / ".agents/skills/one/SKILL.md", head.format("of the project"))
            write(home.cwd / ".agents/skills/two/SKILL.md", head.format("of the project"))
            write(home.home / ".claude/skills/csv-analysis/SKILL.md", head.format("not this one"))
            write(home.cwd / ".claude/skills/marked/SKILL.md", head.format("beside a page"))
            async with App(home.environ, SessionOptions(cwd=str(home.cwd))) as app:
                folder = str((home.cwd / ".claude/skills/marked").resolve())
                await app.services.store.tainted_files.mark_all([(folder, b"folder", ("a page",))], [])
            asked = "---\ndescription: asked only\ndisable-model-invocation: true\n---\nText."
            write(home.home / ".claude/skills/three/SKILL.md", asked)
            first, _ = await ask(home, server)
            assert "- one: of the home" in first.system and "- two: of the project" in first.system
            assert "beside a page" not in first.system
            assert "not this one" not in first.system and "asked only" not in first.system


async def test_agents_have_their_limits_and_a_model_where_it_is_set_up() -> None:
    steps = [delegate("look", agent="reviewer"), delegate("read", agent="reader"), Say("ok")]
    async with rig(TeamModel(steps)) as here:
        agree(here.home)
        head = "name: reviewer\ndescription: >\n  Finds\n  bugs.\ndisallowedTools: Write, Bash(rm *)\nmodel: gpt-9"
        write(here.home.home / ".claude/agents/any.md", f"---\n{head}\n---\nBe strict.")
        toml = 'description = "Reads."\nsandbox_mode = "read-only"\ndeveloper_instructions = "Read it."'
        write(here.home.home / ".codex/agents/reader.toml", toml)
        async with here.process() as (_app, actor):
            await here.say(actor)
        assert "done" in read_results(here.server.requests[-1])[0]
        assert "- reviewer: Finds bugs." in here.server.requests[0].system
        children = {find_goal(one): one for one in here.server.requests if find_goal(one)}
        one, two = children["look"], children["read"]
        assert "Be strict." in one.system and one.model == here.server.requests[0].model
        assert "Read it." in two.system
        for child in (one, two):
            assert "read_file" in child.tool_names
            assert not {"write_file", "patch", "terminal", "process"} & set(child.tool_names)


async def test_a_server_works_after_its_own_yes_and_not_when_its_definition_has_changed() -> None:
    call = Call("tool_search", {"query": "echo"})
    async with ScriptedServer([Say(calls=(call,)), Say("ok"), Say("ok")]) as server:
        with TempHome.for_server(server.url) as home:
            definition = {"command": sys.executable, "args": ["-I", str(SERVER)]}
            file = write(home.cwd / ".mcp.json", {"mcpServers": {"srv": definition}})
            agree(home, "claude")
            trust(home)
            agent = find_agent("claude")
            assert agent is not None
            folder = str(home.cwd.resolve())
            (found,) = list_agent_servers(agent, home.environ, folder, has_project=True)
            agree_to_server(HermesHome(home.hermes), found)
            async with App(home.environ, SessionOptions(cwd=str(home.cwd))) as app:
                assert list(app.services.settings.mcp_servers) == ["srv"] and not app.services.notices
                actor = await app.open_session()
                await actor.post(InboundMessage(text="go", cwd=str(home.cwd)))
                (running,) = app.services.mcp_servers().servers
                assert running.spec.asks_approval and running.spec.folder == folder and running.tools
                assert running.find_change is not None and not running.find_change()
                write(file, {"mcpServers": {"srv": definition | {"env": {"A": "b"}}}})
                assert "has changed since the person agreed to it" in running.find_change()
                await running.close()
                write(file, {"mcpServers": {"srv": definition}})
            assert "mcp__srv__echo" in read_results(server.requests[1])[-1]
            async with App(home.environ, SessionOptions(cwd=str(home.cwd), platform="gateway")) as app:
                assert not app.services.settings.mcp_servers, "a gateway works in no project"
            write(file, {"mcpServers": {"srv": definition | {"env": {"A": "b"}}}})
            first, notices = await ask(home, server)
            assert "mcp__" not in first.body.decode() and any("have changed: srv" in line for line in notices)


async def test_a_server_of_the_settings_goes_before_one_of_the_same_name() -> None:
    more = {"mcp_servers": {"srv": {"url": "http://127.0.0.1:9/mine"}}}
    async with ScriptedServer([]) as server:
        with TempHome.for_server(server.url, more_config=more) as home:
            write(home.home / ".claude.json", {"mcpServers": {"srv": {"command": "x"}, "my srv": {"command": "y"}}})
            agree(home, "claude")
            agent = find_agent("claude")
            assert agent is not None
            for one in list_agent_servers(agent, home.environ, "", has_project=False):
                agree_to_server(HermesHome(home.hermes), one)
            async with App(home.environ, SessionOptions(cwd=str(home.cwd))) as app:
                found = app.services.settings.mcp_servers
                assert sorted(found) == ["my_srv", "srv"] and found["srv"].url.endswith("/mine")
