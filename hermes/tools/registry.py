"""Which tools exist, and which of them a session has.

A built-in tool is found by its file: `builtin/read_file.py` holds `read_file`, and a file of a family holds every tool
whose name begins with the file's (`browser.py`: `browser_click` ...). Nothing is imported before it is selected.
"""

import importlib
import pkgutil
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

from hermes.core.errors import ConfigError
from hermes.core.frame import ToolSchema
from hermes.tools import toolsets
from hermes.tools.calls import repair_name
from hermes.tools.session import Found
from hermes.tools.tool import Tool
from hermes.tools.toolsets import Toolset

BRIDGES = ("tool_search", "tool_call")
"""Offered only when there is something to find with them."""
_BUILTIN = "hermes.tools.builtin"
_SUGGESTED = 40


@cache
def _builtin_files() -> Mapping[str, str]:
    """Where each file of built-in tools is imported from, by its name; they come with the program and stay."""
    folder = Path(__file__).with_name("builtin")
    return {module.name: f"{_BUILTIN}.{module.name}" for module in pkgutil.iter_modules([str(folder)])}


@cache
def _unnamed() -> tuple[str, ...]:
    """The files that no set names: they say themselves where they belong."""
    named = {tool for toolset in toolsets.TOOLSETS.values() for tool in toolset.tools}
    return tuple(
        module
        for module in _builtin_files()
        if not any(tool == module or tool.startswith(module + "_") for tool in named)
    )


@cache
def _tools_of(path: str) -> Mapping[str, Tool]:
    """The tools in a file of built-in ones, which is imported."""
    return {value.name: value for value in vars(importlib.import_module(path)).values() if isinstance(value, Tool)}


class Registry:
    """Every tool that exists: built-ins by folder scan, the rest as their owners register them."""

    def __init__(self) -> None:
        self._modules = _builtin_files()
        self._tools: dict[str, Tool] = {}
        self._loaded: set[str] = set()

    def register(self, tool: Tool) -> None:
        """Add a tool. Raises `ConfigError` when the name is taken."""
        if tool.name in self._tools or self._module_of(tool.name) not in (None, *self._loaded):
            raise ConfigError(f"Two tools are called {tool.name!r}.", "Rename one of them.")
        self._tools[tool.name] = tool

    def deregister(self, name: str) -> None:
        """Take a tool out, if it is there."""
        self._tools.pop(name, None)

    def builtins(self) -> list[str]:
        """The files of the built-in tools."""
        return sorted(self._modules)

    def get(self, name: str) -> Tool | None:
        """The tool of that name; its file is imported if need be."""
        tool = self._tools.get(name)
        module = self._module_of(name)
        if tool is None and module is not None and module not in self._loaded:
            self._load(module)
            tool = self._tools.get(name)
        return tool

    def sets(self) -> dict[str, Toolset]:
        """The named sets, with what files and owners have added to them."""
        for module in _unnamed():
            self._load(module)
        merged = dict(toolsets.TOOLSETS)
        for tool in self._tools.values():
            known = merged.get(tool.toolset, Toolset())
            if tool.name not in known.tools:
                merged[tool.toolset] = Toolset(tools=(*known.tools, tool.name), includes=known.includes)
        return merged

    def select(
        self,
        enabled: Sequence[str] = toolsets.DEFAULT,
        disabled: Sequence[str] = (),
        settings: Mapping[str, str] | None = None,
        *,
        more: bool = False,
    ) -> "Toolbox":
        """The tools of a session. Raises `ConfigError` for a toolset that does not exist.

        `more` says that deferred ones will be put into the toolbox later.
        """
        sets = self.sets()
        unknown = [name for name in (*enabled, *disabled) if name not in sets and name not in toolsets.EVERYTHING]
        if unknown:
            raise ConfigError(f"There is no toolset {unknown[0]!r}.", self._instead_of(unknown[0], settings))
        return self._toolbox(toolsets.select(enabled, disabled, sets), settings or {}, more=more)

    def _toolbox(self, names: Sequence[str], settings: Mapping[str, str], *, more: bool) -> "Toolbox":
        found = [tool for name in names if name not in BRIDGES and (tool := self.get(name)) is not None]
        tools = [tool for tool in found if tool.available(settings)]
        if more or any(tool.deferred for tool in tools):
            tools += [tool for name in BRIDGES if (tool := self.get(name)) is not None]
        return Toolbox(tools)

    def empty(self, names: Sequence[str], settings: Mapping[str, str] | None = None) -> list[str]:
        """Those of the named sets that hold no tool in this version."""
        return [name for name in names if not self.select((name,), settings=settings).size]

    def filled(self, settings: Mapping[str, str] | None = None) -> str:
        """A sentence that lists the sets that hold tools in this version, those of the platforms left out."""
        names = sorted(set(self.sets()) - set(self.empty(list(self.sets()), settings)))
        return f"Sets with tools are: {', '.join(name for name in names if not name.startswith('hermes-'))}."

    def _instead_of(self, name: str, settings: Mapping[str, str] | None) -> str:
        import difflib

        near = difflib.get_close_matches(name, self.sets(), n=3)
        meant = [other for other in near if other not in self.empty(near, settings)]
        return (f"Did you mean {meant[0]!r}? " if meant else "") + self.filled(settings)

    def _module_of(self, name: str) -> str | None:
        """The built-in file that holds a tool: of that name, else the longest that the name begins with."""
        while name:
            if name in self._modules:
                return name
            name = name.rpartition("_")[0]
        return None

    def _load(self, module: str) -> None:
        if module in self._loaded:
            return
        self._loaded.add(module)
        self._tools.update(_tools_of(self._modules[module]))


class Toolbox:
    """The tools of one session: a fixed array that the model sees, and deferred ones that it can find."""

    def __init__(self, tools: Iterable[Tool]) -> None:
        self._tools = {tool.name: tool for tool in tools}
        self.late: Callable[[], Awaitable[str]] | None = None
        """Waits for deferred tools that are still to come, and says what is missing."""

    def put(self, toolset: str, tools: Iterable[Tool]) -> None:
        """Have these deferred tools, and no others, in a set; a name that another set has stays what it is."""
        kept = {name: tool for name, tool in self._tools.items() if tool.toolset != toolset}
        fresh = {tool.name: tool for tool in tools if tool.deferred and tool.toolset == toolset}
        self._tools = {**dict(sorted(fresh.items())), **kept}

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._tools.values())

    def become(self, tools: Iterable[Tool]) -> None:
        """Have these tools in the place of what there is; those that were put here since (of MCP servers) stay."""
        put = {tool.name: tool for tool in self if tool.deferred and tool.toolset.startswith("mcp-")}
        self._tools = {**put, **{tool.name: tool for tool in tools}}

    async def settled(self) -> str:
        """Wait, not long, for tools that are still to come; what is not there in the end, in words."""
        return await self.late() if self.late is not None else ""

    @property
    def size(self) -> int:
        """How many tools there are, deferred ones included."""
        return len(self._tools)

    def find(self, name: str) -> Tool | None:
        """The tool of that name, deferred ones included."""
        return self._tools.get(name)

    def names(self) -> list[str]:
        """The names in the fixed array."""
        return [name for name, tool in self._tools.items() if not tool.deferred]

    @property
    def housekeeping(self) -> frozenset[str]:
        """Names of the tools that only keep the agent's own house in order."""
        return frozenset(name for name, tool in self._tools.items() if tool.housekeeping)

    def schemas(self) -> tuple[ToolSchema, ...]:
        """The fixed array, always in the same order."""
        return tuple(tool.schema for tool in self._tools.values() if not tool.deferred)

    def hint(self, name: str) -> str:
        """What to call instead of `name`, for the model."""
        meant = repair_name(name, self._tools)
        if meant is not None:
            return f"Did you mean {meant!r}?"
        return "The tools are: " + ", ".join(self.names()[:_SUGGESTED]) + "."

    def deferred_names(self) -> list[str]:
        """The names of the deferred tools, sorted."""
        return sorted(name for name, tool in self._tools.items() if tool.deferred)

    def search(self, query: str, limit: int) -> list[Found]:
        """The deferred tools that match best: words of the query found in name, toolset and description."""
        words = {word for word in query.lower().replace("_", " ").split() if word}
        scored: list[tuple[int, str]] = []
        for name in self.deferred_names():
            tool = self._tools[name]
            names = name.lower().replace("_", " ").split()
            text = f"{tool.toolset} {tool.description}".lower()
            score = sum(
                4 * (word in names) + 2 * any(word in part for part in names) + (word in text) for word in words
            )
            score += 8 * (query.strip().lower() == name.lower())
            if score or not words:
                scored.append((-score, name))
        best = [self._tools[name] for _, name in sorted(scored)[:limit]]
        return [Found(tool.schema, tool.origin) for tool in best]
