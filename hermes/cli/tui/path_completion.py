"""Complete what may stand behind an `@`, and paths: those below a folder by their names, wherever they are."""

import contextlib
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from prompt_toolkit.completion import Completion

from hermes.util.text import escape_unseen_characters

MAX_ENTRIES = 200
"""Files looked at in one folder before the rest is left out."""
MAX_INDEXED, INDEX_SECONDS = 50_000, 2.0
"""The files of a tree that are known at most, and the seconds in which they are looked for."""
RENEWAL_SECONDS, RENEWAL_SHARE = 10.0, 20
"""Seconds after which the files of a tree are looked for again, and how many times the time that takes must pass."""
MAX_FOUND = 50
"""Files of a tree that are offered: the best ones."""
_REFERENCE_KINDS = ("file:", "folder:", "diff", "staged", "git:", "url:")


class FileIndex:
    """The files and folders below a folder, as they were a moment ago, without what git ignores."""

    def __init__(self) -> None:
        self._folder = ""
        self._stale_at = 0.0
        self._paths: Sequence[str] = ()

    def list_paths(self, folder: str) -> Sequence[str]:
        """Return the paths below a folder, those of folders with a slash at their end. This blocks."""
        begun = time.monotonic()
        if folder != self._folder or begun >= self._stale_at:
            self._folder, self._paths = folder, list(_walk_tree(folder))
            ended = time.monotonic()
            self._stale_at = ended + max(RENEWAL_SECONDS, RENEWAL_SHARE * (ended - begun))
        return self._paths

    def find_references(self, typed: str, folder: str) -> Iterable[Completion]:
        """Complete the files whose name holds what was typed behind an `@`, wherever they are: a name that begins with
        it first, then what is nearest. What stands before a slash must be in the path of their folder.
        """
        kind = next((one for one in ("file:", "folder:") if typed.startswith(one)), "")
        path = typed.removeprefix(kind)
        if not os.path.basename(path) or ":" in path or path.startswith(("/", "~", "./", "../")):
            return
        direct = {_replace_tail(path, one.text) for one in complete_paths(path, folder)}
        for found in rank_paths(path, self.list_paths(folder)):
            if found not in direct and (kind != "folder:" or found.endswith("/")):
                yield Completion(found, start_position=-len(path))


def rank_paths(typed: str, paths: Iterable[str]) -> list[str]:
    """Return the paths that may be meant, the best first; hidden ones only when their dot was typed."""
    head, tail = os.path.split(typed.lower())
    ranked: list[tuple[tuple[bool, int, str], str]] = []
    for path in paths:
        folder, _, name = path.lower().rstrip("/").rpartition("/")
        if tail not in name or head not in folder:
            continue
        is_hidden = f"/{path}".count("/.") > f"/{typed}".count("/.")
        if not is_hidden and " " not in path and escape_unseen_characters(path) == path:
            ranked.append(((not name.startswith(tail), path.rstrip("/").count("/"), path), path))
    return [path for _, path in sorted(ranked)[:MAX_FOUND]]


def _walk_tree(root: str) -> Iterator[str]:
    """Yield the files of a tree and the folders that they are in, until there are too many or it takes too long."""
    from hermes.tools.walker import read_rules_above, walk_files

    try:
        handle = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return
    end, folders = time.monotonic() + INDEX_SECONDS, set[str]()
    try:
        with contextlib.closing(walk_files(handle, root, frozenset(), "", read_rules_above(root))) as walk:
            for path, _, _ in islice(walk, MAX_INDEXED):
                yield path
                folder = os.path.dirname(path)
                while folder and folder not in folders:
                    folders.add(folder)
                    yield f"{folder}/"
                    folder = os.path.dirname(folder)
                if time.monotonic() > end:
                    return
    finally:
        os.close(handle)


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
