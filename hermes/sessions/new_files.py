"""Show files that git does not know yet as a difference: all their lines are added."""

from collections.abc import Sequence

from msgspec import structs

from hermes.checkpoints.path_states import has_key_name
from hermes.core.errors import ToolError
from hermes.sessions.undo import FileDiff, compare_lines
from hermes.tools.files import decode_text_file, open_regular
from hermes.tools.session import ToolContext

MAX_NEW_FILES = 20
"""The most new files whose contents are shown."""
MAX_NEW_LINES, MAX_LINES_OF_ONE = 400, 200
"""The most lines of all of them together, and of one of them."""
MAX_NEW_BYTES = 1 << 20
"""The largest file that is read."""


def read_new_files(names: Sequence[str], context: ToolContext) -> list[FileDiff]:
    """Return the first of the new files, named as git lists them, as differences from nothing. This blocks.

    One that holds keys by its name, is large, binary or no regular file is only named.
    """
    left, found = MAX_NEW_LINES, list[FileDiff]()
    for name in names[:MAX_NEW_FILES]:
        one = _read_new_file(_unquote_name(name), context)
        lines, room = one.text.splitlines(), min(left, MAX_LINES_OF_ONE)
        if len(lines) > room:
            note = one.note if room else "large"
            one = structs.replace(one, text="\n".join(lines[:room]), note=note, cut=True)
        left -= min(len(lines), room)
        found.append(one)
    return found


def _read_new_file(path: str, context: ToolContext) -> FileDiff:
    if has_key_name(f"/{path}"):
        return FileDiff(path=path, change="created", note="hidden")
    try:
        file, _, status = open_regular(context.resolve_path(path), path, context)
    except ToolError:
        return FileDiff(path=path, change="created", note="other")
    with file:
        if status.st_size > MAX_NEW_BYTES:
            return FileDiff(path=path, change="created", note="large")
        text = decode_text_file(file.read(MAX_NEW_BYTES))
    if text is None:
        return FileDiff(path=path, change="created", note="not-text")
    return compare_lines(path, "created", [], text.text.splitlines())


def _unquote_name(name: str) -> str:
    """Return a name without the quotes in which git puts one with unusual letters, as C does."""
    if not name.startswith('"'):
        return name
    escaped = name[1:-1].encode("latin-1", "replace").decode("unicode_escape", "replace")
    return escaped.encode("latin-1", "replace").decode("utf-8", "surrogateescape")
