"""Schemas from signatures, and arguments as models really write them."""

from typing import Annotated, Literal

import msgspec
import pytest
from msgspec import Meta, Struct

from hermes.tools.schema import ArgumentsError, FunctionParameters
from hermes.tools.tool import Parallel, tool


class Item(Struct, frozen=True):
    content: Annotated[str, Meta(description="What.")]
    state: Literal["open", "done"] = "open"


async def sample(
    ctx: object,
    path: Annotated[str, "The path."],
    count: Annotated[int, "How many."] = 3,
    mode: Annotated[Literal["a", "b"], "Which."] = "a",
    items: Annotated[list[Item] | None, "Steps."] = None,
    loud: Annotated[bool, "Whether."] = False,
) -> str:
    """Do it."""
    return path


class Many(Struct, frozen=True, forbid_unknown_fields=True):
    query: Annotated[str, Meta(description="Text.")]
    limit: Annotated[int, Meta(description="Number.")] = 5


async def of_struct(ctx: object, args: Many) -> str:
    """Do it."""
    return f"{args.query} {args.limit}"


def test_the_schema_is_small_and_whole() -> None:
    schema = msgspec.json.decode(FunctionParameters(sample).schema())
    assert schema == {
        "type": "object",
        "properties": {
            "path": {"description": "The path.", "type": "string"},
            "count": {"description": "How many.", "type": "integer", "default": 3},
            "mode": {"type": "string", "description": "Which.", "enum": ["a", "b"], "default": "a"},
            "items": {
                "description": "Steps.",
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "content": {"description": "What.", "type": "string"},
                        "state": {"type": "string", "enum": ["done", "open"], "default": "open"},
                    },
                    "required": ["content"],
                },
            },
            "loud": {"description": "Whether.", "type": "boolean"},
        },
        "required": ["path"],
    }


async def test_a_struct_can_stand_for_the_parameters() -> None:
    parameters = FunctionParameters(of_struct)
    assert msgspec.json.decode(parameters.schema())["properties"]["limit"]["default"] == 5
    arguments = parameters.decode('{"query": "x"}')
    assert arguments == {"query": "x", "limit": 5}
    assert await parameters.call(of_struct, None, arguments) == "x 5"


@pytest.mark.parametrize(
    ("raw", "name", "value"),
    [
        ('{"path": "p", "count": "7"}', "count", 7),
        ('{"path": "p", "loud": "true"}', "loud", True),
        ('{"path": "p", "count": null}', "count", 3),
        ('{"path": "p", "items": "[{\\"content\\": \\"x\\"}]"}', "items", [Item("x")]),
        ('{"path": "p", "items": [{"content": "x"}], "count": null}', "items", [Item("x")]),
        ('{"path": "a \\ud83d b"}', "path", "a \ufffd b"),
        ('{"path": "\\ud83d\\ude00"}', "path", "\U0001f600"),
        ('{"path": "[not json]"}', "path", "[not json]"),
    ],
)
def test_what_models_write_is_taken(raw: str, name: str, value: object) -> None:
    assert FunctionParameters(sample).decode(raw)[name] == value


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        ('{"pth": "p"}', "Missing: path. Unknown: pth. The parameters are: path, count (optional)"),
        ("", "Missing: path."),
        ('{"path": null}', "Missing: path."),
        ('{"path": "p", "count": "many"}', "$.count"),
        ('{"path": "p", "mode": "c"}', "$.mode"),
        ('{"path": "p", "items": [{"content": 1}]}', "$.items[0].content"),
        ('{"path": "p', "cut off"),
        ('{"path": "p", "count": ', "cut off"),
        ("{'path': 'p'}", "not valid JSON"),
        ('{"path": "p"} and more', "not valid JSON"),
        ('["p"]', "one JSON object"),
        ('"p"', "one JSON object"),
    ],
)
def test_what_cannot_be_used_is_said(raw: str, said: str) -> None:
    with pytest.raises(ArgumentsError) as caught:
        FunctionParameters(sample).decode(raw)
    assert said in str(caught.value)


def test_the_decorator_takes_name_and_description_from_the_function() -> None:
    made = tool("file", parallel=Parallel.SAFE, repeatable=True)(sample)
    assert (made.name, made.description, made.toolset) == ("sample", "Do it.", "file")
    assert made.schema.parameters == FunctionParameters(sample).schema()
    assert made.parallel is Parallel.SAFE and made.repeatable and made.cap == 0
