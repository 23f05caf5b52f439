"""Memory providers: one more memory beside the files, chosen by `memory.provider`; there is at most one.

A built-in one is a file of `providers/` with a function `provider(setup)`; a package offers such a
function under the entry point group `hermes.memory_providers`. `GuardedMemoryProvider`
(`memory/guarded_provider.py`) calls it:
every call has a timeout, and one that fails holds nothing up.
"""

import importlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

from msgspec import Struct

from hermes.core.errors import ConfigError
from hermes.core.frame import ToolSchema
from hermes.core.messages import Message
from hermes.i18n.messages import N_
from hermes.plugins import list_builtin_names, load_builtin, load_entry_point, suggest_name
from hermes.store.store import Store
from hermes.util.localizable import join_localizable
from hermes.util.renamed import renamed_names


class MemoryProviderSetup(Struct, frozen=True, kw_only=True):
    """What a provider is created with, once for each live session. `folder` is its own; it does not exist yet."""

    session_id: str
    store: Store
    folder: Path
    platform: str
    environ: Mapping[str, str]


class TurnStart(Struct, frozen=True, kw_only=True):
    """What a provider is told of a turn. `remaining_tokens` is an estimate; None when the window is unknown."""

    remaining_tokens: int | None
    model: str
    platform: str
    tool_count: int


class RecalledText(Struct, frozen=True):
    """Recalled text, best lines first.

    `sources` are those of untrusted content in it (`web:host`); empty: it is the user's own past; None:
    unknown, and so not trusted.
    """

    text: str
    sources: tuple[str, ...] | None = None


@runtime_checkable
class MemoryProvider(Protocol):
    """A memory provider. `initialise` is called first, `shutdown` last, each once; in between the others, in any
    number.
    """

    name: str

    async def initialise(self) -> None:
        """Get ready. When this fails nothing else is called but `shutdown`."""
        ...

    async def system_prompt_block(self) -> str:
        """Return the provider's part of the session's prompt; called once, after `initialise`."""
        ...

    def tool_schemas(self) -> Sequence[ToolSchema]:
        """Return the provider's tools. Called before `initialise`: plain data, at once."""
        ...

    async def handle_tool_call(self, name: str, arguments: Mapping[str, object]) -> str:
        """Run one of the provider's tools. What is raised is told to the model."""
        ...

    async def on_turn_start(self, turn: TurnStart) -> None:
        """Note that a turn is about to begin; `prefetch` follows."""
        ...

    async def prefetch(self, query: str) -> RecalledText | None:
        """Return what it knows about the user's words; it goes into their message, before the first request."""
        ...

    async def after_turn(self, said: str, answered: str) -> None:
        """Note that a turn has ended: what the user said, and the answer."""
        ...

    async def on_pre_compress(self, messages: Sequence[Message]) -> str:
        """Return what a summary of these messages should not lose; they are about to be condensed.

        Called before the model is asked.
        """
        ...

    async def on_memory_write(self, key: str, value: str) -> None:
        """Note what the `memory` tool has written: `memory` or `user`, and the entry as it is now; empty: it was
        removed.
        """
        ...

    async def on_delegation(self, task: str, result: str) -> None:
        """Note that a sub-agent has done a task."""
        ...

    async def on_session_end(self, session_id: str, summary: str) -> None:
        """Note that the session in which something was said is closed; `summary` is its last answer."""
        ...

    async def shutdown(self) -> None:
        """Release everything. Those of several sessions are shut down in the reverse of their order."""
        ...


def list_memory_providers() -> tuple[str, ...]:
    """Return the names of the built-in providers."""
    return list_builtin_names(importlib.import_module("hermes.memory.providers"))


def open_memory_provider(named: str, setup: MemoryProviderSetup) -> tuple[MemoryProvider | None, str]:
    """Open the provider of that name, or return None with a line for the user when there is none or more than one."""
    wanted = named.replace(",", " ").split()
    if len(wanted) != 1:
        return None, N_(
            "`memory.provider` names {wanted} providers; there is at most one, so none is used.", wanted=len(wanted)
        )
    name = wanted[0]
    package = importlib.import_module("hermes.memory.providers")
    if name in list_builtin_names(package):
        made: object = load_builtin(package, name).provider(setup)
    else:
        try:
            found = load_entry_point("memory_providers", name)
            made = found(setup) if callable(found) else found
        except ConfigError as error:
            return None, join_localizable(" ", (error.message, error.hint))
        except Exception as error:  # noqa: BLE001 - somebody else's code: said, and gone on without
            return None, N_(
                "The memory provider {name} cannot be used: {name_2}: {error}.",
                name=repr(name),
                name_2=type(error).__name__,
                error=error,
            )
        if made is None:
            near = suggest_name(name, list_memory_providers())
            missing = N_("There is no memory provider {name}; none is used.", name=repr(name))
            return None, join_localizable(" ", (missing, near))
    if not isinstance(made, MemoryProvider):
        return None, N_("{name} is not a memory provider of this version; none is used.", name=repr(name))
    return made, ""


__getattr__ = renamed_names(__name__)
