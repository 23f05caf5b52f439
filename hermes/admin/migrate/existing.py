"""What of another agent's home is here already: read from our own files and database, so that a preview is of news."""

import apsw
import msgspec
from msgspec import Struct

from hermes.admin.migrate.foreign_home import Holdings, read_text
from hermes.config.home import Home
from hermes.memory.files import Target, parted
from hermes.memory.journal import KIND as MEMORIES
from hermes.skills.skills import KIND as SKILLS


class Here(Struct, frozen=True, kw_only=True):
    """What was brought here before, or has come here in another way."""

    notes: frozenset[tuple[str, str]] = frozenset()
    """Notes, each with the file that it is of; also those that wait, or that somebody has said no to."""
    skills: frozenset[str] = frozenset()
    sessions: int = 0
    """Sessions that were taken over from such a home."""


def here(home: Home, source: str) -> Here:
    """What is here; nothing where there is no database yet, or it cannot be read."""
    notes = {
        (target.value, note) for target in Target for note in parted(read_text(home.root / "memories" / target.file))
    }
    if not home.database.exists():
        return Here(notes=frozenset(notes))
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
        return Here(notes=frozenset(notes))
    notes |= {(str(name), bytes(after).decode("utf-8", "replace")) for kind, name, after in brought if kind == MEMORIES}
    skills = frozenset(str(name) for kind, name, _ in brought if kind == SKILLS)
    return Here(notes=frozenset(notes), skills=skills, sessions=sessions)


def without_known(held: Holdings, known: Here) -> Holdings:
    """What is held besides the notes and skills that are here already."""
    return msgspec.structs.replace(
        held,
        memory=tuple(note for note in held.memory if (Target.MEMORY.value, note) not in known.notes),
        user=tuple(note for note in held.user if (Target.USER.value, note) not in known.notes),
        skills=tuple(folder for folder in held.skills if folder.name not in known.skills),
    )
