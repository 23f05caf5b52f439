"""Tools that cannot work are not offered, and it is said why."""

from collections.abc import Mapping

import msgspec
import pytest

from hermes.admin.toolsets import list_toolsets
from hermes.config.settings import Settings
from hermes.runtime.mailbox import InboundMessage
from hermes.sessions.app import App
from hermes.sessions.options import SessionOptions
from hermes.testing.command_context import RecordingContext
from hermes.testing.home import TempHome
from hermes.testing.script import Call, Say
from hermes.testing.server import ScriptedServer
from hermes.tools.registry import Toolbox, ToolRegistry, ToolSurroundings
from hermes.tools.session import ToolContext
from hermes.tools.tool import AvailabilityCheck, Tool, ToolRequirements, tool


def make_tool(requirements: ToolRequirements, availability: AvailabilityCheck | None = None) -> Tool:
    async def roll_dice(ctx: ToolContext) -> str:
        """Roll dice."""
        return "4"

    traits = {"availability": availability} if availability is not None else {}
    return tool("dice", deferred=True, requirements=requirements, **traits)(roll_dice)  # type: ignore[arg-type]


def explain_no(_environ: Mapping[str, str], _settings: Settings) -> str:
    return "it never works"


def explain_yes(_environ: Mapping[str, str], _settings: Settings) -> str:
    return ""


@pytest.mark.parametrize(
    ("requirements", "check", "why"),
    [
        (ToolRequirements(), "", ""),
        (ToolRequirements(variables=("DICE_KEY",)), "", "it needs the variable DICE_KEY"),
        (ToolRequirements(variables=("EMPTY",)), "", "it needs the variable EMPTY"),
        (ToolRequirements(variables=("DICE_KEY|OTHER_KEY", "OTHER_KEY")), "", ""),
        (ToolRequirements(programs=("no-such-program|sh",)), "", ""),
        (ToolRequirements(programs=("no-such-program",)), "", "it needs the program no-such-program"),
        (ToolRequirements(), "explain_no", "it never works"),
        (ToolRequirements(), "explain_yes", ""),
        (ToolRequirements(), "no_such_function", "its check failed: AttributeError"),
    ],
)
def test_what_is_missing_is_said(requirements: ToolRequirements, check: str, why: str) -> None:
    around = ToolSurroundings({"OTHER_KEY": "x", "EMPTY": " ", "PATH": "/bin:/usr/bin"}, Settings())
    made = make_tool(requirements, AvailabilityCheck(function=f"{__name__}:{check}") if check else None)
    said = around.explain_missing(made)
    assert said.startswith(why) and bool(said) == bool(why)


def test_a_check_is_not_asked_where_its_settings_have_their_defaults() -> None:
    check = AvailabilityCheck(function="no_such_module:f", settings=("web.search_backend",))
    assert ToolSurroundings({}, Settings()).explain_missing(make_tool(ToolRequirements(), check)) == ""


def select(settings: dict[str, object], environ: Mapping[str, str] | None = None) -> Toolbox:
    around = ToolSurroundings(environ or {}, msgspec.convert(settings, Settings))
    return ToolRegistry().select_tools(explain_missing=around.explain_missing)


@pytest.mark.parametrize(
    ("web", "environ", "why"),
    [
        ({}, {}, ""),
        ({"search_backend": "duckduckgo"}, {}, ""),
        ({"search_backend": "brave"}, {}, "its key BRAVE_SEARCH_API_KEY is not set"),
        ({"search_backend": "brave"}, {"BRAVE_API_KEY": "x"}, ""),
        ({"search_backend": "searxng"}, {}, "does not say where it is"),
        ({"search_backend": "searxng"}, {"SEARXNG_URL": "http://127.0.0.1:1"}, ""),
        ({"search_backend": "gooogle"}, {}, "which is no search engine"),
    ],
)
def test_a_chosen_search_engine_without_its_key_hides_the_search(
    web: dict[str, object], environ: Mapping[str, str], why: str
) -> None:
    box = select({"web": web}, environ)
    assert ("web_search" in box.list_names()) == (not why) and "web_extract" in box.list_names()
    assert (why in box.hidden.get("web_search", "") and box.find("web_search") is None) or not why


async def test_a_hidden_tool_is_neither_offered_nor_found_nor_called() -> None:
    key = ToolRequirements(variables=("DICE_KEY",))
    async with ScriptedServer([Say(calls=(Call("tool_search", {"query": "dice"}), Call("roll_dice", {})))] * 9) as (
        server
    ):
        config: dict[str, object] = {"web": {"search_backend": "brave"}}
        with TempHome.for_server(server.url, more_config=config) as home:
            options = SessionOptions(cwd=str(home.cwd), extra_tools=(make_tool(key),), max_turns=2)
            async with App(home.environ, options) as app:
                actor = await app.open_session()
                await actor.post(InboundMessage(text="go", cwd=str(home.cwd)))
                desk = RecordingContext(app, actor)
                told = await desk.type_line("/tools")
                assert "roll_dice is hidden: it needs the variable DICE_KEY." in told
                assert "web_search is hidden: `web.search_backend` names brave" in told
            first, second = server.requests[:2]
            assert "web_search" not in first.tool_names and "web_extract" in first.tool_names
            results = str(second.results)
            assert "Roll dice" not in results and "Nothing matches" in results and "no tool" in results.lower()
            home.write_config({**(home.config or {})})
            async with App({**home.environ, "DICE_KEY": "x", "BRAVE_API_KEY": "x"}, options) as app:
                actor = await app.open_session()
                assert not {"roll_dice", "web_search"} & app.live_session(actor).tools.toolbox.hidden.keys()


async def test_a_set_of_which_nothing_works_says_why() -> None:
    async with ScriptedServer([Say("x")]) as server:
        with TempHome.for_server(server.url, more_config={"web": {"search_backend": "tavily"}}) as home:
            options = SessionOptions(cwd=str(home.cwd), enabled_toolsets=("search",))
            async with App(home.environ, options) as app:
                with pytest.raises(Exception, match="TAVILY_API_KEY is not set"):
                    await app.open_session()


def test_hermes_tools_says_what_is_hidden() -> None:
    server = {"command": "no-such-program-here", "args": []}
    config: dict[str, object] = {"web": {"search_backend": "brave"}, "mcp_servers": {"notes": server}}
    with TempHome(config) as home:
        rows = {str(row["name"]): row for row in list_toolsets(home.environ)}
        assert "BRAVE_SEARCH_API_KEY" in str(rows["web"]["hidden"]) and rows["file"]["hidden"] == {}
        assert rows["mcp-notes"]["hidden"] == {"mcp-notes": "its program no-such-program-here is not found"}
        (home.hermes / ".env").write_text("BRAVE_API_KEY=x\n")
        rows = {str(row["name"]): row for row in list_toolsets(home.environ)}
        assert rows["web"]["hidden"] == {}
