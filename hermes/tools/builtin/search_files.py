"""`search_files`: searches by content or by name, with ripgrep where it is, else with our own walker and
the same output.

Judges what a search engine prints by the files themselves.

An engine walks by names, and a name may have led it elsewhere for a moment. So each file is opened once and judged as
`read_file` judges it, what is shown is read from what is open, and a record that is not found there is dropped.
"""

import asyncio
import contextlib
import io
import os
import shutil
import signal
import sys
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, BinaryIO, Literal, TextIO

from msgspec import Meta, Struct

from hermes.core.encoding import to_json
from hermes.core.errors import ToolError
from hermes.core.messages import Provenance, Source
from hermes.safety.paths import Places
from hermes.tools.files import detect_encoding, get_file_kind, open_regular
from hermes.tools.session import ToolContext
from hermes.tools.tool import Parallel, PathUse, ToolOutput, tool
from hermes.util.file_handles import path_of_handle

_LINE_LENGTH = 4_096
"""Characters (bytes, but in UTF-16) of a line that are read; the rest of it is skipped."""


_CUT = " [... "
"""How ripgrep ends a line that it shortened."""


_SHOWN = 500


_HEAD = 8_192


_LONGEST_NUMBER = 19
"""Digits of the number of a line; more is no such number."""


_BY_NAME = getattr(os, "O_PATH", os.O_RDONLY | os.O_NONBLOCK)
"""How a file is opened that is not read."""


class SearchRow(Struct, frozen=True):
    """One record of an engine: a path, and a line of it (`12:text` matched, `12-text` is beside a match)."""

    path: str
    rest: str = ""

    @property
    def number(self) -> str:
        """The number of the line; empty where there is none."""
        return self.rest[: len(self.rest) - len(self.rest.lstrip("0123456789"))]

    @property
    def is_result(self) -> bool:
        """Whether it is one of the results that are limited, not a line around one."""
        return self.rest[len(self.number) :][:1] != "-"


class HitReader:
    """Checks the records of one search. Used by one thread at a time.

    `mode` is `content`, `files_only`, `count` or `list`; `is_wanted` says which paths, relative to `root`, count.
    """

    def __init__(self, root: Path, mode: str, places: Places, is_wanted: Callable[[str], bool]) -> None:
        self._root = root
        self._is_single = root.is_file()
        self._mode = mode
        self._places = places
        self._is_wanted = is_wanted
        self._path = ""
        self._file: _NumberedLines | None = None
        self._matches = 0
        self._is_apart = False

    def check_rows(self, rows: Sequence[SearchRow | None]) -> list[SearchRow | None]:
        """Return what is to be shown of some records, which come in the engine's order."""
        found: list[SearchRow | None] = []
        for row in rows:
            if row is None:
                self._is_apart = True
                continue
            if self._mode == "list":
                found += [row] if self._is_listed(row.path) else []
                continue
            if row.path != self._path:
                found += self.finish()
                self._open_file(row.path)
            if self._file is None:
                continue
            number = row.number
            mark = len(number) + 1
            text = self._file.confirm(number, row.rest[mark:])
            if text is None:
                continue
            self._matches += row.rest[mark - 1] != "-"
            if self._mode == "content":
                found += [None] if self._is_apart else []
                found.append(SearchRow(row.path, row.rest[:mark] + text))
                self._is_apart = False
        return found

    def finish(self) -> Iterator[SearchRow]:
        """Yield what is shown of the last file once all of its records are known, and close it."""
        if self._matches and self._mode != "content":
            yield SearchRow(self._path, str(self._matches) if self._mode == "count" else "")
        self._matches = 0
        self.close()

    def close(self) -> None:
        """Close the file that is open."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _open_file(self, path: str) -> None:
        self._path = path
        if not self._is_wanted(path):
            return
        place = self._locate(path)
        with contextlib.suppress(ToolError):
            file = open_regular(place, path, self._places)
            if self._is_refused(place, file.fileno()):
                file.close()
            else:
                self._file = _NumberedLines(file)

    def _is_listed(self, path: str) -> bool:
        from hermes.safety.path_policy import open_file_refusal

        place = self._locate(path)
        try:
            handle = os.open(place, _BY_NAME | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            return not open_file_refusal(handle, self._places) and not self._is_refused(place, handle)
        finally:
            os.close(handle)

    def _locate(self, path: str) -> Path:
        return self._root if self._is_single else self._root / path

    def _is_refused(self, place: Path, handle: int) -> bool:
        """Return whether what is open is refused by its other name: by its real one it has been judged."""
        from hermes.safety.paths import read_refusal

        name = os.path.normpath(place)
        return name != path_of_handle(handle) and bool(read_refusal(name, self._places))


class _NumberedLines:
    """The lines of an open file, asked for in their order."""

    def __init__(self, file: BinaryIO) -> None:
        head = file.read(_HEAD)
        file.seek(0)
        encoding = detect_encoding(head)[0]
        self._file: BinaryIO | TextIO = file
        if encoding.startswith("utf-16"):
            self._file = io.TextIOWrapper(file, encoding, errors="replace", newline="\n")
        self._number = 0
        self._text = ""

    def confirm(self, number: str, printed: str) -> str | None:
        """Return the line of that number; None when it is another one than was printed, or there is none."""
        if not 0 < len(number) < _LONGEST_NUMBER:
            return None
        text = self._read_line(int(number))
        if text is None:
            return None
        shown = text[:_SHOWN]
        if printed in (text, shown):
            return shown
        printed = printed.removeprefix("\ufeff")
        cut = printed.rpartition(_CUT)[0]
        is_cut = cut == text or (len(cut) >= _SHOWN and text.startswith(cut))
        return shown if printed in (text, shown) or (cut and is_cut) else None

    def close(self) -> None:
        self._file.close()

    def _read_line(self, number: int) -> str | None:
        try:
            while self._number < number:
                line = part = self._file.readline(_LINE_LENGTH)
                if not line:
                    return None
                while len(part) == _LINE_LENGTH and part[-1:] not in ("\n", b"\n"):
                    part = self._file.readline(_LINE_LENGTH)
                self._number += 1
                if self._number == number:
                    text = line if isinstance(line, str) else line.decode("utf-8", "replace")
                    self._text = text.removesuffix("\n").rstrip("\r").removeprefix("\ufeff")
        except (OSError, ValueError):
            return None
        return self._text if self._number == number else None


DEFAULT_LIMIT = 50
_MAX_LIMIT = 1_000
_MAX_CONTEXT = 20
_MAX_LINE = 300
_CHUNK = 65_536
_FIRST_BATCH = 64
"""Records that are checked at a time: at first few more than are usually shown, then more and more."""
_LARGEST_BATCH = 1_024
_RG_OPTIONS = (
    *("--no-config", "--color=never", "--no-messages", "--null", "--sort=path", "--hidden", "--no-require-git"),
    *("--no-ignore-global", "--no-ignore-exclude", "--no-ignore-dot"),
)


class _SearchJob(Struct, frozen=True):
    pattern: str
    root: Path
    glob: str
    mode: str
    context: int


class SearchFilesParams(Struct, frozen=True, forbid_unknown_fields=True):
    """The parameters of `search_files`."""

    pattern: Annotated[str, Meta(description="Regular expression; for target files a glob such as *.py.")]
    target: Annotated[Literal["content", "files"], Meta(description="Search in files, or for files by name.")] = (
        "content"
    )
    path: Annotated[str, Meta(description="Folder or file to search.")] = "."
    file_glob: Annotated[str, Meta(description="Only files like this, such as *.py.")] = ""
    limit: Annotated[int, Meta(description="Most results.")] = DEFAULT_LIMIT
    offset: Annotated[int, Meta(description="Results to skip.")] = 0
    output_mode: Annotated[
        Literal["content", "files_only", "count"], Meta(description="Lines, file names, or matches a file.")
    ] = "content"
    context: Annotated[int, Meta(description="Lines around each match.")] = 0

    def build_job(self, root: Path) -> _SearchJob:
        """Return the job for an engine."""
        mode = "list" if self.target == "files" else self.output_mode
        context = max(0, min(self.context, _MAX_CONTEXT)) if mode == "content" else 0
        return _SearchJob(self.pattern, root, self.file_glob, mode, context)


class _ResultPage:
    """The results that are shown: those after the first `offset`, at most `limit`, with the lines around them."""

    def __init__(self, args: SearchFilesParams, *, single: bool) -> None:
        self._first = max(0, args.offset)
        self._end = self._first + max(1, min(args.limit, _MAX_LIMIT))
        self._single = args.path if single else ""
        self._prefix = "" if args.path in (".", "./") else args.path.rstrip("/") + "/"
        self._lines: list[str] = []
        self._seen = 0
        self.notes: list[str] = []

    def add_row(self, row: SearchRow | None) -> bool:
        """Add a record; return False when the page is full and more follow."""
        if row is None:
            self._lines += ["--"] if self._lines and self._seen >= self._first else []
            return True
        self._seen += row.is_result
        if self._seen > self._end:
            self.notes.append(f"more follow; go on with offset={self._end}")
            return False
        if self._seen > self._first or (self._first == 0 and not row.is_result):
            name = self._single or self._prefix + row.path
            self._lines.append(f"{name}:{row.rest}"[: len(name) + _MAX_LINE] if row.rest else name)
        return True

    def to_text(self) -> str:
        """Return the page as text."""
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
async def search_files(ctx: ToolContext, args: SearchFilesParams) -> ToolOutput:
    """Search file contents or find files by name. Leaves out what git ignores. Sorted by path."""
    root = ctx.resolve_path(args.path)
    kind = get_file_kind(root)
    if kind is None:
        raise ToolError(f"{args.path} is no folder and no file that can be searched.")
    page = _ResultPage(args, single=kind == "file")
    rows = _find_rows(args.build_job(root), ctx)
    try:
        async with asyncio.timeout(ctx.search_seconds), contextlib.aclosing(rows):
            async for row in rows:
                if not page.add_row(row):
                    break
    except TimeoutError:
        page.notes.append(f"stopped after {ctx.search_seconds:.0f} s; narrow the search")
    return ToolOutput(text=page.to_text(), provenance=Provenance(source=Source.FILE, label=args.path))


async def _find_rows(job: _SearchJob, ctx: ToolContext) -> AsyncGenerator[SearchRow | None, None]:
    """Yield the records of an engine that the files themselves bear out; None between groups of lines."""
    engine = shutil.which("rg", path=ctx.search_path) if ctx.search_path else None
    hits = HitReader(job.root, job.mode, ctx.places, lambda path: _is_wanted(path, job))
    try:
        command = _build_ripgrep_command(engine, job) if engine else _build_walker_command(job)
        async with contextlib.aclosing(_run_engine(command, job)) as batches:
            async for row in _check_batches(batches, hits, job):
                yield row
        for row in hits.finish():
            yield row
    finally:
        hits.close()


async def _check_batches(
    batches: AsyncGenerator[list[SearchRow | None], None], hits: HitReader, job: _SearchJob
) -> AsyncGenerator[SearchRow | None, None]:
    """Yield what the files bear out of the records that an engine prints, in batches that grow."""
    size = _FIRST_BATCH
    async for printed in batches:
        rows = [row for row in printed if job.mode != "list" or (row and _is_wanted(row.path, job))]
        while rows:
            for row in await asyncio.to_thread(hits.check_rows, rows[:size]):
                yield row
            rows, size = rows[size:], min(size * 2, _LARGEST_BATCH)


def _is_wanted(path: str, job: _SearchJob) -> bool:
    from hermes.tools.walker import is_glob_match

    if job.mode == "list":
        names = job.pattern if any(char in job.pattern for char in "*?[") else f"*{job.pattern}*"
        return is_glob_match(path, job.glob) and is_glob_match(path, names)
    return is_glob_match(path, job.glob)


def _build_ripgrep_command(engine: str, job: _SearchJob) -> list[str]:
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
    lines = [
        "--line-number",
        "--no-heading",
        "--with-filename",
        f"--context={job.context}",
        "--max-columns=500",
        "--max-columns-preview",
        *(["--max-count=1"] if job.mode == "files_only" else []),
    ]
    return [*command, *lines, "--regexp", job.pattern, "--", where]


def _build_walker_command(job: _SearchJob) -> list[str]:
    from hermes.tools import walker

    pattern = job.pattern if job.mode != "list" else ""
    given = walker.FileSearchJob(pattern=pattern, root=str(job.root), glob=job.glob, mode=job.mode, context=job.context)
    return [sys.executable, "-I", "-S", str(walker.__file__), to_json(given).decode()]


async def _run_engine(command: Sequence[str], job: _SearchJob) -> AsyncGenerator[list[SearchRow | None], None]:
    """Start an engine and read its records, as they come. Leaving early, or a cancellation, kills it."""
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=job.root.parent if job.root.is_file() else job.root,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None and process.stderr is not None
    try:
        end = b"\0" if job.mode == "list" else b"\n"
        held = b""
        while chunk := await process.stdout.read(_CHUNK):
            *records, held = (held + chunk).split(end)
            yield [_parse_row(record) for record in records]
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


def _parse_row(record: bytes) -> SearchRow | None:
    if record == b"--":
        return None
    path, _, rest = record.partition(b"\0")
    return SearchRow(os.fsdecode(path.removeprefix(b"./")), rest.decode("utf-8", "replace").rstrip("\r"))
