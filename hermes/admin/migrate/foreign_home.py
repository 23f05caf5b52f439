"""What is found in another agent's home, as values, and the few readers that both kinds need."""

import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

import msgspec
from msgspec import Struct

from hermes.core.errors import UsageError
from hermes.core.messages import Role
from hermes.core.secret import KeyHolder
from hermes.i18n.messages import say
from hermes.sessions.formats.openai_format import Plain, from_openai
from hermes.store.imported_sessions import OldMessage, OldSession

TEXT_LIMIT = 1 << 20
"""Bytes of a file of words, such as MEMORY.md."""
_LONGEST_ID = 128


class Left(Struct, frozen=True):
    """Something that stays behind, and why."""

    what: str
    why: str


class Holdings(KeyHolder, frozen=True, kw_only=True):
    """What a home holds that can be taken over. Reading it changes nothing."""

    title: str
    root: Path
    settings: Mapping[tuple[str, ...], object] = {}
    env: Mapping[str, str] = {}
    """Variables that Hermes reads too: keys and addresses, by name."""
    identity: str = ""
    """The text of its SOUL.md."""
    memory: tuple[str, ...] = ()
    user: tuple[str, ...] = ()
    skills: tuple[Path, ...] = ()
    """Folders, each a skill's."""
    sessions: int = 0
    messages: int = 0
    bytes: int = 0
    """Of the sessions."""
    left: tuple[Left, ...] = ()


class OldHome(Protocol):
    """A home of another agent."""

    root: Path
    same: bool
    """Whether it is the very folder in which Hermes keeps its things."""
    title: str
    source: str
    """What the source of its sessions begins with."""

    def holdings(self) -> Holdings:
        """What is in it. Raises HermesError when it cannot be read."""
        ...

    def sessions(self) -> Iterator[OldSession]:
        """Its sessions, oldest first. One that cannot be read is left out."""
        ...


def is_link(root: Path, path: Path) -> bool:
    """Whether a path below a folder is a link, or leads through one; the folder itself may be one."""
    real = os.path.realpath(root)
    return os.path.realpath(path) != os.path.normpath(os.path.join(real, path.relative_to(root)))


def without_links(root: Path, paths: Iterable[Path], left: list[Left]) -> list[Path]:
    """Those of the paths below a folder that are no links; the others are named in `left`."""
    kept: list[Path] = []
    for path in paths:
        if is_link(root, path):
            left.append(Left(str(path.relative_to(root)), say("links are not followed")))
        else:
            kept.append(path)
    return kept


def words_below(root: Path, name: str, left: list[Left]) -> str:
    """The text of a file in a folder; empty as with `read_text`, and for a link, which is named in `left`."""
    file = root / name
    return "".join(map(read_text, without_links(root, [file], left))) if os.path.lexists(file) else ""


def read_text(file: Path, limit: int = TEXT_LIMIT) -> str:
    """A file's text; empty when there is none, or it is a link, no regular file of text, or larger than the limit."""
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


def skill_folders(*roots: Path) -> Iterator[Path]:
    """Folders with a SKILL.md, at most three below one of the roots; links are not followed."""
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


def typed_messages(rows: Sequence[tuple[float, Plain]]) -> tuple[OldMessage, ...]:
    """Chat messages with their times as messages of ours, made legal; the same rows always give the same messages."""
    plain = [_identified(number, dict(row)) for number, (_, row) in enumerate(rows)]
    try:
        messages = from_openai(plain)
    except UsageError:
        return ()
    times = [(str(row.get("role")), at) for (at, _), row in zip(rows, plain, strict=True)]
    found: list[OldMessage] = []
    place, before = 0, times[0][1] if times else 0.0
    for message in messages:
        begin = place if message.role is Role.TOOL else _next_of(times, place, message.role)
        if begin < len(times) and times[begin][0] == message.role:  # else it was put in: a result that nobody kept
            before, place = times[begin][1], begin
            while place < len(times) and times[place][0] == message.role:
                place += 1
        found.append(OldMessage(before, message))
    return tuple(found)


def _next_of(times: Sequence[tuple[str, float]], place: int, role: Role) -> int:
    return next((at for at in range(place, len(times)) if times[at][0] == role), len(times))


def _identified(number: int, row: Plain) -> Plain:
    """The row with an id for every call, each once."""
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


def sound_id(name: str) -> str:
    """The id of an old session as one of ours; empty when it cannot be one."""
    import re

    kept = name if re.fullmatch(r"[A-Za-z0-9][\w.:-]*", name, re.ASCII) else ""
    return kept if len(kept) <= _LONGEST_ID else ""


def decoded(text: object) -> object:
    """What JSON text means; None for what is none."""
    try:
        return msgspec.json.decode(text) if isinstance(text, str | bytes) else None
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
