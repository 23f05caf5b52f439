"""What holds for every built-in tool."""

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from hermes.admin.toolsets import list_toolsets_of
from hermes.commands.texts.event_descriptions import describe_toolset
from hermes.config.settings import Settings
from hermes.core.events import Event
from hermes.core.messages import ToolCallPart, ToolResultPart, ToolStatus
from hermes.core.protocols import Intent
from hermes.execution.base import BackendHandle
from hermes.execution.local import LocalBackend
from hermes.safety.paths import Places
from hermes.tools.executor import CallBatch, Executor
from hermes.tools.permissions.policy_gate import PolicyGate
from hermes.tools.registry import ListedTool, Toolbox, ToolRegistry
from hermes.tools.schema import ArgumentsError
from hermes.tools.session import ToolContext, ToolState
from hermes.tools.tool import Parallel, Tool
from hermes.tools.toolsets import DEFAULT_TOOLSETS, TOOLSETS
from hermes.util.clock import SystemClock

ROOT = Path(__file__).parents[2]
REGISTRY = ToolRegistry()
TOOLS = [tool for name in REGISTRY.list_builtin_files() if (tool := REGISTRY.get(name)) is not None]
DESCRIPTION = 320
PARAMETER = 120
DEFAULT_BYTES = 7_500

every_tool = pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)

Schema = dict[str, object]


class Journal:
    async def record_intents(self, intents: object) -> None:
        assert all(isinstance(intent, Intent) for intent in intents)  # type: ignore[attr-defined]

    async def record_result(self, result: ToolResultPart) -> None:
        assert result.text

    async def flush(self) -> None:
        return


def properties(tool: Tool) -> dict[str, Schema]:
    found: dict[str, Schema] = msgspec.json.decode(tool.schema.parameters)["properties"]
    return found


def sample(schema: Schema) -> object:
    """A value that fits."""
    if "enum" in schema:
        return schema["enum"][0]  # type: ignore[index]
    kinds: dict[str, object] = {"string": "x", "integer": 1, "number": 1.0, "boolean": False, "array": [], "object": {}}
    return kinds[str(schema.get("type", "string"))]


@every_tool
def test_the_schema_is_plain_json_schema(tool: Tool) -> None:
    schema = msgspec.json.decode(tool.schema.parameters)
    assert schema["type"] == "object" and set(schema.get("required", ())) <= set(schema["properties"])
    text = tool.schema.parameters.decode()
    assert "$ref" not in text and "$defs" not in text and '"title"' not in text and text.isascii()


@every_tool
def test_descriptions_are_there_and_short(tool: Tool) -> None:
    assert 10 < len(tool.description) <= DESCRIPTION and tool.description.endswith(".")
    for name, schema in properties(tool).items():
        assert 0 < len(str(schema.get("description", ""))) <= PARAMETER, name


@every_tool
def test_the_tool_stands_in_a_named_set(tool: Tool) -> None:
    assert tool.name in TOOLSETS[tool.toolset].tools


def test_each_set_that_is_listed_is_described() -> None:
    listed = {str(row["name"]): row["tools"] for row in list_toolsets_of(Settings(), {})}
    further = {"cronjob", "messages", "safe", "coding", "debugging", "search", "browser-cdp"}
    assert set(DEFAULT_TOOLSETS) | further == set(listed)
    assert all(describe_toolset(name) and tools for name, tools in listed.items())


@every_tool
def test_wrong_arguments_are_said(tool: Tool) -> None:
    with pytest.raises(ArgumentsError, match="no_such_parameter"):
        tool.parameters.decode('{"no_such_parameter": 1}')
    for name in tool.parameters.required:
        with pytest.raises(ArgumentsError, match=f"Missing: .*{name}"):
            tool.parameters.decode("{}")


@every_tool
@pytest.mark.parametrize("text", ["x", "", "\n" * 50, "\ud83d", "*** Add File: \0", "~/" * 200])
def test_what_is_said_of_a_call_never_fails(tool: Tool, text: str) -> None:
    given = {name: sample(schema) for name, schema in properties(tool).items()}
    given = {name: text if value == "x" else value for name, value in given.items()}
    if tool.name == "tool_call":
        given["arguments"] = msgspec.Raw(b"{}")
    assert len(tool.format_line(given)) <= 120
    assert all(use.path is not None for use in tool.paths(given))
    assert isinstance(tool.command(given), str)
    assert all(isinstance(url, str) for url in tool.hosts(given))


@every_tool
async def test_a_call_with_any_fitting_arguments_gives_one_result(tool: Tool, tmp_path: Path) -> None:
    context = make_context(tmp_path)
    given = {name: sample(properties(tool)[name]) for name in tool.parameters.required}
    call = ToolCallPart(call_id="c", name=tool.name, arguments=msgspec.json.encode(given).decode())
    events: list[Event] = []
    batch = CallBatch([call])
    (result,) = await Executor(Toolbox([tool]), PolicyGate()).run(batch, context, Journal(), events.append)
    assert (
        result.call_id == "c" and result.text and result.status in (ToolStatus.OK, ToolStatus.ERROR, ToolStatus.INVALID)
    )
    assert "internal error" not in result.text
    await context.state.close()
    await context.backend.close()


@every_tool
def test_tools_that_write_or_run_are_known_to_the_gate(tool: Tool) -> None:
    if tool.parallel is Parallel.PATHS:
        given = {name: sample(schema) for name, schema in properties(tool).items()}
        given["mode"] = "replace"
        assert tool.paths(given)
    if "command" in properties(tool):
        assert tool.command({"command": "x"}) == "x"
    if "urls" in properties(tool):
        assert tool.hosts({"urls": ["https://example.com/a"]}) == ["https://example.com/a"]


def test_the_default_set_is_small() -> None:
    schemas = REGISTRY.select_tools().list_schemas()
    parts = [
        b'{"type":"function","function":{"name":"%s","description":%s,"parameters":%s}}'
        % (schema.name.encode(), msgspec.json.encode(schema.description), schema.parameters)
        for schema in schemas
    ]
    assert len(b"[" + b",".join(parts) + b"]") <= DEFAULT_BYTES


def test_the_listing_is_what_the_tools_say() -> None:
    """`python scripts/tools.py --write` writes it."""
    written = subprocess.run([sys.executable, str(ROOT / "scripts/tools.py")], capture_output=True, check=True).stdout
    assert (ROOT / "hermes/tools/listing.json").read_bytes() == written


def test_a_selected_tool_is_imported_when_it_is_called() -> None:
    toolbox = ToolRegistry().select_tools()
    (listed,) = (tool for tool in toolbox if tool.name == "terminal")
    assert isinstance(listed, ListedTool)
    found = toolbox.find("terminal")
    assert isinstance(found, Tool) and found.schema == listed.schema


def make_context(folder: Path) -> ToolContext:
    places = Places(home=str(folder / "home"), hermes=str(folder / "home/.hermes"), workspace=str(folder))
    return ToolContext(
        session_id="s",
        state=ToolState(cwd=folder),
        places=places,
        spill_folder=folder / "spill",
        backend_handle=BackendHandle.from_backend(LocalBackend(os.environ)),
        clock=SystemClock(),
    )
