"""Finding tools by file, sets of them, and the deferred ones."""

import subprocess
import sys
from typing import Annotated

import pytest

from hermes.core.errors import ConfigError
from hermes.core.messages import ToolStatus
from hermes.gateway import platforms
from hermes.plugins import list_builtin_names
from hermes.sessions.session_tools import OWNED_TOOLS
from hermes.tools import toolsets
from hermes.tools.registry import Toolbox, ToolRegistry, read_listing
from hermes.tools.session import ToolContext
from hermes.tools.tool import Parallel, tool
from hermes.tools.toolsets import Toolset
from tests.tools.tool_session import Listener, Session, make_context

DEFAULT = ["read_file", "write_file", "patch", "search_files", "terminal", "process", "todo", "clarify"]
WEB = ["web_search", "web_extract"]
SEEING = ["vision_analyze"]
MAKING = ["image_generate"]
HOME = ["ha_call_service", "ha_get_state", "ha_list_entities", "ha_list_services"]
DEFAULT += WEB
BRIDGE = ["tool_search", "tool_call"]


@tool("rare", deferred=True, parallel=Parallel.SAFE, repeatable=True)
async def weather_report(ctx: ToolContext, city: Annotated[str, "City."]) -> str:
    """Tell the weather of a city."""
    return f"{city}: rain"


def test_the_default_set() -> None:
    assert ToolRegistry().select_tools().list_names() == [*DEFAULT, *BRIDGE]


def test_nothing_is_imported_before_it_is_called() -> None:
    code = (
        "import sys; from hermes.tools.registry import ToolRegistry; box = ToolRegistry().select_tools();"
        "print(sorted(n for n in sys.modules if n.startswith('hermes.tools.builtin.')));"
        "box.find('todo');"
        "print(sorted(n for n in sys.modules if n.startswith('hermes.tools.builtin.')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]\n['hermes.tools.builtin.todo']"


def test_every_file_holds_a_tool_of_its_name_or_a_family_of_it() -> None:
    registry = ToolRegistry()
    box = registry.select_tools(["all"])
    assert sorted(box.list_names()) == sorted([*DEFAULT, *BRIDGE])
    browser = ["browser_cdp", *(one for one in toolsets.resolve_toolset("browser") if one != "web_search")]
    assert box.list_deferred_names() == sorted([*browser, "execute_code", "text_to_speech", *HOME, *MAKING, *SEEING])
    for name in registry.list_builtin_files():
        names = [one.name for one in registry.load_file(name)]
        assert names == [name] or (names and all(one.startswith(f"{name}_") for one in names))


@pytest.mark.parametrize(
    ("enabled", "disabled", "names"),
    [
        (["file"], [], DEFAULT[:4]),
        (["*"], ["file", "terminal"], ["todo", "clarify", *WEB, *BRIDGE]),
        (["todo", "file", "todo"], ["file"], ["todo"]),
        (["safe"], [], [*WEB, *BRIDGE]),
        (["hermes-cli"], [], [*DEFAULT, *BRIDGE]),
        (["debugging"], [], ["terminal", "process", *WEB, *DEFAULT[:4]]),
        (["hermes-webhook"], [], ["clarify", *WEB, *BRIDGE]),
        ([], [], []),
    ],
)
def test_sets_with_includes(enabled: list[str], disabled: list[str], names: list[str]) -> None:
    assert ToolRegistry().select_tools(enabled, disabled).list_names() == names


def test_an_unknown_set_is_named_with_what_was_meant() -> None:
    with pytest.raises(ConfigError, match="Did you mean 'terminal'"):
        ToolRegistry().select_tools(["terminl"])
    with pytest.raises(
        ConfigError,
        match=r"no toolset 'zzz'. Sets are: browser, browser-cdp, clarify, code_execution, coding, cronjob, ",
    ):
        ToolRegistry().select_tools(["file"], ["zzz"])


def test_sets_hold_only_tools_that_there_are() -> None:
    registry, bound = ToolRegistry(), {tool for tools in OWNED_TOOLS.values() for tool in tools}
    for name, found in registry.load_toolsets().items():
        tools = toolsets.resolve_toolset(name, registry.load_toolsets())
        assert tools and found, name
        assert all(tool in bound or registry.get(tool) is not None for tool in tools), name
    assert not toolsets.ABSENT_TOOLSETS & set(toolsets.TOOLSETS)
    built = {"cli", "cron", "gateway", *(one.replace("_", "-") for one in list_builtin_names(platforms))}
    assert {one.removeprefix("hermes-") for one in toolsets.TOOLSETS if one.startswith("hermes-")} == built
    assert "hermes-" not in registry.describe_toolsets()


def test_cycles_end_and_each_tool_stands_once() -> None:
    sets = {"a": Toolset(("one",), ("b",)), "b": Toolset(("two", "one"), ("a", "c")), "c": Toolset(("three",), ("c",))}
    assert toolsets.resolve_toolset("a", sets) == ["one", "two", "three"]
    assert toolsets.resolve_toolset("b", sets) == ["two", "one", "three"]
    assert toolsets.resolve_toolset("all", sets) == ["one", "two", "three"]


def test_the_gateway_is_the_union_of_its_platforms() -> None:
    gateway = set(toolsets.resolve_toolset("hermes-gateway"))
    for name in toolsets.TOOLSETS:
        if name.startswith("hermes-") and name not in ("hermes-cli", "hermes-gateway"):
            assert set(toolsets.resolve_toolset(name)) <= gateway, name
    assert toolsets.resolve_toolset("safe") == [*WEB, *SEEING, *MAKING]


def test_owners_register_their_tools() -> None:
    registry = ToolRegistry()
    registry.register(weather_report)
    assert registry.select_tools(["rare"]).list_deferred_names() == ["weather_report"]
    with pytest.raises(ConfigError, match="Two tools"):
        registry.register(weather_report)


async def test_deferred_tools_are_found_and_run(session: Session) -> None:
    registry = ToolRegistry()
    registry.register(weather_report)
    box = registry.select_tools(["todo", "rare"])
    assert box.list_names() == ["todo", "tool_search", "tool_call"]
    from msgspec.structs import replace

    session.toolbox = box
    session.context = replace(session.context, deferred_tools=box)
    found = await session.text("tool_search", query="what is the weather")
    assert found.startswith("weather_report: Tell the weather of a city.\nparameters: {") and '"city"' in found
    assert "Further tools: weather_report" in await session.text("tool_search", query="zebra")
    result = await session.call("tool_call", name="weather_report", arguments={"city": "Rome"})
    assert (result.text, result.name) == ("Rome: rain", "tool_call")
    assert session.journal.intents[-1].tool == "weather_report" and session.journal.intents[-1].repeatable
    as_text = await session.call("tool_call", name="weather_report", arguments='{"city": "Oslo"}')
    assert as_text.text == "Oslo: rain"
    wrong = await session.call("tool_call", name="weather_report", arguments={"town": "Rome"})
    assert wrong.status is ToolStatus.INVALID and "Missing: city" in wrong.text
    unknown = await session.call("tool_call", name="wether_report", arguments={})
    assert unknown.status is ToolStatus.INVALID and "Did you mean 'weather_report'" in unknown.text


def test_schemas_are_the_same_bytes_in_another_process() -> None:
    code = (
        "import sys; from hermes.tools.registry import ToolRegistry;"
        "sys.stdout.buffer.write(b''.join(s.parameters for s in ToolRegistry().select_tools().list_schemas()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert done.stdout == b"".join(schema.parameters for schema in ToolRegistry().select_tools().list_schemas())


def test_deferred_tools_are_named_in_a_thousand_bytes() -> None:
    # The tools of the browser are named by the one that opens a page: its description names the others.
    deferred = [
        row
        for row in read_listing().values()
        if row.deferred and (row.toolset != "browser" or row.name == "browser_navigate")
    ]
    assert all(row.brief for row in deferred) and {"cronjob", "skill_manage"} <= {row.name for row in deferred}
    assert not any(row.brief for row in read_listing().values() if row not in deferred)
    lines = "".join(f"\n- {row.name}: {row.brief}" for row in deferred)
    assert len(lines.encode()) <= 1_000


async def test_todo_keeps_a_list(session: Session) -> None:
    assert await session.text("todo") == "The list is empty."
    text = await session.text("todo", todos=[{"content": "a"}, {"content": "b", "status": "in_progress", "id": "x"}])
    assert text == "[ ] 1: a\n[>] x: b\n0 of 2 done"
    text = await session.text("todo", todos=[{"id": "x", "status": "completed"}, {"content": "c"}], merge=True)
    assert text == "[ ] 1: a\n[x] x: b\n[ ] 4: c\n1 of 3 done"
    assert (await session.text("todo", todos=[{"content": "new"}])) == "[ ] 1: new\n0 of 1 done"
    for items, said in (
        ([{"content": "x" * 4_001}], "4001 characters"),
        ([{"content": str(number)} for number in range(257)], "257 items"),
        ([{"status": "pending"}], "no content"),
    ):
        result = await session.call("todo", todos=items)
        assert result.status is ToolStatus.ERROR and said in result.text
    assert len(await session.context.todo_list.read_items()) == 1


async def test_clarify_asks_the_person(session: Session) -> None:
    from msgspec.structs import replace

    assert "Nobody is there" in await session.text("clarify", question="Which?")
    listener = Listener("the second")
    session.context = replace(session.context, asker=listener)
    assert await session.text("clarify", question="Which?", choices=["a", "b"]) == "The person answered: the second"
    assert listener.questions == [("Which?", ["a", "b"])]
    many = await session.call("clarify", question="Which?", choices=list("abcde"))
    assert many.status is ToolStatus.ERROR and "At most 4" in many.text


def test_a_toolbox_tells_what_was_meant() -> None:
    box = Toolbox([weather_report])
    assert box.suggest_tool("Weather-Report") == "Did you mean 'weather_report'?"
    assert box.suggest_tool("zzz") == "The tools are: ."


def test_a_context_resolves_paths(tmp_path: object) -> None:
    from pathlib import Path

    context = make_context(Path(str(tmp_path)))
    assert context.resolve_path("~/x") == f"{context.places.home}/x"
    assert context.resolve_path("x") == f"{context.state.cwd}/x"
