"""What a call is about to do to files, as a front-end shows it before and while it happens."""

import os
from collections.abc import Sequence

import msgspec
from msgspec import Struct, structs

from hermes.core.errors import ToolError
from hermes.tools.session import ToolContext

_MAX_FILE_BYTES = 1 << 20
"""The largest file whose change is shown: it is worked out twice then."""
_MAX_FILES = 20


class EditPreview(Struct, frozen=True):
    """A file before and after a change, without secrets; `before` is None for a new file."""

    path: str
    before: str | None
    after: str


class _EditArguments(Struct):
    path: str = ""
    content: str = ""
    mode: str = "replace"
    old_string: str = ""
    new_string: str = ""
    replace_all: bool = False
    patch: str = ""


def preview_edits(context: ToolContext, name: str, arguments: str) -> list[EditPreview]:
    """Return what a call of a file tool would do now; nothing for a call that cannot work, or that changes much.

    Files are opened as the tools of the session open them, so nothing is shown that these could not read.
    """
    if name not in ("write_file", "patch"):
        return []
    # A file that has changed since it was seen is the tool's to notice, so nothing that was seen may be forgotten here.
    context = structs.replace(context, state=structs.replace(context.state, seen_files={}))
    try:
        found = _plan_changes(context, name, msgspec.json.decode(arguments, type=_EditArguments))
    except (ToolError, msgspec.MsgspecError, OSError, ValueError):
        return []
    return [
        EditPreview(
            context.resolve_path(path), None if before is None else context.redact(before), context.redact(after)
        )
        for path, before, after in found
    ]


def _plan_changes(context: ToolContext, name: str, arguments: _EditArguments) -> Sequence[tuple[str, str | None, str]]:
    is_patch = name == "patch" and arguments.mode == "patch"
    paths = _list_patch_paths(arguments.patch) if is_patch else [arguments.path]
    if len(paths) > _MAX_FILES or not all(paths) or any(_is_large(context.resolve_path(path)) for path in paths):
        return ()
    if name == "write_file":
        return [_plan_write(context, arguments.path, arguments.content)]
    from hermes.tools.builtin.patch import plan_patch, plan_replacement

    if is_patch:
        edits = plan_patch(context, arguments.patch)
    else:
        texts = arguments.old_string, arguments.new_string
        edits = plan_replacement(context, arguments.path, texts, everywhere=arguments.replace_all)
    return [
        (one.path, None if one.before is None else one.before.text, "" if one.after is None else one.after.text)
        for one in edits
    ]


def _plan_write(context: ToolContext, path: str, content: str) -> tuple[str, str | None, str]:
    from hermes.tools.files import load_text_file

    target = context.resolve_path(path)
    return path, load_text_file(target, path, context).text if os.path.lexists(target) else None, content


def _list_patch_paths(patch: str) -> list[str]:
    from hermes.tools.patch_text import find_patch_paths

    return [path for path, _ in find_patch_paths(patch)]


def _is_large(path: str) -> bool:
    try:
        return os.path.getsize(path) > _MAX_FILE_BYTES
    except OSError:
        return False
