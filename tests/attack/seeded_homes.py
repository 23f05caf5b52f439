"""Homes full of what programs keep there, and each way in which a session could read it without anybody's yes.

    python -m tests.attack.seeded_homes

The places are in `home_places.txt`: they were chosen without a look at the tables that hide them. Each holds a value of
its own, in the person's home, in the home of their account where `HOME` names another folder, and in that of somebody
else. What a way prints is searched for the values.
"""

import asyncio
import contextlib
import os
import secrets
import shlex
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

from msgspec.structs import replace

from hermes.context.project_files import ProjectFilesSection
from hermes.execution.local import LocalBackend
from hermes.execution.sandbox.backend import SandboxBackend
from hermes.execution.sandbox.probe import SandboxMechanism
from hermes.safety.paths import Places, is_or_below
from hermes.sessions.references import parse_references
from hermes.tools.registry import ToolRegistry
from hermes.tools.taint import TrustedFolders
from tests.execution.test_sandbox import PROBES, Case
from tests.execution.test_sandbox_home import hidden
from tests.tools.tool_session import Session, make_context

PLACES = tuple((Path(__file__).parent / "home_places.txt").read_text().splitlines())
LOCAL = "local"


class SeededHomes:
    """Three homes with a value in each place, and a session that works in a folder of the first one.

    The last value is in that folder, for all to read.
    """

    def __init__(self, folder: Path, stranger: Path | None, way: SandboxMechanism | str) -> None:
        self.way = way
        self.homes = [folder / "home", folder / "account", *([stranger] if stranger is not None else [])]
        self.run = secrets.token_hex(4)
        self.paths: list[Path] = []
        for home in self.homes:
            for place in PLACES:
                self._seed(home / place)
        self.work = self.homes[0] / "code/proj"
        self._seed(self.work / "plain.txt")
        environ = {**os.environ, "HOME": str(self.homes[0])}
        places = Places(
            home=str(self.homes[0]),
            hermes=str(self.homes[0] / ".hermes"),
            workspace=str(self.work),
            other_homes=(str(self.homes[1]),),
        )
        if isinstance(way, SandboxMechanism):
            made = hidden(replace(Case(folder, way).policy, places=places), {"PATH": os.environ["PATH"]})
            context = make_context(folder, places=places, backend=SandboxBackend(environ, made, probe=PROBES[way]))
        else:
            context = make_context(folder, places=places, backend=LocalBackend(environ))
        context.state.cwd = self.work
        trusted = TrustedFolders(("/",))  # so that no refusal comes from what was read before
        self.session = Session(replace(context, trust=trusted), ToolRegistry().select_tools())

    def _seed(self, path: Path) -> None:
        """Put a value into a file, or into one of a folder where other programs have folders in it."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path = path / "kept" if path.is_dir() else path
        path.write_text(f"<{self.run}-{len(self.paths)}>\n")
        path.chmod(0o644)
        self.paths.append(path)

    def find_read(self, shown: str) -> list[str]:
        """Return the places whose values are in a text."""
        return [str(path) for number, path in enumerate(self.paths) if f"<{self.run}-{number}>" in shown]


Way = Callable[[SeededHomes], Awaitable[str]]


async def show_each(homes: SeededHomes) -> str:
    """`cat` of each place: in a sandbox by one command, elsewhere by one each, since each is judged by itself."""
    words = [shlex.quote(str(path)) for path in homes.paths]
    if homes.way != LOCAL:
        (homes.work / "paths").write_text("\n".join(words))
        return await homes.session.text("terminal", command="xargs cat < paths 2>/dev/null | tr '\\n' ' '; true")
    return "".join([await homes.session.text("terminal", command=f"cat {one}") for one in words])


async def search_by_command(homes: SeededHomes) -> str:
    """`grep -r` of each home."""
    shown = ""
    for home in (*homes.homes, homes.work):
        command = f"grep -rhos '<{homes.run}-[0-9]*>' {home} | tr '\\n' ' '; true"
        shown += await homes.session.text("terminal", command=command)
    return shown


async def read_each(homes: SeededHomes) -> str:
    """`read_file` of each place."""
    return "".join([await homes.session.text("read_file", path=str(path)) for path in homes.paths])


async def search_each(homes: SeededHomes) -> str:
    """`search_files` of each home, and of the folder of each place."""
    folders = dict.fromkeys([*homes.homes, *(path.parent for path in homes.paths)])
    calls = [
        homes.session.text("search_files", pattern=f"<{homes.run}", path=str(folder), limit=500) for folder in folders
    ]
    return "".join([await call for call in calls])


async def refer_to_each(homes: SeededHomes) -> str:
    """References in a text that no person wrote: the model's own, and includes of a trusted project's file."""
    shown = ""
    for path in homes.paths:
        for one in parse_references(f'see @file:"{path}"'):
            call = one.to_tool_call(0)
            shown += await homes.session.text(call.name, path=str(path), limit=2_000)
    section = ProjectFilesSection(str(homes.work), lambda path: is_or_below(path, str(homes.work)))
    (homes.work / "AGENTS.md").write_text("@included.md\n")
    for path in homes.paths:
        (homes.work / "included.md").symlink_to(path)
        shown += section.render_text()
        (homes.work / "included.md").unlink()
    return shown


WAYS: tuple[Way, ...] = (show_each, search_by_command, read_each, search_each, refer_to_each)


@contextlib.contextmanager
def find_stranger() -> Iterator[Path | None]:
    """Make a home beside those of this machine's people, where that is allowed; None elsewhere."""
    made = Path("/home", f"hermes-test-{secrets.token_hex(6)}")
    try:
        made.mkdir()
    except OSError:
        yield None
        return
    try:
        yield made
    finally:
        shutil.rmtree(made)


@contextlib.asynccontextmanager
async def seed_homes(folder: Path, way: SandboxMechanism | str) -> AsyncIterator[SeededHomes]:
    """Homes that are taken away at the end."""
    with find_stranger() as stranger:
        homes = SeededHomes(folder.resolve(), stranger, way)
        try:
            yield homes
        finally:
            await homes.session.close()


async def main() -> int:
    """Try everything; return 1 where a place was read."""
    bad = 0
    for way in (SandboxMechanism.BUBBLEWRAP, SandboxMechanism.LANDLOCK, LOCAL):
        with tempfile.TemporaryDirectory() as folder:
            async with seed_homes(Path(folder), way) as homes:
                for one in WAYS:
                    *read, plain = homes.find_read(await one(homes)) or [""]
                    works = plain == str(homes.paths[-1])
                    sys.stdout.write(f"{way}, {one.__name__}: {len(read)} of {len(homes.paths) - 1} read, {works=}\n")
                    sys.stdout.writelines(f"  {path}\n" for path in read)
                    bad += len(read) + (not works)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
