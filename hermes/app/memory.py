"""Memory as a session has it, and the verbs about it that every front-end shares."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

from msgspec import to_builtins

from hermes.agent.turn import TurnState
from hermes.app.openai_form import Plain
from hermes.app.secrets import redactor_for
from hermes.config.environment import with_dotenv
from hermes.config.home import Home, folder_of, locate_home
from hermes.config.load import load_settings
from hermes.config.settings import Settings
from hermes.context.prompt import PromptSection
from hermes.core.errors import HermesError
from hermes.core.events import Level, TurnEnded
from hermes.core.parts import ImagePart, TextPart
from hermes.memory.files import Change, Notebook, Target
from hermes.memory.journal import KIND, MemoryJournal, Operation, Origin, change_of, described
from hermes.memory.memory import Memory
from hermes.memory.provider import MemoryProvider, TurnStart
from hermes.memory.section import GuidanceSection, MemorySection, ProviderSection
from hermes.memory.tool import memory_tool
from hermes.runtime.actor import SessionActor
from hermes.runtime.mailbox import Inbound
from hermes.safety.secrets import Redactor
from hermes.store.revisions import Author, Revision
from hermes.store.store import Store
from hermes.tools.tool import Tool
from hermes.util.clock import SystemClock
from hermes.util.text import escaped

PERSON = Origin(author=Author.PERSON)


def journal_of(home: Home, settings: Settings, store: Store, redactor: Redactor, *, person: str = "") -> MemoryJournal:
    """The memories of a home: its owner's, or those of a person who talks from a chat."""
    chosen = settings.memory
    folder, lock, kind = home.memories, home.locks / "memory.lock", KIND
    if person:
        name = folder_of(person)
        folder, lock, kind = folder / "people" / name, home.locks / f"memory-{name}.lock", f"{KIND}:{person}"
    limits = {Target.MEMORY: chosen.memory_char_limit}
    if chosen.user_profile_enabled:
        limits[Target.USER] = chosen.user_char_limit
    books = {target: Notebook(target, folder, limit) for target, limit in limits.items()}
    return MemoryJournal(books, store, redactor, lock=lock, kind=kind)


class SessionMemory:
    """What memory is to one session. `chosen` is its provider, or why there is none; None: none is wanted."""

    def __init__(
        self,
        settings: Settings,
        journal: MemoryJournal,
        chosen: tuple[MemoryProvider | None, str] | None,
        *,
        platform: str,
    ) -> None:
        provider, remark = chosen or (None, "")
        self.journal = journal
        self._platform = platform
        self._actor: SessionActor | None = None
        self._waiting = [remark] if remark else []
        """Lines for the person from before there was a session to show them."""
        limits = settings.memory
        self._memory = Memory(provider, seconds=limits.provider_timeout, tell=self._tell) if provider else None
        tool = memory_tool(journal, approval=limits.write_approval, tell=self._tell, wrote=self._wrote)
        self.tools: tuple[Tool, ...] = (tool,)
        if self._memory is not None:
            from hermes.memory.provided import provided_tools

            self.tools = (tool, *provided_tools(self._memory))
        self.sections: tuple[PromptSection, ...] = (
            GuidanceSection(),
            *(MemorySection(book) for book in journal.books.values()),
            ProviderSection(lambda: self._memory.block if self._memory is not None else "", lambda: self._waiting),
        )
        self.needs = {GuidanceSection.name: tool.name}

    async def open(self) -> None:
        """Before the session opens: settle what was left half done, and get the provider ready."""
        await self.journal.settle()
        if self._memory is not None:
            await self._memory.open()

    async def attend(self, actor: SessionActor, stack: AsyncExitStack) -> None:
        """Take part in the session."""
        self._actor = actor
        stack.callback(self._leave)
        memory = self._memory
        if memory is not None:

            async def ended(state: TurnState, end: TurnEnded) -> None:
                await memory.after_turn(state.user.text, end.text)

            actor.on_turn_end.append(ended)
            actor.before_compress.append(memory.pre_compress)
            stack.push_async_callback(memory.close, actor.session_id, actor.conversation.messages)

    def _leave(self) -> None:
        self._actor = None
        self.tools = ()
        self.sections = ()

    async def bring(self, inbound: Inbound) -> Sequence[ImagePart | TextPart]:
        """What the provider recalls about a message."""
        if self._memory is None or self._actor is None:
            return ()
        conversation = self._actor.conversation
        window = conversation.client.endpoint.context_length
        turn = TurnStart(
            remaining_tokens=None if window is None else max(0, window - conversation.lineage.estimated),
            model=conversation.client.endpoint.model,
            platform=self._platform,
            tool_count=len(conversation.frame.tools),
        )

        def known() -> str:
            parts = (part for message in conversation.messages for part in message.parts)
            return "\n".join([inbound.text, *(part.text for part in parts if isinstance(part, TextPart))])

        return await self._memory.bring(inbound.text, turn, known)

    async def _wrote(self, changes: Sequence[Change]) -> None:
        if self._memory is not None:
            await self._memory.wrote(changes)

    def _tell(self, line: str) -> None:
        if self._actor is None:
            self._waiting.append(line)
        else:
            self._actor.notify(Level.WARNING, line)


class MemoryDesk:
    """What a person can do with memories: plain rows and lines for a front-end to show."""

    def __init__(self, journal: MemoryJournal) -> None:
        self.journal = journal

    async def rows(self) -> list[Plain]:
        """Each file with its entries; of one that cannot be read, why."""
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

    async def add(self, target: str, text: str) -> str:
        """Add an entry; what came of it."""
        return await self._written(target, Operation(action="add", content=text))

    async def remove(self, target: str, words: str) -> str:
        """Remove the entry that holds these words; what came of it."""
        return await self._written(target, Operation(action="remove", old_text=words))

    async def pending(self) -> list[Plain]:
        """The changes that wait for a yes."""
        return [revision_row(one) for one in await self.journal.pending()]

    async def log(self) -> list[Plain]:
        """The newest changes."""
        return [revision_row(one) for one in await self.journal.log()]

    async def approve(self, revision_id: int) -> Plain:
        """Say yes."""
        return revision_row(await self.journal.apply(revision_id, "person"))

    async def reject(self, revision_id: int) -> Plain:
        """Say no."""
        return revision_row(await self.journal.reject(revision_id, "person"))

    async def undo(self, revision_id: int) -> Plain:
        """Take a change back."""
        return revision_row(await self.journal.undo(revision_id, "person"))

    async def _written(self, target: str, operation: Operation) -> str:
        which = Target(target)
        done = await self.journal.write(which, (operation,), PERSON)
        said = f"Change {done.ids[0]}." if done.ids else "That is already there."
        return f"{said} {which.file}: {self.journal.book(which).usage(done.entries)} characters."


@asynccontextmanager
async def open_desk(environ: Mapping[str, str], *, person: str = "") -> AsyncIterator[MemoryDesk]:
    """The desk of this home, for a front-end that has no session; of its owner's memories, or of this person's. Makes
    the home when there is none."""
    home = locate_home(environ)
    home.check()
    settings = load_settings(home).settings
    home.ensure()
    redactor = await asyncio.to_thread(redactor_for, with_dotenv(environ, home.env_file), home, settings)
    store = await Store.open(home.root, SystemClock())
    try:
        journal = journal_of(home, settings, store, redactor, person=person)
        await journal.settle()
        yield MemoryDesk(journal)
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
