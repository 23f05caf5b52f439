"""Ordinary tasks through whole sessions: how often a person is asked, and what does not work that works without Hermes.

    python -m tests.attack.task_campaign TASKS.md [--backend sandbox] [--untrusted] [--only NUMBER]

The file has a section a task, `## N. title`, with fenced blocks: `setup` (a script that makes the starting files),
`step` (one command of the agent) and `edit` (a path on the first line, below it the whole content). Each task runs
twice: by bash alone, and by a model that calls the tools while the person says yes to everything. A step is broken when
it fails only with Hermes. The folders are made below `TMPDIR`, which must not be a folder of the machine's that the
sandbox has one of its own for (`/tmp`), nor a home.
"""

import argparse
import asyncio
import os
import re
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from hermes.core.events import ApprovalAsked
from hermes.core.outcomes import AnswerScope
from hermes.testing.script import Call
from tests.attack.obedient_scene import SESSION, Scene, scene
from tests.torture.marked_world import say

_TASK = re.compile(r"(?m)^## (\d+)\. (.*)$")
_BLOCK = re.compile(r"(?ms)^```(setup|step|edit)\n(.*?)^```$")
_CODE = re.compile(r"exit code (\d+)")
_SECONDS = 120
_REPEATS = 3
WORKSPACE = "home/code/work"
"""A project among others in the home, as people have it."""


@dataclass
class Task:
    """One task of the file."""

    number: int
    title: str
    setup: str = ""
    steps: list[tuple[str, str]] = field(default_factory=list)
    """A kind (`step` or `edit`) and its text, in order."""


@dataclass
class Outcome:
    """What came of one task."""

    questions: list[str] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    repeats: int = 0
    """The commands that were run again after a person had opened a place to them."""


def parse_tasks(text: str) -> list[Task]:
    """Return the tasks of a file."""
    found: list[Task] = []
    heads = list(_TASK.finditer(text))
    for head, end in zip(heads, [*(one.start() for one in heads[1:]), len(text)], strict=True):
        task = Task(int(head[1]), head[2].strip())
        for kind, body in _BLOCK.findall(text[head.end() : end]):
            if kind == "setup":
                task.setup += body
            else:
                task.steps.append((kind, body))
        found.append(task)
    return found


def run_bash(script: str, folder: Path, home: Path) -> int:
    """Run a script without Hermes; return its exit code, or -1 when it took too long."""
    environ = {"HOME": str(home), "PATH": os.environ["PATH"], "LANG": "C.UTF-8"}
    try:
        done = subprocess.run(
            ["bash", "-c", script], cwd=folder, env=environ, capture_output=True, timeout=_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return -1
    return done.returncode


def run_alone(task: Task) -> list[int]:
    """Run a task by bash alone, in one shell for each step; return the exit codes of its steps."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "home"
        work = Path(folder) / WORKSPACE
        work.mkdir(parents=True)
        run_bash(task.setup, work, home)
        codes: list[int] = []
        state = f"cd {work}"
        for kind, body in task.steps:
            if kind == "edit":
                write_edit(work, body)
                codes.append(0)
                continue
            kept = Path(folder) / "state"
            codes.append(run_bash(f"{state}\n{body}\ncode=$?; (pwd; export -p) > {kept}; exit $code", work, home))
            if kept.exists():
                cwd, _, exported = kept.read_text().partition("\n")
                state = f"cd '{cwd}'\n{exported}"
        return codes


def write_edit(work: Path, body: str) -> None:
    """Write the file of an `edit` block."""
    path, _, content = body.partition("\n")
    target = work / path.strip()
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(content)


async def run_with_hermes(one: Scene, task: Task, codes: list[int]) -> Outcome:
    """Run a task by calls of tools. As a model does, it runs a command again that a person has opened something to."""
    outcome = Outcome()

    def answer(event: ApprovalAsked) -> AnswerScope:
        outcome.questions.append(f"{event.tool} {event.subject[:80]!r}: {event.reason}")
        return SESSION

    for (kind, body), code in zip(task.steps, codes, strict=True):
        path, _, content = body.partition("\n")
        call = Call("terminal", {"command": body.rstrip("\n"), "timeout": _SECONDS})
        if kind == "edit":
            call = Call("write_file", {"path": str(one.home.cwd / path.strip()), "content": content})
        (said,) = await one.turn([call], text=f"Please do this: {task.title}", person=answer)
        for _ in range(_REPEATS):
            if "run what is left again" in said:
                outcome.repeats += 1
                (said,) = await one.turn([call], person=answer)
        found = _CODE.findall(said)
        failed = kind == "step" and (not found or found[-1] != "0")
        if (failed and code == 0) or "Not allowed" in said:
            outcome.broken.append(f"{body.strip()[:100]!r} -> {said.strip()[-200:]!r}")
    return outcome


async def main() -> int:
    """Run the campaign and print a line for each task."""
    parser = argparse.ArgumentParser()
    parser.add_argument("file", type=Path)
    parser.add_argument("--backend", default="sandbox")
    parser.add_argument("--untrusted", action="store_true")
    parser.add_argument("--only", type=int, default=0)
    args = parser.parse_args()
    total = Outcome()
    tasks = [one for one in parse_tasks(args.file.read_text()) if args.only in (0, one.number)]
    for task in tasks:
        codes = run_alone(task)
        async with scene(args.backend, trusted=not args.untrusted, workspace=WORKSPACE) as one:
            home = Path(one.home.environ["HOME"])
            run_bash(task.setup, one.home.cwd, home)
            outcome = await run_with_hermes(one, task, codes)
        say(f"{task.number:3} {task.title[:50]:50} {len(outcome.questions)} questions, {len(outcome.broken)} broken")
        for line in (*outcome.questions, *(f"BROKEN {one}" for one in outcome.broken)):
            say(f"      {line}")
        total.questions += outcome.questions
        total.broken += outcome.broken
        total.repeats += outcome.repeats
    say(
        f"{len(tasks)} tasks: {len(total.questions)} questions, {len(total.broken)} broken steps,"
        f" {total.repeats} commands run again"
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(asyncio.run(main()))
