"""`write_file`: writes a whole file, atomically, in the encoding and line ends that it had."""

import asyncio
from typing import Annotated

import msgspec

from hermes.core.errors import ToolError
from hermes.tools import files
from hermes.tools.files import TextFile
from hermes.tools.session import ToolContext
from hermes.tools.tool import Parallel, PathUse, tool


@tool(
    "file",
    parallel=Parallel.PATHS,
    repeatable=True,
    summary=lambda args: f"write {args['path']}",
    paths=lambda args: [PathUse(str(args["path"]), write=True)],
    texts=lambda args: {str(args["path"]): str(args["content"])},
)
async def write_file(
    ctx: ToolContext,
    path: Annotated[str, "File to write; its folders are made."],
    content: Annotated[str, "The whole new content."],
) -> str:
    """Write a file, replacing all that it held. To change a part of a file use patch."""
    target = ctx.resolve_path(path)
    return await asyncio.to_thread(_write_text, target, path, content, ctx)


def _write_text(target: str, display_path: str, content: str, ctx: ToolContext) -> str:
    from hermes.tools.edits import describe_syntax_error

    like, existed = _read_existing(target, display_path, ctx)
    content = ctx.restore_secrets(content, like.text)
    text = content.replace("\r\n", "\n") if like.newline == "\r\n" else content
    newline = like.newline if like.newline == "\r\n" else "\n"  # a lone carriage return is seldom meant as a line end
    data = files.encode_text_file(msgspec.structs.replace(like, text=text, newline=newline, is_mixed=False))
    real = files.save_file(target, display_path, data, ctx)
    lines = content.count("\n") + (not content.endswith("\n") and bool(content))
    said = f"{'Replaced' if existed else 'Created'} {display_path}: {len(data)} bytes, {lines} lines."
    kept = [like.encoding.upper()] if like.encoding != "utf-8" or like.bom else []
    kept += ["CRLF line ends"] if like.newline == "\r\n" else []
    said += f" Kept {' and '.join(kept)}." if kept else ""
    notes = (said, files.describe_session_folder(ctx, real), describe_syntax_error(display_path, content))
    return " ".join(note for note in notes if note)


def _read_existing(target: str, display_path: str, ctx: ToolContext) -> tuple[TextFile, bool]:
    """Return how the file that is there is written, and whether there is one. Raises `ToolError` when it must
    stay.
    """
    plain = TextFile(text="")
    try:
        kind = files.get_file_kind(target, display_path, ctx)
    except OSError as error:
        raise ToolError(f"{display_path} cannot be written: {error.strerror}.") from None
    if kind == "folder":
        raise ToolError(f"{display_path} is a folder. Name a file in it.")
    if not kind:
        return plain, False
    if kind == "other":
        raise ToolError(f"{display_path} is no regular file, so it is not written.")
    file, real, status = files.open_regular(target, display_path, ctx)
    with file:
        files.check_unchanged(real, display_path, ctx.state, status)
        found = files.decode_text_file(file.read()) if status.st_size <= files.EDIT_LIMIT else None
    # Latin-1 is only a guess for bytes that are not UTF-8; new text is not forced into it.
    return (found if found is not None and found.encoding != "latin-1" else plain), True
