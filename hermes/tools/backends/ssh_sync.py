"""The workspace on both sides of a connection: what changed here goes there before a command, and back after it.

What counts as changed is known by each side's own size, times and mode since the last look. Deletions are carried over
for what was the same on both sides before. Names from the far side are believed no further than this folder: no `..`,
no way through a link, nothing that programs here would obey (git hooks and settings, tasks of editors).
"""

import asyncio
import contextlib
import fnmatch
import io
import os
import re
import secrets
import shlex
import stat
import tarfile
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from typing import IO

from msgspec import Struct

from hermes.core.errors import ToolError
from hermes.safety.paths import secret_places
from hermes.safety.places import Places
from hermes.tools.backends.far import Far
from hermes.tools.backends.sandbox_policy import PROJECT_FILES

_SECONDS = 300.0
_MOST_ENTRIES = 100_000
_MOST_LINES = 5
_IN_MEMORY = 8 * 1024 * 1024
_OBEYED = re.compile(r"(^|/)\.git/(hooks(/|$)|config(\.worktree)?$|info/attributes$)|(^|/)\.git$")
_LIST = (
    r"find . -mindepth 1 \( %s \) -prune -o \( -type f -o -type d -o -type l \) "
    r"-printf '%%y %%s %%T@ %%C@ %%m %%P\0%%l\0'"
)


class Entry(Struct, frozen=True):
    """A file (`f`), folder (`d`) or link (`l`) as one side has it. `stamp` changes whenever it does."""

    kind: str
    size: int
    mtime: int
    """Whole seconds."""
    mode: int
    stamp: str
    target: str = ""


Listing = dict[str, Entry]


class Sync:
    """Keeps one folder here and one there the same. `begin` names the other one."""

    def __init__(self, far: Far, workspace: str, places: Places, *, exclude: Sequence[str], limit: int) -> None:
        self._far = far
        self._here = workspace
        self._exclude = tuple(exclude)
        self._secret = tuple(os.path.realpath(one) for one in (*secret_places(places), places.hermes))
        self._limit = limit
        self._root = ""
        self._known_here: Listing = {}
        self._known_there: Listing = {}
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
        script = (
            f"umask 077; mkdir -p -- {shlex.quote(name)} && cd -- {shlex.quote(name)} && pwd -P && {self._lister()}"
        )
        code = await self._far.run(script, said.extend, seconds=_SECONDS)
        root, _, listing = bytes(said).partition(b"\n")
        if code or not root.startswith(b"/"):
            raise ToolError(
                f"The folder {folder} on {self._far.where} cannot be used: it cannot be made, or there is no GNU find."
            )
        self._root = os.fsdecode(root)
        self._known_there = _parsed(listing)
        self._known_here = {}
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
            if gone:
                await self._remove_there(gone)
            with tempfile.SpooledTemporaryFile(_IN_MEMORY) as file:
                await asyncio.to_thread(self._pack, chosen, here, file)
                file.seek(0)
                await self._send(file.read())
            self._known_here = {name: entry for name, entry in here.items() if name not in left}
            return self._left_out(left, here, "were not sent")

    async def down(self) -> list[str]:
        """Bring what changed there here; lines about what was left out."""
        async with self._turn:
            there = await self._list()
            if there is None:
                return [f"the folder {self._root} on {self._far.where} is gone; nothing was changed here"]
            changed, gone = self._differences(there)
            here = await asyncio.to_thread(self._look)
            lines = self._refuse(changed, gone, here)
            chosen, left = self._fitting(changed, there)
            files = [name for name in chosen if there[name].kind == "f"]
            with tempfile.SpooledTemporaryFile(_IN_MEMORY) as file:
                if files:
                    await self._fetch(files, there, file)
                failed = await asyncio.to_thread(self._unpack, chosen, there, file)
            await asyncio.to_thread(self._remove_here, gone)
            self._known_there = {name: entry for name, entry in there.items() if name not in failed}
            after = await asyncio.to_thread(self._look)
            for name in (*chosen, *gone):
                self._known_here.pop(name, None)
            self._known_here.update((name, after[name]) for name in (*chosen, *gone) if name in after)
            lines += [f"{name} could not be written here" for name in failed]
            return [*lines, *self._left_out(left, there, "were not brought back")]

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
        line = f"{len(left)} files ({size:.0f} MB, {left[-1]} the largest) {what}: over {self._limit / 1e6:.0f} MB"
        if line not in self._notices:
            self._notices.append(line)
        return [line]

    def _refuse(self, changed: list[str], gone: list[str], here: Listing) -> list[str]:
        """Take out of both lists what must not be done here; a line for each."""
        lines: list[str] = []
        refused: set[str] = set()
        for name in (*changed, *gone):
            why = ""
            if not _inside(name):
                why = "its name leads elsewhere"
            elif _obeyed(name):
                why = "programs here would obey it; change it yourself"
            elif self._known_here.get(name) != here.get(name):
                why = "it was changed here, too: yours is kept"
            if why:
                refused.add(name)
                lines.append(f"{name} was not taken over from {self._far.where}: {why}")
        changed[:] = [name for name in changed if name not in refused]
        gone[:] = [name for name in gone if name not in refused]
        if len(lines) > _MOST_LINES:
            lines[_MOST_LINES:] = [f"and {len(lines) - _MOST_LINES} more were not taken over"]
        self._notices += lines
        return lines

    def _look(self) -> Listing:
        """What the workspace holds, without what is excluded. Links are not followed."""
        found: Listing = {}
        for name, entry in self._walk("", self._here):
            if len(found) >= _MOST_ENTRIES:
                raise ToolError(
                    f"The workspace has more than {_MOST_ENTRIES} files. Work in a smaller folder, or name what is to "
                    "be left out in terminal.ssh.exclude."
                )
            found[name] = entry
        return found

    def _walk(self, below: str, folder: str) -> Iterator[tuple[str, Entry]]:
        with contextlib.suppress(OSError), os.scandir(folder) as entries:
            for one in sorted(entries, key=lambda entry: entry.name):
                name = f"{below}{one.name}"
                if _excluded(name, self._exclude) or one.path in self._secret:
                    continue
                with contextlib.suppress(OSError):
                    about = one.stat(follow_symlinks=False)
                    entry = _entry(about, os.readlink(one.path) if one.is_symlink() else "")
                    if entry is None or (entry.kind == "l" and not _link_inside(name, entry.target)):
                        continue
                    yield name, entry
                    if entry.kind == "d":
                        yield from self._walk(f"{name}/", one.path)

    def _lister(self) -> str:
        tests = [
            f"-path {shlex.quote(f'./{one}')}" if "/" in one else f"-name {shlex.quote(one)}" for one in self._exclude
        ]
        return _LIST % (" -o ".join(tests) or "-false")

    async def _list(self) -> Listing | None:
        said = bytearray()
        code = await self._far.run(
            f"cd -- {shlex.quote(self._root)} && {self._lister()}", said.extend, seconds=_SECONDS
        )
        return None if code else _parsed(bytes(said))

    def _pack(self, names: Sequence[str], here: Listing, file: IO[bytes]) -> None:
        parents = {name[:at] for name in names for at, letter in enumerate(name) if letter == "/"}
        with tarfile.open(fileobj=file, mode="w", format=tarfile.GNU_FORMAT) as archive:
            for name in sorted({*names, *parents}):
                with contextlib.suppress(OSError):  # it went away
                    self._add(archive, name, here)

    def _add(self, archive: tarfile.TarFile, name: str, here: Listing) -> None:
        path = f"{self._here}/{name}"
        info = archive.gettarinfo(path, f"./{name}")
        info.uid = info.gid = 0
        info.uname = info.gname = ""
        info.mtime = int(os.lstat(path).st_mtime)
        entry = here.get(name)
        if entry is None or entry.kind != "f":
            archive.addfile(info)
            return
        info.type = tarfile.REGTYPE  # a hard link is a file of its own there
        info.linkname = ""
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(handle, "rb") as source:
            about = os.fstat(handle)
            if stat.S_ISREG(about.st_mode):
                info.size = about.st_size
                archive.addfile(info, _Exactly(source, info.size))

    async def _send(self, data: bytes) -> None:
        said = bytearray()
        script = f"cd -- {shlex.quote(self._root)} && tar -xpf - --no-same-owner && printf '\\0\\0' && {self._lister()}"
        code = await self._far.run(script, said.extend, data, _SECONDS)
        if code or not said.startswith(b"\0\0"):
            raise ToolError(f"The workspace could not be written on {self._far.where} in {self._root}: is there room?")
        self._known_there = _parsed(bytes(said[2:]))

    async def _remove_there(self, names: Sequence[str]) -> None:
        data = b"".join(b"./" + os.fsencode(name) + b"\0" for name in sorted(names, reverse=True))
        await self._far.run(f"cd -- {shlex.quote(self._root)} && xargs -0 rm -fd --", _nowhere, data, _SECONDS)
        for name in names:
            self._known_there.pop(name, None)

    async def _fetch(self, names: Sequence[str], there: Listing, file: IO[bytes]) -> None:
        data = b"".join(b"./" + os.fsencode(name) + b"\0" for name in names)
        most = sum(there[name].size + 4096 for name in names) + 1_000_000

        def take(piece: bytes) -> None:
            if file.tell() < most:
                file.write(piece)

        script = f"cd -- {shlex.quote(self._root)} && tar -cf - --no-recursion --null --verbatim-files-from -T -"
        await self._far.run(script, take, data, _SECONDS)
        file.seek(0)

    def _unpack(self, names: Sequence[str], there: Listing, file: IO[bytes]) -> list[str]:
        """Write what came; the names that could not be written."""
        missing = set(names)
        for name in names:
            entry = there[name]
            with contextlib.suppress(OSError):
                if entry.kind == "d":
                    self._make_folder(name, entry.mode)
                    missing.discard(name)
                elif entry.kind == "l" and _link_inside(name, entry.target):
                    self._write(name, entry, None)
                    missing.discard(name)
        wanted = {name for name in names if there[name].kind == "f"}
        if wanted:
            missing -= self._unpack_files(wanted, there, file)
        return sorted(missing)

    def _unpack_files(self, wanted: set[str], there: Listing, file: IO[bytes]) -> set[str]:
        """Write those files of an archive that were asked for; the names of them."""
        done: set[str] = set()
        with contextlib.suppress(tarfile.TarError), tarfile.open(fileobj=file, mode="r|") as archive:
            for info in archive:
                name = info.name.removeprefix("./")
                source = archive.extractfile(info) if name in wanted and info.isreg() else None
                if source is None:
                    continue
                with contextlib.suppress(OSError):
                    self._write(name, there[name], source)
                    done.add(name)
        return done

    def _write(self, name: str, entry: Entry, source: IO[bytes] | None) -> None:
        """Put a file or link in its place at once; what stands there is not followed."""
        folder, last = self._folder_of(name, make=True)
        try:
            new = f".hermes-{secrets.token_hex(8)}"
            if source is None:
                os.symlink(entry.target, new, dir_fd=folder)
            else:
                handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=folder)
                with os.fdopen(handle, "wb") as file:
                    while piece := source.read(1 << 16):
                        file.write(piece)
                    os.fchmod(handle, entry.mode)
                    file.flush()
                    os.utime(handle, (entry.mtime, entry.mtime))
            try:
                os.rename(new, last, src_dir_fd=folder, dst_dir_fd=folder)
            except OSError:
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


class _Exactly(io.RawIOBase):
    """So many bytes of a file that may grow or shrink meanwhile."""

    def __init__(self, source: IO[bytes], size: int) -> None:
        self._source = source
        self._rest = size

    def read(self, size: int = -1) -> bytes:
        """The next bytes; zeros once the file has come to an end too early."""
        size = self._rest if size < 0 else min(size, self._rest)
        self._rest -= size
        return self._source.read(size).ljust(size, b"\0")


def _entry(about: os.stat_result, target: str) -> Entry | None:
    if stat.S_ISREG(about.st_mode):
        stamp = f"{about.st_mtime_ns} {about.st_ctime_ns} {about.st_ino}"
        return Entry("f", about.st_size, int(about.st_mtime), about.st_mode & 0o777, stamp)
    if stat.S_ISDIR(about.st_mode):
        return Entry("d", 0, 0, about.st_mode & 0o777, "")
    return Entry("l", 0, 0, 0, "", target) if stat.S_ISLNK(about.st_mode) else None


def _inside(name: str) -> bool:
    parts = name.split("/")
    return bool(name) and not any(part in ("", ".", "..") for part in parts)


def _link_inside(name: str, target: str) -> bool:
    """Whether a link at this name leads to something in the same folder."""
    where = os.path.normpath(os.path.join(os.path.dirname(name), target))
    return not target.startswith("/") and not (where == ".." or where.startswith("../"))


def _obeyed(name: str) -> bool:
    return bool(_OBEYED.search(name)) or any(name == one or name.startswith(f"{one}/") for one in PROJECT_FILES)


def _nowhere(data: bytes) -> None:
    """What it says is of no interest."""


def _parsed(data: bytes) -> Listing:
    fields = [os.fsdecode(one) for one in data.split(b"\0")]
    found: Listing = {}
    for about, target in zip(fields[::2], fields[1::2], strict=False):
        parts = about.split(" ", 5)
        if len(parts) < 6 or len(found) >= 2 * _MOST_ENTRIES:
            continue
        kind, size, mtime, ctime, mode, name = parts
        stamp = f"{mtime} {ctime}" if kind == "f" else ""
        whole = int(mtime.partition(".")[0]) if kind == "f" else 0
        length = int(size) if kind == "f" else 0
        bits = int(mode, 8) & 0o777 if kind != "l" else 0
        found[name] = Entry(kind, length, whole, bits, stamp, target)
    return found


def _excluded(name: str, patterns: Sequence[str]) -> bool:
    last = name.rpartition("/")[2]
    return any(fnmatch.fnmatchcase(name if "/" in one else last, one) for one in patterns)
