"""The todo list of a session, stored with it: compressions, restarts and kills leave it, and a branch begins with it."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import msgspec

from hermes.core.encoding import to_json
from hermes.tools.session import Todo

if TYPE_CHECKING:
    from hermes.store.todo_lists import TodoRepository


class StoredTodoList:
    """A session's steps in the database; the table is reached when a model uses them first."""

    def __init__(self, open_repository: "Callable[[], TodoRepository]", session_id: str) -> None:
        self._open_repository = open_repository
        self._session_id = session_id

    async def read_items(self) -> list[Todo]:
        """Return the steps, in order."""
        stored = await self._open_repository().get(self._session_id)
        return msgspec.json.decode(stored, type=list[Todo]) if stored is not None else []

    async def replace_items(self, items: Sequence[Todo]) -> None:
        """Store these steps in the place of all others."""
        await self._open_repository().replace(self._session_id, to_json(list(items)))
