"""`search_files`: by content or by name; ripgrep where it is, else a walker of our own with the same output."""

import asyncio
import contextlib
import fnmatch
import json
import os
import shutil
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Struct

from hermes.core.errors import ToolError
from hermes.core.parts import Provenance, Source
from hermes.safety.paths import Places, read_refused
from hermes.tools import walker
from hermes.tools.session import ToolContext
from hermes.tools.tool import Parallel, PathUse, ToolOutput, tool

DEADLINE = 30.0
LIMIT = 50
_MAX_LIMIT = 1_000
_MAX_CONTEXT = 20
_LINE = 300
_CHUNK = 65_536


class _Row(Struct, frozen=True):
    """One record of an engine: a path, and a line of it (`12:text` matched, `12-text` stands beside a match)."""

    path: str
    rest: str = ""

    @property
    def counts(self) -> bool:
        """Whether it is one of the things that are limited, not a line around one."""
        number = len(self.rest) - len(self.rest.lstrip("0123456789"))
        return self.rest[number : number + 1] != "-"


class _Job(Struct, frozen=True):
    pattern: str
    root: Path
    glob: str
    mode: str
    context: int


@tool(
    "file",
    parallel=Parallel.PATHS,
    repeatable=True,
    summary=lambda args: f"search {args['pattern']} in {args['path']}",
    paths=lambda args: [PathUse(str(args["path"]))],
)
async def search_files(
    ctx: ToolContext,
    pattern: Annotated[str, "Regular expression; for target files a glob such as *.py."],
    target: Annotated[Literal["content", "files"], "Search in files, or for files by name."] = "content",
    path: Annotated[str, "Folder or file to search."] = ".",
    file_glob: Annotated[str, "Only files like this, such as *.py."] = "",
    limit: Annotated[int, "Results to give."] = LIMIT,
    offset: Annotated[int, "Results to skip."] = 0,
    output_mode: Annotated[Literal["content", "files_only", "count"], "Lines, file names, or matches a file."] = "content",
    context: Annotated[int, "Lines around each match."] = 0,
) -> ToolOutput:
    """Search file contents or find files by name. Leaves out what git ignores. Sorted by path."""
    root = ctx.resolve(path)
    if not root.exists():
        raise ToolError(f"{path} does not exist.")
    mode = "list" if target == "files" else output_mode
    job = _Job(pattern, root, file_glob, mode, max(0, min(context, _MAX_CONTEXT)) if mode == "content" else 0)
    prefix = "" if path in (".", "./") or root.is_file() else path.rstrip("/") + "/"
    first, count = max(0, offset), max(1, min(limit, _MAX_LIMIT))
    lines: list[str] = []
    seen = 0
    more = late = False
    with contextlib.suppress(TimeoutError):
        late = True
        async with asyncio.timeout(DEADLINE):
            async for row in _rows(job, ctx):
                if row is None:
                    lines += ["--"] if lines and lines[-1] != "--" and first <= seen else []
                    continue
                seen += row.counts
                if seen > first + count:
                    more = True
                    break
                if seen > first or (not row.counts and seen == first and first == 0):
                    name = path if root.is_file() else prefix + row.path
                    lines.append(f"{name}:{row.rest}"[: len(name) + _LINE] if row.rest else name)
        late = False
    notes = [f"more follow; go on with offset={first + count}"] if more else []
    notes += [f"stopped after {DEADLINE:.0f} s; narrow the search"] if late else []
    while lines and lines[-1] == "--":
        lines.pop()
    text = "\n".join(lines) if lines else "No matches." if not first else f"No matches after the first {first}."
    text += f"\n[{'; '.join(notes)}]" if notes else ""
    return ToolOutput(text=text, provenance=Provenance(source=Source.FILE, label=path))


async def _rows(job: _Job, ctx: ToolContext) -> AsyncIterator[_Row | None]:
    """What an engine finds, without files that may not be read; None between groups of lines."""
    engine = shutil.which("rg", path=ctx.search_path) if ctx.search_path else None
    names = job.pattern if any(char in job.pattern for char in "*?[") else f"*{job.pattern}*"
    async for row in _run(_ripgrep(engine, job) if engine else _walker(job), job):
        if row is None:
            yield None
        elif job.mode == "list" and not _named(row.path, names):
            continue
        elif not _secret(job.root, row.path, ctx.places):
            yield row


def _named(path: str, pattern: str) -> bool:
    return fnmatch.fnmatchcase(path if "/" in pattern else path.rpartition("/")[2], pattern)


def _secret(root: Path, name: str, places: Places) -> bool:
    path = str(root if root.is_file() else root / name)
    return bool(read_refused(os.path.normpath(path), places))


def _ripgrep(engine: str, job: _Job) -> list[str]:
    command = [engine, "--no-config", "--color=never", "--no-messages", "--null", "--sort=path", "--hidden", "--no-require-git"]
    command += ["--no-ignore-global", "--no-ignore-parent", "--no-ignore-exclude", "--no-ignore-dot"]
    for folder in sorted(walker.SKIPPED):
        command += ["--glob", f"!**/{folder}/**"]
    if job.glob:
        command += ["--glob", job.glob]
    where = job.root.name if job.root.is_file() else "./"
    if job.mode == "list":
        return [*command, "--files", where]
    kinds = {"files_only": ["--files-with-matches"], "count": ["--count"]}
    lines = ["--line-number", "--no-heading", "--with-filename", f"--context={job.context}", "--max-columns=500", "--max-columns-preview"]
    return [*command, *kinds.get(job.mode, lines), "--with-filename", "--regexp", job.pattern, "--", where]


def _walker(job: _Job) -> list[str]:
    given = walker.Job(
        pattern=job.pattern if job.mode != "list" else "", root=str(job.root), glob=job.glob, mode=job.mode, context=job.context
    )
    return [sys.executable, "-I", "-S", str(walker.__file__), json.dumps(given)]


async def _run(command: Sequence[str], job: _Job) -> AsyncIterator[_Row | None]:
    """Start an engine and read its records. Leaving early, or a cancellation, kills it."""
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=job.root.parent if job.root.is_file() else job.root,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None and process.stderr is not None
    try:
        end = b"\0" if job.mode in ("list", "files_only") else b"\n"
        held = b""
        while chunk := await process.stdout.read(_CHUNK):
            *records, held = (held + chunk).split(end)
            for record in records:
                yield _row(record)
        if await process.wait() == 2:
            said = (await process.stderr.read(_CHUNK)).decode("utf-8", "replace")
            if "regex parse error" in said or "error: " in said:
                raise ToolError(f"The pattern is not valid: {' '.join(said.split())[:300]}")
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            # Its pipes are drained so that the transport closes with it.
            await process.communicate()


def _row(record: bytes) -> _Row | None:
    if record == b"--":
        return None
    path, _, rest = record.partition(b"\0")
    return _Row(os.fsdecode(path.removeprefix(b"./")), rest.decode("utf-8", "replace").rstrip("\r"))
