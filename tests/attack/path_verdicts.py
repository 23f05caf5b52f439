"""What file tools say of random paths, against what the kernel says to a command in the same session's sandbox.

    python -m tests.attack.path_verdicts --count 10000 --seed 1

Paths go through links of all kinds, hard links, second mounts, odd names, and spellings with dots and slashes. Where
the rules of names refuse a path (keys, files that programs obey), the tool may be stricter than the kernel; nothing
else may differ, and no content may be another one.
"""

import argparse
import asyncio
import contextlib
import json
import os
import random
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from msgspec.structs import replace

from hermes.core.messages import ToolStatus
from hermes.execution.sandbox.backend import SandboxBackend
from hermes.execution.sandbox.probe import SandboxMechanism
from hermes.safety.path_policy import judge_path
from hermes.safety.shell.findings import Verdict
from hermes.tools.path_access import SessionView, trace_path
from hermes.tools.registry import ToolRegistry
from tests.execution.test_sandbox import PROBES, Case
from tests.execution.test_sandbox_home import hidden
from tests.tools.tool_session import Session, make_context

BATCH = 100
_FOLDERS = ("proj", "proj/sub", "proj/sub/deep", "proj/a folder", "proj/-dash", "proj/天气", "proj/.cfg", "other")
_HOME_FOLDERS = (
    "Documents",
    "Documents/deep",
    ".someapp",
    ".config/app",
    ".cargo/bin",
    ".pyenv/versions",
    ".ssh",
    ".aws",
)
_NAMES = ("one.txt", "two", "a b.md", "quo'te", "new\nline", "-x", "ümlaut", ".dot", "id_rsa")
_FIRST_LINE = re.compile(r"(?m)^1\|(.*)$")
_PROBE = """
import json, os, stat, sys
said = []
for path, write in json.load(open(sys.argv[1])):
    try:
        handle = os.open(path, (os.O_WRONLY if write else os.O_RDONLY) | os.O_NONBLOCK | os.O_NOCTTY)
        plain = stat.S_ISREG(os.fstat(handle).st_mode)
        said.append(("written" if write else os.read(handle, 200).decode()) if plain else "")
        os.close(handle)
    except (OSError, ValueError):
        said.append("")
json.dump(said, open(sys.argv[2], "w"))
"""


class Scene:
    """A home with a project in it, and a session whose commands the kernel confines."""

    def __init__(self, folder: Path, way: SandboxMechanism, chance: random.Random) -> None:
        self.case = Case(folder, way)
        self.way = way
        self.home = folder / "home"
        self.work = self.home / "code/proj"
        self.chance = chance
        self.mounts: list[Path] = []
        self._fill()
        places = replace(self.case.policy.places, workspace=str(self.work))
        made = hidden(replace(self.case.policy, places=places), {"PATH": os.environ["PATH"]})
        self.backend = SandboxBackend({**os.environ, "HOME": places.home}, made, probe=PROBES[way])
        self.case.work, self.case.backend = self.work, self.backend
        context = make_context(folder, places=places, backend=self.backend)
        context.state.cwd = self.work
        self.session = Session(context, ToolRegistry().select_tools())

    def _fill(self) -> None:
        roots = [self.home / "code" / one for one in _FOLDERS] + [self.home / one for one in _HOME_FOLDERS]
        for root in roots:
            root.mkdir(parents=True, exist_ok=True)
            for name in self.chance.sample(_NAMES, 5):
                (root / name).write_text(f"<{os.path.relpath(root / name, self.home)}>".replace("\n", " "))
        files = [path for root in roots for path in root.iterdir() if path.is_file()]
        self.nodes = [*roots, *files, self.home]
        for number in range(60):
            at = self.chance.choice(roots) / f"link{number}"
            target = self.chance.choice(self.nodes)
            text = str(target) if self.chance.random() < 0.5 else os.path.relpath(target, at.parent)
            at.symlink_to(self.chance.choice((text, f"{text}/", f"./{text}")) if text[0] != "/" else text)
            self.nodes.append(at)
        for number in range(12):
            at = self.chance.choice(roots[:7]) / f"hard{number}"
            os.link(self.chance.choice(files), at)
            self.nodes.append(at)
        # Landlock's rules are about files, not names: a second mount that commands see opens the first one, too.
        second = ("Documents", ".ssh", "code/other") if self.way is SandboxMechanism.BUBBLEWRAP else ()
        for number, name in enumerate(second):
            at = self.work / f"mount{number}"
            at.mkdir()
            done = subprocess.run(["mount", "--bind", self.home / name, at], check=False, capture_output=True)
            if not done.returncode:
                self.mounts.append(at)
                self.nodes.append(at)

    def make_path(self) -> str:
        """A path that leads somewhere, spelt oddly."""
        parts = str(self.chance.choice(self.nodes)).split("/")
        if self.chance.random() < 0.5:
            parts.append(self.chance.choice([*_NAMES, "link3", "sub", "deep", "app", "versions"]))
        for _ in range(self.chance.randrange(3)):
            at = self.chance.randrange(2, len(parts))
            parts[at:at] = self.chance.choice(([""], ["."], ["", "."], [parts[at - 1], ".."], ["..", parts[at - 1]]))
        path = "/".join(parts)
        start = f"{self.work}/"
        return path[len(start) :] if path.startswith(start) and self.chance.random() < 0.5 else path

    async def ask_kernel(self, asked: Sequence[tuple[str, bool]]) -> list[str]:
        """What a command in the sandbox gets: the content, `written`, or nothing."""
        for name, text in (("probe.py", _PROBE), ("asked.json", json.dumps(asked)), ("said.json", "")):
            (self.work / name).write_text(text)
        ended = await self.case.run(f"{sys.executable} -I -S probe.py asked.json said.json")
        assert ended.code == 0, self.case.text
        found: list[str] = json.loads((self.work / "said.json").read_text())
        return found

    async def ask_tool(self, path: str, *, write: bool, content: str) -> str:
        """What a tool gets of the same path."""
        if write:
            result = await self.session.call("write_file", path=path, content=content)
            return "written" if result.status is ToolStatus.OK else ""
        result = await self.session.call("read_file", path=path)
        line = _FIRST_LINE.search(result.text) if result.status is ToolStatus.OK else None
        return line[1] if line else ""

    def is_refused_by_name(self, path: str, *, write: bool) -> bool:
        """Whether the second wall explains a no."""
        context = self.session.context
        judged = judge_path(context.resolve_path(path), "write" if write else "read", str(self.work), context.places)
        real = judged.real.removeprefix(f"{self.home}/")
        return judged.verdict is not Verdict.ALLOW or (write and real.startswith("."))

    def goes_through_hidden(self, path: str) -> bool:
        """Whether only a name on the way is hidden: Landlock judges where a path ends, not the way to it."""
        trace = trace_path(self.session.context.resolve_path(path), self.session.context)
        return trace is not None and bool(trace.hidden) and not SessionView(self.session.context).is_hidden(trace.real)

    async def close(self) -> None:
        """Take away what was mounted, and end the session."""
        for at in self.mounts:
            subprocess.run(["umount", at], check=False)
        await self.session.close()


@contextlib.asynccontextmanager
async def make_scene(folder: Path, way: SandboxMechanism, seed: int) -> AsyncIterator[Scene]:
    """A scene that is taken down at the end."""
    scene = Scene(folder.resolve(), way, random.Random(seed))
    try:
        yield scene
    finally:
        await scene.close()


async def compare(scene: Scene, count: int, way: SandboxMechanism, seen: Counter[str]) -> list[str]:
    """The differences that nothing explains."""
    wrong: list[str] = []
    for _ in range(0, count, BATCH):
        asked = [(scene.make_path(), scene.chance.random() < 0.3) for _ in range(min(BATCH, count))]
        kernel = await scene.ask_kernel(asked)
        for (path, write), said in zip(asked, kernel, strict=True):
            if write and not said and not os.path.isfile(os.path.join(scene.work, path)):
                continue  # what a new file would be is asked elsewhere
            content = ""
            with contextlib.suppress(OSError):
                content = Path(scene.work, path).read_text()
            tool = await scene.ask_tool(path, write=write, content=content)
            seen[("write" if write else "read") + (" yes" if tool else " no")] += 1
            if tool == said.partition("\n")[0]:
                continue
            stricter = not tool and scene.is_refused_by_name(path, write=write)
            if stricter or (not tool and way is SandboxMechanism.LANDLOCK and scene.goes_through_hidden(path)):
                seen["stricter"] += 1
                continue
            wrong.append(f"{'write' if write else 'read'} {path!r}: the tool {tool!r}, the kernel {said!r}")
    return wrong


async def campaign(count: int, seed: int) -> int:
    """Both mechanisms; return how many paths were judged differently."""
    bad = 0
    for way in (SandboxMechanism.BUBBLEWRAP, SandboxMechanism.LANDLOCK):
        seen: Counter[str] = Counter()
        with tempfile.TemporaryDirectory() as folder:
            async with make_scene(Path(folder), way, seed) as scene:
                wrong = await compare(scene, count, way, seen)
        sys.stdout.write(f"{way}: {sum(seen.values()) - seen['stricter']} paths, {dict(seen)}, {len(wrong)} differ\n")
        sys.stdout.writelines(f"  {one}\n" for one in wrong[:40])
        bad += len(wrong)
    return bad


def main() -> int:
    """The command line."""
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--count", type=int, default=10_000)
    made.add_argument("--seed", type=int, default=1)
    given = made.parse_args()
    return 1 if asyncio.run(campaign(given.count, given.seed)) else 0


if __name__ == "__main__":
    sys.exit(main())
