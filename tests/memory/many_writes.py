"""A process that writes many entries into one home: `many_writes.py ROOT NAME COUNT`."""

import asyncio
import sys
from pathlib import Path

from hermes.memory.files import MemoryNotebook, MemoryTarget
from hermes.memory.journal import ChangeOrigin, MemoryJournal, MemoryOperation
from hermes.safety.secrets.redactor import Redactor
from hermes.store.revisions import RevisionAuthor
from hermes.store.store import Store
from hermes.util.clock import SystemClock


async def main(root: Path, name: str, count: int) -> None:
    store = await Store.open(root, SystemClock())
    books = {MemoryTarget.MEMORY: MemoryNotebook(MemoryTarget.MEMORY, root / "memories", 100_000)}
    memories = MemoryJournal(books, store, Redactor({}), lock=root / "run" / "memory.lock")
    for number in range(count):
        add = MemoryOperation(action="add", content=f"{name} saw {number}")
        await memories.write_operations(MemoryTarget.MEMORY, (add,), ChangeOrigin(author=RevisionAuthor.MODEL))
    await store.close()


asyncio.run(main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])))
