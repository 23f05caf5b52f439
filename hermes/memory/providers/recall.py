"""The `recall` provider: messages of other sessions about the user's words, from the store's own search.

No model is asked. It brings the user's own words, and answers from sessions without untrusted content:
what comes unasked must not taint a conversation. `session_search` finds the rest.
"""

import time
from collections.abc import Mapping, Sequence

from hermes.core.errors import ToolError
from hermes.core.frame import ToolSchema
from hermes.core.messages import Message, Role
from hermes.memory.provider import MemoryProviderSetup, RecalledText, TurnStart
from hermes.store.records import SearchHit, SearchQuery
from hermes.util.text import to_one_line

MAX_LINES = 5
_HITS = 40
_LINE = 280
_SHORTEST = 8
"""Characters of a message that says something to look for."""


class RecallProvider:
    """Searches the store. Stores nothing itself: the store has every conversation anyway."""

    name = "recall"

    def __init__(self, setup: MemoryProviderSetup) -> None:
        self._store = setup.store
        self._session_id = setup.session_id
        self._recalled_ids: set[int] = set()

    async def initialise(self) -> None:
        """Do nothing: the store is open."""

    async def system_prompt_block(self) -> str:
        """Return nothing: what is recalled stands with the words that it is about."""
        return ""

    def tool_schemas(self) -> Sequence[ToolSchema]:
        """Return no tools: `session_search` exists."""
        return ()

    async def handle_tool_call(self, name: str, arguments: Mapping[str, object]) -> str:
        """Raise ToolError: it has no tools."""
        raise ToolError(f"{self.name} has no tool {name} ({len(arguments)} arguments).")

    async def on_turn_start(self, turn: TurnStart) -> None:
        """Do nothing."""

    async def prefetch(self, query: str) -> RecalledText | None:
        """Return the best messages of other sessions, a line each."""
        if len(query.strip()) < _SHORTEST:
            return None
        search = SearchQuery(query=query, limit=_HITS, newest=False, roles=(Role.USER, Role.ASSISTANT), person="")
        found = await self._store.search.run_query(search)
        hits = [hit for hit in found if hit.session_id != self._session_id and hit.message_id not in self._recalled_ids]
        lines: dict[str, None] = {}
        clean: dict[str, bool] = {}
        for hit in hits:
            if hit.role is Role.ASSISTANT and hit.session_id not in clean:
                clean[hit.session_id] = not await self._store.messages.list_untrusted_sources([hit.session_id])
            if hit.role is Role.USER or clean[hit.session_id]:
                lines[_format_hit(hit)] = None
                self._recalled_ids.add(hit.message_id)
            if len(lines) == MAX_LINES:
                break
        return RecalledText("\n".join(lines), ()) if lines else None

    async def after_turn(self, said: str, answered: str) -> None:
        """Do nothing: the store has it."""

    async def on_pre_compress(self, messages: Sequence[Message]) -> str:
        """Return nothing: originals stay in the store."""
        return ""

    async def on_memory_write(self, key: str, value: str) -> None:
        """Do nothing."""

    async def on_delegation(self, task: str, result: str) -> None:
        """Do nothing."""

    async def on_session_end(self, session_id: str, summary: str) -> None:
        """Do nothing."""

    async def shutdown(self) -> None:
        """Do nothing: the store is closed by its owner."""


def provider(setup: MemoryProviderSetup) -> RecallProvider:
    """Return the provider for one session."""
    return RecallProvider(setup)


def _format_hit(hit: SearchHit) -> str:
    day = time.strftime("%Y-%m-%d", time.localtime(hit.created_at))
    who = "the person" if hit.role is Role.USER else "you"
    return f"- {day}, session {hit.session_id}, {who}: {to_one_line(hit.snippet, _LINE)}"
