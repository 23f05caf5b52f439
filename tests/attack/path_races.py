"""Whatever opens files, while another program swaps folders, links and files under it at full speed.

    python -m tests.attack.path_races --seconds 60

The program that swaps does what a command of the session may do: `renameat2` with EXCHANGE inside the workspace, with
links to keys, to another project and to another person's folder. What must not be read holds a canary, and what must
not be written is compared at the end. Each opener is tried for the owner and for a confined person.
"""

import argparse
import asyncio
import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path

from msgspec.structs import replace

from hermes.checkpoints.object_store import ObjectStore
from hermes.checkpoints.path_states import StateReader
from hermes.checkpoints.restore import PathHistory, plan_restore, restore_files
from hermes.checkpoints.scan import FolderScan, ScanLimits
from hermes.context.project_files import ProjectFilesSection, SubfolderHints
from hermes.core.checkpoints import FileState, Kind
from hermes.core.errors import HermesError
from hermes.core.messages import ToolStatus
from hermes.execution.sandbox.backend import SandboxBackend
from hermes.execution.sandbox.policy import SandboxPolicy
from hermes.gateway.text.media import MediaRules, check_sendable, content_of, extract_media
from hermes.safety.paths import Places, is_or_below, read_refusal
from hermes.sessions.pictures import read_picture
from hermes.tools.registry import ToolRegistry
from tests.execution.test_sandbox_home import hidden
from tests.tools.tool_session import Session, make_context

CANARY = "CANARY-of-what-is-not-theirs"
MARK = "written-by-the-tool"
_SWAPPER = """
import ctypes, sys, time
kernel = ctypes.CDLL(None)
pairs = [(one.encode(), other.encode()) for one, other in (line.split("|") for line in sys.argv[2:])]
end, swaps = time.monotonic() + float(sys.argv[1]), 0
while time.monotonic() < end:
    for one, other in pairs:
        swaps += not kernel.renameat2(-100, one, -100, other, 2)
print(swaps)
"""


class Scene:
    """A workspace in which everything is swapped, and a session that works there."""

    def __init__(self, folder: Path, *, confined: bool) -> None:
        self.folder = folder
        self.home = folder / "home"
        self.work = self.home / "code/proj"
        self.closed = (self.home / ".aws", self.home / "Documents", folder / "bob")
        for closed in self.closed:
            for name in ("d", "d/deep"):
                (closed / name).mkdir(parents=True, exist_ok=True)
            for name in ("file.txt", "d/file.txt", "d/deep/file.txt", "AGENTS.md", "d/AGENTS.md"):
                (closed / name).write_text(f"{CANARY} {name}\n")
        self._fill_workspace()
        places = Places(
            home=str(self.home), hermes=str(self.home / ".hermes"), workspace=str(self.work), confined=confined
        )
        (self.home / ".hermes").mkdir(exist_ok=True)
        made = SandboxPolicy(places=places, private=("/var/tmp",), unreadable=(str(self.home), str(folder / "bob")))
        made = made if confined else hidden(replace(made, unreadable=(str(folder / "bob"),)))
        backend = SandboxBackend({**os.environ, "HOME": places.home}, made)
        context = make_context(folder, places=places, backend=backend)
        context.state.cwd = self.work
        self.session = Session(context, ToolRegistry().select_tools())
        self.objects = ObjectStore(folder / "objects")
        self.swaps = 0

    def _fill_workspace(self) -> None:
        """Folders with a link beside each, that takes its place; the same for files."""
        self.pairs: list[tuple[Path, Path]] = []
        for number, closed in enumerate(self.closed):
            at = self.work / f"x{number}"
            (at / "d/deep").mkdir(parents=True)
            for name in ("file.txt", "d/file.txt", "d/deep/file.txt", "AGENTS.md", "d/AGENTS.md"):
                (at / name).write_text("plain\n")
            for name, target in (
                ("d", closed / "d"),
                ("file.txt", closed / "file.txt"),
                ("AGENTS.md", closed / "AGENTS.md"),
            ):
                (at / f"{name}~").symlink_to(target if number != 1 else os.path.relpath(target, at))
                self.pairs.append((at / name, at / f"{name}~"))
            (self.work / f"x{number}~").symlink_to(closed)
            self.pairs.append((at, self.work / f"x{number}~"))

    @contextlib.contextmanager
    def swapping(self, seconds: float) -> Iterator[None]:
        """Swap as long as this lasts."""
        pairs = [f"{one}|{other}" for one, other in self.pairs]
        swapper = subprocess.Popen(
            [sys.executable, "-c", _SWAPPER, str(seconds), *pairs], stdout=subprocess.PIPE, text=True
        )
        try:
            yield
        finally:
            self.swaps = int(swapper.communicate()[0] or 0)

    def find_damage(self) -> list[str]:
        """What is written or gone outside of the workspace, and canaries in what Hermes has stored."""
        found = []
        for closed in self.closed:
            there = {str(path.relative_to(closed)): path.read_text() for path in closed.rglob("*") if path.is_file()}
            names = ("file.txt", "d/file.txt", "d/deep/file.txt", "AGENTS.md", "d/AGENTS.md")
            if there != {name: f"{CANARY} {name}\n" for name in names}:
                found.append(f"{closed} was changed: {there}")
        digests = [path.parent.name + path.name for path in self.objects.root.glob("objects/*/*")]
        found += [f"a copy holds {one}" for one in digests if CANARY.encode() in (self.objects.get(one) or b"")]
        return found

    @property
    def names(self) -> list[str]:
        """Paths that are swapped on the way, in their place, or both."""
        return [f"x{number}/{name}" for number in range(3) for name in ("file.txt", "d/file.txt", "d/deep/file.txt")]


Opener = Callable[[Scene, int], Awaitable[str]]


async def read(scene: Scene, turn: int) -> str:
    """`read_file`, which a reference calls as well."""
    return await scene.session.text("read_file", path=scene.names[turn % 9])


async def read_folder(scene: Scene, turn: int) -> str:
    """The names in a folder, and beside a file that is missing."""
    text = await scene.session.text("read_file", path=f"x{turn % 3}/{('d', 'none')[turn % 2]}")
    return CANARY if "only-there" in text else text


async def write(scene: Scene, turn: int) -> str:
    """`write_file`, of files that exist and of new ones."""
    name = scene.names[turn % 9] if turn % 2 else f"x{turn % 3}/d/new{turn % 5}/file"
    scene.session.state.seen_files.clear()
    return await scene.session.text("write_file", path=name, content=f"{MARK} {turn}\n")


async def patch(scene: Scene, turn: int) -> str:
    """`patch`, in place, with a file added and one deleted."""
    name = scene.names[turn % 9]
    scene.session.state.seen_files.clear()
    if turn % 3 == 0:
        text = f"*** Begin Patch\n*** Add File: x{turn % 3}/d/added{turn}\n+{MARK}\n*** End Patch"
        shown = await scene.session.text("patch", mode="patch", patch=text)
        gone = f"*** Begin Patch\n*** Delete File: x{turn % 3}/d/added{turn}\n*** End Patch"
        return shown + await scene.session.text("patch", mode="patch", patch=gone)
    return await scene.session.text("patch", path=name, old_string="a", new_string="b", replace_all=True)


async def search(scene: Scene, turn: int) -> str:
    """`search_files` with ripgrep, or our walker, in all of its forms."""
    path = (".", "x0", "x1/d", "x2", "x0/file.txt")[turn % 5]
    mode = ("content", "count", "files_only")[turn % 3]
    result = await scene.session.call("search_files", pattern=CANARY[:6], path=path, output_mode=mode)
    # What is found nowhere is said between marks, too, where the folder was a stranger's at that moment.
    is_found = result.status is ToolStatus.OK and "No matches." not in result.text.splitlines()
    return f"{CANARY}: {result.text}" if is_found else ""


async def search_by_walker(scene: Scene, turn: int) -> str:
    """The same without ripgrep."""
    before = scene.session.context
    scene.session.context = replace(before, search_path="")
    try:
        return await search(scene, turn)
    finally:
        scene.session.context = before


async def read_project_files(scene: Scene, turn: int) -> str:
    """AGENTS.md of the workspace and of its folders."""

    def is_trusted(path: str) -> bool:
        return is_or_below(path, str(scene.work))

    folder = scene.work / f"x{turn % 3}"
    with contextlib.suppress(OSError):
        section = ProjectFilesSection(str(folder), is_trusted).render_text()
        hints = SubfolderHints(str(scene.work), is_trusted, lambda: [str(folder / "d/file")]).collect_hints()
        return section + "".join(one.text for one in hints)
    return ""


async def deliver(scene: Scene, turn: int) -> str:
    """A file of an answer: as it is found, and as it is sent later."""
    places = scene.session.context.places
    rules = MediaRules(
        roots=(str(scene.work),), refusal_reason=lambda path: read_refusal(path, places), home=str(scene.home)
    )
    name = scene.names[turn % 9]
    with contextlib.suppress(HermesError, OSError):
        extract_media(f"MEDIA:{name}", rules)
        return content_of(check_sendable(name, rules).path, 1_000).decode()
    with contextlib.suppress(HermesError):
        return content_of(str(scene.work / name), 1_000).decode()
    return ""


async def show_picture(scene: Scene, turn: int) -> str:
    """A picture: what is none is not taken."""
    with contextlib.suppress(HermesError):
        return str(read_picture(scene.work / scene.names[turn % 9]))
    return ""


async def record(scene: Scene, turn: int) -> str:
    """A checkpoint of the workspace, and of single paths."""
    places = scene.session.context.places
    reader = StateReader(places, 1_000_000, scene.objects)
    with contextlib.suppress(OSError):
        FolderScan(str(scene.work), places, reader, ScanLimits()).scan_folder()
        reader.read_state(str(scene.work / scene.names[turn % 9]))
    return ""


async def restore(scene: Scene, turn: int) -> str:
    """What an undo writes and removes."""
    places = scene.session.context.places
    reader = StateReader(places, 1_000_000, scene.objects)
    mark = scene.objects.put(MARK.encode())
    path = str(scene.work / scene.names[turn % 9])
    wanted = FileState(Kind.FILE, 0o644, mark, len(MARK)) if turn % 2 else FileState(Kind.ABSENT)
    steps = plan_restore([PathHistory(path, wanted, ())], reader, force=True)
    with contextlib.suppress(OSError):
        restore_files(steps, reader, scene.objects)
    return ""


OPENERS: tuple[Opener, ...] = (
    *(read, read_folder, write, patch, search, search_by_walker),
    *(read_project_files, deliver, show_picture, record, restore),
)


async def race(opener: Opener, seconds: float, *, confined: bool) -> tuple[int, int, list[str]]:
    """One opener for some time; return how often it was called, how often was swapped, and what went wrong."""
    wrong: list[str] = []
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        scene = Scene(Path(folder).resolve(), confined=confined)
        turn, end = 0, time.monotonic() + seconds
        with scene.swapping(seconds):
            while time.monotonic() < end:
                shown = await opener(scene, turn)
                turn += 1
                if CANARY in shown or "internal error" in shown:
                    wrong.append(f"{opener.__name__} has shown: {shown[:200]!r}")
        wrong += scene.find_damage()
        swaps = scene.swaps
        await scene.session.close()
    return turn, swaps, wrong


async def campaign(seconds: float, names: Sequence[str]) -> int:
    """All openers, for the owner and a confined person."""
    bad = 0
    for opener in OPENERS:
        for confined in (False, True) if not names or opener.__name__ in names else ():
            turns, swaps, wrong = await race(opener, seconds, confined=confined)
            who = "confined" if confined else "owner"
            sys.stdout.write(f"{opener.__name__} ({who}): {turns} calls, {swaps} swaps, {len(wrong)} wrong\n")
            sys.stdout.writelines(f"  {one}\n" for one in wrong[:10])
            sys.stdout.flush()
            bad += len(wrong)
    return bad


def main() -> int:
    """The command line."""
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--seconds", type=float, default=60.0)
    made.add_argument("openers", nargs="*")
    given = made.parse_args()
    return 1 if asyncio.run(campaign(given.seconds, given.openers)) else 0


if __name__ == "__main__":
    sys.exit(main())
