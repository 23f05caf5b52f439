"""`search_files`: searches by content or by name, with ripgrep where it is, else with our own walker and
the same output.

An engine walks by names, and a name may lead elsewhere for a moment. So ripgrep runs where the kernel lets it read
nothing but what is searched, and our walker opens everything below the handle of the folder that was judged.
"""

import asyncio
import contextlib
import itertools
import os
import re
import shutil
import stat
import sys
from collections.abc import AsyncGenerator, Iterable, Iterator
from contextlib import ExitStack
from typing import IO, Annotated, Literal, cast

import msgspec
from msgspec import Meta, Struct

from hermes.core.encoding import to_json
from hermes.core.errors import ToolError
from hermes.core.messages import Provenance, Source
from hermes.execution.sandbox.confined_reader import StartedReader, can_confine, is_known_confinable, start_reader
from hermes.tools.path_access import SessionView, hold_for_reading
from hermes.tools.session import ToolContext
from hermes.tools.tool import Parallel, PathUse, ToolOutput, tool
from hermes.tools.walker import SKIPPED
from hermes.util.file_handles import LISTED_FOLDER_FLAGS
from hermes.util.globs import GlobError, PathGlobs
from hermes.util.pipes import PipeReader


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


DEFAULT_LIMIT = 50
_MAX_LIMIT = 1_000
_MAX_CONTEXT = 20
_MAX_LINE = 300
_CHUNK = 65_536
_SHOWN = 500
"""Characters of a line that are shown."""
_RG_OPTIONS = (
    *("--no-config", "--color=never", "--no-messages", "--null", "--hidden", "--no-require-git"),
    *("--no-ignore-global", "--no-ignore-exclude", "--no-ignore-dot"),
)
_MAX_UNSORTED = 4_000
"""The most records that are taken unsorted, to be sorted here. Of more than these, a sorted search has a page soon."""
_GLOB_SIGNS = frozenset("*?[{")
_NAMES = re.compile(r"[\w.*?-]*(?:\{[\w.*?,-]+\}[\w.*?-]*)?(?<!^)")
"""One glob about names, in which nothing is special that ripgrep's versions read differently."""
_MAX_COUNTED = 200_000
"""The most files that are counted when a glob leaves none with a match."""
_SHORT_SECONDS = 0.15
_MAX_QUICK = 1_000
_quick_folders: set[str] = set()
"""Where the last search took a short time: the next one runs on one processor, where it costs least, since threads get
in each other's way at each file that they open. ripgrep uses more than one only while it need not sort.
"""
_MAX_LOOKED_AT = 200
"""The most entries of a folder that are looked at before it is searched."""
_APART, _HERE = b"--", b"./"
"""The record between lines that are apart, and how each path begins."""
_SORTED, _ON_ONE, _ON_ALL = ("--sort=path",), ("--threads=1",), ()


class _SearchJob(Struct, frozen=True):
    """A search in an open folder, whose path is `root`; `name` is the one file in it that is searched, if it is one."""

    pattern: str
    root: str
    folder: int
    name: str
    glob: str
    globs: PathGlobs
    mode: str
    context: int
    most: int
    """The most lines of one file that a page of the results can be about; 0 where all of them count."""


class SearchFilesParams(Struct, frozen=True, forbid_unknown_fields=True):
    """The parameters of `search_files`."""

    pattern: Annotated[str, Meta(description="Regular expression; for target files a glob such as *.py.")]
    target: Annotated[Literal["content", "files"], Meta(description="Search in files, or for files by name.")] = (
        "content"
    )
    path: Annotated[str, Meta(description="Folder or file to search.")] = "."
    file_glob: Annotated[str, Meta(description="Only files like *.py.")] = ""
    limit: Annotated[int, Meta(description="Most results.")] = DEFAULT_LIMIT
    offset: Annotated[int, Meta(description="Results to skip.")] = 0
    output_mode: Annotated[
        Literal["content", "files_only", "count"], Meta(description="Lines, file names, or matches a file.")
    ] = "content"
    context: Annotated[int, Meta(description="Lines around each match.")] = 0

    def build_job(self, root: str, folder: int, name: str) -> _SearchJob:
        """Return the job for an engine. Raises `ToolError`."""
        mode = "list" if self.target == "files" else self.output_mode
        context = max(0, min(self.context, _MAX_CONTEXT)) if mode == "content" else 0
        last = max(0, self.offset) + max(1, min(self.limit, _MAX_LIMIT)) + 1
        most = {"content": last, "files_only": 1, "list": 1}.get(mode, 0)
        globs = read_globs(self.file_glob, "file_glob")
        return _SearchJob(self.pattern, root, folder, name, self.file_glob, globs, mode, context, most)


def is_glob(pattern: str) -> bool:
    """Return whether a pattern for names is a glob, not a part of a name."""
    return pattern.startswith(("!", "/")) or not _GLOB_SIGNS.isdisjoint(pattern)


def read_globs(text: str, what: str) -> PathGlobs:
    """Return what some globs leave. Raises `ToolError`."""
    try:
        return PathGlobs(text)
    except GlobError as error:
        raise ToolError(f"The {what} {text!r} is not valid: {error}.") from None


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

    def add_rows(self, rows: Iterable[SearchRow | None]) -> bool:
        """Add records; return False when the page is full and more follow."""
        return all(self.add_row(row) for row in rows)

    @property
    def is_empty(self) -> bool:
        """Whether nothing was found at all."""
        return not self._seen

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
    with ExitStack() as held:
        job = _open_job(args, ctx, held)
        page = _ResultPage(args, single=bool(job.name))
        await _fill_page(page, job, ctx)
        if page.is_empty and not page.notes and not job.name:
            await _note_files_left(page, job, ctx)
    return ToolOutput(text=page.to_text(), provenance=Provenance(source=Source.FILE, label=args.path))


async def _fill_page(page: _ResultPage, job: _SearchJob, ctx: ToolContext) -> None:
    """Add rows until the page is full, or the time is over."""
    shown = ShownRows(job, ctx)
    found: list[bytes] = []
    try:
        async with asyncio.timeout(ctx.search_seconds):
            engine = await _find_ripgrep(job, ctx)
            is_taken = engine and job.most and await _take_unsorted(found, engine, job, ctx)
            if not is_taken and not await _add_sorted(page, shown, _run_engine(job, ctx, engine, _SORTED)):
                return
    except TimeoutError:
        page.notes.append(f"stopped after {ctx.search_seconds:.0f} s; narrow the search")
        if not found:
            return  # what is known of the last file is not all of it
    if page.add_rows(shown.select_rows(_sort_rows(found))):
        page.add_rows(shown.finish())


async def _note_files_left(page: _ResultPage, job: _SearchJob, ctx: ToolContext) -> None:
    """Add how many files a glob left, where nothing was found."""
    glob = job.glob or (job.pattern if job.mode == "list" and is_glob(job.pattern) else "")
    if not glob:
        return
    narrowed = msgspec.structs.replace(job, mode="list", pattern="" if job.glob else job.pattern)
    listing = msgspec.structs.replace(narrowed, glob="", globs=PathGlobs(""))
    found: list[bytes] = []
    try:
        async with asyncio.timeout(ctx.search_seconds):
            engine = await _find_ripgrep(listing, ctx)
            is_counted = await _take_records(found, _run_engine(listing, ctx, engine, _ON_ALL), _MAX_COUNTED)
    except TimeoutError:
        is_counted = False
    if is_counted:
        shown = ShownRows(narrowed, ctx)
        left = sum(shown.is_wanted(row.path) for row in map(_parse_row, found) if row is not None)
        page.notes.append(f"{glob} fits {left or 'none'} of {len(found)} files here")


async def _add_sorted(page: _ResultPage, shown: "ShownRows", records: AsyncGenerator[list[bytes], None]) -> bool:
    """Add sorted records as they come; return False when the page is full and more follow."""
    async with contextlib.aclosing(records) as batches:
        async for batch in batches:
            if not page.add_rows(shown.select_rows(map(_parse_row, batch))):
                return False
    return True


async def _take_unsorted(found: list[bytes], engine: str, job: _SearchJob, ctx: ToolContext) -> bool:
    """Take the records of a search in the order in which they are found; return False, and take none, for too many."""
    started = ctx.clock.monotonic()
    is_quick = job.root in _quick_folders
    _quick_folders.discard(job.root)
    is_taken = await _take_records(found, _run_engine(job, ctx, engine, _ON_ONE if is_quick else _ON_ALL))
    if ctx.clock.monotonic() - started < _SHORT_SECONDS:
        _quick_folders.add(job.root)
        if len(_quick_folders) > _MAX_QUICK:
            _quick_folders.pop()
    return is_taken


async def _take_records(
    found: list[bytes], records: AsyncGenerator[list[bytes], None], most: int = _MAX_UNSORTED
) -> bool:
    async with contextlib.aclosing(records) as batches:
        async for batch in batches:
            found += batch
            if len(found) > most:
                found.clear()
                return False
    return True


def _sort_rows(records: Iterable[bytes]) -> Iterator[SearchRow | None]:
    """Yield the rows of records in the order of their paths, name by name as `rg --sort=path` has it.

    A record becomes a row only when it is asked for: a page ends long before the last of thousands. No name holds what
    stands for the slash here, which sorts before all that may follow a name.
    """
    groups: dict[bytes, list[bytes]] = {}
    path = b""
    for record in records:
        path = record.partition(b"\0")[0] if record != _APART else path
        groups.setdefault(path, []).append(record)
    for name in sorted(groups, key=lambda one: one.removeprefix(_HERE).replace(b"/", b"\0")):
        yield from map(_parse_row, groups[name])


def _open_job(args: SearchFilesParams, ctx: ToolContext, held: ExitStack) -> _SearchJob:
    """Return the job for an engine, with what is searched held open. Raises `ToolError`."""
    try:
        place = held.enter_context(hold_for_reading(ctx.resolve_path(args.path), args.path, ctx))
        mode = place.read_status().st_mode
        if stat.S_ISREG(mode):
            folder, name = os.open(".", LISTED_FOLDER_FLAGS, dir_fd=place.handle), place.name
        else:
            folder, name = place.open_folder(), ""
    except OSError:
        raise ToolError(f"{args.path} is no folder and no file that can be searched.") from None
    held.callback(os.close, folder)
    return args.build_job(os.path.dirname(place.real) if name else place.real, folder, name)


class ShownRows:
    """Selects what is shown of the rows of one search: not what is refused by its name, or by a second name of it."""

    def __init__(self, job: _SearchJob, ctx: ToolContext) -> None:
        self._job = job
        self._ctx = ctx
        self._view = SessionView(ctx)
        is_list = job.mode == "list"
        self._names = read_globs(job.pattern, "pattern") if is_list and is_glob(job.pattern) else None
        self._part = job.pattern.removeprefix("./") if is_list and self._names is None else ""
        self._path: str | None = None
        self._is_shown = False
        self._matches = 0
        self._is_apart = False

    def select_rows(self, rows: Iterable[SearchRow | None]) -> Iterator[SearchRow | None]:
        """Yield what is shown of some rows, which come in the engine's order."""
        is_content = self._job.mode == "content"
        for row in rows:
            if row is None:
                self._is_apart = True
                continue
            if row.path != self._path:
                yield from self.finish()
                self._is_apart = self._job.context > 0
                self._path, self._is_shown = row.path, self.is_wanted(row.path) and self._is_open(row.path)
            if not self._is_shown:
                continue
            self._matches += row.is_result
            if self._job.mode == "list":
                yield row
            elif is_content:
                if self._is_apart:
                    yield None
                self._is_apart = False
                yield SearchRow(row.path, row.rest[:_SHOWN])

    def finish(self) -> Iterator[SearchRow]:
        """Yield what is shown of the last file once all of its rows are known."""
        if self._matches and self._path is not None and self._job.mode in ("count", "files_only"):
            yield SearchRow(self._path, str(self._matches) if self._job.mode == "count" else "")
        self._matches = 0

    def is_wanted(self, path: str) -> bool:
        """Return whether the globs leave a file, and it is in no folder that is never searched."""
        if not SKIPPED.isdisjoint(path.split("/")[:-1]):
            return False  # ripgrep was not told to leave these out
        if self._names is not None and not self._names.is_match(path):
            return False
        if self._part and self._part not in (path if "/" in self._part else path.rpartition("/")[2]):
            return False
        return not self._job.glob or bool(self._job.name) or self._job.globs.is_match(path)

    def _is_open(self, path: str) -> bool:
        from hermes.safety.path_policy import hard_link_refusal, path_refusal

        real = os.path.join(self._job.root, path)
        if path_refusal(real, real, "read", self._ctx.places) or self._view.is_closed(real):
            return False
        try:
            status = os.stat(path, dir_fd=self._job.folder, follow_symlinks=False)
        except OSError:
            return True  # it went away after it was read
        return not hard_link_refusal(status, self._ctx.places)


def _build_ripgrep_command(engine: str, job: _SearchJob, options: Iterable[str]) -> list[str]:
    command = [engine, *_RG_OPTIONS, *options]
    if _NAMES.fullmatch(job.glob):
        # A type narrows what is searched; a glob would also bring back what git ignores.
        command += ["--type-add", f"wanted:{job.glob}", "--type", "wanted"]
    where = f"./{job.name}"
    if job.mode == "list":
        return [*command, "--files", where]
    # Without sorting ripgrep keeps all that it prints of a file in memory.
    lines = [
        "--line-number",
        "--no-heading",
        "--with-filename",
        f"--context={job.context}",
        "--max-columns=500",
        "--max-columns-preview",
        *([f"--max-count={job.most}"] if job.most else []),
    ]
    return [*command, *lines, "--regexp", job.pattern, "--", where]


def _list_left_out() -> list[str]:
    """Return the options by which ripgrep leaves out what is never searched."""
    # By its name: a pattern for what is in it is tried on each path.
    return [option for name in sorted(SKIPPED) for option in ("--glob", f"!{name}/")]


def _is_plain(folder: int) -> bool:
    """Return whether an open folder has few entries, and none of what is never searched is seen in it.

    A first pattern is tried on each path and costs as much as all; what is found deeper is left out of the rows.
    """
    with os.scandir(folder) as listed:
        entries = [*itertools.islice(listed, _MAX_LOOKED_AT + 1)]
    names = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    if len(entries) > _MAX_LOOKED_AT or not SKIPPED.isdisjoint(names):
        return False
    # A folder of repositories: nothing else leaves their .git out.
    return not any(os.access(f"{name}/.git", os.F_OK, dir_fd=folder, follow_symlinks=False) for name in names)


def _build_walker_command(job: _SearchJob, hidden: Iterable[str]) -> list[str]:
    from hermes.tools import walker

    given = walker.FileSearchJob(
        pattern=job.pattern if job.mode != "list" else "",
        folder=job.folder,
        name=job.name,
        root=job.root,
        hidden=[(status.st_dev, status.st_ino) for status in map(_read_status, hidden) if status is not None],
        glob=job.globs.regex,
        mode=job.mode,
        context=job.context,
        parent=os.getpid(),
    )
    return [sys.executable, "-I", "-S", str(walker.__file__), to_json(given).decode()]


def _read_status(path: str) -> os.stat_result | None:
    try:
        return os.stat(path, follow_symlinks=False)
    except OSError:
        return None


async def _find_ripgrep(job: _SearchJob, ctx: ToolContext) -> str:
    """Return the path of ripgrep where the kernel can confine it to what is searched; else empty."""
    from hermes.tools.path_access import find_hidden_below

    engine = shutil.which("rg", path=ctx.search_path) if ctx.search_path else None
    # Where something is hidden below, the kernel can keep it from being read, but not its names from being listed.
    if engine is None or (job.mode == "list" and find_hidden_below(job.root, ctx)):
        return ""
    return engine if is_known_confinable(engine) or await asyncio.to_thread(can_confine, engine) else ""


async def _start_engine(job: _SearchJob, ctx: ToolContext, engine: str, options: tuple[str, ...]) -> StartedReader:
    """Start ripgrep, confined to what is searched, where it is given and can be started; else our walker."""
    from hermes.tools.path_access import find_hidden_below, open_ignore_files, open_visible_parts

    hidden = find_hidden_below(job.root, ctx)
    if engine:
        with contextlib.suppress(OSError), ExitStack() as held:
            ignoring = open_ignore_files(job.root, held)
            readable = [*open_visible_parts((job.root, job.folder, job.name), hidden, held), *ignoring]
            # Where no folder above says what git ignores, ripgrep need not make each path whole to ask them.
            above = () if ignoring else ("--no-ignore-parent",)
            left_out = () if options == _ON_ONE and (job.name or _is_plain(job.folder)) else _list_left_out()
            command = _build_ripgrep_command(engine, job, (*options, *above, *left_out))
            return await start_reader(command, job.folder, readable, seconds=ctx.search_seconds)
    command = _build_walker_command(job, hidden)
    return await start_reader(command, job.folder, given=(job.folder,), seconds=ctx.search_seconds)


async def _run_engine(
    job: _SearchJob, ctx: ToolContext, engine: str, options: tuple[str, ...]
) -> AsyncGenerator[list[bytes], None]:
    """Start an engine and read its records, as they come. Leaving early, or a cancellation, kills it."""
    started = await _start_engine(job, ctx, engine, options)
    with ExitStack() as undo:
        undo.callback(started.close)
        reader = PipeReader(cast("IO[bytes]", started.process.stdout).fileno())
        end = b"\0" if job.mode == "list" else b"\n"
        held = b""
        while chunk := await reader.read(_CHUNK):
            *records, held = (held + chunk).split(end)
            yield records
        if await started.ended == 2:
            said = await asyncio.to_thread(cast("IO[bytes]", started.process.stderr).read, _CHUNK)
            text = said.decode("utf-8", "replace")
            if "regex parse error" in text or "error: " in text:
                raise ToolError(f"The pattern is not valid: {' '.join(text.split())[:300]}")


def _parse_row(record: bytes) -> SearchRow | None:
    if record == _APART:
        return None
    path, _, rest = record.partition(b"\0")
    return SearchRow(os.fsdecode(path.removeprefix(_HERE)), rest.decode("utf-8", "replace").rstrip("\r"))
