"""The interpreter whose state can be stored: its limits, its walls, and what it leaves to Python."""

import asyncio
import contextlib
import os
import select
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from hermes.execution.code.monty_engine import MontyLimits, MontyRun
from hermes.execution.code.steps import (
    AnswerKind,
    CallAnswer,
    CallsWanted,
    CodeEnded,
    CodeStep,
    PrintedText,
    UnsupportedCodeError,
)
from hermes.execution.code.worker_wall import WorkerWall

TOOLS = ("read_file", "terminal", "print", "len")
OK = CallAnswer(AnswerKind.OK, "fine")
Make = Callable[[str], MontyRun]


@pytest.fixture
async def make() -> AsyncIterator[Make]:
    runs: list[MontyRun] = []

    def made(code: str) -> MontyRun:
        runs.append(MontyRun(code, MontyLimits(seconds=1.0, calls=50), PrintedText(10_000), os.environ))
        return runs[-1]

    yield made
    for run in runs:
        await run.close()


async def start(run: MontyRun) -> CodeStep:
    return await run.start(TOOLS, "seed")


async def test_it_stops_at_a_call_and_goes_on_with_its_answer(make: Make) -> None:
    run = make('text = read_file(path="a", limit=2)\nprint(text)\nlen(text)')
    step = await start(run)
    assert isinstance(step, CallsWanted)
    assert [(one.name, one.arguments) for one in step.calls] == [("read_file", '{"path":"a","limit":2}')]
    assert await run.answer([OK]) == CodeEnded()
    assert run.printed.to_text() == "fine\n4\n"


async def test_another_worker_goes_on_from_a_stored_state(make: Make) -> None:
    first = make("def f(n):\n    return read_file(path=str(n)) + str(n)\n[f(n) for n in range(3)]")
    assert isinstance(await start(first), CallsWanted)
    step = await first.answer([OK])
    assert isinstance(step, CallsWanted)
    await first.close()
    second = make("def f(n):\n    return read_file(path=str(n)) + str(n)\n[f(n) for n in range(3)]")
    again = await second.load(step.dump)
    assert isinstance(again, CallsWanted)
    assert again.calls == step.calls
    assert isinstance(await second.answer([OK]), CallsWanted)
    assert await second.answer([OK]) == CodeEnded()
    assert second.printed.to_text() == "['fine0', 'fine1', 'fine2']\n"


@pytest.mark.parametrize(
    ("kind", "code"),
    [(AnswerKind.FAILED, "ToolError"), (AnswerKind.UNKNOWN, "OutcomeUnknown"), (AnswerKind.UNKNOWN, "ToolError")],
)
async def test_a_failure_is_raised_in_the_code(make: Make, kind: AnswerKind, code: str) -> None:
    run = make(f'try:\n    terminal(command="x")\nexcept {code} as error:\n    print("caught", error)')
    await start(run)
    await run.answer([CallAnswer(kind, "no")])
    assert run.printed.to_text() == "caught no\n"


async def test_an_error_names_its_lines_and_nothing_of_ours(make: Make) -> None:
    run = make('def f():\n    return read_file(path="a")\n\nf()')
    await start(run)
    assert await run.answer([CallAnswer(AnswerKind.FAILED, "gone")]) == CodeEnded(
        'line 4: f()\nline 2: return read_file(path="a")\nToolError: gone'
    )


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("while True: pass", "it took more than 1 s (`code_execution.timeout`)"),
        ("x = 'a' * 10**9", "MemoryError"),
        ("x = [0] * 10**8", "MemoryError"),
        ("def f(n): return f(n + 1)\nf(0)", "RecursionError"),
        ("while True: print('x' * 1000)", "it printed too much"),
        ("nothing()", "NameError"),
        ("__hermes_call__(1)", "NameError"),
        ("__hermes_call__('[]')", "ValueError"),
        ("__hermes_call__('[[1]]')", "TypeError"),
        ("__import__('os')", ""),
        ("().__class__.__bases__[0].__subclasses__()", "Error"),
    ],
)
async def test_it_holds_its_limits(make: Make, code: str, error: str) -> None:
    step = await start(make(code))
    assert isinstance(step, CodeEnded)
    assert error in step.error
    assert step.error


@pytest.mark.parametrize(
    "code",
    [
        "def g():\n    yield 1",
        "class A(Exception): pass",
        "x = 1\ndel x",
        "import numpy",
        "read_file(path='a')\nimport numpy",
        "def f():\n    from statistics import mean\n    return mean",
        "open('x')",
        "import os\nos.listdir('.')",
        "from pathlib import Path",
        "import subprocess",
        "input()",
    ],
)
async def test_what_it_does_not_know_is_left_to_python_before_the_first_call(make: Make, code: str) -> None:
    with pytest.raises(UnsupportedCodeError):
        await start(make(code))


async def test_a_tool_whose_name_means_something_to_code_is_no_function(make: Make) -> None:
    run = make("print(len('abc'))")
    assert await start(run) == CodeEnded()
    assert run.printed.to_text() == "3\n"


async def test_random_numbers_are_the_same_when_a_run_is_repeated(make: Make) -> None:
    printed = []
    for _ in range(2):
        run = make("import random\nrandom.random()")
        await start(run)
        printed.append(run.printed.to_text())
    assert printed[0] == printed[1]


async def test_a_stop_ends_the_worker(make: Make) -> None:
    run = make("while True: pass")
    task = asyncio.ensure_future(start(run))
    while not run.worker_pid:
        await asyncio.wait({task}, timeout=0.01)
        assert not task.done()
    pid = run.worker_pid
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await run.close()
    assert await asyncio.to_thread(_is_gone, pid)


@pytest.mark.parametrize("wall", list(WorkerWall))
async def test_code_runs_behind_each_wall(wall: WorkerWall) -> None:
    limits, printed = MontyLimits(seconds=1.0, calls=5), PrintedText(100)
    run = MontyRun('read_file(path="a")', limits, printed, os.environ, wall=wall)
    try:
        assert isinstance(await start(run), CallsWanted)
        assert await run.answer([OK]) == CodeEnded()
        assert printed.to_text() == "fine\n"
        status = Path(f"/proc/{run.worker_pid}/status").read_text()
        if wall is WorkerWall.LANDLOCK:
            assert "Seccomp:\t2" in status
            assert "NoNewPrivs:\t1" in status
        if wall is WorkerWall.BUBBLEWRAP:
            (worker,) = _list_children(*_list_children(run.worker_pid))
            assert os.readlink(f"/proc/{worker}/ns/net") != os.readlink("/proc/self/ns/net")
            assert sorted(os.listdir(f"/proc/{worker}/root")) == sorted({"etc", "lib", "lib64", "worker"})
            assert Path(f"/proc/{worker}/environ").read_bytes().count(b"=") <= 1
    finally:
        await run.close()


def _is_gone(pid: int) -> bool:
    """Wait for the end of a process, 20 seconds at most."""
    with contextlib.suppress(ProcessLookupError):
        handle = os.pidfd_open(pid)
        try:
            return bool(select.select([handle], [], [], 20)[0])
        finally:
            os.close(handle)
    return True


def _list_children(pid: int) -> list[int]:
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


async def test_the_chosen_wall_is_the_best_one(make: Make) -> None:
    run = make("1")
    await start(run)
    assert run.wall in (WorkerWall.BUBBLEWRAP, WorkerWall.LANDLOCK)
