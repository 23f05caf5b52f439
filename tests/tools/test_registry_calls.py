"""Names, arguments and duplicates of calls; the plan of a batch."""

import pytest

from hermes.core.messages import ToolCallPart
from hermes.tools.executor import PlannedCall, plan_stages
from hermes.tools.registry import check_arguments, deduplicate_calls, repair_name
from hermes.tools.tool import Parallel, PathUse

NAMES = ["read_file", "write_file", "search_files", "terminal", "todo", "web_search"]


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("read_file", "read_file"),
        ("Read_File", "read_file"),
        ("readfile", "read_file"),
        ("read-file", "read_file"),
        ("ReadFile", "read_file"),
        ("functions.read_file", "read_file"),
        ("read_file_tool", "read_file"),
        ("search_file", "search_files"),
        ("terminall", "terminal"),
        ("terminal<|channel|>commentary", "terminal"),
        ("functions.terminal:0", "terminal"),
        ("default_api.terminal", "terminal"),
        ("default_api:read_file", "read_file"),
        ("TodoTool_tool", "todo"),
        ("<tool_call>terminal", "terminal"),
        ("tools/terminal:12", "terminal"),
        ("<|channel|>", None),
        ("bash", None),
        ("file", None),
        ("", None),
        ("x" * 200, None),
        ("do", None),
    ],
)
def test_names_are_repaired_when_sure(name: str, meant: str | None) -> None:
    assert repair_name(name, NAMES) == meant


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        ("{}", None),
        ("", None),
        ('{"a": 1}', None),
        ('{"a": "\\ud83d"}', None),
        ('{"a": 1', "cut off"),
        ('{"a": "text', "cut off"),
        ("[1]", "one JSON object"),
        ("{a: 1}", "not valid JSON"),
    ],
)
def test_arguments_are_checked_and_never_completed(raw: str, said: str | None) -> None:
    found = check_arguments(raw)
    assert found is None if said is None else found is not None and said in found


def call(number: int, name: str, arguments: str) -> ToolCallPart:
    return ToolCallPart(call_id=f"c{number}", name=name, arguments=arguments)


def test_duplicates_point_at_the_first() -> None:
    calls = [
        call(1, "a", '{"x": 1, "y": 2}'),
        call(2, "a", '{"y":2,"x":1}'),
        call(3, "b", '{"x": 1, "y": 2}'),
        call(4, "a", '{"x": 1, "y": "2"}'),
        call(5, "a", '{"broken'),
        call(6, "a", '{"broken'),
    ]
    checked = deduplicate_calls(calls)
    assert [part.call_id for part in checked.run] == ["c1", "c3", "c4", "c5"]
    assert [(result.call_id, "c1" in result.text, "c5" in result.text) for result in checked.answered] == [
        ("c2", True, False),
        ("c6", False, True),
    ]


SAFE, SERIAL, NEVER = PlannedCall(Parallel.SAFE), PlannedCall(Parallel.SERIAL), PlannedCall(Parallel.NEVER)


def reads(path: str) -> PlannedCall:
    return PlannedCall(Parallel.PATHS, (PathUse(path),))


def writes(path: str) -> PlannedCall:
    return PlannedCall(Parallel.PATHS, (PathUse(path, write=True),))


@pytest.mark.parametrize(
    ("steps", "planned"),
    [
        ([], []),
        ([SERIAL], [[0]]),
        ([SAFE, SAFE], [[0, 1]]),
        ([SAFE, NEVER, SAFE], [[0], [1], [2]]),
        ([SAFE, SAFE, SERIAL, SAFE], [[0, 1], [2], [3]]),
        ([reads("/x/a"), reads("/x/a")], [[0, 1]]),
        ([reads("/x/a"), writes("/x/a")], [[0], [1]]),
        ([writes("/x/a"), writes("/x/b"), SAFE], [[0, 1, 2]]),
        ([writes("/x/a"), reads("/x"), reads("/y")], [[0], [1, 2]]),
        ([reads("/x/a"), writes("/x/ab"), writes("/x/a/c"), writes("/z")], [[0, 1], [2, 3]]),
        ([writes("/"), writes("/x")], [[0], [1]]),
    ],
)
def test_plans(steps: list[PlannedCall], planned: list[list[int]]) -> None:
    assert plan_stages(steps) == planned
