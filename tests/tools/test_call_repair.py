"""Arguments that must mean one object become it; what was cut off, or could mean two things, stays as it was."""

import json

import pytest

from hermes.tools.call_repair import repair_arguments, unwrap_call
from hermes.tools.registry import repair_name

OBJECT = {"path": "a", "lines": [1, 2]}


@pytest.mark.parametrize(
    "raw",
    [
        '{"path": "a", "lines": [1, 2,],}',
        "```json\n" + json.dumps(OBJECT) + "\n```",
        "```\n{'path': 'a', 'lines': [1, 2]}\n```",
        json.dumps(json.dumps(OBJECT)),
        json.dumps(json.dumps(json.dumps(OBJECT))),
        "{'path': 'a', 'lines': [1, 2]}",
        '{"path": "a", \'lines\': [1, 2]}',
    ],
)
def test_what_must_mean_one_object_becomes_it(raw: str) -> None:
    repaired = repair_arguments(raw)
    assert repaired is not None and json.loads(repaired) == OBJECT


@pytest.mark.parametrize(
    ("raw", "meant"),
    [
        ('{"text": "one\ntwo"}', {"text": "one\ntwo"}),
        ('{"text": ",]", "n": 1,}', {"text": ",]", "n": 1}),
        ("{'text': \"it's\", 'all': True, 'none': None}", {"text": "it's", "all": True, "none": None}),
        ('{"text": "a, }", }', {"text": "a, }"}),
    ],
)
def test_text_in_it_stays(raw: str, meant: dict[str, object]) -> None:
    assert json.loads(repair_arguments(raw) or "null") == meant


@pytest.mark.parametrize(
    "raw",
    [
        "",
        "{}",
        json.dumps(OBJECT),
        '{"path": "a',
        '{"path": "a",',
        '"{\\"path\\": \\"a',
        "```json\n{",
        "[1, 2,]",
        "'path'",
        "{path: 'a'}",
        "{'path': 'a\\q'}",
        "{'a': true}",
        "{'a': {1, 2}}",
        "{1: 2}",
        "{'a': 1e999}",
        '{"a": NaN}',
        '{"a": 1} {"b": 2}',
        "__import__('os')",
        "{" * 5000,
        '"' * 9,
    ],
)
def test_what_is_whole_cut_off_or_unclear_stays(raw: str) -> None:
    assert repair_arguments(raw) is None


@pytest.mark.parametrize(
    ("name", "arguments", "meant"),
    [
        ("tool_call", '{"name": "todo", "arguments": {"a": 1}}', ("todo", '{"a":1}')),
        ("function_call", '{"name": "todo", "parameters": "{\\"a\\": 1}"}', ("todo", '{"a": 1}')),
        ("tool_call", '{"name": "todo"}', ("todo", "{}")),
        ("tool_call", '{"name": 1, "arguments": {}}', None),
        ("tool_call", '{"name": "todo", "arguments": [1]}', None),
        ("tool_call", '{"name": "todo", "arguments": {}, "more": 1}', None),
        ("todo", '{"name": "todo", "arguments": {}}', None),
        ("tool_call", "{", None),
    ],
)
def test_a_wrapper_is_the_call_in_it(name: str, arguments: str, meant: tuple[str, str] | None) -> None:
    assert unwrap_call(name, arguments) == meant


@pytest.mark.parametrize("end", ["", "\\", '"'])
def test_a_string_without_an_end_is_looked_at_once(end: str) -> None:
    assert repair_arguments('{"' + '\\"' * 99_000 + end) is None


@pytest.mark.parametrize(
    "raw", ["{'command': 'echo it''s'}", "{'a': 'x' \"y\"}", "{'a': 'x'\n'y'}", "{'a': r'\\n'}", "{'a': '''x'''}"]
)
def test_what_python_alone_would_join_or_read_in_another_way_stays_as_it_was(raw: str) -> None:
    assert repair_arguments(raw) is None


@pytest.mark.parametrize(
    "name", ["read_file.terminal", "terminal:read_file", "<tool>terminal/read_file", "todo.patch:0"]
)
def test_a_name_of_two_tools_means_none_of_them(name: str) -> None:
    assert repair_name(name, ["terminal", "read_file", "todo", "patch"]) is None


@pytest.mark.parametrize("name", ["functions.terminal:0", "terminal.terminal", "ns/terminal", "terminal<|channel|>x"])
def test_a_name_of_one_tool_with_a_namespace_means_it(name: str) -> None:
    assert repair_name(name, ["terminal", "read_file", "todo", "patch"]) == "terminal"
