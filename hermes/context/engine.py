"""Context engines keep a conversation within its model's window.

One is chosen by `context.engine`; none is used without being named there. A built-in engine is a file
of `engines/` with a function `engine(setup)`; a package offers such a function under the entry point
group `hermes.context_engines`.
"""

import importlib
from collections.abc import Awaitable, Callable, Sequence
from enum import StrEnum
from typing import Protocol, runtime_checkable

from msgspec import Struct

from hermes.config.settings import CompressionSettings
from hermes.core.errors import ConfigError
from hermes.core.messages import Message
from hermes.llm.client import SideTask
from hermes.llm.exchange import Emit
from hermes.plugins import list_builtin_names, load_builtin, load_entry_point, suggest_name
from hermes.store.records import StoredMessage
from hermes.store.store import Store
from hermes.tools.tool import Tool
from hermes.util.clock import Clock
from hermes.util.localizable import join_localizable
from hermes.util.renamed import renamed_names

DEFAULT_ENGINE = "compressor"
ASSUMED_WINDOW = 256_000
"""Tokens that budgets are computed from when the model's window is unknown."""

SEARCH_TOOL = "session_search"
"""The tool that finds and reads earlier messages, condensed or not."""


class CompactionTrigger(StrEnum):
    """The reason why a conversation is to be made shorter."""

    PREFLIGHT = "preflight"
    """The next request would pass the threshold; it can still be sent as it is."""
    OVERFLOW = "overflow"
    """The provider refused the request as too long: without a shorter one the turn ends."""
    ASKED = "asked"
    """The person wants it."""


class ContextLoad(Struct, frozen=True):
    """How full the window is. `estimated` is computed from bytes; `counted` builds on the provider's last count."""

    estimated: int
    counted: int | None
    window: int | None
    """Tokens of the window; None when it is unknown."""
    frame: int = 0
    """The part of `estimated` that the system prompt and the tools take."""


class CompactionWish(Struct, frozen=True, kw_only=True):
    """How the person wants a conversation to be condensed; without fields it is left to the engine."""

    kept_turns: int | None = None
    """The newest turns that stay as they are, while everything before them is condensed."""
    topic: str = ""
    """What the notes should say most about."""

    @property
    def is_given(self) -> bool:
        """Whether anything is wanted."""
        return self.kept_turns is not None or bool(self.topic)


NO_WISH = CompactionWish()


class CompactionPreview(Struct, frozen=True, kw_only=True):
    """What a compaction would do. Tokens are estimates, of the messages alone."""

    before: int
    after: int
    messages: int = 0
    """Messages that a record with notes would replace."""
    first: int = 0
    last: int = 0
    """The numbers of the first and the last of them."""
    cleared: int = 0
    """Old results that would be cleared, where that is enough."""


class CompactionRequest(Struct, frozen=True, kw_only=True):
    """Everything that an engine decides from. Rows are in the order of the conversation."""

    rows: tuple[StoredMessage, ...]
    """The active messages, and the originals that a replacement covers; undone messages are left out."""
    replacement_ids: frozenset[int]
    """Ids of rows that replace others."""
    memo: bytes
    """What the engine noted at the last compaction that was not undone; empty when there is none yet."""
    load: ContextLoad
    trigger: CompactionTrigger
    turn_id: str = ""
    """The running turn."""
    searchable: bool = False
    """Whether the model has `session_search`, and so can look at the originals itself."""
    wish: CompactionWish = CompactionWish()
    """How the person wants it, with `CompactionTrigger.ASKED`."""
    remember: Callable[[Sequence[Message]], Awaitable[str]]
    """Called with the messages that are about to be covered, before a model is asked: memory keeps what it
    wants of them, and returns what the summary should not lose.
    """


class MessageReplacement(Struct, frozen=True):
    """A message that replaces others, whose ids are given. With a `turn_id` it replaces a message of that turn."""

    covered: tuple[int, ...]
    message: Message
    turn_id: str | None = None


class Compaction(Struct, frozen=True, kw_only=True):
    """The changes of one compaction, applied all or nothing."""

    changes: tuple[MessageReplacement, ...]
    memo: bytes = b""
    """A note for the next compaction: ids and numbers, no text of the conversation."""
    notice: str = ""
    """What the user is told besides."""
    warning: bool = False
    """Whether `notice` is a warning."""


class NoCompaction(Struct, frozen=True):
    """Nothing is changed; `reason` says why."""

    reason: str


@runtime_checkable
class ContextEngine(Protocol):
    """Decides when a conversation is made shorter, and how. There is one for each live session."""

    name: str

    def on_usage(self, counted: int, estimated: int) -> None:
        """Note that a provider counted `counted` tokens for a request that was estimated at `estimated`."""
        ...

    def should_compress(self, load: ContextLoad) -> bool:
        """Return whether to make the conversation shorter before the next request.

        Called before each request: it must be cheap and must not look at messages.
        """
        ...

    async def compress(self, occasion: CompactionRequest, emit: Emit) -> Compaction | NoCompaction:
        """Decide which messages are replaced by what.

        Changes nothing itself; when cancelled, everything is as it was. Never splits a group of calls and
        results. Never raises for what a model or a provider does wrong.
        """
        ...

    def tools(self) -> Sequence[Tool]:
        """Return the engine's own tools; deferred ones cost nothing in the fixed array."""
        ...


@runtime_checkable
class PreviewingEngine(Protocol):
    """An engine that can say beforehand what it would do; others need not."""

    async def preview(self, occasion: CompactionRequest) -> CompactionPreview | NoCompaction:
        """Return what `compress` would change. No model is asked, and nothing changes."""
        ...


class EngineSetup(Struct, frozen=True, kw_only=True):
    """The dependencies that an engine is created with."""

    settings: CompressionSettings
    store: Store
    session_id: str
    summary_task: SideTask
    """The side task that writes summaries."""
    clock: Clock


EngineFactory = Callable[[EngineSetup], ContextEngine]


def list_engine_names() -> tuple[str, ...]:
    """Return the names of the built-in engines."""
    return list_builtin_names(importlib.import_module("hermes.context.engines"))


def open_engine(name: str, setup: EngineSetup) -> tuple[ContextEngine, str]:
    """Open the engine of that name; when there is none, the built-in one with a line for the user."""
    package = importlib.import_module("hermes.context.engines")
    wanted = name or DEFAULT_ENGINE
    if wanted in list_builtin_names(package):
        return load_builtin(package, wanted).engine(setup), ""
    remark = (
        f"There is no context engine {wanted!r}; the built-in one is used. {suggest_name(wanted, list_engine_names())}"
    )
    found: object | None = None
    try:
        found = load_entry_point("context_engines", wanted)
    except ConfigError as error:
        remark = join_localizable(" ", (error.message, error.hint))
    if found is not None and callable(found):
        made = found(setup)
        if isinstance(made, ContextEngine):
            return made, ""
        remark = f"{wanted!r} is not a context engine of this version; the built-in one is used."
    return load_builtin(package, DEFAULT_ENGINE).engine(setup), remark.strip()


__getattr__ = renamed_names(__name__)
