"""Searches files without ripgrep. It runs as a program of its own, so that a pattern that never ends can be killed.

Arguments: one JSON object. Output and order are those of `rg --null --sort path`. Standard library only. Everything
below the folder that it gets a handle of is opened by handle, name by name, and no link is followed.
"""

import fnmatch
import json
import os
import re
import signal
import stat
import sys
from collections.abc import Container, Generator
from typing import BinaryIO, NamedTuple, TypedDict

SKIPPED = frozenset({".git", "node_modules", "__pycache__", ".venv", ".mypy_cache", ".ruff_cache", ".pytest_cache"})
_MAX_DEPTH = 200
"""Folders within each other that are walked: each takes a handle, and some of the stack that Python allows."""
_MAX_BYTES = 50 * 1024 * 1024
_MAX_LINE = 500
_END_WITH_PARENT = 1
_READ_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_FOLDER_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_DIRECTORY | os.O_CLOEXEC


class FileSearchJob(TypedDict):
    """A search to run. `mode` is `content`, `files_only`, `count` or `list`.

    All but `list` print lines; of `files_only` the first one of each file. `folder` is the handle of the folder that is
    searched, `name` the one file in it, if it is one; `root` is what the folder is called, and `hidden` are the
    identities of what is left out. `glob` is a regular expression for the paths that are wanted. `parent` is the
    process that starts the search.
    """

    pattern: str
    folder: int
    name: str
    root: str
    hidden: list[tuple[int, int]]
    glob: str
    mode: str
    context: int
    parent: int


class GitignoreRule(NamedTuple):
    """One line of a `.gitignore`."""

    folder: str
    pattern: str
    negated: bool
    folders_only: bool
    anchored: bool

    def is_match(self, path: str, *, folder: bool) -> bool:
        """Return whether the rule is about this path."""
        if self.folders_only and not folder:
            return False
        below = path[len(self.folder.rstrip("/")) + 1 :]
        if self.anchored:
            return fnmatch.fnmatchcase(below, self.pattern)
        return fnmatch.fnmatchcase(below.rpartition("/")[2], self.pattern)


def read_gitignore(folder: str, handle: int | None = None) -> list[GitignoreRule]:
    """Return the rules of the folder's `.gitignore`, if it has one; by the handle of the folder where there is one."""
    path = os.path.join(folder, ".gitignore") if handle is None else ".gitignore"
    try:
        with open(os.open(path, _READ_FLAGS, dir_fd=handle), encoding="utf-8", errors="replace") as file:
            lines = [line.strip() for line in file if line.strip() and not line.startswith("#")]
    except OSError:
        return []
    rules: list[GitignoreRule] = []
    for line in lines:
        negated = line.startswith("!")
        text = line[negated:]
        bare = text.rstrip("/")
        pattern = bare.lstrip("/").removeprefix("**/")
        rules.append(GitignoreRule(folder, pattern, negated, text.endswith("/"), "/" in bare.removeprefix("**/")))
    return rules


def walk_files(
    folder: int, root: str, hidden: Container[tuple[int, int]], prefix: str = "", rules: tuple[GitignoreRule, ...] = ()
) -> Generator[tuple[str, int, str], None, None]:
    """Yield the files below an open folder, in the order of their names, without what git ignores: the path, and the
    open folder with the name in it. Links are not followed. `root` is what the folder is called.
    """
    rules += tuple(read_gitignore(root, folder))
    try:
        with os.scandir(folder) as found:
            entries = sorted(found, key=lambda entry: os.fsencode(entry.name))
    except OSError:
        return
    for entry in entries:
        path = f"{prefix}/{entry.name}" if prefix else entry.name
        named = f"{root.rstrip('/')}/{entry.name}"
        is_folder = entry.is_dir(follow_symlinks=False)
        verdict = next((not rule.negated for rule in reversed(rules) if rule.is_match(named, folder=is_folder)), False)
        if verdict or (is_folder and entry.name in SKIPPED):
            continue
        if entry.is_file(follow_symlinks=False):
            yield path, folder, entry.name
        elif is_folder and path.count("/") < _MAX_DEPTH:
            yield from _walk_below(folder, entry.name, named, hidden, path, rules)


def _walk_below(
    folder: int,
    name: str,
    root: str,
    hidden: Container[tuple[int, int]],
    prefix: str,
    rules: tuple[GitignoreRule, ...],
) -> Generator[tuple[str, int, str], None, None]:
    try:
        below = os.open(name, _FOLDER_FLAGS, dir_fd=folder)
    except OSError:
        return
    try:
        if _identity(below) not in hidden:
            yield from walk_files(below, root, hidden, prefix, rules)
    finally:
        os.close(below)


def _identity(handle: int) -> tuple[int, int]:
    status = os.fstat(handle)
    return status.st_dev, status.st_ino


def read_rules_above(root: str) -> tuple[GitignoreRule, ...]:
    """Return the rules of the folders above `root`, outermost first."""
    folders: list[str] = []
    while (folder := os.path.dirname(root)) != root:
        folders.append(folder)
        root = folder
    return tuple(rule for folder in reversed(folders) for rule in read_gitignore(folder))


def search_file(
    file: tuple[int, str],
    name: str,
    regex: re.Pattern[str],
    job: FileSearchJob,
    hidden: Container[tuple[int, int]],
    out: BinaryIO,
) -> None:
    """Search one file, given by its open folder and its name there, and write the matches."""
    try:
        handle = os.open(file[1], _READ_FLAGS, dir_fd=file[0])
    except OSError:
        return
    with open(handle, "rb") as opened:
        status = os.fstat(handle)
        is_open = stat.S_ISREG(status.st_mode) and (status.st_dev, status.st_ino) not in hidden
        if not is_open or status.st_size > _MAX_BYTES:
            return
        data = opened.read()
    if b"\0" in data[:8192]:
        return
    lines = data.decode("utf-8", "replace").removeprefix("\ufeff").split("\n")
    if lines[-1] == "":
        lines.pop()
    hits = [number for number, line in enumerate(lines) if regex.search(line)]
    if not hits:
        return
    label = os.fsencode(name) + b"\0"
    write_lines(lines, hits[:1] if job["mode"] == "files_only" else hits, job["context"], label, out)
    out.flush()


def write_lines(lines: list[str], hits: list[int], context: int, label: bytes, out: BinaryIO) -> None:
    """Write matching lines with `:`, lines around them with `-`, groups apart by `--`."""
    wanted: dict[int, bool] = {}
    for hit in hits:
        for number in range(max(0, hit - context), min(len(lines), hit + context + 1)):
            wanted[number] = wanted.get(number, False) or number == hit
    last = None
    for number in sorted(wanted):
        if context and last is not None and number > last + 1:
            out.write(b"--\n")
        mark = b":" if wanted[number] else b"-"
        out.write(
            label + str(number + 1).encode() + mark + lines[number][:_MAX_LINE].encode("utf-8", "replace") + b"\n"
        )
        last = number


def end_with_parent(parent: int) -> None:
    """Have the kernel end this program when the process that started it is killed: a pattern may keep it busy for ever.

    Exits where that has happened already.
    """
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_END_WITH_PARENT, signal.SIGKILL)
        if os.getppid() != parent:
            sys.exit()


def main() -> int:
    """Run the job given on the command line."""
    job: FileSearchJob = json.loads(sys.argv[1])
    end_with_parent(job["parent"])
    out = sys.stdout.buffer
    try:
        regex = re.compile(job["pattern"])
    except (re.error, OverflowError, RecursionError) as error:
        sys.stderr.write(f"regex parse error: {error}")
        return 2
    glob = re.compile(job["glob"], re.DOTALL)
    hidden = {(device, inode) for device, inode in job["hidden"]}
    folder, root, single = job["folder"], job["root"], job["name"]
    above = () if single else read_rules_above(root)
    walked = iter([(single, folder, single)]) if single else walk_files(folder, root, hidden, "", above)
    for path, below, name in walked:
        if not single and not glob.fullmatch(path):
            continue
        if job["mode"] == "list":
            out.write(os.fsencode(path) + b"\0")
        else:
            search_file((below, name), path, regex, job, hidden, out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
