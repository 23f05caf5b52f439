"""The memory of a session, and the operations on memories that every front-end shares."""

from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from hermes.agent.turn import TurnState
from hermes.config.home import HermesHome, person_folder_name
from hermes.config.settings import Settings
from hermes.context.prompt import PromptSection
from hermes.core.events import Level, TurnEnded
from hermes.core.messages import ImagePart, TextPart
from hermes.memory.files import (
    EntryChange,
    MemoryFileSection,
    MemoryGuidanceSection,
    MemoryNotebook,
    MemoryProviderSection,
    MemoryTarget,
)
from hermes.memory.journal import KIND, MemoryJournal
from hermes.runtime.actor import SessionActor
from hermes.runtime.mailbox import InboundMessage
from hermes.safety.secrets.redactor import Redactor
from hermes.store.store import Store
from hermes.tools.registry import KnownTool, list_session_tools

if TYPE_CHECKING:
    from hermes.memory.guarded_provider import GuardedMemoryProvider
    from hermes.memory.provider import MemoryProvider
    from hermes.tools.tool import Tool


def memory_journal(
    home: HermesHome, settings: Settings, store: Store, redactor: Redactor, *, person: str = ""
) -> MemoryJournal:
    """Return the memory journal of a home: its owner's, or that of a person who talks from a chat."""
    chosen = settings.memory
    folder, lock, kind = home.memories, home.locks / "memory.lock", KIND
    if person:
        name = person_folder_name(person)
        folder, lock, kind = folder / "people" / name, home.locks / f"memory-{name}.lock", f"{KIND}:{person}"
    limits = {MemoryTarget.MEMORY: chosen.memory_char_limit}
    if chosen.user_profile_enabled:
        limits[MemoryTarget.USER] = chosen.user_char_limit
    books = {target: MemoryNotebook(target, folder, limit) for target, limit in limits.items()}
    return MemoryJournal(books, store, redactor, lock=lock, kind=kind)


class SessionMemory:
    """Memory as one session uses it.

    `chosen` is its provider, or the reason why there is none; None means that no provider is wanted.
    """

    def __init__(
        self,
        settings: Settings,
        journal: MemoryJournal,
        chosen: "tuple[MemoryProvider | None, str] | None",
        *,
        platform: str,
    ) -> None:
        provider, remark = chosen or (None, "")
        self.journal = journal
        self._platform = platform
        self._actor: SessionActor | None = None
        self._pending_lines = [remark] if remark else []
        """Lines for the user from before there was a session to show them."""
        limits = settings.memory
        self._memory = self._guard_provider(provider, limits.provider_timeout) if provider is not None else None

        def build_tools() -> "Sequence[Tool]":
            from hermes.memory.tool import build_memory_tool

            return (
                build_memory_tool(
                    journal, approval=limits.write_approval, notify_user=self._tell, on_written=self._notify_provider
                ),
            )

        self.tools: tuple[KnownTool, ...] = list_session_tools(("memory",), build_tools)
        if self._memory is not None:
            from hermes.memory.guarded_provider import build_provider_tools

            self.tools = (*self.tools, *build_provider_tools(self._memory))
        self.sections: tuple[PromptSection, ...] = (
            MemoryGuidanceSection(),
            *(MemoryFileSection(book) for book in journal.notebooks.values()),
            MemoryProviderSection(
                lambda: self._memory.prompt_block if self._memory is not None else "", lambda: self._pending_lines
            ),
        )
        self.needs = {MemoryGuidanceSection.name: "memory"}

    def _guard_provider(self, provider: "MemoryProvider", seconds: float) -> "GuardedMemoryProvider":
        from hermes.memory.guarded_provider import GuardedMemoryProvider

        return GuardedMemoryProvider(provider, seconds=seconds, notify_user=self._tell)

    async def open(self) -> None:
        """Settle half-finished changes and open the provider, before the session opens."""
        await self.journal.settle_interrupted()
        if self._memory is not None:
            await self._memory.open_provider()

    async def notify_delegation(self, task: str, answer: str) -> None:
        """Tell the provider what a sub-agent was asked, and what it answered."""
        if self._memory is not None:
            await self._memory.notify_delegation(task, answer)

    async def attach_to_session(self, actor: SessionActor, stack: AsyncExitStack) -> None:
        """Register the memory's hooks with the live session."""
        self._actor = actor
        stack.callback(self._detach_session)
        memory = self._memory
        if memory is not None:

            async def after_turn(state: TurnState, end: TurnEnded) -> None:
                await memory.after_turn(state.user.text, end.text)

            actor.on_turn_end.append(after_turn)
            actor.before_compress.append(memory.pre_compress)
            stack.push_async_callback(memory.close_session, actor.session_id, actor.conversation.messages)

    def _detach_session(self) -> None:
        self._actor = None
        self.tools = ()
        self.sections = ()

    async def recall_for_message(self, inbound: InboundMessage) -> Sequence[ImagePart | TextPart]:
        """Return what the provider recalls about a message."""
        if self._memory is None or self._actor is None:
            return ()
        from hermes.memory.provider import TurnStart

        conversation = self._actor.conversation
        window = conversation.client.endpoint.context_length
        turn = TurnStart(
            remaining_tokens=None if window is None else max(0, window - conversation.lineage.estimated_tokens),
            model=conversation.client.endpoint.model,
            platform=self._platform,
            tool_count=len(conversation.frame.tools),
        )

        def conversation_text() -> str:
            parts = (part for message in conversation.messages for part in message.parts)
            return "\n".join([inbound.text, *(part.text for part in parts if isinstance(part, TextPart))])

        return await self._memory.recall_for_message(inbound.text, turn, conversation_text)

    async def _notify_provider(self, changes: Sequence[EntryChange]) -> None:
        if self._memory is not None:
            await self._memory.notify_writes(changes)

    def _tell(self, line: str) -> None:
        if self._actor is None:
            self._pending_lines.append(line)
        else:
            self._actor.notify(Level.WARNING, line)
