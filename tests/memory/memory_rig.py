"""What tests of the memories stand on: a folder, a store, and the journal over both."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from hermes.memory.files import MemoryNotebook, MemoryTarget
from hermes.memory.journal import ChangeOrigin, MemoryJournal
from hermes.safety.secrets.redactor import Redactor
from hermes.store.revisions import RevisionAuthor
from hermes.store.store import Store
from hermes.util.clock import SystemClock

MODEL = ChangeOrigin(author=RevisionAuthor.MODEL)
M = MemoryTarget.MEMORY


@asynccontextmanager
async def journal(
    root: Path, *, limit: int = 2_200, secrets: dict[str, str] | None = None
) -> AsyncIterator[MemoryJournal]:
    """A journal over `root`."""
    store = await Store.open(root, SystemClock())
    try:
        yield journal_over(store, root, limit=limit, secrets=secrets)
    finally:
        await store.close()


def journal_over(
    store: Store, root: Path, *, limit: int = 2_200, secrets: dict[str, str] | None = None
) -> MemoryJournal:
    """A journal over a store that is open."""
    books = {target: MemoryNotebook(target, root / "memories", limit) for target in MemoryTarget}
    return MemoryJournal(books, store, Redactor(secrets or {}), lock=root / "run" / "memory.lock")
