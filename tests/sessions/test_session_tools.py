"""What is made once for all sessions is the same for those alone for whom it is the same."""

from typing import Annotated

from hermes.tools.schema import parameters_from_function
from hermes.tools.session import ToolContext
from hermes.tools.tool import Tool, tool


def bound(note: str, default: int) -> Tool:
    @tool("test")
    async def count(ctx: ToolContext, most: Annotated[int, note] = default) -> str:
        """Count."""
        return f"{note} {most}"

    return count


def test_the_parameters_of_a_bound_tool_are_made_once() -> None:
    assert bound("how many", 3).parameters is bound("how many", 3).parameters
    assert bound("how many", 3).function is not bound("how many", 3).function


def test_another_signature_is_another() -> None:
    schemas = {bound(note, most).schema.parameters for note in ("how many", "how much") for most in (3, 4)}
    assert len(schemas) == 4


def test_what_cannot_be_compared_is_made_anew() -> None:
    async def odd(ctx: ToolContext, names: Annotated[list[str], ["not", "hashable"]] = []) -> str:  # noqa: B006
        return "".join(names)

    assert parameters_from_function(odd) is not parameters_from_function(odd)
    assert parameters_from_function(odd).names == ("names",)
