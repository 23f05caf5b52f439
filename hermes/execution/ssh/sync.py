"""The workspace on both sides of a connection: what changed here goes there before a command, and back after it.

What counts as changed is known by each side's own size, times and mode since the last look. Deletions are carried over
for what was the same on both sides before. Names from the far side are believed no further than this folder: no `..`,
no way through a link, nothing that programs here would obey (git hooks and settings, tasks of editors).
"""

import asyncio
import contextlib
import os
import secrets
import shlex
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import IO

from hermes.core.errors import ToolError
from hermes.execution.remote import Far
from hermes.execution.ssh import archive
from hermes.execution.ssh.listing import (
    LARGEST_LISTING,
    MOST_ENTRIES,
    Entry,
    Listing,
    below_excluded,
    entry_of,
    excluded,
    fits,
    inside,
    link_inside,
    lister,
    obeyed,
    of_repository,
    parsed,
)
from hermes.safety.paths import is_or_below, secret_places, write_refused
from hermes.safety.places import Places
from hermes.util.text import one_line, visible

_SECONDS = 300.0
_MOST_LINES = 5
_IN_MEMORY = 8 * 1024 * 1024
_GONE = 97
"""Exit code of our scripts when the folder there is not."""


class Sync:
    """Keeps one folder here and one there the same. `begin` names the other one."""

    def __init__(self, far: Far, workspace: str, places: Places, *, exclude: Sequence[str], limit: int) -> None:
        self._far = far
        self._here = workspace
        self._exclude = tuple(exclude)
        self._secret = tuple(os.path.realpath(one) for one in (*secret_places(places), places.hermes))
        self._places = places
        self._limit = limit
        self._root = ""
        self._known_here: Listing = {}
        self._known_there: Listing = {}
        self._fresh = True
        """Whether nothing has been sent yet: what is there may be newer than what is here."""
        self._turn = asyncio.Lock()
        self._notices: list[str] = []

    def take_notices(self) -> list[str]:
        """What was not carried over, each said once."""
        notices, self._notices = self._notices, []
        return notices

    async def begin(self, folder: str) -> str:
        """Make the folder there when it is missing, and look at it; its absolute path. Nothing there is believed."""
        said = bytearray()
        name = folder.removeprefix("~/")
        make = f"mkdir -p -- {shlex.quote(name)} && cd -- {shlex.quote(name)}"
        script = f"umask 077; {make} && pwd -P && {lister(self._exclude)}"
        code = await self._far.run(script, said.extend, seconds=_SECONDS, most=LARGEST_LISTING)
        root, _, listing = bytes(said).partition(b"\n")
        if code or not root.startswith(b"/"):
            raise ToolError(
                f"The folder {folder} on {self._far.where} cannot be used: it cannot be made, or there is no GNU find."
            )
        self._root = os.fsdecode(root)
        self._known_there = parsed(listing)
        self._known_here = {}
        self._fresh = True
        return self._root

    async def up(self) -> list[str]:
        """Bring what changed here there; lines about what was left out."""
        async with self._turn:
            here = await asyncio.to_thread(self._look)
            gone = [name for name in self._known_here if name not in here and name in self._known_there]
            changed = [name for name, entry in here.items() if not self._same(name, entry)]
            if not gone and not changed:
                self._known_here = here
                return []
            chosen, left = self._fitting(changed, here)
            lines = await self._keep_newer(chosen, here) if self._fresh else []
            self._fresh = False
            if gone:
                await self._remove_there(gone)
            with tempfile.SpooledTemporaryFile(_IN_MEMORY) as file:
                await asyncio.to_thread(archive.pack, self._here, chosen, here, file)
                file.seek(0)
                await self._send(file.read())
            self._known_here = {name: entry for name, entry in here.items() if name not in left}
            return [*lines, *self._left_out(left, here, "were not sent")]

    async def down(self) -> list[str]:
        """Bring what changed there here; lines about what was left out."""
        async with self._turn:
            there, whole = await self._list()
            if there is None:
                return [f"the folder {self._root} on {self._far.where} is gone; nothing was changed here"]
            changed, gone = self._differences(there)
            lines = []
            if not whole:
                gone = []
                lines.append(
                    f"parts of {self._root} on {self._far.where} cannot be read; what is gone there stays here"
                )
            here = await asyncio.to_thread(self._look)
            lines += self._refuse(changed, gone, here)
            chosen, left = self._fitting(changed, there)
            failed = await self._bring(chosen, there, lines)
            await asyncio.to_thread(self._remove_here, gone)
            kept = {} if whole else self._known_there
            self._known_there = {**kept, **{name: entry for name, entry in there.items() if name not in failed}}
            after = await asyncio.to_thread(self._look)
            for name in (*chosen, *gone):
                self._known_here.pop(name, None)
            self._known_here.update((name, after[name]) for name in (*chosen, *gone) if name in after)
            lines += _some([f"{_shown(name)} could not be written here" for name in failed], "could not be written")
            return [*lines, *self._left_out(left, there, "were not brought back")]

    async def _bring(self, chosen: Sequence[str], there: Listing, lines: list[str]) -> list[str]:
        """Have what was chosen here as it is there; the names of what could not be written."""
        files = [name for name in chosen if there[name].kind == "f"]
        with tempfile.SpooledTemporaryFile(_IN_MEMORY) as file:
            if files:
                try:
                    await self._fetch(files, there, file)
                except ToolError as error:
                    lines.append(str(error))
                file.seek(0)
            return await asyncio.to_thread(self._unpack, chosen, there, file)

    def _differences(self, there: Listing) -> tuple[list[str], list[str]]:
        """What is new or changed there, and what went away of what both sides had."""
        changed = [name for name, entry in there.items() if self._known_there.get(name) != entry]
        return changed, [name for name in self._known_there if name not in there and name in self._known_here]

    def _same(self, name: str, entry: Entry) -> bool:
        """Whether the other side has this already."""
        if name in self._known_here:
            return self._known_here[name] == entry
        there = self._known_there.get(name)
        if there is None or (there.kind, there.mode) != (entry.kind, entry.mode):
            return False
        if entry.kind == "f":
            return (there.size, there.mtime) == (entry.size, entry.mtime)
        return there.target == entry.target

    def _fitting(self, names: Iterable[str], listing: Listing) -> tuple[list[str], list[str]]:
        """What fits into one transfer, small things first, and what does not."""
        chosen: list[str] = []
        left: list[str] = []
        room = self._limit
        for name in sorted(names, key=lambda one: (listing[one].kind == "f", listing[one].size, one)):
            size = listing[name].size if listing[name].kind == "f" else 0
            room -= size
            (chosen if room >= 0 else left).append(name)
        return sorted(chosen), left

    def _left_out(self, left: Sequence[str], listing: Listing, what: str) -> list[str]:
        if not left:
            return []
        size = sum(listing[name].size for name in left) / 1e6
        line = (
            f"{len(left)} files ({size:.0f} MB, {_shown(left[-1])} the largest) {what}: over {self._limit / 1e6:.0f} MB"
        )
        if line not in self._notices:
            self._notices.append(line)
        return [line]

    def _refuse(self, changed: list[str], gone: list[str], here: Listing) -> list[str]:
        """Take out of both lists what must not be done here; a line for each."""
        lines: list[str] = []
        refused: set[str] = set()
        for name in (*changed, *gone):
            if why := self._why_not(name, here):
                refused.add(name)
                lines.append(f"{_shown(name)} was not taken over from {self._far.where}: {why}")
        changed[:] = [name for name in changed if name not in refused]
        gone[:] = [name for name in gone if name not in refused]
        lines = _some(lines, "were not taken over")
        self._notices += lines
        return lines

    def _why_not(self, name: str, here: Listing) -> str:
        """Why what the host says of this name is not done here; empty when it is."""
        if not inside(name):
            return "its name leads elsewhere"
        if not fits(name, self._here):
            return "its name is too long, or leads too deep"
        path = f"{self._here}/{name}"
        if obeyed(name) or of_repository(name, here):
            return "programs here would obey it; change it yourself"
        if below_excluded(name, self._exclude):
            return "it stays on its side"
        if any(is_or_below(path, one) for one in self._secret):
            return "it holds keys, or belongs to Hermes"
        if why := write_refused(path, self._places):
            return why
        if self._known_here.get(name) != here.get(name):
            return "it was changed here, too: yours is kept"
        # A link that leads out, a socket, and what else is not carried over.
        unsent = name not in here and os.path.lexists(path)
        return "something of that name is here that was not sent" if unsent else ""

    def _look(self) -> Listing:
        """What the workspace holds, without what is excluded. Links are not followed."""
        found: Listing = {}
        for name, entry in self._walk():
            if len(found) >= MOST_ENTRIES:
                raise ToolError(
                    f"The workspace has more than {MOST_ENTRIES} files. Work in a smaller folder, or name what is to "
                    "be left out in terminal.ssh.exclude."
                )
            found[name] = entry
        return found

    def _walk(self) -> Iterator[tuple[str, Entry]]:
        folders = [""]
        while folders:
            below = folders.pop()
            with contextlib.suppress(OSError), os.scandir(f"{self._here}/{below}") as entries:
                for one in entries:
                    name = f"{below}{one.name}"
                    if excluded(name, self._exclude) or f"{self._here}/{name}" in self._secret:
                        continue
                    if (entry := _looked_at(name, one)) is not None:
                        yield name, entry
                        folders += [f"{name}/"] * (entry.kind == "d")

    async def _list(self) -> tuple[Listing | None, bool]:
        """What lies there, and whether that is all; None when the folder is gone."""
        said = bytearray()
        script = f"cd -- {shlex.quote(self._root)} || exit {_GONE}; {lister(self._exclude)}"
        code = await self._far.run(script, said.extend, seconds=_SECONDS, most=LARGEST_LISTING)
        return None if code == _GONE else parsed(bytes(said)), code == 0

    async def _keep_newer(self, chosen: list[str], here: Listing) -> list[str]:
        """Keep what is newer there than here, as after a crash in the middle of a command, before it is replaced."""
        newer = [
            name
            for name in chosen
            if (there := self._known_there.get(name)) is not None
            and there.kind == "f"
            and there.mtime >= here[name].mtime
        ]
        if not newer:
            return []
        place = f"{self._root.rstrip('/')}.kept/{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(2)}"
        script = (
            f"umask 077; mkdir -p -- {shlex.quote(place)} && cd -- {shlex.quote(self._root)} && "
            f"{archive.WRITE} | tar -xpf - --no-same-owner -C {shlex.quote(place)}"
        )
        what = (
            f"{len(newer)} files had been changed on {self._far.where} ({one_line(', '.join(map(_shown, newer[:5])))})"
        )
        if await self._far.run(script, _nowhere, _listed(newer), seconds=_SECONDS):
            chosen[:] = [name for name in chosen if name not in newer]
            return [f"{what}; they could not be kept apart, so they stand there as they are, and differ from yours"]
        line = f"{what}; yours replace them, theirs are kept there in {place}"
        self._notices.append(line)
        return [line]

    async def _send(self, data: bytes) -> None:
        said = bytearray()
        unpack = f"cd -- {shlex.quote(self._root)} && tar -xpf - --no-same-owner"
        script = f"{unpack} && printf '\\0\\0' && {lister(self._exclude)}"
        code = await self._far.run(script, said.extend, data, seconds=_SECONDS, most=LARGEST_LISTING)
        if code or not said.startswith(b"\0\0"):
            raise ToolError(f"The workspace could not be written on {self._far.where} in {self._root}: is there room?")
        self._known_there = parsed(bytes(said[2:]))

    async def _remove_there(self, names: Sequence[str]) -> None:
        data = _listed(sorted(names, reverse=True))
        script = f"cd -- {shlex.quote(self._root)} && xargs -0 rm -fd --"
        await self._far.run(script, _nowhere, data, seconds=_SECONDS)
        for name in names:
            self._known_there.pop(name, None)

    async def _fetch(self, names: Sequence[str], there: Listing, file: IO[bytes]) -> None:
        # Files may grow meanwhile.
        most = sum(there[name].size + 4096 for name in names) + self._limit + 1_000_000

        def take(piece: bytes) -> None:
            file.write(piece)

        script = f"cd -- {shlex.quote(self._root)} && {archive.WRITE}"
        await self._far.run(script, take, _listed(names), seconds=_SECONDS, most=most)

    def _unpack(self, names: Sequence[str], there: Listing, file: IO[bytes]) -> list[str]:
        """Write what came; the names that could not be written."""
        missing = set(names)
        for name in names:
            entry = there[name]
            with contextlib.suppress(OSError):
                if entry.kind == "d":
                    self._make_folder(name, entry.mode)
                    missing.discard(name)
                elif entry.kind == "l" and link_inside(name, entry.target):
                    self._write(name, entry, None)
                    missing.discard(name)
        wanted = {name for name in names if there[name].kind == "f"}
        if wanted:
            missing -= self._unpack_files(wanted, there, file)
        return sorted(missing)

    def _unpack_files(self, wanted: set[str], there: Listing, file: IO[bytes]) -> set[str]:
        """Write those files of an archive that were asked for; the names of them."""
        done: set[str] = set()
        for name, size in archive.members(file):
            if name in wanted:
                with contextlib.suppress(OSError):
                    self._write(name, there[name], file, size)
                    done.add(name)
        return done

    def _write(self, name: str, entry: Entry, source: IO[bytes] | None, size: int = 0) -> None:
        """Put a file or link in its place at once; what stands there is not followed. Raises OSError."""
        folder, last = self._folder_of(name, make=True)
        new = f".hermes-{secrets.token_hex(8)}"
        try:
            if source is None:
                os.symlink(entry.target, new, dir_fd=folder)
            else:
                handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=folder)
                with os.fdopen(handle, "wb") as file:
                    archive.copy(source, size, file)
                    os.fchmod(handle, entry.mode)
                    file.flush()
                    os.utime(handle, (entry.mtime, entry.mtime))
            os.rename(new, last, src_dir_fd=folder, dst_dir_fd=folder)
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(new, dir_fd=folder)
            raise
        finally:
            os.close(folder)

    def _make_folder(self, name: str, mode: int) -> None:
        folder, last = self._folder_of(name, make=True)
        try:
            with contextlib.suppress(FileExistsError):
                os.mkdir(last, mode | 0o700, dir_fd=folder)
        finally:
            os.close(folder)

    def _folder_of(self, name: str, *, make: bool = False) -> tuple[int, str]:
        """A handle on the folder that holds a name, reached through no link, and the last part."""
        *above, last = name.split("/")
        folder = os.open(self._here, os.O_RDONLY | os.O_DIRECTORY)
        for part in above:
            try:
                if make:
                    with contextlib.suppress(FileExistsError):
                        os.mkdir(part, dir_fd=folder)
                inner = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)
            finally:
                os.close(folder)
            folder = inner
        return folder, last

    def _remove_here(self, names: Sequence[str]) -> None:
        for name in sorted(names, reverse=True):
            with contextlib.suppress(OSError):
                folder, last = self._folder_of(name)
                try:
                    if self._known_here[name].kind == "d":
                        os.rmdir(last, dir_fd=folder)
                    else:
                        os.unlink(last, dir_fd=folder)
                finally:
                    os.close(folder)


def _looked_at(name: str, one: "os.DirEntry[str]") -> Entry | None:
    """What stands here, where it is carried over."""
    try:
        target = os.readlink(one.path) if one.is_symlink() else ""
        entry = entry_of(one.stat(follow_symlinks=False), target)
    except OSError:  # it went away
        return None
    return None if entry is not None and entry.kind == "l" and not link_inside(name, entry.target) else entry


def _listed(names: Iterable[str]) -> bytes:
    """Names for a program that takes them from its input."""
    return b"".join(b"./" + os.fsencode(name) + b"\0" for name in names)


def _shown(name: str) -> str:
    """A name that another host made up, for a line of text."""
    return one_line(visible(name.replace("\n", "\\n")), 200)


def _some(lines: list[str], what: str) -> list[str]:
    """The first of many lines, and how many there were."""
    return lines if len(lines) <= _MOST_LINES else [*lines[:_MOST_LINES], f"and {len(lines) - _MOST_LINES} more {what}"]


def _nowhere(data: bytes) -> None:
    """What it says is of no interest."""
