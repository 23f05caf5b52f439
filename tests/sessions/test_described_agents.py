"""Agents that Markdown files describe: which files count, what they may say, and what the model is told of them."""

from pathlib import Path

import pytest

from hermes.config.trusted_folders import set_trust
from hermes.core.sub_agents import SubAgentState
from hermes.testing.recorded import RecordedRequest
from hermes.testing.script import Call, Say
from tests.sessions.sub_agents.rig import Rig, list_rows, rig
from tests.sessions.sub_agents.team_model import TeamModel, delegate, find_goal, read_results


def describe(folder: Path, name: str, text: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{name}.md"
    file.write_text(text)
    return file


def head(**fields: str) -> str:
    return "---\n" + "".join(f"{key}: {value}\n" for key, value in fields.items()) + "---\n"


def child_of(here: Rig) -> RecordedRequest:
    return next(one for one in here.server.requests if find_goal(one))


async def ask(here: Rig, **options: object) -> str:
    """Delegate once and return what the parent's model is told."""
    async with here.process(**options) as (_app, actor):
        await here.say(actor)
    return read_results(here.server.requests[-1])[-1]


async def test_an_agent_has_its_instructions_and_only_its_tools() -> None:
    model = TeamModel([delegate("look", agent="reviewer"), Say("ok")])
    async with rig(model) as here:
        text = head(description="Finds bugs.", tools="Read, Grep, Bash(git *), web_search") + "Be strict."
        describe(here.home.hermes / "agents", "reviewer", text)
        assert "[sub-agent 1: done] look" in await ask(here)
        asked = child_of(here)
        assert "Be strict." in asked.system and sorted(asked.tool_names) == ["read_file", "search_files", "web_search"]
        top = here.server.requests[0]
        assert "Described agents, for the argument `agent` of delegate_task:\n- reviewer: Finds bugs." in top.system
        assert "Be strict." not in top.system


@pytest.mark.parametrize(
    ("tools", "expected"),
    [
        ("file", ["patch", "read_file", "search_files", "write_file"]),
        ("\n- Read\n- Edit", ["patch", "read_file"]),
        ("[Read, Glob]", ["read_file", "search_files"]),
        ("read_file, clarify, memory", ["read_file"]),
    ],
)
async def test_tools_are_named_by_sets_by_tools_or_as_other_programs_do(tools: str, expected: list[str]) -> None:
    async with rig(TeamModel([delegate("look", agent="helper"), Say("ok")])) as here:
        describe(here.home.hermes / "agents", "helper", head(name="helper", model="sonnet", tools=tools) + "Help.")
        assert "done" in await ask(here)
        assert sorted(child_of(here).tool_names) == expected


async def test_an_agent_has_no_tool_that_its_parent_has_not() -> None:
    model = TeamModel([delegate("look", agent="writer"), Say("ok")])
    async with rig(model) as here:
        describe(here.home.hermes / "agents", "writer", head(tools="terminal, write_file, read_file") + "Write.")
        assert "done" in await ask(here, enabled_toolsets=("file", "delegation"), disabled_toolsets=("terminal",))
        assert sorted(child_of(here).tool_names) == ["read_file", "write_file"]
    async with rig(model) as here:
        describe(here.home.hermes / "agents", "writer", head(tools="terminal") + "Write.")
        said = await ask(here, enabled_toolsets=("file", "delegation"))
        assert "You have none of the tools of the agent 'writer': terminal." in said
        assert not any(find_goal(one) for one in here.server.requests)


async def test_an_unknown_name_is_answered_with_those_there_are() -> None:
    async with rig(TeamModel([delegate("look", agent="nobody"), Say("ok")])) as here:
        assert "There is no agent 'nobody'. None is described." in await ask(here)
        describe(here.home.hermes / "agents", "one", "First.")
        describe(here.home.hermes / "agents", "two", "Second.")
        describe(here.home.cwd / ".claude" / "agents", "nobody", "Theirs.")
        said = await ask(here)
        assert "Those there are: one, two." in said and ".claude/agents/nobody.md belongs to another program" in said


async def test_a_projects_agents_count_only_where_it_is_trusted() -> None:
    async with rig(TeamModel([delegate("look", agent="local"), Say("ok")])) as here:
        file = describe(here.home.cwd / ".hermes" / "agents", "local", head(description="Local.") + "Local rules.")
        said = await ask(here)
        assert ".hermes/agents/local.md is not used: its folder is not trusted" in said
        assert "Described agents" not in here.server.requests[0].system
        set_trust(here.home.hermes / "trust.json", str(here.home.cwd), trusted=True)
        assert "[sub-agent 1: done]" in await ask(here)
        assert "Local rules." in child_of(here).system and "- local: Local." in here.server.requests[2].system
        async with here.process() as (app, _actor):
            await app.services.store.tainted_files.mark_all([(str(file.resolve().parent), b"folder", ("a page",))], [])
        assert "is not used" in await ask(here)


async def test_a_projects_agent_has_only_models_that_are_set_up_and_ones_own_any() -> None:
    async with rig(TeamModel([delegate("look", agent="local"), Say("ok")])) as here:
        set_trust(here.home.hermes / "trust.json", str(here.home.cwd), trusted=True)
        describe(here.home.cwd / ".hermes" / "agents", "local", head(model="dear/huge") + "Local rules.")
        assert "The model 'dear/huge' is not set up for sub-agents." in await ask(here)
        describe(here.home.hermes / "agents", "local", head(model="other-model") + "Mine.")
        assert "done" in await ask(here)
        assert child_of(here).model == "other-model" and here.server.requests[0].model != "other-model"


async def test_what_a_file_said_holds_after_it_has_changed() -> None:
    """The task is stored with it, so that a sub-agent that is taken up gets no more than it began with."""
    calls = Say(calls=(Call("read_file", {"path": "x"}),))
    async with rig(TeamModel([delegate("look", agent="one"), Say("ok")], {"look": [calls, Say("fine")]})) as here:
        describe(here.home.hermes / "agents", "one", head(tools="Read") + "Once.")
        async with here.process() as (app, actor):
            await here.say(actor)
            row = (await list_rows(app, actor))[0]
            assert row.state is SubAgentState.DONE and row.task.tools == ("read_file",) and row.task.instructions == ""


async def test_without_delegation_nothing_is_said_of_agents() -> None:
    async with rig(TeamModel([Say("ok")])) as here:
        describe(here.home.hermes / "agents", "one", "First.")
        for options in ({"enabled_toolsets": ("file",)}, {"disabled_toolsets": ("delegation",)}):
            async with here.process(**options) as (_app, actor):
                await here.say(actor)
            assert "Described agents" not in here.server.requests[-1].system
