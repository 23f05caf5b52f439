"""Searches files without ripgrep. It runs as a program of its own, so that a pattern that never ends can be killed.

Arguments: one JSON object. Output and order are those of `rg --null --sort path`. Standard library only.
"""

import fnmatch
import json
import os
import re
import sys
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple, TypedDict

SKIPPED = frozenset({".git", "node_modules", "__pycache__", ".venv", ".mypy_cache", ".ruff_cache", ".pytest_cache"})
_MAX_BYTES = 50 * 1024 * 1024
_MAX_LINE = 500


class FileSearchJob(TypedDict):
    """A search to run. `mode` is `content`, `files_only`, `count` or `list`.

    All but `list` print lines; of `files_only` the first one of each file.
    """

    pattern: str
    root: str
    glob: str
    mode: str
    context: int


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


def read_gitignore(folder: str) -> list[GitignoreRule]:
    """Return the rules of the folder's `.gitignore`, if it has one."""
    try:
        with open(os.path.join(folder, ".gitignore"), encoding="utf-8", errors="replace") as file:
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


def walk_files(root: str, prefix: str = "", rules: tuple[GitignoreRule, ...] = ()) -> Iterator[str]:
    """Yield the files below `root`, in the order of their names, without what git
    ignores. Symlinks are not followed.
    """
    rules += tuple(read_gitignore(root))
    try:
        entries = sorted(os.scandir(root), key=lambda entry: os.fsencode(entry.name))
    except OSError:
        return
    for entry in entries:
        path = f"{prefix}/{entry.name}" if prefix else entry.name
        folder = entry.is_dir(follow_symlinks=False)
        verdict = next(
            (not rule.negated for rule in reversed(rules) if rule.is_match(entry.path, folder=folder)), False
        )
        if verdict or (folder and entry.name in SKIPPED):
            continue
        if folder:
            yield from walk_files(entry.path, path, rules)
        elif entry.is_file(follow_symlinks=False):
            yield path


def read_rules_above(root: str) -> tuple[GitignoreRule, ...]:
    """Return the rules of the folders above `root`, outermost first."""
    folders: list[str] = []
    while (folder := os.path.dirname(root)) != root:
        folders.append(folder)
        root = folder
    return tuple(rule for folder in reversed(folders) for rule in read_gitignore(folder))


def is_glob_match(path: str, glob: str) -> bool:
    """Return whether a path fits a glob: the whole path when the glob has a slash, else the name."""
    return not glob or fnmatch.fnmatchcase(path if "/" in glob else path.rpartition("/")[2], glob)


def search_file(path: str, name: str, regex: re.Pattern[str], job: FileSearchJob, out: BinaryIO) -> None:
    """Search one file and write the matches."""
    try:
        if os.path.getsize(path) > _MAX_BYTES:
            return
        with open(path, "rb") as file:
            data = file.read()
    except OSError:
        return
    if b"\0" in data[:8192]:
        return
    lines = data.decode("utf-8", "replace").split("\n")
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


def main() -> int:
    """Run the job given on the command line."""
    job: FileSearchJob = json.loads(sys.argv[1])
    out = sys.stdout.buffer
    try:
        regex = re.compile(job["pattern"])
    except (re.error, OverflowError, RecursionError) as error:
        sys.stderr.write(f"regex parse error: {error}")
        return 2
    root = job["root"]
    single = os.path.isfile(root)
    found = iter([os.path.basename(root)]) if single else walk_files(root, rules=read_rules_above(root))
    for name in found:
        if not single and not is_glob_match(name, job["glob"]):
            continue
        if job["mode"] == "list":
            out.write(os.fsencode(name) + b"\0")
        else:
            search_file(root if single else os.path.join(root, name), name, regex, job, out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
