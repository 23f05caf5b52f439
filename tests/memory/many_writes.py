"""A process that writes many entries into one home: `many_writes.py ROOT NAME COUNT`."""

import asyncio
import sys
from pathlib import Path

from hermes.memory.files import Notebook, Target
from hermes.memory.journal import MemoryJournal, Operation, Origin
from hermes.safety.secrets.redactor import Redactor
from hermes.store.revisions import Author
from hermes.store.store import Store
from hermes.util.clock import SystemClock


async def main(root: Path, name: str, count: int) -> None:
    store = await Store.open(root, SystemClock())
    books = {Target.MEMORY: Notebook(Target.MEMORY, root / "memories", 100_000)}
    memories = MemoryJournal(books, store, Redactor({}), lock=root / "run" / "memory.lock")
    for number in range(count):
        add = Operation(action="add", content=f"{name} saw {number}")
        await memories.write(Target.MEMORY, (add,), Origin(author=Author.MODEL))
    await store.close()


asyncio.run(main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])))
