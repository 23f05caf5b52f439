"""`recall`: what was said in other sessions about the person's words, from the store's own search. No model is asked.

It brings the person's own words, and answers from sessions in which no stranger's words stood: what comes unasked must
not make a conversation suspect. `session_search` finds the rest.
"""

import time
from collections.abc import Mapping, Sequence

from hermes.core.errors import ToolError
from hermes.core.frame import ToolSchema
from hermes.core.messages import Message, Role
from hermes.memory.provider import Recalled, Setup, TurnStart
from hermes.store.rows import Hit, Search
from hermes.util.text import one_line

MOST = 5
_HITS = 40
_LINE = 280
_SHORTEST = 8
"""Characters of a message that says something to look for."""


class Recall:
    """Looks into the store. Keeps nothing itself: the store keeps every conversation anyway."""

    name = "recall"

    def __init__(self, setup: Setup) -> None:
        self._store = setup.store
        self._session_id = setup.session_id
        self._brought: set[int] = set()

    async def initialise(self) -> None:
        """Nothing to do: the store is open."""

    async def system_prompt_block(self) -> str:
        """Nothing: what is recalled stands with the words that it is about."""
        return ""

    def tool_schemas(self) -> Sequence[ToolSchema]:
        """None: `session_search` is there."""
        return ()

    async def handle_tool_call(self, name: str, arguments: Mapping[str, object]) -> str:
        """It has no tools. Raises ToolError."""
        raise ToolError(f"{self.name} has no tool {name} ({len(arguments)} arguments).")

    async def on_turn_start(self, turn: TurnStart) -> None:
        """Nothing to do."""

    async def prefetch(self, query: str) -> Recalled | None:
        """The best messages of other sessions, a line each."""
        if len(query.strip()) < _SHORTEST:
            return None
        search = Search(query=query, limit=_HITS, newest=False, roles=(Role.USER, Role.ASSISTANT), person="")
        found = await self._store.find(search)
        hits = [hit for hit in found if hit.session_id != self._session_id and hit.message_id not in self._brought]
        lines: dict[str, None] = {}
        clean: dict[str, bool] = {}
        for hit in hits:
            if hit.role is Role.ASSISTANT and hit.session_id not in clean:
                clean[hit.session_id] = not await self._store.strangers([hit.session_id])
            if hit.role is Role.USER or clean[hit.session_id]:
                lines[_line(hit)] = None
                self._brought.add(hit.message_id)
            if len(lines) == MOST:
                break
        return Recalled("\n".join(lines), ()) if lines else None

    async def after_turn(self, said: str, answered: str) -> None:
        """Nothing to do: the store has it."""

    async def on_pre_compress(self, messages: Sequence[Message]) -> str:
        """Nothing: originals stay in the store."""
        return ""

    async def on_memory_write(self, key: str, value: str) -> None:
        """Nothing to do."""

    async def on_delegation(self, task: str, result: str) -> None:
        """Nothing to do."""

    async def on_session_end(self, session_id: str, summary: str) -> None:
        """Nothing to do."""

    async def shutdown(self) -> None:
        """Nothing to do: the store is closed by its owner."""


def provider(setup: Setup) -> Recall:
    """The provider for one session."""
    return Recall(setup)


def _line(hit: Hit) -> str:
    day = time.strftime("%Y-%m-%d", time.localtime(hit.created_at))
    who = "the person" if hit.role is Role.USER else "you"
    return f"- {day}, session {hit.session_id}, {who}: {one_line(hit.snippet, _LINE)}"
