"""`patch`: changes parts of files; all of a patch or nothing of it."""

import asyncio
from typing import Annotated, Literal

from hermes.core.errors import ToolError
from hermes.tools.schema import Arguments
from hermes.tools.session import ToolContext
from hermes.tools.tool import Parallel, PathUse, tool


def _list_paths(args: Arguments) -> list[PathUse]:
    if args["mode"] == "patch":
        from hermes.tools.edits import find_patch_paths  # its patterns are read when there is a patch

        return [PathUse(path, write=True) for path in find_patch_paths(str(args["patch"] or ""))]
    return [PathUse(str(args["path"]), write=True)] if args["path"] else []


def _format_summary(args: Arguments) -> str:
    return "patch " + ", ".join(use.path for use in _list_paths(args))[:100]


@tool("file", parallel=Parallel.PATHS, summary=_format_summary, paths=_list_paths)
async def patch(
    ctx: ToolContext,
    mode: Annotated[
        Literal["replace", "patch"], "replace: one text in one file; patch: a V4A patch over files."
    ] = "replace",
    path: Annotated[str, "File to change (replace)."] = "",
    old_string: Annotated[str, "Text to replace; must stand there once, so give enough lines (replace)."] = "",
    new_string: Annotated[str, "Text to put there; empty deletes (replace)."] = "",
    replace_all: Annotated[bool, "Replace every place (replace)."] = False,
    patch: Annotated[
        str, "'*** Update File: p' with @@ context, -, + and ' ' lines; Add, Delete, Move File (patch)."
    ] = "",
) -> str:
    """Change parts of files. Gives the diff. Small differences in blanks and quotes are overlooked."""
    from hermes.tools import patching

    if mode == "patch":
        if not patch.strip():
            raise ToolError("Give the patch in `patch`.")
        return await asyncio.to_thread(patching.apply_patch, ctx, patch)
    if not path:
        raise ToolError("Give the file in `path`, or set mode to 'patch'.")
    return await asyncio.to_thread(
        patching.replace_in_file, ctx, path, (old_string, new_string), everywhere=replace_all
    )
