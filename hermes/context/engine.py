"""Context engines: what keeps a conversation within its model's window.

One is chosen by `context.engine`, and none works without being named there. A built-in one is a file of `engines/` with
a function `engine(setup)`; a package's is such a function under the entry point group `hermes.context_engines`.
"""

import importlib
from collections.abc import Awaitable, Callable, Sequence
from enum import StrEnum
from typing import Protocol, runtime_checkable

from msgspec import Struct

from hermes.config.settings import CompressionSettings
from hermes.core.messages import Message
from hermes.llm.auxiliary import SideTask
from hermes.llm.exchange import Emit
from hermes.plugins import builtin_names, load_builtin, load_outside, suggestion
from hermes.store.rows import StoredMessage
from hermes.store.store import Store
from hermes.tools.tool import Tool
from hermes.util.clock import Clock

DEFAULT = "compressor"
UNKNOWN_WINDOW = 256_000
"""Tokens that budgets are reckoned from where nobody knows the model's window."""


class Trigger(StrEnum):
    """Why a conversation is to be made shorter."""

    PREFLIGHT = "preflight"
    """The next request would pass the threshold; it can still be sent as it is."""
    OVERFLOW = "overflow"
    """The provider refused the request as too long: without a shorter one the turn ends."""
    ASKED = "asked"
    """The person wants it."""


class Load(Struct, frozen=True):
    """How full the window is. `estimated` is reckoned from bytes; `counted` goes by what the provider counted last."""

    estimated: int
    counted: int | None
    window: int | None
    """Tokens of the window; None where nobody knows."""
    frame: int = 0
    """The part of `estimated` that system prompt and tools are."""


class Occasion(Struct, frozen=True, kw_only=True):
    """Everything that an engine decides from. Rows are in the order of the conversation."""

    rows: tuple[StoredMessage, ...]
    """What stands now, and the originals that something stands for; what was undone is left out."""
    made: frozenset[int]
    """Ids of rows that stand for others."""
    memo: bytes
    """What the engine noted at the last compaction that was not undone; empty: nothing yet."""
    load: Load
    trigger: Trigger
    turn_id: str = ""
    """The turn that runs."""
    searchable: bool = False
    """Whether the model has `session_search`, and so can look at the originals itself."""
    remember: Callable[[Sequence[Message]], Awaitable[str]]
    """Called with the messages that are about to be covered, before a model is asked: lets memory keep what it wants
    of them, and gives what it wants to have kept in mind."""


class Change(Struct, frozen=True):
    """A message that is to stand for others, whose ids are given; as part of a turn, where it replaces one of its."""

    covered: tuple[int, ...]
    message: Message
    turn_id: str | None = None


class Compaction(Struct, frozen=True, kw_only=True):
    """What is to be changed, all or nothing."""

    changes: tuple[Change, ...]
    memo: bytes = b""
    """Noted for the next time: ids and numbers, no words of the conversation."""
    notice: str = ""
    """What the person should know besides."""
    warning: bool = False
    """Whether that is a warning."""


class Kept(Struct, frozen=True):
    """Nothing is changed, and why."""

    reason: str


@runtime_checkable
class ContextEngine(Protocol):
    """Decides when a conversation is made shorter, and how. One for each live session."""

    name: str

    def on_usage(self, counted: int, estimated: int) -> None:
        """A provider has counted `counted` tokens of a request that was estimated at `estimated`."""
        ...

    def should_compress(self, load: Load) -> bool:
        """Whether to make it shorter before the next request. Asked before each one: cheap, and without looking at
        messages."""
        ...

    async def compress(self, occasion: Occasion, emit: Emit) -> Compaction | Kept:
        """What is to stand for what. Changes nothing itself; cancelled, it leaves everything as it was.

        Never splits a group of calls and results. Never raises for what a model or a provider does wrong.
        """
        ...

    def tools(self) -> Sequence[Tool]:
        """Tools of its own; deferred ones cost nothing in the fixed array."""
        ...


class Setup(Struct, frozen=True, kw_only=True):
    """What an engine is made with."""

    settings: CompressionSettings
    store: Store
    session_id: str
    condensing: SideTask
    """Who is asked for summaries."""
    clock: Clock


EngineFactory = Callable[[Setup], ContextEngine]


def engine_names() -> tuple[str, ...]:
    """The built-in engines."""
    return builtin_names(importlib.import_module("hermes.context.engines"))


def open_engine(name: str, setup: Setup) -> tuple[ContextEngine, str]:
    """The engine of that name; the built-in one and a line for the person when there is none."""
    package = importlib.import_module("hermes.context.engines")
    wanted = name or DEFAULT
    if wanted in builtin_names(package):
        return load_builtin(package, wanted).engine(setup), ""
    remark = f"There is no context engine {wanted!r}; the built-in one is used. {suggestion(wanted, engine_names())}"
    found = load_outside("context_engines", wanted)
    if found is not None and callable(found):
        made = found(setup)
        if isinstance(made, ContextEngine):
            return made, ""
        remark = f"{wanted!r} is not a context engine of this version; the built-in one is used."
    return load_builtin(package, DEFAULT).engine(setup), remark.strip()
