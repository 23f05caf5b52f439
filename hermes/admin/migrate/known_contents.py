"""Finds what of another agent's home is here already, so that a preview shows only new things.

It is read from our own files and database.
"""

import apsw
import msgspec
from msgspec import Struct

from hermes.admin.migrate.foreign_home import HomeContents, read_small_text
from hermes.config.home import HermesHome
from hermes.memory.files import MemoryTarget, split_entries
from hermes.memory.journal import KIND as MEMORIES
from hermes.skills.skill_library import KIND as SKILLS


class KnownContents(Struct, frozen=True, kw_only=True):
    """What was imported before, or exists here for another reason."""

    notes: frozenset[tuple[str, str]] = frozenset()
    """Notes, each with its file; also those that wait for approval or were rejected."""
    skills: frozenset[str] = frozenset()
    sessions: int = 0
    """Sessions that were imported from such a home."""


def read_known_contents(home: HermesHome, source: str) -> KnownContents:
    """Read what is here already; nothing where there is no database yet, or it cannot be read."""
    notes = {
        (target.value, note)
        for target in MemoryTarget
        for note in split_entries(read_small_text(home.root / "memories" / target.file))
    }
    if not home.database.exists():
        return KnownContents(notes=frozenset(notes))
    try:
        flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
        database = apsw.Connection(f"{home.database.absolute().as_uri()}?mode=ro", flags=flags)
        try:
            database.set_busy_timeout(5_000)
            brought = list(database.execute("SELECT kind, name, after FROM revisions WHERE after IS NOT NULL"))
            counted = "SELECT count(*) FROM sessions WHERE source = ?1 OR source LIKE ?1 || '/%'"
            sessions = int(next(database.execute(counted, (source,)))[0])
        finally:
            database.close()
    except apsw.Error:
        return KnownContents(notes=frozenset(notes))
    notes |= {(str(name), bytes(after).decode("utf-8", "replace")) for kind, name, after in brought if kind == MEMORIES}
    skills = frozenset(str(name) for kind, name, _ in brought if kind == SKILLS)
    return KnownContents(notes=frozenset(notes), skills=skills, sessions=sessions)


def drop_known(contents: HomeContents, known: KnownContents) -> HomeContents:
    """Return the contents without the notes and skills that are here already."""
    return msgspec.structs.replace(
        contents,
        memory=tuple(note for note in contents.memory if (MemoryTarget.MEMORY.value, note) not in known.notes),
        user=tuple(note for note in contents.user if (MemoryTarget.USER.value, note) not in known.notes),
        skills=tuple(folder for folder in contents.skills if folder.name not in known.skills),
    )
