"""What calls of tools cost: `python -m bench.tools [read patch search true ...] [--runs N] [--backend sandbox]
[--trusted]`.

One real session (its gate, its checkpoints, its sandbox) is opened, and calls are made through its executor; no model
is asked. The cost is CPU of this process and of all below it, in milliseconds a call: the least and the median of some
batches, and, for each pair, the ratio of the least. The members of a pair take turns.

read, patch  a small file in the workspace, and one in a folder beside it that was opened to the session
search       5,000 files, by `search_files` and by ripgrep as a person types it, sorted and not; wall time, too
true         the command `true`, in bubblewrap, by Landlock alone, and by the shell itself
marks        what changed in 5,000 files costs to be marked, beside untrusted content
sessions     1,000 sessions in one process, each of which reads a file of a workspace of its own
"""

import argparse
import asyncio
import contextlib
import functools
import itertools
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from bench.many import memory
from bench.measure import ROOT
from bench.run import table
from hermes.config.trusted_folders import set_trust
from hermes.core.checkpoints import FileState, Kind, WorkspaceChanges
from hermes.core.messages import ToolCallPart, ToolResultPart, ToolStatus
from hermes.core.protocols import Intent
from hermes.execution.sandbox.backend import SandboxBackend
from hermes.execution.sandbox.probe import SandboxMechanism, SandboxProbe
from hermes.sessions.app import App
from hermes.sessions.options import SessionOptions
from hermes.testing.home import TempHome
from hermes.tools.effect_marks import EffectMarks
from hermes.tools.executor import CallBatch, Executor
from hermes.tools.session import ToolContext

FILES = 5_000
_TICK = 1.0 / os.sysconf("SC_CLK_TCK")
_WARM_UP = 3
Call = Callable[[], Awaitable[None]]


@dataclass
class Cost:
    """Milliseconds a call, of each batch."""

    cpu: list[float] = field(default_factory=list)
    wall: list[float] = field(default_factory=list)


class NoJournal:
    """Writes nothing down: no turn runs."""

    async def record_intents(self, intents: Sequence[Intent]) -> None:
        """Nothing is noted."""

    async def record_result(self, result: ToolResultPart) -> None:
        """Nothing is noted."""


class MeasuredSession:
    """A session of an app, with a way to call its tools."""

    def __init__(self, context: ToolContext, executor: Executor) -> None:
        self.context = context
        self.executor = executor
        self._number = itertools.count()

    async def call(self, name: str, **arguments: object) -> ToolResultPart:
        """Make a call that must succeed."""
        text = msgspec.json.encode(arguments).decode()
        batch = CallBatch([ToolCallPart(call_id=f"c{next(self._number)}", name=name, arguments=text)])
        (result,) = await self.executor.run(batch, self.context, NoJournal(), lambda _: None)
        if result.status is not ToolStatus.OK:
            raise SystemExit(f"{name} {text}: {result.text}")
        return result


@contextlib.asynccontextmanager
async def open_app(backend: str, *, trusted: bool = False) -> AsyncIterator[tuple[App, TempHome]]:
    """Open an app, and make a folder beside its workspace that commands may write. Neither is a temporary folder: of
    those commands have their own.
    """
    (ROOT / "build").mkdir(exist_ok=True)
    before, tempfile.tempdir = tempfile.tempdir, str(ROOT / "build")
    try:
        home = TempHome()
        home.__enter__()
    finally:
        tempfile.tempdir = before
    try:
        beside = home.root / "beside"
        beside.mkdir()
        model = {"default": "m", "provider": "custom", "base_url": "http://127.0.0.1:9/v1", "api_key": "x"}
        terminal = {"backend": backend, "sandbox": {"writable": [str(beside)], "network": "off"}}
        home.write_config({"model": {**model, "context_length": 100_000}, "terminal": terminal})
        if trusted:
            set_trust(home.hermes / "trust.json", str(home.root), trusted=True)
        async with App(home.environ, SessionOptions(platform="api_server", cwd=str(home.cwd))) as app:
            yield app, home
    finally:
        home.__exit__()


@contextlib.asynccontextmanager
async def open_session(backend: str, *, trusted: bool = False) -> AsyncIterator[tuple[MeasuredSession, Path, Path]]:
    """Open a session in an app: it, its workspace, and the folder beside."""
    async with open_app(backend, trusted=trusted) as (app, home):
        actor = await app.open_session()
        deps = actor._deps  # noqa: SLF001 - a turn without a model
        yield MeasuredSession(deps.context, deps.executor), home.cwd, home.root / "beside"
        await app.close_session(actor)


def count_cpu() -> float:
    """Seconds of CPU of this process, of what it has waited for, and of what still runs below it."""
    own, ended = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    running = sum(_count_running(pid) for pid in _list_children(os.getpid()))
    return own.ru_utime + own.ru_stime + ended.ru_utime + ended.ru_stime + running


def _list_children(pid: int) -> list[int]:
    found: list[int] = []
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            found += [int(one) for one in (task / "children").read_text().split()]
    return found


def _count_running(pid: int) -> float:
    with contextlib.suppress(OSError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return sum(map(int, fields[11:15])) * _TICK + sum(_count_running(one) for one in _list_children(pid))
    return 0.0


async def measure(calls: Mapping[str, Call], batches: int, size: int) -> dict[str, Cost]:
    """Measure batches of each call in turn, after some that do not count."""
    found = {name: Cost() for name in calls}
    for call in calls.values():
        for _ in range(_WARM_UP):
            await call()
    for _ in range(batches):
        for name, call in calls.items():
            cpu, wall = count_cpu(), time.perf_counter()
            for _ in range(size):
                await call()
            found[name].wall.append((time.perf_counter() - wall) / size * 1e3)
            found[name].cpu.append((count_cpu() - cpu) / size * 1e3)
    return found


def show(title: str, found: Mapping[str, Cost]) -> None:
    """Print what was measured; ratios are to the last row."""
    base = min(next(reversed(list(found.values()))).cpu)
    rows = [
        (name, *_least_and_median(one.cpu), f"{min(one.cpu) / max(base, 1e-6):.2f}", *_least_and_median(one.wall))
        for name, one in found.items()
    ]
    table(title, "call|CPU ms, least|median|ratio|wall ms, least|median", rows)


def _least_and_median(values: Sequence[float]) -> tuple[str, str]:
    return f"{min(values):.2f}", f"{statistics.median(values):.2f}"


def _run_program(command: Sequence[str], folder: Path) -> None:
    subprocess.run(command, cwd=folder, stdout=subprocess.DEVNULL, check=False)


async def bench_read(options: argparse.Namespace) -> None:
    """Read a small file, here and there."""
    async with open_session(options.backend, trusted=options.trusted) as (session, inside, beside):
        for folder in (inside, beside):
            (folder / "notes.txt").write_text("A small file.\nIt has three lines.\nThis is the last of them.\n")

        def read(folder: Path) -> Call:
            async def run() -> None:
                await session.call("read_file", path=str(folder / "notes.txt"))

            return run

        calls = {"read_file outside": read(beside), "read_file inside": read(inside)}
        show("Reading a small file", await measure(calls, options.runs, 200))


async def bench_patch(options: argparse.Namespace) -> None:
    """Change a small file, here and there."""
    async with open_session(options.backend, trusted=options.trusted) as (session, inside, beside):

        def patch(folder: Path) -> Call:
            path = folder / "notes.txt"
            path.write_text("A small file.\nIt has three lines.\nIt ends with number 0.\n")
            words = itertools.count()

            async def run() -> None:
                number = next(words)
                old, new = f"number {number}.", f"number {number + 1}."
                await session.call("patch", path=str(path), old_string=old, new_string=new)

            return run

        calls = {"patch outside": patch(beside), "patch inside": patch(inside)}
        show("Changing a small file", await measure(calls, options.runs, 100))


def make_files(folder: Path, count: int = FILES) -> None:
    """Make small files of source code, 50 in a folder."""
    for number in range(count):
        at = folder / f"package{number // 50}"
        at.mkdir(exist_ok=True)
        lines = [f"def function_{number}_{line}(value):\n    return value + {line}\n" for line in range(20)]
        (at / f"module{number}.py").write_text("".join(lines))


async def bench_search(options: argparse.Namespace) -> None:
    """Search 5,000 files, by the tool and by ripgrep as a person types it, unsorted and sorted as the tool's."""
    async with open_session(options.backend) as (session, inside, _):
        make_files(inside)
        for pattern in ("function_4711_3", "nowhere_at_all"):

            async def search(pattern: str = pattern) -> None:
                await session.call("search_files", pattern=pattern)

            async def by_ripgrep(*chosen: str, pattern: str = pattern) -> None:
                _run_program(("/usr/bin/rg", *chosen, pattern, "./"), inside)

            calls: dict[str, Call] = {
                "search_files": search,
                "rg": by_ripgrep,
                "rg --sort=path": functools.partial(by_ripgrep, "--sort=path"),
            }
            show(f"Searching {FILES:,} files for {pattern}", await measure(calls, options.runs, 5))


async def bench_true(options: argparse.Namespace) -> None:
    """Run `true` in the sandbox, made by bubblewrap, or by Landlock alone where bubblewrap is not on the PATH."""
    async with open_session("sandbox") as (boxed, workspace, _), open_session("sandbox") as (confined, _, _):
        backend = confined.context.backend
        assert isinstance(backend, SandboxBackend)
        # As where bubblewrap is not installed: it is found in the system's folders, whatever the PATH says.
        backend._probe = SandboxProbe(os.environ, (SandboxMechanism.LANDLOCK,))  # noqa: SLF001

        async def by_bubblewrap() -> None:
            await boxed.call("terminal", command="true")

        async def by_landlock() -> None:
            await confined.call("terminal", command="true")

        async def bare() -> None:
            _run_program(("bash", "-c", "true"), workspace)

        sys.stdout.write(f"\n{await boxed.context.backend.describe()}\n{await backend.describe()}\n")
        calls = {"true, bubblewrap": by_bubblewrap, "true, Landlock": by_landlock, "the shell itself": bare}
        show("The command `true`", await measure(calls, options.runs, 25))


def _make_states(folder: Path, count: int, number: int) -> dict[str, FileState]:
    return {
        str(folder / f"package{one // 50}/module{one}.py"): FileState(
            Kind.FILE, 0o644, f"{number:032x}{one:032x}", 1_000
        )
        for one in range(count)
    }


async def bench_sessions(options: argparse.Namespace) -> None:
    """Read in many sessions, each in a workspace of its own: what their walls hold in memory, and what a read costs."""
    async with open_app(options.backend) as (app, home):
        sessions: list[MeasuredSession] = []
        for number in range(options.sessions):
            folder = home.root / f"work{number}"
            folder.mkdir()
            (folder / "notes.txt").write_text("A small file.\n")
            actor = await app.open_session(options=SessionOptions(platform="api_server", cwd=str(folder)))
            sessions.append(MeasuredSession(actor._deps.context, actor._deps.executor))  # noqa: SLF001
        rows = [("opened", memory()[0], 0.0)]
        for number in range(4):
            cpu = count_cpu()
            for session in sessions:
                await session.call("read_file", path="notes.txt")
            rows.append((f"round {number + 1} of reads", memory()[0], count_cpu() - cpu))
        shown = [(name, f"{held:.1f}", f"{held - rows[0][1]:.1f}", f"{cpu / 60:.2%}") for name, held, cpu in rows]
        title = f"{options.sessions:,} sessions with workspaces of their own"
        table(title, "after|MB|more than opened|of a core, if each reads once a minute", shown)


async def bench_marks(options: argparse.Namespace) -> None:
    """Mark what a command has changed, in 5,000 files at once."""

    class Changed:
        """A safeguard that has seen 5,000 changed files."""

        files: dict[str, FileState] = {}  # noqa: RUF012 - it is replaced

        async def list_changes(self, others: Sequence[str], *, running: bool) -> WorkspaceChanges:
            return WorkspaceChanges(self.files, (), whole=True)

    async with open_session(options.backend) as (session, inside, _):
        safeguard = Changed()
        context = msgspec.structs.replace(session.context, safeguard=safeguard)
        marks = EffectMarks()

        def mark(count: int) -> Call:
            changes = itertools.cycle([_make_states(inside, count, number) for number in range(2)])

            async def run() -> None:
                safeguard.files = next(changes)
                await marks.begin_call(context, anything=True)
                await marks.end_call(context, ["web:example.com"], (), (), anything=True)

            return run

        calls = {f"{FILES:,} changed files": mark(FILES), "1 changed file": mark(1)}
        show("Marking what has changed", await measure(calls, options.runs, 1))


BENCHES: dict[str, Callable[[argparse.Namespace], Coroutine[None, None, None]]] = {
    "read": bench_read,
    "patch": bench_patch,
    "search": bench_search,
    "true": bench_true,
    "marks": bench_marks,
    "sessions": bench_sessions,
}


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.tools", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", nargs="*", choices=[*BENCHES, []], help="default: all")
    parser.add_argument("--runs", type=int, default=15, help="batches of each (default 15)")
    parser.add_argument("--backend", default="sandbox")
    parser.add_argument("--trusted", action="store_true", help="read, patch: the person trusts both folders")
    parser.add_argument("--sessions", type=int, default=1_000)
    options = parser.parse_args()
    for name in options.what or BENCHES:
        asyncio.run(BENCHES[name](options))
    return 0


if __name__ == "__main__":
    sys.exit(main())
