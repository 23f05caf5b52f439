"""Synchronizes the workspace over a connection: changes here are sent before a command, changes there brought back.

A change is known by each side's own size, times and mode since the last look. Deletions are carried over for what was
the same on both sides before. Names from the remote side are trusted no further than this folder: no `..`, no way
through a link, nothing that programs here would obey (git hooks and settings, tasks of editors).

Writes archives for GNU tar and reads its archives: the GNU format of ustar, ordinary files only when reading.

Reading is our own: the host that writes an archive is not trusted, and the library's reader accepts many more forms
(sparse files, extended headers) than are asked for.
"""

import asyncio
import contextlib
import io
import os
import re
import secrets
import shlex
import tarfile
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import IO

from hermes.core.errors import ToolError
from hermes.execution.remote import RemoteShell
from hermes.execution.ssh.listing import (
    MAX_ENTRIES,
    MAX_LISTING_BYTES,
    FileListing,
    SyncEntry,
    build_list_command,
    entry_from_stat,
    is_below_excluded,
    is_below_folder,
    is_excluded,
    is_link_inside,
    is_name_short_enough,
    is_obeyed_name,
    is_repository_control,
    parse_listing,
)
from hermes.i18n.messages import N_
from hermes.safety.paths import Places, is_or_below, list_secret_paths, write_refusal
from hermes.util.file_handles import NEW_FLAGS, HeldPath, hold_unlinked
from hermes.util.text import escape_confusable_characters, to_one_line

_TRANSFER_SECONDS = 300.0
_MAX_LINES = 5
_MAX_MEMORY_BYTES = 8 * 1024 * 1024
_GONE_CODE = 97
"""Exit code of our scripts when the folder there does not exist."""


class WorkspaceSync:
    """Keeps one folder here and one there the same. `begin` names the other one."""

    def __init__(
        self, remote: RemoteShell, workspace: str, places: Places, *, exclude: Sequence[str], limit: int
    ) -> None:
        self._remote = remote
        self._workspace = workspace
        self._exclude = tuple(exclude)
        self._secret_paths = tuple(os.path.realpath(one) for one in (*list_secret_paths(places), places.hermes))
        self._places = places
        self._limit = limit
        self._root = ""
        self._known_here: FileListing = {}
        self._known_there: FileListing = {}
        self._is_first = True
        """Whether nothing has been sent yet: what is there may be newer than what is here."""
        self._lock = asyncio.Lock()
        self._notices: list[str] = []

    def take_notices(self) -> list[str]:
        """Return the notices about what was not transferred, each once."""
        notices, self._notices = self._notices, []
        return notices

    async def begin(self, folder: str) -> str:
        """Make the folder there when it is missing, and list it; return its absolute path. Nothing there is trusted."""
        output = bytearray()
        name = folder.removeprefix("~/")
        make = f"mkdir -p -- {shlex.quote(name)} && cd -- {shlex.quote(name)}"
        script = f"umask 077; {make} && pwd -P && {build_list_command(self._exclude)}"
        code = await self._remote.run_script(
            script, output.extend, seconds=_TRANSFER_SECONDS, max_output=MAX_LISTING_BYTES
        )
        root, _, listing = bytes(output).partition(b"\n")
        if code or not root.startswith(b"/"):
            raise ToolError(
                f"The folder {folder} on {self._remote.where} cannot be used: it cannot be made, or there is no "
                f"GNU find."
            )
        self._root = os.fsdecode(root)
        self._known_there = parse_listing(listing)
        self._known_here = {}
        self._is_first = True
        return self._root

    async def send_changes(self) -> list[str]:
        """Send what changed here to the other side; return lines about what was left out."""
        async with self._lock:
            here = await asyncio.to_thread(self._list_here)
            gone = [name for name in self._known_here if name not in here and name in self._known_there]
            changed = [name for name, entry in here.items() if not self._is_same(name, entry)]
            if not gone and not changed:
                self._known_here = here
                return []
            chosen, skipped = self._select_fitting(changed, here)
            lines = await self._keep_newer(chosen, here) if self._is_first else []
            self._is_first = False
            if gone:
                await self._remove_there(gone)
            with tempfile.SpooledTemporaryFile(_MAX_MEMORY_BYTES) as file:
                await asyncio.to_thread(write_archive, self._workspace, chosen, here, file)
                file.seek(0)
                await self._send_archive(file.read())
            self._known_here = {name: entry for name, entry in here.items() if name not in skipped}
            return [*lines, *self._describe_skipped(skipped, here, "were not sent")]

    async def bring_changes(self) -> list[str]:
        """Bring what changed there here; return lines about what was left out."""
        async with self._lock:
            there, is_complete = await self._list_there()
            if there is None:
                return [
                    N_(
                        "the folder {root} on {where} is gone; nothing was changed here",
                        root=self._root,
                        where=self._remote.where,
                    )
                ]
            changed, gone = self._find_differences(there)
            lines = []
            if not is_complete:
                gone = []
                lines.append(
                    N_(
                        "parts of {root} on {where} cannot be read; what is gone there stays here",
                        root=self._root,
                        where=self._remote.where,
                    )
                )
            here = await asyncio.to_thread(self._list_here)
            lines += self._remove_refused(changed, gone, here)
            chosen, skipped = self._select_fitting(changed, there)
            failed = await self._bring_entries(chosen, there, lines)
            await asyncio.to_thread(self._remove_here, gone)
            unread = {} if is_complete else self._known_there
            self._known_there = {**unread, **{name: entry for name, entry in there.items() if name not in failed}}
            after = await asyncio.to_thread(self._list_here)
            for name in (*chosen, *gone):
                self._known_here.pop(name, None)
            self._known_here.update((name, after[name]) for name in (*chosen, *gone) if name in after)
            lines += _shorten_lines(
                [N_("{format_name} could not be written here", format_name=_format_name(name)) for name in failed],
                "could not be written",
            )
            return [*lines, *self._describe_skipped(skipped, there, "were not brought back")]

    async def _bring_entries(self, chosen: Sequence[str], there: FileListing, lines: list[str]) -> list[str]:
        """Make the chosen entries here as they are there; return the names of what could not be written."""
        files = [name for name in chosen if there[name].kind == "f"]
        with tempfile.SpooledTemporaryFile(_MAX_MEMORY_BYTES) as file:
            if files:
                try:
                    await self._fetch_files(files, there, file)
                except ToolError as error:
                    lines.append(str(error))
                file.seek(0)
            return await asyncio.to_thread(self._unpack_entries, chosen, there, file)

    def _find_differences(self, there: FileListing) -> tuple[list[str], list[str]]:
        """Return what is new or changed there, and what was deleted of what both sides had."""
        changed = [name for name, entry in there.items() if self._known_there.get(name) != entry]
        return changed, [name for name in self._known_there if name not in there and name in self._known_here]

    def _is_same(self, name: str, entry: SyncEntry) -> bool:
        """Return whether the other side has this already."""
        if name in self._known_here:
            return self._known_here[name] == entry
        there = self._known_there.get(name)
        if there is None or (there.kind, there.mode) != (entry.kind, entry.mode):
            return False
        if entry.kind == "f":
            return (there.size, there.mtime) == (entry.size, entry.mtime)
        return there.target == entry.target

    def _select_fitting(self, names: Iterable[str], listing: FileListing) -> tuple[list[str], list[str]]:
        """Return what fits into one transfer, small things first, and what does not."""
        chosen: list[str] = []
        skipped: list[str] = []
        room = self._limit
        for name in sorted(names, key=lambda one: (listing[one].kind == "f", listing[one].size, one)):
            size = listing[name].size if listing[name].kind == "f" else 0
            room -= size
            (chosen if room >= 0 else skipped).append(name)
        return sorted(chosen), skipped

    def _describe_skipped(self, skipped: Sequence[str], listing: FileListing, what: str) -> list[str]:
        if not skipped:
            return []
        size = sum(listing[name].size for name in skipped) / 1e6
        line = N_(
            "{skipped} files ({size} MB, {format_name} the largest) {what}: over {limit} MB",
            skipped=len(skipped),
            size=format(size, ".0f"),
            format_name=_format_name(skipped[-1]),
            what=what,
            limit=format(self._limit / 1000000.0, ".0f"),
        )
        if line not in self._notices:
            self._notices.append(line)
        return [line]

    def _remove_refused(self, changed: list[str], gone: list[str], here: FileListing) -> list[str]:
        """Remove from both lists what must not be done here; return a line for each."""
        lines: list[str] = []
        refused: set[str] = set()
        for name in (*changed, *gone):
            if why := self._explain_refusal(name, here):
                refused.add(name)
                lines.append(f"{_format_name(name)} was not taken over from {self._remote.where}: {why}")
        changed[:] = [name for name in changed if name not in refused]
        gone[:] = [name for name in gone if name not in refused]
        lines = _shorten_lines(lines, "were not taken over")
        self._notices += lines
        return lines

    def _explain_refusal(self, name: str, here: FileListing) -> str:
        """Explain why a change that the host reports for this name is not made here; empty when it is."""
        if not is_below_folder(name):
            return "its name leads elsewhere"
        if not is_name_short_enough(name, self._workspace):
            return "its name is too long, or leads too deep"
        path = f"{self._workspace}/{name}"
        if is_obeyed_name(name) or is_repository_control(name, here):
            return "programs here would obey it; change it yourself"
        if is_below_excluded(name, self._exclude):
            return "it stays on its side"
        if any(is_or_below(path, one) for one in self._secret_paths):
            return "it holds keys, or belongs to Hermes"
        if why := write_refusal(path, self._places):
            return why
        if self._known_here.get(name) != here.get(name):
            return "it was changed here, too: yours is kept"
        # A link that leads out, a socket, and what else is not carried over.
        unsent = name not in here and os.path.lexists(path)
        return "something of that name is here that was not sent" if unsent else ""

    def _list_here(self) -> FileListing:
        """List the workspace, without what is excluded. Links are not followed."""
        found: FileListing = {}
        for name, entry in self._walk_workspace():
            if len(found) >= MAX_ENTRIES:
                raise ToolError(
                    f"The workspace has more than {MAX_ENTRIES} files. Work in a smaller folder, or name what is to "
                    "be left out in terminal.ssh.exclude."
                )
            found[name] = entry
        return found

    def _walk_workspace(self) -> Iterator[tuple[str, SyncEntry]]:
        folders = [""]
        while folders:
            below = folders.pop()
            with contextlib.suppress(OSError), os.scandir(f"{self._workspace}/{below}") as entries:
                for one in entries:
                    name = f"{below}{one.name}"
                    if is_excluded(name, self._exclude) or f"{self._workspace}/{name}" in self._secret_paths:
                        continue
                    if (entry := _read_entry(name, one)) is not None:
                        yield name, entry
                        folders += [f"{name}/"] * (entry.kind == "d")

    async def _list_there(self) -> tuple[FileListing | None, bool]:
        """List the folder there; return the list and whether it is complete. The list is None when the
        folder is gone.
        """
        output = bytearray()
        script = f"cd -- {shlex.quote(self._root)} || exit {_GONE_CODE}; {build_list_command(self._exclude)}"
        code = await self._remote.run_script(
            script, output.extend, seconds=_TRANSFER_SECONDS, max_output=MAX_LISTING_BYTES
        )
        return None if code == _GONE_CODE else parse_listing(bytes(output)), code == 0

    async def _keep_newer(self, chosen: list[str], here: FileListing) -> list[str]:
        """Save what is newer there than here, as after a crash in the middle of a command, before it is replaced."""
        newer = [
            name
            for name in chosen
            if (there := self._known_there.get(name)) is not None
            and there.kind == "f"
            and there.mtime >= here[name].mtime
        ]
        if not newer:
            return []
        backup_folder = f"{self._root.rstrip('/')}.kept/{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(2)}"
        script = (
            f"umask 077; mkdir -p -- {shlex.quote(backup_folder)} && cd -- {shlex.quote(self._root)} "
            f"&& {TAR_COMMAND} | tar -xpf - --no-same-owner -C {shlex.quote(backup_folder)}"
        )
        names = to_one_line(", ".join(map(_format_name, newer[:5])))
        what = N_(
            "{newer} files had been changed on {where} ({names})",
            newer=len(newer),
            where=self._remote.where,
            names=names,
        )
        if await self._remote.run_script(script, _discard_output, _encode_names(newer), seconds=_TRANSFER_SECONDS):
            chosen[:] = [name for name in chosen if name not in newer]
            return [
                N_(
                    ("{what}; they could not be kept apart, so they stay there as they are, and differ from yours"),
                    what=what,
                )
            ]
        line = f"{what}; yours replace them, theirs are kept there in {backup_folder}"
        self._notices.append(line)
        return [line]

    async def _send_archive(self, data: bytes) -> None:
        output = bytearray()
        unpack = f"cd -- {shlex.quote(self._root)} && tar -xpf - --no-same-owner"
        script = f"{unpack} && printf '\\0\\0' && {build_list_command(self._exclude)}"
        code = await self._remote.run_script(
            script, output.extend, data, seconds=_TRANSFER_SECONDS, max_output=MAX_LISTING_BYTES
        )
        if code or not output.startswith(b"\0\0"):
            raise ToolError(
                f"The workspace could not be written on {self._remote.where} in {self._root}: is there room?"
            )
        self._known_there = parse_listing(bytes(output[2:]))

    async def _remove_there(self, names: Sequence[str]) -> None:
        data = _encode_names(sorted(names, reverse=True))
        script = f"cd -- {shlex.quote(self._root)} && xargs -0 rm -fd --"
        await self._remote.run_script(script, _discard_output, data, seconds=_TRANSFER_SECONDS)
        for name in names:
            self._known_there.pop(name, None)

    async def _fetch_files(self, names: Sequence[str], there: FileListing, file: IO[bytes]) -> None:
        # Files may grow meanwhile.
        max_output = sum(there[name].size + 4096 for name in names) + self._limit + 1_000_000

        def write_piece(piece: bytes) -> None:
            file.write(piece)

        script = f"cd -- {shlex.quote(self._root)} && {TAR_COMMAND}"
        await self._remote.run_script(
            script, write_piece, _encode_names(names), seconds=_TRANSFER_SECONDS, max_output=max_output
        )

    def _unpack_entries(self, names: Sequence[str], there: FileListing, file: IO[bytes]) -> list[str]:
        """Write what came; return the names that could not be written."""
        missing = set(names)
        for name in names:
            entry = there[name]
            with contextlib.suppress(OSError):
                if entry.kind == "d":
                    self._make_folder(name, entry.mode)
                    missing.discard(name)
                elif entry.kind == "l" and is_link_inside(name, entry.target):
                    self._write_entry(name, entry, None)
                    missing.discard(name)
        wanted = {name for name in names if there[name].kind == "f"}
        if wanted:
            missing -= self._unpack_files(wanted, there, file)
        return sorted(missing)

    def _unpack_files(self, wanted: set[str], there: FileListing, file: IO[bytes]) -> set[str]:
        """Write those files of an archive that were asked for; return their names."""
        done: set[str] = set()
        for name, size in iter_members(file):
            if name in wanted:
                with contextlib.suppress(OSError):
                    self._write_entry(name, there[name], file, size)
                    done.add(name)
        return done

    def _write_entry(self, name: str, entry: SyncEntry, source: IO[bytes] | None, size: int = 0) -> None:
        """Put a file or link in its place at once; an existing link is not followed. Raises OSError."""
        with self._hold_entry(name) as held, held.replaced() as new:
            if source is None:
                os.symlink(entry.target, new, dir_fd=held.handle)
                return
            with os.fdopen(os.open(new, NEW_FLAGS, 0o600, dir_fd=held.handle), "wb") as file:
                copy_bytes(source, size, file)
                os.fchmod(file.fileno(), entry.mode)
                file.flush()
                os.utime(file.fileno(), (entry.mtime, entry.mtime))

    def _make_folder(self, name: str, mode: int) -> None:
        with self._hold_entry(name) as held, contextlib.suppress(FileExistsError):
            held.make_missing()
            os.mkdir(held.name, mode | 0o700, dir_fd=held.handle)

    def _hold_entry(self, name: str) -> HeldPath:
        return hold_unlinked(f"{self._workspace}/{name}")

    def _remove_here(self, names: Sequence[str]) -> None:
        for name in sorted(names, reverse=True):
            with contextlib.suppress(OSError), self._hold_entry(name) as held:
                held.remove()


def _read_entry(name: str, one: "os.DirEntry[str]") -> SyncEntry | None:
    """Return the entry for what is here, or None if it is not transferred."""
    try:
        target = os.readlink(one.path) if one.is_symlink() else ""
        entry = entry_from_stat(one.stat(follow_symlinks=False), target)
    except OSError:  # it went away
        return None
    return None if entry is not None and entry.kind == "l" and not is_link_inside(name, entry.target) else entry


def _encode_names(names: Iterable[str]) -> bytes:
    """Encode names for a program that takes them from its input."""
    return b"".join(b"./" + os.fsencode(name) + b"\0" for name in names)


def _format_name(name: str) -> str:
    """Format a name that another host made up, for a line of text."""
    return to_one_line(escape_confusable_characters(name.replace("\n", "\\n")), 200)


def _shorten_lines(lines: list[str], what: str) -> list[str]:
    """Return the first of many lines, and how many more there are."""
    return (
        lines
        if len(lines) <= _MAX_LINES
        else [*lines[:_MAX_LINES], N_("and {MAX_LINES} more {what}", MAX_LINES=len(lines) - _MAX_LINES, what=what)]
    )


def _discard_output(data: bytes) -> None:
    """Discard output that is of no interest."""


_BLOCK = 512


_COPY_SIZE = 1 << 16


_MAX_NAME_BYTES = 1 << 16


_OCTAL = re.compile(rb"[ ]*([0-7]{1,12})[ \0]*")


TAR_COMMAND = "tar -cf - --format=gnu --hard-dereference --no-recursion --null --verbatim-files-from -T -"
"""The command that writes the files whose names it is given, each ended by a null character."""


def iter_members(file: IO[bytes]) -> Iterator[tuple[str, int]]:
    """Yield the name and size of each ordinary file, while `file` stands at its first byte; stop after a mistake."""
    name = b""
    while len(head := file.read(_BLOCK)) == _BLOCK and (number := _OCTAL.fullmatch(head[124:136])):
        size, begin = int(number[1], 8), file.tell()
        if head[156:157] == b"L" and size <= _MAX_NAME_BYTES:
            name = file.read(size).partition(b"\0")[0]
        else:
            if head[156:157] in b"0\0":
                yield os.fsdecode(name or head[:100].partition(b"\0")[0]).removeprefix("./"), size
            name = b""
        file.seek(begin + -(-size // _BLOCK) * _BLOCK)


def copy_bytes(source: IO[bytes], size: int, target: IO[bytes]) -> None:
    """Copy this many bytes. Raises OSError when there are fewer."""
    while size:
        piece = source.read(min(size, _COPY_SIZE))
        if not piece:
            raise OSError("the archive ends too early")
        target.write(piece)
        size -= len(piece)


def write_archive(folder: str, names: Iterable[str], here: Mapping[str, SyncEntry], file: IO[bytes]) -> None:
    """Write an archive of what lies in `folder` under these names, with the folders that they are in."""
    wanted = set(names)
    parents = {name[:at] for name in wanted for at, letter in enumerate(name) if letter == "/"}
    with tarfile.open(fileobj=file, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for name in sorted(wanted | parents):
            with contextlib.suppress(OSError):  # it went away
                _add_entry(archive, folder, name, here.get(name))


def _add_entry(archive: tarfile.TarFile, folder: str, name: str, entry: SyncEntry | None) -> None:
    path = f"{folder}/{name}"
    info = archive.gettarinfo(path, f"./{name}")
    info.uid = info.gid = 0
    info.uname = info.gname = ""
    info.mtime = int(os.lstat(path).st_mtime)
    if entry is None or entry.kind != "f":
        if info.isdir() or info.issym():  # else it has become something else meanwhile
            archive.addfile(info)
        return
    info.type = tarfile.REGTYPE  # a hard link is a file of its own there
    info.linkname = ""
    with hold_unlinked(path) as held, os.fdopen(held.open_read(), "rb") as source:
        info.size = os.fstat(source.fileno()).st_size
        archive.addfile(info, _FixedSizeReader(source, info.size))


class _FixedSizeReader(io.RawIOBase):
    """Reads exactly this many bytes of a file that may grow or shrink meanwhile."""

    def __init__(self, source: IO[bytes], size: int) -> None:
        self._source = source
        self._bytes_left = size

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes; zeros once the file has ended too early."""
        size = self._bytes_left if size < 0 else min(size, self._bytes_left)
        self._bytes_left -= size
        return self._source.read(size).ljust(size, b"\0")
