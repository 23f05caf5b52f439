"""Tools without an agent: their schemas, calling them from threads and loops, and what they need."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor

import msgspec
import pytest

from hermes import (
    check_toolset_requirements,
    close_tool_session,
    get_tool_definitions,
    get_toolset_for_tool,
    handle_function_call,
)
from hermes.core.errors import ConfigError, UsageError
from hermes.core.messages import ToolStatus
from hermes.hooks.events import HookEvent
from hermes.hooks.hook import HookCall, HookDecision, HookOutcome
from hermes.sessions.options import SessionOptions
from hermes.sessions.python_library.function_tools import make_function_tool
from hermes.sessions.python_library.tool_session import ToolSession
from hermes.testing.home import TempHome
from hermes.testing.script import Say
from hermes.testing.server import ScriptedServer
from hermes.tools.toolsets import resolve_toolset


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch) -> Iterator[TempHome]:
    """A home without a model, in which the process works."""
    with TempHome({"terminal": {"backend": "local"}, "web": {"search_backend": "brave"}}) as home:
        for name in ("HOME", "HERMES_HOME", "XDG_RUNTIME_DIR"):
            monkeypatch.setenv(name, home.environ[name])
        monkeypatch.chdir(home.cwd)
        yield home
        close_tool_session()


def list_names(enabled: list[str] | None = None, disabled: list[str] | None = None) -> list[str]:
    functions = [one["function"] for one in get_tool_definitions(enabled, disabled)]
    return [str(one["name"]) for one in functions if isinstance(one, dict)]


def test_schemas_by_tool_set(home: TempHome) -> None:
    assert list_names(["file"]) == resolve_toolset("file")
    assert list_names(["file", "terminal"], ["file"]) == ["terminal", "process"]
    usual = list_names()
    assert {"read_file", "terminal", "memory", "skills_list", "tool_search"} <= set(usual)
    assert "web_search" not in usual and "web_extract" in usual
    (first,) = [one for one in get_tool_definitions(["todo"]) if isinstance(one["function"], dict)]
    function = first["function"]
    assert isinstance(function, dict) and first["type"] == "function"
    assert function["name"] == "todo" and function["description"] and function["parameters"]["type"] == "object"
    with pytest.raises(ConfigError, match="no toolset"):
        get_tool_definitions(["fil"])


def test_sets_and_what_they_need(home: TempHome, monkeypatch: pytest.MonkeyPatch) -> None:
    named = {"read_file": "file", "process": "terminal", "memory": "memory", "execute_code": "code_execution"}
    assert {name: get_toolset_for_tool(name) for name in named} == named
    assert get_toolset_for_tool("no_such_tool") is None
    found = check_toolset_requirements()
    assert found["web"] is False and found["search"] is False and found["file"] is True
    monkeypatch.setenv("BRAVE_API_KEY", "x")
    assert check_toolset_requirements()["web"] is True


def test_a_call_goes_through_the_gate_and_its_refusal_is_a_text(home: TempHome) -> None:
    (home.cwd / "a.txt").write_text("apples\n")
    assert "apples" in handle_function_call("read_file", {"path": "a.txt"})
    assert "hello" in handle_function_call("terminal", '{"command": "echo hello"}')
    (home.cwd / "old").mkdir()
    (home.home / "kept.txt").write_text("x")
    said = handle_function_call("terminal", {"command": f"rm -r {home.home}"})
    assert "Nothing was done" in said and (home.home / "kept.txt").exists()
    assert "no tool" in handle_function_call("no_such_tool", {}).lower()
    assert "path" in handle_function_call("read_file", {})
    assert "cut off" in handle_function_call("read_file", "{")
    with pytest.raises(UsageError):
        handle_function_call("read_file", ["a.txt"])  # type: ignore[arg-type]


def test_another_task_has_its_own_shell_and_folder(home: TempHome) -> None:
    handle_function_call("terminal", {"command": "mkdir -p deep && cd deep && export FRUIT=plum"}, task_id="one")
    assert "plum" in handle_function_call("terminal", {"command": "echo $FRUIT in $(pwd)"}, task_id="one")
    assert "plum" not in handle_function_call("terminal", {"command": "echo $FRUIT"}, task_id="two")


def test_a_thousand_calls_from_threads_and_loops_meet_no_loop_error(home: TempHome) -> None:
    (home.cwd / "a.txt").write_text("apples\n")

    def call(number: int) -> bool:
        if number % 2:
            return "apples" in handle_function_call("read_file", {"path": "a.txt"})

        async def call_inside() -> bool:
            return "apples" in handle_function_call("read_file", {"path": "a.txt"})

        return asyncio.run(call_inside())

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(call, range(900)))
    assert all(call(number) for number in range(100))


def test_a_program_ends_by_itself_and_leaves_no_session(home: TempHome) -> None:
    code = (
        "from hermes import handle_function_call as f\n"
        "print(f('terminal', {'command': 'echo one'}))\n"
        "f('terminal', {'command': 'sleep 600', 'background': True})\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], env=home.environ, cwd=home.cwd, capture_output=True, text=True,
        timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0 and "one" in done.stdout and not done.stderr
    listed = subprocess.run(
        [sys.executable, "-m", "hermes", "sessions", "list", "--json"],
        env=home.environ,
        capture_output=True,
        check=True,
    )
    assert msgspec.json.decode(listed.stdout) == []


def test_importing_hermes_imports_none_of_it() -> None:
    code = "import hermes, sys; print([n for n in sys.modules if n.startswith('hermes.')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


class Guard:
    """Refuses the tool `double`."""

    name = "guard"

    def handles(self, call: HookCall) -> bool:
        return call.event is HookEvent.PRE_TOOL_CALL and call.tool == "double"

    async def run_hook(self, call: HookCall) -> HookOutcome:
        return HookOutcome(decision=HookDecision.DENY, reason=f"no {call.arguments['number']}")

    async def close(self) -> None:
        return


def double(number: int) -> int:
    """Double a number."""
    return 2 * number


async def halve(number: int) -> float:
    """Halve a number."""
    return number / 2


def nested(number: int) -> str:
    """Call another tool."""
    return handle_function_call("double", {"number": number})


@pytest.mark.parametrize("verdict", ["FINE", "ASK"])
async def test_in_smart_mode_the_model_looks_at_calls_too(verdict: str) -> None:
    async with ScriptedServer([Say(verdict)] * 4) as server:
        with TempHome.for_server(server.url, more_config={"approvals": {"mode": "smart"}}) as home:
            async with ToolSession(home.environ, SessionOptions(cwd=str(home.cwd))) as session:
                result = await session.call("terminal", {"command": "make"})
        assert server.requests and ("Nothing was done" in result.text) is (verdict == "ASK"), result.text


async def test_own_tools_plain_and_async_and_hooks() -> None:
    tools = tuple(map(make_function_tool, (double, halve, nested)))
    with TempHome() as home:
        options = SessionOptions(cwd=str(home.cwd), extra_tools=tools)
        async with ToolSession(home.environ, options) as session:
            calls: list[tuple[str, Mapping[str, object], str]] = [
                ("double", {"number": 4}, "8"),
                ("halve", {"number": 4}, "2.0"),
                ("nested", {"number": 4}, "A tool cannot call another tool"),
            ]
            for name, arguments, text in calls:
                assert text in (await session.call(name, arguments)).text
        async with ToolSession(home.environ, options, hooks=[Guard()]) as session:
            refused = await session.call("double", {"number": 4})
            assert refused.status is not ToolStatus.OK and "no 4" in refused.text
            assert (await session.call("halve", {"number": 4})).text == "2.0"
