"""Memory providers: one more memory beside the files, chosen by `memory.provider`; there is at most one.

A built-in one is a file of `providers/` with a function `provider(setup)`; a package's is such a function under the
entry point group `hermes.memory_providers`. `Memory` (`memory/memory.py`) calls it: every call has a time-out, and one
that fails holds nothing up.
"""

import importlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

from msgspec import Struct

from hermes.core.frame import ToolSchema
from hermes.core.messages import Message
from hermes.plugins import builtin_names, load_builtin, load_outside, suggestion
from hermes.store.store import Store


class Setup(Struct, frozen=True, kw_only=True):
    """What a provider is made with, once for each live session. `folder` is its own; it is not made yet."""

    session_id: str
    store: Store
    folder: Path
    platform: str
    environ: Mapping[str, str]


class TurnStart(Struct, frozen=True, kw_only=True):
    """What a provider is told of a turn. `remaining_tokens` is an estimate; None where nobody knows the window."""

    remaining_tokens: int | None
    model: str
    platform: str
    tool_count: int


class Recalled(Struct, frozen=True):
    """What was recalled, best lines first. `sources` are those of strangers' words in it (`web:host`); empty: it is the
    person's own past; None: not known, and so not trusted."""

    text: str
    sources: tuple[str, ...] | None = None


@runtime_checkable
class MemoryProvider(Protocol):
    """The life of a provider: `initialise` first, `shutdown` last, each once; in between in any number the others."""

    name: str

    async def initialise(self) -> None:
        """Get ready. When this fails nothing else is called but `shutdown`."""
        ...

    async def system_prompt_block(self) -> str:
        """What the prompt of the session has of it; asked once, after `initialise`."""
        ...

    def tool_schemas(self) -> Sequence[ToolSchema]:
        """Its tools. Asked before `initialise`: plain data, at once."""
        ...

    async def handle_tool_call(self, name: str, arguments: Mapping[str, object]) -> str:
        """Do what one of its tools is called for. What is raised is told to the model."""
        ...

    async def on_turn_start(self, turn: TurnStart) -> None:
        """A turn is about to begin; `prefetch` follows."""
        ...

    async def prefetch(self, query: str) -> Recalled | None:
        """What it knows about the person's words; it goes into their message, before the first request."""
        ...

    async def after_turn(self, said: str, answered: str) -> None:
        """A turn has ended: what the person said, and the answer."""
        ...

    async def on_pre_compress(self, messages: Sequence[Message]) -> str:
        """These messages are about to be condensed; what the summary should not lose. Before the model is asked."""
        ...

    async def on_memory_write(self, key: str, value: str) -> None:
        """The `memory` tool has written: `memory` or `user`, and the entry as it stands now; empty: it was removed."""
        ...

    async def on_delegation(self, task: str, result: str) -> None:
        """A sub-agent has done a task."""
        ...

    async def on_session_end(self, session_id: str, summary: str) -> None:
        """The session in which something was said is closed; `summary` is its last answer."""
        ...

    async def shutdown(self) -> None:
        """Let go of everything. Those of several sessions are shut down in the reverse of their order."""
        ...


ProviderFactory = Callable[[Setup], MemoryProvider]


def provider_names() -> tuple[str, ...]:
    """The built-in providers."""
    return builtin_names(importlib.import_module("hermes.memory.providers"))


def open_provider(named: str, setup: Setup) -> tuple[MemoryProvider | None, str]:
    """The provider of that name, or None with a line for the person: there is none of it, or it is more than one."""
    wanted = named.replace(",", " ").split()
    if len(wanted) != 1:
        return None, f"`memory.provider` names {len(wanted)} providers; there is at most one, so none is used."
    name = wanted[0]
    package = importlib.import_module("hermes.memory.providers")
    if name in builtin_names(package):
        made: object = load_builtin(package, name).provider(setup)
    else:
        try:
            found = load_outside("memory_providers", name)
            made = found(setup) if callable(found) else found
        except Exception as error:  # noqa: BLE001 - somebody else's code: said, and gone on without
            return None, f"The memory provider {name!r} cannot be used: {type(error).__name__}: {error}."
        if made is None:
            near = suggestion(name, provider_names())
            return None, f"There is no memory provider {name!r}; none is used. {near}".strip()
    if not isinstance(made, MemoryProvider):
        return None, f"{name!r} is not a memory provider of this version; none is used."
    return made, ""
