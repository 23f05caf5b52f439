"""Know the files below a folder, so that one is found by a part of its name."""

import contextlib
import os
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from hermes.tools.walker import read_rules_above, walk_files
from hermes.util.text import escape_unseen_characters

MAX_INDEXED, INDEX_SECONDS = 50_000, 2.0
"""The files of a tree that are known at most, and the seconds in which they are looked for."""
RENEWAL_SECONDS, RENEWAL_SHARE = 10.0, 20
"""Seconds after which the files of a tree are looked for again, and how many times the time that takes must pass."""
MAX_FOUND = 50
"""Files of a tree that are offered: the best ones."""


class FileIndex:
    """The files and folders below a folder, as they were a moment ago, without what git ignores."""

    def __init__(self) -> None:
        self._folder = ""
        self._stale_at = 0.0
        self._paths: Sequence[str] = ()
        self._walking = threading.Lock()
        """Held by the thread that looks for the files: one that comes meanwhile takes what that one finds."""

    def find_paths(self, typed: str, folder: str) -> list[str]:
        """Return the paths below a folder that may be meant, the best first. This blocks."""
        return rank_paths(typed, self.list_paths(folder))

    def list_paths(self, folder: str) -> Sequence[str]:
        """Return the paths below a folder, those of folders with a slash at their end. This blocks."""
        with self._walking:
            begun = time.monotonic()
            if folder != self._folder or begun >= self._stale_at:
                self._folder, self._paths = folder, list(_walk_tree(folder))
                ended = time.monotonic()
                self._stale_at = ended + max(RENEWAL_SECONDS, RENEWAL_SHARE * (ended - begun))
            return self._paths


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
