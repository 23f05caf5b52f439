"""Memory as a session has it, and the verbs about it that every front-end shares."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from msgspec import to_builtins

from hermes.config.environment import with_dotenv
from hermes.config.home import locate_home
from hermes.config.load import load_settings
from hermes.core.errors import HermesError
from hermes.memory.files import Target
from hermes.memory.journal import MemoryJournal, Operation, Origin, change_of, described
from hermes.runtime.actor import SessionActor
from hermes.sessions.app import App
from hermes.sessions.features.memory import memory_journal
from hermes.sessions.formats.openai_format import Plain
from hermes.sessions.secrets import build_redactor
from hermes.store.revisions import Author, Revision
from hermes.store.store import Store
from hermes.util.clock import SystemClock
from hermes.util.text import escaped

PERSON = Origin(author=Author.PERSON)


class MemoryAdmin:
    """Operations of a person on their memories; returns plain rows and lines for a front-end to show."""

    def __init__(self, journal: MemoryJournal) -> None:
        self.journal = journal

    async def list_files(self) -> list[Plain]:
        """List each memory file with its entries, or the reason why it cannot be read."""
        rows: list[Plain] = []
        for target, book in self.journal.books.items():
            row: Plain = {"target": str(target), "file": str(book.path), "limit": book.limit}
            try:
                entries = await self.journal.entries(target)
                row |= {"usage": book.usage(entries), "entries": list(entries), "wrong": ""}
            except HermesError as error:
                row |= {"usage": "", "entries": [], "wrong": str(error)}
            rows.append(row)
        return rows

    async def add_entry(self, target: str, text: str) -> str:
        """Add an entry and return what came of it."""
        return await self._write_operation(target, Operation(action="add", content=text))

    async def remove_entry(self, target: str, words: str) -> str:
        """Remove the entry that holds these words and return what came of it."""
        return await self._write_operation(target, Operation(action="remove", old_text=words))

    async def list_pending(self) -> list[Plain]:
        """List the changes that wait for approval."""
        return [revision_row(one) for one in await self.journal.pending()]

    async def list_log(self) -> list[Plain]:
        """List the newest changes."""
        return [revision_row(one) for one in await self.journal.log()]

    async def approve_change(self, revision_id: int) -> Plain:
        """Approve a pending change."""
        return revision_row(await self.journal.apply(revision_id, "person"))

    async def reject_change(self, revision_id: int) -> Plain:
        """Reject a pending change."""
        return revision_row(await self.journal.reject(revision_id, "person"))

    async def undo_change(self, revision_id: int) -> Plain:
        """Undo an applied change."""
        return revision_row(await self.journal.undo(revision_id, "person"))

    async def _write_operation(self, target: str, operation: Operation) -> str:
        which = Target(target)
        done = await self.journal.write(which, (operation,), PERSON)
        said = f"Change {done.ids[0]}." if done.ids else "That is already there."
        return f"{said} {which.file}: {self.journal.book(which).usage(done.entries)} characters."


def memory_admin(app: App, actor: SessionActor) -> MemoryAdmin:
    """Return what the person whom a live session works for can do with their memories."""
    on, person = app.services, app.live_session(actor).options.person
    return MemoryAdmin(memory_journal(on.home, on.settings, on.store, on.redactor, person=person))


@asynccontextmanager
async def open_desk(environ: Mapping[str, str], *, person: str = "") -> AsyncIterator[MemoryAdmin]:
    """The desk of this home, for a front-end that has no session; of its owner's memories, or of this person's. Makes
    the home when there is none."""
    home = locate_home(environ)
    home.check()
    settings = load_settings(home).settings
    home.ensure()
    redactor = await asyncio.to_thread(build_redactor, with_dotenv(environ, home.env_file), home, settings)
    store = await Store.open(home.root, SystemClock())
    try:
        journal = memory_journal(home, settings, store, redactor, person=person)
        await journal.settle()
        yield MemoryAdmin(journal)
    finally:
        await store.close()


def as_shown(text: str) -> str:
    """A text as a person is shown it: what cannot be seen, or a terminal would obey, is written out."""
    return escaped(text)


def revision_row(revision: Revision) -> Plain:
    """A change as plain values."""
    change = change_of(revision)
    row: Plain = to_builtins(revision, builtin_types=(bytes,))
    row |= {"before": change.before, "after": change.after, "sources": list(revision.sources)}
    return row | {"what": described(change)}
