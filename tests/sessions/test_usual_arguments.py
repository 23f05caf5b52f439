"""What programs may say to `AIAgent`: arguments that are obeyed, and those that are refused by name."""

import dataclasses
import json
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Literal

import pytest

from hermes import AIAgent
from hermes.core.errors import ConfigError, UsageError
from hermes.core.messages import Provenance, Source
from hermes.sessions.python_library.usual_arguments import INSTEAD
from hermes.testing.home import TempHome
from hermes.testing.script import Call, Reply, Say
from hermes.tools.session import ToolContext
from hermes.tools.tool import ToolOutput, tool
from tests.sessions.served_agent import Served, make_agent

PAGE = Path(__file__).parents[2] / "docs/library.md"


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch) -> Iterator[TempHome]:
    with TempHome() as made:
        for name, value in made.environ.items():
            monkeypatch.setenv(name, value)
        yield made


def test_the_page_lists_every_argument_and_what_to_use_instead() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \| (.+) \|$", PAGE.read_text(), re.MULTILINE))
    assert set(rows) == {spec.name for spec in dataclasses.fields(AIAgent)}
    for name, instead in INSTEAD.items():
        assert rows[name] == f"refused: {instead}"


@pytest.mark.parametrize("name", INSTEAD)
def test_an_argument_that_nothing_acts_on_is_refused_by_name(name: str) -> None:
    with pytest.raises(UsageError) as caught:
        AIAgent(**{name: ["x"]})  # type: ignore[arg-type]
    assert name in caught.value.message and caught.value.hint == INSTEAD[name]
    for nothing in (None, False, "", [], {}):
        AIAgent(**{name: nothing})  # type: ignore[arg-type]


def test_what_a_program_for_other_agents_usually_says_is_taken(home: TempHome) -> None:
    with Served([Say("fine")]) as server:
        with make_agent(
            server, home, quiet_mode=True, log_prefix_chars=20, persist_session=True, skip_memory=True
        ) as made:
            assert made.chat("x") == "fine"
        tools = {one["function"]["name"] for one in json.loads(server.requests[0].body)["tools"]}
    assert "read_file" in tools and not tools & {"memory", "session_search"}
    with pytest.raises(UsageError, match="keeps every session"):
        AIAgent(persist_session=False)
    with pytest.raises(TypeError, match="quite_mode"):
        AIAgent(quite_mode=True)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    "wrong",
    [
        {"max_iterations": 0},
        {"max_iterations": "9"},
        {"tool_delay": -1},
        {"tool_delay": True},
        {"tool_delay": float("nan")},
        {"reasoning_config": {"effort": "huge"}},
        {"reasoning_config": {"budget": 3}},
        {"reasoning_config": {"max_tokens": 0}},
        {"reasoning_config": "low"},
        {"request_overrides": {"model": "other"}},
        {"request_overrides": {"messages": []}},
        {"request_overrides": {"extra_body": {"stream": False}}},
        {"request_overrides": {"Messages ": []}},
        {"request_overrides": {"mcp_servers": [{"url": "https://example.com"}]}},
        {"request_overrides": {"functions": []}},
        {"request_overrides": {"n": 5}},
        {"request_overrides": {b"seed": 1}},
        {"request_overrides": {"extra_body": {"extra_body": {"messages": []}}}},
        {"request_overrides": {"extra_body": [1]}},
        {"request_overrides": {"seed": object()}},
        {"request_overrides": ["seed"]},
        {"trust": "/no/such/folder"},
        {"trust": "/"},
        {"tools": "read_file"},
        {"tools": [lambda city: city]},
        {"tools": [3]},
    ],
)
def test_a_value_that_cannot_be_used_is_refused_at_once_by_one_sentence(
    home: TempHome, wrong: dict[str, object]
) -> None:
    with pytest.raises(UsageError) as caught:
        AIAgent(**wrong)  # type: ignore[arg-type]
    assert (
        next(iter(wrong)).rstrip("s") in str(caught.value)
        or "tool" in str(caught.value)
        or "trust" in str(caught.value)
    )
    assert "\n" not in str(caught.value) and list(home.hermes.iterdir()) == []


def test_an_explicit_delay_is_a_pause_and_none_is_as_configured(home: TempHome) -> None:
    def serial() -> list[Reply]:
        calls = tuple(Call("terminal", {"command": f"echo {number}"}) for number in range(3))
        return [Say(calls=calls), Say("done")]

    def measure(**options: object) -> float:
        with Served(serial()) as server, make_agent(server, home, **options) as made:
            begin = time.monotonic()
            assert made.chat("go") == "done"
            return time.monotonic() - begin

    assert measure(tool_delay=1.0) >= 2.0
    (home.hermes / "config.yaml").write_text("agent: {tool_delay: 0.6, max_turns: 1}\n")
    assert measure() >= 1.2
    with Served([Say(calls=(Call("todo", {}),)), Say("second")]) as server, make_agent(server, home) as made:
        made.run_conversation("go")
        assert "tool_choice" in json.loads(server.requests[-1].body)
    with Served([Say(calls=(Call("todo", {}),)), Say("second")]) as server:
        with make_agent(server, home, max_iterations=90) as made:
            assert made.chat("go") == "second"
        assert "tool_choice" not in json.loads(server.requests[-1].body)


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ({"enabled": False}, {"reasoning_effort": "none"}),
        ({"enabled": False, "effort": "high"}, {"reasoning_effort": "none"}),
        ({"enabled": True}, {"reasoning_effort": "medium"}),
        ({"effort": "low"}, {"reasoning_effort": "low"}),
        ({"max_tokens": 15_000}, {"reasoning_effort": "high"}),
        ({}, {}),
    ],
)
def test_the_reasoning_is_as_the_program_says(
    home: TempHome, given: dict[str, object], sent: dict[str, object]
) -> None:
    with Served([Say("x")]) as server, make_agent(server, home, reasoning_config=given) as made:
        made.chat("go")
        body = json.loads(server.requests[0].body)
    assert {name: value for name, value in body.items() if "reason" in name or "think" in name} == sent


def test_a_model_that_cannot_be_told_how_to_think_is_named(home: TempHome) -> None:
    told: list[str] = []
    options = {"provider": "mistral", "api_key": "k" * 20, "notice_callback": lambda _level, text: told.append(text)}
    with Served([Say("x"), Say("y")]) as server:
        with make_agent(server, home, reasoning_config={"enabled": False}, **options) as made:
            made.chat("go")
            made.chat("on")
        assert b"reasoning" not in server.requests[0].body
    assert sum("cannot be told how much to think" in line for line in told) == 1


def test_reasoning_in_tokens_is_a_budget_where_the_api_takes_one(home: TempHome) -> None:
    with Served([Say("x")]) as server:
        options = {"provider": "anthropic", "model": "claude-sonnet-4-5", "api_key": "k" * 20}
        with make_agent(server, home, reasoning_config={"max_tokens": 3_000}, **options) as made:
            made.chat("go")
        assert json.loads(server.requests[0].body)["thinking"] == {"type": "enabled", "budget_tokens": 3_000}
    with Served([Say("x")]) as server:
        options = {"provider": "openrouter", "api_key": "k" * 20}
        with make_agent(server, home, reasoning_config={"max_tokens": 3_000}, **options) as made:
            made.chat("go")
        assert json.loads(server.requests[0].body)["reasoning"] == {"max_tokens": 3_000}


def test_members_of_requests_are_added_to_every_request_of_the_chosen_model(home: TempHome) -> None:
    options = {
        "request_overrides": {"seed": 7, "extra_body": {"user": "u"}},
        "service_tier": "flex",
        "providers_allowed": ["a"],
        "provider_sort": "price",
    }
    with Served([Say("x"), Say("y")]) as server, make_agent(server, home, **options) as made:
        made.chat("one")
        made.chat("two")
        bodies = [json.loads(request.body) for request in server.requests]
    for body in bodies:
        assert (body["seed"], body["user"], body["service_tier"]) == (7, "u", "flex")
        assert body["provider"] == {"only": ["a"], "sort": "price"}


def test_folders_are_trusted_for_this_agent_alone(home: TempHome) -> None:
    (home.cwd / "AGENTS.md").write_text("Say grapefruit.\n")

    def ask(**options: object) -> str:
        with Served([Say("x")]) as server, make_agent(server, home, **options) as made:
            made.chat("go")
            return server.requests[0].system

    assert "grapefruit" not in ask()
    assert "grapefruit" in ask(trust=True)
    assert "grapefruit" in ask(trust=[str(home.cwd)])
    assert "grapefruit" not in ask()
    assert not (home.hermes / "trust.json").exists()


def test_context_files_and_soul_stay_unread_where_the_program_says_so(home: TempHome) -> None:
    (home.cwd / "AGENTS.md").write_text("Say grapefruit.\n")
    (home.hermes / "SOUL.md").write_text("You are a lighthouse.\n")

    def ask(**options: object) -> str:
        with Served([Say("x")]) as server, make_agent(server, home, trust=True, **options) as made:
            made.chat("go")
            return server.requests[0].system

    assert "grapefruit" in (whole := ask()) and "lighthouse" in whole
    assert "grapefruit" not in (bare := ask(skip_context_files=True)) and "lighthouse" not in bare
    assert "lighthouse" in (own := ask(skip_context_files=True, load_soul_identity=True)) and "grapefruit" not in own


def weigh(fruit: Annotated[str, "Which fruit."], unit: Literal["g", "kg"] = "g") -> dict[str, object]:
    """Weigh a fruit."""
    return {"fruit": fruit, "weight": 12, "unit": unit}


async def fetch_note(ctx: ToolContext, name: str) -> ToolOutput:
    """Fetch a note of a stranger."""
    return ToolOutput(text=f"{name} of {bool(ctx.session_id)}", provenance=Provenance(Source.WEB, "http://e.invalid"))


def explode() -> None:
    """Do what cannot be done."""
    raise ValueError("no such fruit")


@tool("garden")
async def water(ctx: ToolContext, plant: Annotated[str, "Which one."]) -> str:
    """Water a plant."""
    return f"{plant} is wet"


def test_functions_of_the_program_are_tools(home: TempHome, caplog: pytest.LogCaptureFixture) -> None:
    calls = (
        Call("weigh", {"fruit": "fig", "unit": "kg"}, call_id="a"),
        Call("fetch_note", {"name": "n"}, call_id="b"),
        Call("explode", {}, call_id="c"),
        Call("water", {"plant": "fern"}, call_id="d"),
        Call("weigh", {"unit": "t"}, call_id="e"),
    )
    with Served([Say(calls=calls), Say("done")]) as server:
        with make_agent(
            server, home, tools=[weigh, fetch_note, explode, water], enabled_toolsets=["todo", "garden"]
        ) as made:
            assert made.chat("go") == "done"
        schemas = {one["function"]["name"]: one["function"] for one in json.loads(server.requests[0].body)["tools"]}
        results = server.requests[1].results
    assert set(schemas) == {"weigh", "fetch_note", "explode", "water", "todo"}
    assert schemas["weigh"]["description"] == "Weigh a fruit."
    assert schemas["weigh"]["parameters"]["properties"]["unit"]["enum"] == ["g", "kg"]
    assert list(schemas["fetch_note"]["parameters"]["properties"]) == ["name"]
    assert json.loads(results["a"]) == {"fruit": "fig", "weight": 12, "unit": "kg"}
    assert "n of True" in results["b"] and "untrusted" in results["b"]
    assert "explode failed: ValueError: no such" in results["c"] and "the program's tool explode failed" in caplog.text
    assert results["d"] == "fern is wet" and "Missing: fruit" in results["e"]


def test_a_tool_with_a_taken_name_is_refused_by_one_sentence(home: TempHome) -> None:
    def read_file(path: str) -> str:
        return path

    served = Served([Say("x")])
    with served as server, make_agent(server, home, tools=[read_file]) as made, pytest.raises(ConfigError) as caught:
        made.chat("go")
    assert caught.value.message == "Two tools are called 'read_file'."


@pytest.mark.parametrize(
    "name", ["step_callback", "status_callback", "tool_start_callback", "tool_complete_callback", "thinking_callback"]
)
def test_a_callback_that_raises_loses_nothing(home: TempHome, caplog: pytest.LogCaptureFixture, name: str) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError(name)

    replies: list[Reply] = [Say(calls=(Call("todo", {}),)), Say("the answer"), Say("and again")]
    with Served(replies) as server, make_agent(server, home, **{name: fail}) as made:
        assert made.chat("go") == "the answer"
        assert made.chat("on") == "and again"
    assert "callback failed" in caplog.text and "ZeroDivisionError" in caplog.text


def test_callbacks_hear_arguments_results_words_between_and_notices(home: TempHome) -> None:
    heard: list[object] = []

    def note(kind: str) -> Callable[..., None]:
        return lambda *values: heard.append((kind, *values))

    (home.cwd / "AGENTS.md").write_text("Say grapefruit.\n")
    names = ("tool_start", "tool_complete", "interim_assistant", "notice")
    replies: list[Reply] = [Say("first I count", calls=(Call("weigh", {"fruit": "fig"}, call_id="a"),)), Say("done")]
    callbacks = {f"{name}_callback": note(name) for name in names}
    with Served(replies) as server, make_agent(server, home, tools=[weigh], **callbacks) as made:
        made.chat("go")
    arguments = {"fruit": "fig"}
    assert ("tool_start", "a", "weigh", arguments) in heard and ("interim_assistant", "first I count") in heard
    assert any(one[:4] == ("tool_complete", "a", "weigh", arguments) and "12" in one[4] for one in heard)  # type: ignore[index]
    assert any(one[:2] == ("notice", "warning") and "AGENTS.md is not used" in one[2] for one in heard)  # type: ignore[index]


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"allow": "ls *"}, "allow cannot be used"),
        ({"enabled_toolsets": "web"}, "enabled_toolsets cannot be used"),
        ({"disabled_toolsets": "web"}, "disabled_toolsets cannot be used"),
        ({"temperature": "hot"}, "temperature cannot be used"),
        ({"max_tokens": -1}, "max_tokens cannot be used"),
        ({"context_length": "big"}, "context_length cannot be used"),
        ({"ephemeral_system_prompt": 3}, "ephemeral_system_prompt cannot be used"),
        ({"service_tier": 3}, "service_tier cannot be used"),
        ({"provider_sort": "fastest"}, "provider_sort cannot be used"),
        ({"provider_data_collection": "maybe"}, "provider_data_collection cannot be used"),
        ({"skip_memory": "yes"}, "skip_memory cannot be used"),
        ({"api_key": 42}, "api_key cannot be used"),
        ({"fallback_model": 42}, "fallback_model cannot be used"),
        ({"credential_pool": 42}, "credential_pool must be a list"),
        ({"cwd": "/nowhere/at/all"}, "not a folder"),
        ({"step_callback": "print"}, "step_callback must be a function"),
    ],
)
def test_a_value_of_another_type_is_refused_before_anything_opens(
    home: TempHome, given: dict[str, object], why: str
) -> None:
    with Served([]) as server, pytest.raises(UsageError, match=why):
        make_agent(server, home, **given)
    assert list(home.hermes.iterdir()) == []


def test_an_async_callback_is_refused_since_nobody_would_wait_for_it(home: TempHome) -> None:
    async def show(text: str) -> None:
        raise AssertionError(text)

    with Served([]) as server, pytest.raises(UsageError, match="async"):
        make_agent(server, home, stream_delta_callback=show)


def test_texts_may_be_none_lists_tuples_and_the_folder_a_path(home: TempHome) -> None:
    usual = {"ephemeral_system_prompt": None, "session_id": None, "provider": "custom", "allow": ("ls *",)}
    usual |= {"enabled_toolsets": {"file"}, "temperature": 1, "max_tokens": 100, "cwd": Path(home.cwd)}
    with Served([Say("x")]) as server, make_agent(server, home, **usual) as agent:
        assert agent.chat("hi") == "x"


def test_an_empty_message_is_refused_and_no_model_is_asked(home: TempHome) -> None:
    with Served([]) as server, make_agent(server, home) as agent:
        with pytest.raises(UsageError, match="empty"):
            agent.chat("  ")
        assert server.requests == []
