"""`todo`: keeps the model's own list of steps with the session."""

from typing import Annotated, Literal

from msgspec import Meta, Struct, structs

from hermes.core.errors import ToolError
from hermes.tools.session import Todo, ToolContext
from hermes.tools.tool import tool

MAX_ITEMS = 256
MAX_CONTENT = 4_000
_MARKS = {"pending": " ", "in_progress": ">", "completed": "x", "cancelled": "-"}


class TodoItem(Struct, frozen=True):
    """A step as the model writes it."""

    content: str = ""
    status: Literal["pending", "in_progress", "completed", "cancelled"] = "pending"
    id: Annotated[str, Meta(description="For merge.")] = ""


@tool(
    "todo",
    repeatable=True,
    housekeeping=True,
    summary=lambda args: "plan" if args["todos"] else "read the plan",
)
async def todo(
    ctx: ToolContext,
    todos: Annotated[list[TodoItem] | None, "The steps in order; without them the list is read."] = None,
    merge: Annotated[bool, "Change items by id, add new ones."] = False,
) -> str:
    """Keep a list of steps for work of three steps or more. Have one in_progress at a time; mark each when done."""
    steps = await ctx.todo_list.read_items() if todos is None or merge else []
    if todos is not None:
        steps = _merge_items(steps, todos)
        await ctx.todo_list.replace_items([structs.replace(one, content=ctx.redact(one.content)) for one in steps])
    if not steps:
        return "The list is empty."
    done = sum(step.status in ("completed", "cancelled") for step in steps)
    lines = [f"[{_MARKS[step.status]}] {step.id}: {step.content}" for step in steps]
    return "\n".join([*lines, f"{done} of {len(lines)} done"])


def _merge_items(old: list[Todo], items: list[TodoItem]) -> list[Todo]:
    steps = {step.id: step for step in old}
    for number, item in enumerate(items, 1):
        key = item.id or _find_free_id(steps, len(old) + number)
        known = steps.get(key)
        content = item.content or (known.content if known else "")
        if not content:
            raise ToolError(f"Item {key} has no content.")
        if len(content) > MAX_CONTENT:
            raise ToolError(f"Item {key} has {len(content)} characters; at most {MAX_CONTENT} are kept. Shorten it.")
        steps[key] = Todo(id=key, content=content, status=item.status)
    if len(steps) > MAX_ITEMS:
        raise ToolError(
            f"The list would have {len(steps)} items; at most {MAX_ITEMS} are kept. Drop those that are done."
        )
    return list(steps.values())


def _find_free_id(steps: dict[str, Todo], start: int) -> str:
    while str(start) in steps:
        start += 1
    return str(start)
