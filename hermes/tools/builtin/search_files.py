"""`search_files`: by content or by name; ripgrep where it is, else a walker of our own with the same output."""

import asyncio
import contextlib
import os
import shutil
import signal
import sys
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from hermes.core.errors import ToolError
from hermes.core.parts import Provenance, Source
from hermes.safety.places import Places
from hermes.tools.files import kind_of
from hermes.tools.session import ToolContext
from hermes.tools.tool import Parallel, PathUse, ToolOutput, tool

LIMIT = 50
_MAX_LIMIT = 1_000
_MAX_CONTEXT = 20
_LINE = 300
_CHUNK = 65_536
_RG_OPTIONS = (
    *("--no-config", "--color=never", "--no-messages", "--null", "--sort=path", "--hidden", "--no-require-git"),
    *("--no-ignore-global", "--no-ignore-exclude", "--no-ignore-dot"),
)


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


class Search(Struct, frozen=True, forbid_unknown_fields=True):
    """The parameters."""

    pattern: Annotated[str, Meta(description="Regular expression; for target files a glob such as *.py.")]
    target: Annotated[Literal["content", "files"], Meta(description="Search in files, or for files by name.")] = (
        "content"
    )
    path: Annotated[str, Meta(description="Folder or file to search.")] = "."
    file_glob: Annotated[str, Meta(description="Only files like this, such as *.py.")] = ""
    limit: Annotated[int, Meta(description="Most results.")] = LIMIT
    offset: Annotated[int, Meta(description="Results to skip.")] = 0
    output_mode: Annotated[
        Literal["content", "files_only", "count"], Meta(description="Lines, file names, or matches a file.")
    ] = "content"
    context: Annotated[int, Meta(description="Lines around each match.")] = 0

    def job(self, root: Path) -> _Job:
        """What an engine has to do."""
        mode = "list" if self.target == "files" else self.output_mode
        context = max(0, min(self.context, _MAX_CONTEXT)) if mode == "content" else 0
        return _Job(self.pattern, root, self.file_glob, mode, context)


class _Page:
    """The results that are shown: those after the first `offset`, at most `limit`, with the lines around them."""

    def __init__(self, args: Search, *, single: bool) -> None:
        self._first = max(0, args.offset)
        self._end = self._first + max(1, min(args.limit, _MAX_LIMIT))
        self._single = args.path if single else ""
        self._prefix = "" if args.path in (".", "./") else args.path.rstrip("/") + "/"
        self._lines: list[str] = []
        self._seen = 0
        self.notes: list[str] = []

    def take(self, row: _Row | None) -> bool:
        """Take a record; False when the page is full and more follow."""
        if row is None:
            self._lines += ["--"] if self._lines and self._seen >= self._first else []
            return True
        self._seen += row.counts
        if self._seen > self._end:
            self.notes.append(f"more follow; go on with offset={self._end}")
            return False
        if self._seen > self._first or (self._first == 0 and not row.counts):
            name = self._single or self._prefix + row.path
            self._lines.append(f"{name}:{row.rest}"[: len(name) + _LINE] if row.rest else name)
        return True

    def text(self) -> str:
        """The page."""
        lines = self._lines
        while lines and lines[-1] == "--":
            lines.pop()
        if not lines:
            lines = ["No matches."] if not self._first else [f"No matches after the first {self._first}."]
        return "\n".join([*lines, f"[{'; '.join(self.notes)}]"] if self.notes else lines)


@tool(
    "file",
    parallel=Parallel.PATHS,
    repeatable=True,
    summary=lambda args: f"search {args['pattern']} in {args['path']}",
    paths=lambda args: [PathUse(str(args["path"]))],
)
async def search_files(ctx: ToolContext, args: Search) -> ToolOutput:
    """Search file contents or find files by name. Leaves out what git ignores. Sorted by path."""
    root = ctx.resolve(args.path)
    kind = kind_of(root)
    if kind is None:
        raise ToolError(f"{args.path} is no folder and no file that can be searched.")
    page = _Page(args, single=kind == "file")
    rows = _rows(args.job(root), ctx)
    try:
        async with asyncio.timeout(ctx.search_seconds), contextlib.aclosing(rows):
            async for row in rows:
                if not page.take(row):
                    break
    except TimeoutError:
        page.notes.append(f"stopped after {ctx.search_seconds:.0f} s; narrow the search")
    return ToolOutput(text=page.text(), provenance=Provenance(source=Source.FILE, label=args.path))


async def _rows(job: _Job, ctx: ToolContext) -> AsyncGenerator[_Row | None, None]:
    """What an engine finds, without files that may not be read; None between groups of lines."""
    engine = shutil.which("rg", path=ctx.search_path) if ctx.search_path else None
    path, shown = "", True
    async with contextlib.aclosing(_run(_ripgrep(engine, job) if engine else _walker(job), job)) as records:
        async for row in records:
            if row is not None and row.path != path:
                path = row.path
                shown = _wanted(path, job) and not _secret(job.root, path, ctx.places)
            if row is None or shown:
                yield row


def _wanted(path: str, job: _Job) -> bool:
    from hermes.tools.walker import fits

    if job.mode == "list":
        names = job.pattern if any(char in job.pattern for char in "*?[") else f"*{job.pattern}*"
        return fits(path, job.glob) and fits(path, names)
    return fits(path, job.glob)


def _secret(root: Path, name: str, places: Places) -> bool:
    from hermes.safety.path_policy import judge_path
    from hermes.safety.paths import read_refused
    from hermes.safety.shell.findings import Verdict

    path = os.path.normpath(root if root.is_file() else root / name)
    if read_refused(path, places):
        return True
    with contextlib.suppress(OSError, ValueError):
        if os.lstat(path).st_nlink > 1:  # it may be another name of a file with keys
            return judge_path(path, "read", "/", places).verdict is not Verdict.ALLOW
    return False


def _ripgrep(engine: str, job: _Job) -> list[str]:
    command = [engine, *_RG_OPTIONS]
    from hermes.tools.walker import SKIPPED

    for folder in sorted(SKIPPED):
        command += ["--glob", f"!**/{folder}/**"]
    if job.glob and "/" not in job.glob:
        # A type narrows what is searched; a glob would also bring back what git ignores.
        command += ["--type-add", f"wanted:{job.glob}", "--type", "wanted"]
    where = job.root.name if job.root.is_file() else "./"
    if job.mode == "list":
        return [*command, "--files", where]
    kinds = {"files_only": ["--files-with-matches"], "count": ["--count"]}
    lines = [
        "--line-number",
        "--no-heading",
        "--with-filename",
        f"--context={job.context}",
        "--max-columns=500",
        "--max-columns-preview",
    ]
    return [*command, *kinds.get(job.mode, lines), "--with-filename", "--regexp", job.pattern, "--", where]


def _walker(job: _Job) -> list[str]:
    from hermes.tools import walker

    pattern = job.pattern if job.mode != "list" else ""
    given = walker.Job(pattern=pattern, root=str(job.root), glob=job.glob, mode=job.mode, context=job.context)
    return [sys.executable, "-I", "-S", str(walker.__file__), msgspec.json.encode(given).decode()]


async def _run(command: Sequence[str], job: _Job) -> AsyncGenerator[_Row | None, None]:
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
                # Not `process.kill()`: that may reap the process before the loop's own watcher does.
                os.kill(process.pid, signal.SIGKILL)
            # Its pipes are drained so that the transport closes with it.
            await process.communicate()


def _row(record: bytes) -> _Row | None:
    if record == b"--":
        return None
    path, _, rest = record.partition(b"\0")
    return _Row(os.fsdecode(path.removeprefix(b"./")), rest.decode("utf-8", "replace").rstrip("\r"))
