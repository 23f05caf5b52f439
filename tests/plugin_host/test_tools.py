"""The tools of folder plug-ins in a session: what is asked about them, and where what they say is from."""

import sys
from pathlib import Path

import pytest
from msgspec import structs

from hermes.core.messages import Source, ToolResultPart
from hermes.plugin_host.tools import plugin_source
from hermes.tools.registry import Toolbox, ToolRegistry
from hermes.tools.taint import TrustedFolders, describe_source, provenance_from_sources, sources_from_provenance
from tests.plugin_host.rig import HEADER, PluginRig, open_rig
from tests.tools.tool_session import Person, Session, make_context

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform != "linux", reason="the boxes are Linux's")]

PROGRAM = f"{HEADER}\n@tool\ndef act(call, text=''):\n    return f'it says {{text}}'\nrun()\n"
WEB = "web:evil.example"


async def call(rig: PluginRig, *, name: str = "one", person: Person | None = None, tainted: str = "") -> ToolResultPart:
    """Call the tool of a plug-in in a session of its own, in which this untrusted source is."""
    found = rig.host.open_session(str(rig.workspace))
    context = make_context(rig.person, trust=TrustedFolders((str(rig.person),)))
    session = Session(context, Toolbox(found.tools))
    session.person = person
    if tainted:
        context.state.taint.add_sources([tainted])
    try:
        return await session.call(f"plugin__{name}__act", text="a")
    finally:
        await session.close()


def sources_of(result: ToolResultPart) -> str:
    return result.provenance.label if result.provenance is not None and result.provenance.is_untrusted else ""


async def test_one_without_ways_in_says_nothing_untrusted(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:
        rig.add_plugin("one", PROGRAM)
        result = await call(rig)
        assert result.text == "it says a" and not sources_of(result)


@pytest.mark.parametrize(
    "more",
    ["hooks: [post_tool_call]", "hooks: [on_session_start, pre_llm_call]", "memory: true", "hosts: [example.com]"],
)
async def test_what_one_hears_or_fetches_is_untrusted(tmp_path: Path, more: str) -> None:
    async with open_rig(tmp_path) as rig:
        rig.add_plugin("one", PROGRAM, more)
        result = await call(rig)
        assert sources_of(result) == "other:plugin:one" and result.provenance is not None
        assert result.provenance.source is Source.OTHER


async def test_the_model_finds_the_tools_of_one(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:
        rig.add_plugin("one", PROGRAM)
        registry = ToolRegistry()
        for tool in rig.host.open_session(str(rig.workspace)).tools:
            registry.register(tool)
        box = registry.select_tools(["todo", "plugin-one"])
        session = Session(structs.replace(make_context(rig.person), deferred_tools=box), box)
        found = await session.call("tool_search", query="act")
        await session.close()
        assert found.text.startswith("plugin__one__act: [plug-in one] Acts.\nparameters: {")
        assert not sources_of(found), "the person has seen what it says and enabled it"


@pytest.mark.parametrize("source", [plugin_source("one"), "other:mail", WEB, "file:/home/a b", "plugin:one"])
def test_a_source_keeps_its_name_through_what_is_made_of_it(source: str) -> None:
    made = provenance_from_sources([source])
    assert made is not None and sources_from_provenance(made) == [source]


def test_people_read_the_name_of_a_plug_in_once() -> None:
    assert describe_source(plugin_source("one")) == "the plug-in one"
    assert describe_source(plugin_source("one"), has_kind=True) == "the plug-in one"
    assert (describe_source(WEB), describe_source(WEB, has_kind=True)) == (WEB.partition(":")[2], WEB)


async def test_a_hook_that_hears_nothing_leaves_results_trusted(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:
        rig.add_plugin("one", PROGRAM, "hooks: [on_session_start]")
        assert not sources_of(await call(rig))


async def test_what_one_was_given_once_it_may_say_in_any_session(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:
        rig.add_plugin("one", PROGRAM)
        rig.add_plugin("other", PROGRAM)
        assert sources_of(await call(rig, tainted=WEB)) == WEB
        await rig.host.close()
        rig.host = rig.make_host()
        assert sources_of(await call(rig)) == WEB
        assert not sources_of(await call(rig, name="other"))


async def test_arguments_for_hosts_are_asked_about_while_untrusted_content_is_there(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:
        rig.add_plugin("one", PROGRAM, "hosts: [example.com]")
        rig.add_plugin("other", PROGRAM)
        person = Person(False)
        refused = await call(rig, person=person, tainted=WEB)
        assert "it says" not in refused.text and "evil.example" in str(person.asked[0])
        assert not rig.host.list_facts(), "nothing was started"
        nobody = Person()
        assert "it says" in (await call(rig, person=nobody)).text
        assert "it says" in (await call(rig, name="other", person=nobody, tainted=WEB)).text
        assert not nobody.asked


async def test_the_workspace_s_files_are_as_trusted_as_their_folder(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:
        rig.add_plugin("one", PROGRAM, "capabilities: {workspace: read}")
        found = rig.host.open_session(str(rig.workspace))
        context = make_context(rig.person, trust=TrustedFolders(()))
        (context.state.cwd / ".git").mkdir()
        session = Session(context, Toolbox(found.tools))
        result = await session.call("plugin__one__act", text="a")
        await session.close()
        assert sources_of(result) == f"file:{context.places.workspace}"
