"""The contents of another agent's home as values, and the readers that both kinds of homes share."""

import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

import msgspec
from msgspec import Struct

from hermes.core.encoding import Plain
from hermes.core.errors import UsageError
from hermes.core.messages import Role
from hermes.core.secret import KeyHolder
from hermes.i18n.messages import tr
from hermes.sessions.formats.openai_format import from_openai
from hermes.store.imported_sessions import ImportedMessage, ImportedSession

TEXT_LIMIT = 1 << 20
"""The most bytes of a text file, such as MEMORY.md."""
_MAX_ID_LENGTH = 128


class SkippedItem(Struct, frozen=True):
    """Something that is not imported, and why."""

    what: str
    why: str


class HomeContents(KeyHolder, frozen=True, kw_only=True):
    """The contents of a home that can be imported. Reading them changes nothing."""

    title: str
    root: Path
    settings: Mapping[tuple[str, ...], object] = {}
    env: Mapping[str, str] = {}
    """Variables that Hermes reads too: keys and addresses, by name."""
    identity: str = ""
    """The text of the home's SOUL.md."""
    memory: tuple[str, ...] = ()
    user: tuple[str, ...] = ()
    skills: tuple[Path, ...] = ()
    """The folders of the skills."""
    sessions: int = 0
    messages: int = 0
    bytes: int = 0
    """The size of the sessions in bytes."""
    skipped: tuple[SkippedItem, ...] = ()


class ForeignHome(Protocol):
    """A home of another agent."""

    root: Path
    same: bool
    """Whether it is the very folder of this Hermes."""
    title: str
    source: str
    """The beginning of the source of its sessions."""

    def read_contents(self) -> HomeContents:
        """Read the contents of the home. Raises HermesError when it cannot be read."""
        ...

    def iterate_sessions(self) -> Iterator[ImportedSession]:
        """Yield the home's sessions, oldest first. Unreadable ones are left out."""
        ...


def is_link(root: Path, path: Path) -> bool:
    """Return whether a path below a folder is a link, or leads through one; the folder itself may be one."""
    real = os.path.realpath(root)
    return os.path.realpath(path) != os.path.normpath(os.path.join(real, path.relative_to(root)))


def skip_links(root: Path, paths: Iterable[Path], skipped: list[SkippedItem]) -> list[Path]:
    """Return the paths below a folder that are no links; links are added to `skipped`."""
    kept: list[Path] = []
    for path in paths:
        if is_link(root, path):
            skipped.append(SkippedItem(str(path.relative_to(root)), tr("links are not followed")))
        else:
            kept.append(path)
    return kept


def read_text_below(root: Path, name: str, skipped: list[SkippedItem]) -> str:
    """Return the text of a file in a folder; empty as with `read_text`, and for a link, which is added to `skipped`."""
    file = root / name
    return "".join(map(read_small_text, skip_links(root, [file], skipped))) if os.path.lexists(file) else ""


def read_small_text(file: Path, limit: int = TEXT_LIMIT) -> str:
    """Return a file's text; empty when it is missing, a link, no regular text file, or larger than the limit."""
    try:
        handle = os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW)
    except OSError:
        return ""
    with open(handle, "rb") as source:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            return ""
        raw = source.read(limit + 1)
    if len(raw) > limit or b"\0" in raw:
        return ""
    return raw.decode("utf-8-sig", "replace")


def find_skill_folders(*roots: Path) -> Iterator[Path]:
    """Yield folders with a SKILL.md, at most three levels below a root; links are not followed."""
    for root in roots:
        for folder, folders, files in os.walk(root):
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            if os.path.islink(folder):
                folders[:] = []
                yield Path(folder)  # for the caller to say that it is a link
                continue
            depth = len(Path(folder).relative_to(root).parts)
            if "SKILL.md" in files:
                yield Path(folder)
                folders[:] = []
            elif depth >= 3:
                folders[:] = []


def convert_messages(rows: Sequence[tuple[float, Plain]]) -> tuple[ImportedMessage, ...]:
    """Convert chat messages with their times to our own, made valid; the same rows always give the same messages."""
    plain = [_with_call_ids(number, dict(row)) for number, (_, row) in enumerate(rows)]
    try:
        messages = from_openai(plain)
    except UsageError:
        return ()
    times = [(str(row.get("role")), at) for (at, _), row in zip(rows, plain, strict=True)]
    found: list[ImportedMessage] = []
    place, before = 0, times[0][1] if times else 0.0
    for message in messages:
        begin = place if message.role is Role.TOOL else _find_next_role(times, place, message.role)
        if begin < len(times) and times[begin][0] == message.role:  # else it was put in: a result that nobody kept
            before, place = times[begin][1], begin
            while place < len(times) and times[place][0] == message.role:
                place += 1
        found.append(ImportedMessage(before, message))
    return tuple(found)


def _find_next_role(times: Sequence[tuple[str, float]], place: int, role: Role) -> int:
    return next((at for at in range(place, len(times)) if times[at][0] == role), len(times))


def _with_call_ids(number: int, row: Plain) -> Plain:
    """Return the row with a unique id for every call."""
    calls = row.get("tool_calls")
    if not isinstance(calls, list):
        return row
    seen: set[str] = set()
    named: list[object] = []
    for place, call in enumerate(calls):
        given = call.get("id") or call.get("call_id") if isinstance(call, dict) else None
        name = given if isinstance(given, str) and given not in seen else f"old-{number}-{place}"
        seen.add(name)
        named.append({**call, "id": name} if isinstance(call, dict) else call)
    return {**row, "tool_calls": named}


def check_session_id(name: str) -> str:
    """Return the id of an imported session if it is valid here; otherwise an empty text."""
    import re

    kept = name if re.fullmatch(r"[A-Za-z0-9][\w.:-]*", name, re.ASCII) else ""
    return kept if len(kept) <= _MAX_ID_LENGTH else ""


def decode_json(text: object) -> object:
    """Decode a JSON text; None when it is invalid."""
    try:
        return msgspec.json.decode(text) if isinstance(text, str | bytes) else None
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
