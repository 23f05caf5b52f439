"""The tools of folder plug-ins in a session: what is asked about them, and where what they say is from."""

import sys
from pathlib import Path

import pytest

from hermes.core.messages import Source, ToolResultPart
from hermes.tools.registry import Toolbox
from hermes.tools.taint import TrustedFolders
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
