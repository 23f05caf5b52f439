"""Complete what may stand behind an `@`, and paths: those below a folder by their names, wherever they are."""

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING

from prompt_toolkit.completion import Completion

from hermes.util.text import escape_unseen_characters

if TYPE_CHECKING:
    from hermes.admin.file_index import FileIndex

MAX_ENTRIES = 200
"""Files looked at in one folder before the rest is left out."""
_REFERENCE_KINDS = ("file:", "folder:", "diff", "staged", "git:", "url:")


def complete_references(typed: str, folder: str) -> Iterable[Completion]:
    """Complete what may stand behind an `@`: the kinds of references, and files and folders for the two
    that take them.
    """
    for kind in ("file:", "folder:"):
        if typed.startswith(kind):
            for one in complete_paths(typed.removeprefix(kind), folder, only_folders=kind == "folder:"):
                yield one
            return
    for kind in _REFERENCE_KINDS:
        if typed and kind.startswith(typed):
            yield Completion(kind, start_position=-len(typed), display=f"@{kind}")
    if ":" not in typed:
        for one in complete_paths(typed, folder, whole=typed):
            yield one


def find_references(typed: str, folder: str, index: "FileIndex") -> Iterable[Completion]:
    """Complete the files whose name holds what was typed behind an `@`, wherever they are: a name that begins with it
    first, then what is nearest. What stands before a slash must be in the path of their folder.
    """
    kind = next((one for one in ("file:", "folder:") if typed.startswith(one)), "")
    path = typed.removeprefix(kind)
    if not os.path.basename(path) or ":" in path or path.startswith(("/", "~", "./", "../")):
        return
    direct = {_replace_tail(path, one.text) for one in complete_paths(path, folder)}
    for found in index.find_paths(path, folder):
        if found not in direct and (kind != "folder:" or found.endswith("/")):
            yield Completion(found, start_position=-len(path))


def complete_paths(
    typed: str, folder: str, *, only_folders: bool = False, whole: str | None = None
) -> Iterable[Completion]:
    """Complete files and folders whose path begins with what was typed; hidden ones only when their dot was typed."""
    head, tail = os.path.split(typed)
    replaced = len(typed if whole is not None else tail)
    for name, is_folder in _list_entries(os.path.join(folder, os.path.expanduser(head)), tail):
        if only_folders and not is_folder:
            continue
        shown = f"{name}/" if is_folder else name
        text = os.path.join(head, shown) if whole is not None else shown
        yield Completion(text, start_position=-replaced, display=shown)


def _replace_tail(typed: str, name: str) -> str:
    return os.path.join(os.path.dirname(typed), name)


def _list_entries(folder: str, start: str) -> list[tuple[str, bool]]:
    """Return the names in a folder that begin so, in any letter case, and whether each is a folder."""
    found = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                fits = entry.name.lower().startswith(start.lower()) and (start.startswith(".") or entry.name[0] != ".")
                if fits and " " not in entry.name and escape_unseen_characters(entry.name) == entry.name:
                    found.append((entry.name, entry.is_dir()))
                if len(found) >= MAX_ENTRIES:
                    break
    except OSError:
        return []
    return sorted(found)
