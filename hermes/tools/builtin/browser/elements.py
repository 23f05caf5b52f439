"""Tools for elements of a page: the mouse, the keyboard, forms and files."""

import re
from typing import Annotated

from hermes.browser import fields, keyboard, pointer
from hermes.browser.tab import Tab
from hermes.core.errors import ToolError
from hermes.core.messages import ToolStatus
from hermes.safety.paths import is_or_below
from hermes.tools.builtin.browser.page_results import use_page
from hermes.tools.files import open_regular
from hermes.tools.schema import Arguments
from hermes.tools.session import ToolContext
from hermes.tools.tool import Parallel, PathUse, ToolOutput, tool

_CAP = 12_000
_MAX_FILES = 20


@tool("browser", deferred=True, cap=_CAP, summary=lambda args: f"click {args['ref']}")
async def browser_click(
    ctx: ToolContext,
    ref: Annotated[str, "Its ref, as e12."],
    double: Annotated[bool, "Twice."] = False,
) -> ToolOutput:
    """Click an element of the page in the browser."""

    async def click(tab: Tab) -> None:
        await pointer.click(tab, ref, count=2 if double else 1)

    output = await use_page(ctx, click)
    said = _describe_check(output, ref)
    return ToolOutput(text=said) if said else output


_CHECK = re.compile(r'~ (e\d+) (checkbox|radio|switch)(?: "[^"\n]*")?(?: \[([a-z, ]+)\])?')
"""A line that says nothing but whether a box is checked."""


def _describe_check(output: ToolOutput, ref: str) -> str:
    """Return in the tool's own words that a box is checked now, or no more; empty where more than that has changed."""
    lines = [_CHECK.fullmatch(line) for line in output.text.split("\n")]
    own = next((line for line in lines if line is not None and line[1] == ref), None)
    if own is None or not all(line is own or _is_unchecked(line, own) for line in lines):
        return ""
    return "Done: checked." if _is_checked(own) else "Done: not checked."


def _is_checked(line: re.Match[str]) -> bool:
    return "checked" in (line[3] or "").split(", ")


def _is_unchecked(line: re.Match[str] | None, own: re.Match[str]) -> bool:
    """Return whether a line is of another radio button, which is no longer the checked one."""
    return line is not None and line[2] == own[2] == "radio" and not _is_checked(line)


@tool("browser", deferred=True, cap=_CAP, summary=lambda args: f"type into {args['ref']}")
async def browser_type(
    ctx: ToolContext,
    ref: Annotated[str, "The field's ref."],
    text: Annotated[str, "What to write, in the place of what is there."],
    submit: Annotated[bool, "Press Enter then."] = False,
    append: Annotated[bool, "Write after what is there."] = False,
) -> ToolOutput:
    """Fill in a field of a form in the browser; dates as 2025-12-31."""

    async def write(tab: Tab) -> None:
        await fields.type_text(tab, ref, text, submit=submit, append=append)

    output = await use_page(ctx, write)
    return ToolOutput(text="Done.") if _is_echo(output, ref, text) else output


def _is_echo(output: ToolOutput, ref: str, text: str) -> bool:
    """Return whether a result says nothing but that the field holds what was written, which needs no words of the
    page's.
    """
    line = output.text
    is_one = output.status is ToolStatus.OK and line.startswith("~ ") and "\n" not in line
    return is_one and f" {ref} " in line and (f'= "{text}"' in line or "= (hidden)" in line)


@tool("browser", deferred=True, cap=_CAP, summary=lambda args: f"press {args['key']}")
async def browser_press(
    ctx: ToolContext, key: Annotated[str, "As Enter, Tab, Escape, ArrowDown, a, Control+a."]
) -> ToolOutput:
    """Press a key or a chord of keys in the browser, where the focus is."""

    async def press(tab: Tab) -> None:
        await keyboard.press_chord(tab, key)

    return await use_page(ctx, press)


@tool("browser", deferred=True, cap=_CAP, summary=lambda args: f"choose in {args['ref']}")
async def browser_select(
    ctx: ToolContext,
    ref: Annotated[str, "The list's ref."],
    values: Annotated[list[str], "Texts of the options."],
) -> ToolOutput:
    """Choose options of a drop-down list (combobox, listbox) of a form in the browser."""

    async def select(tab: Tab) -> None:
        await fields.select_options(tab, ref, values)

    output = await use_page(ctx, select)
    return ToolOutput(text="Done.") if len(values) == 1 and _is_echo(output, ref, values[0]) else output


@tool("browser", deferred=True, cap=_CAP, summary=lambda args: f"point at {args['ref']}")
async def browser_hover(ctx: ToolContext, ref: str) -> ToolOutput:
    """Move the mouse over an element in the browser, for menus and hints that open then."""

    async def hover(tab: Tab) -> None:
        await pointer.hover(tab, ref)

    return await use_page(ctx, hover)


@tool("browser", deferred=True, cap=_CAP, summary=lambda args: f"drag {args['ref']} to {args['to_ref']}")
async def browser_drag(ctx: ToolContext, ref: str, to_ref: str) -> ToolOutput:
    """Drag an element onto another one in the browser."""

    async def drag(tab: Tab) -> None:
        await pointer.drag(tab, ref, to_ref)

    return await use_page(ctx, drag)


def _list_paths(arguments: Arguments) -> list[PathUse]:
    given = arguments.get("paths")
    return [PathUse(str(path)) for path in given] if isinstance(given, list) else []


@tool(
    "browser",
    deferred=True,
    parallel=Parallel.SERIAL,
    cap=_CAP,
    paths=_list_paths,
    summary=lambda args: f"upload {', '.join(use.path for use in _list_paths(args))}",
)
async def browser_upload(
    ctx: ToolContext,
    ref: Annotated[str, "The field for files, or the button that asks for them."],
    paths: Annotated[list[str], "Files of the workspace."],
) -> ToolOutput:
    """Give files to a form in the browser."""
    if not 0 < len(paths) <= _MAX_FILES:
        raise ToolError(f"Give between 1 and {_MAX_FILES} files.")
    real = [_check_file(ctx, path) for path in paths]

    async def upload(tab: Tab) -> None:
        await fields.upload_files(tab, ref, real)

    return await use_page(ctx, upload)


def _check_file(ctx: ToolContext, path: str) -> str:
    """Return where a file of the workspace is, with every link followed. Raises ToolError for any other."""
    file, real, _ = open_regular(ctx.resolve_path(path), path, ctx)
    file.close()
    if not is_or_below(real, ctx.places.workspace):
        raise ToolError(f"{path} is not in the workspace: only what lies there can be uploaded.")
    return real
