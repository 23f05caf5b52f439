"""The tools that exist, and the selection that a session has.

A built-in tool is found by its file: `builtin/read_file.py` holds `read_file`, and a file of a family holds every tool
whose name begins with the file's and `_`. What a model is shown of it stands in `listing.json`, which
`scripts/tools.py` writes, so that a tool is imported when it is called; one that is not listed is imported when it is
selected. Calls are checked and repaired here before they run.
"""

import importlib
import pkgutil
import re
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from operator import attrgetter
from pathlib import Path

import msgspec
from msgspec import Struct, structs

from hermes.config.settings import Settings
from hermes.core.encoding import to_json
from hermes.core.errors import ConfigError
from hermes.core.frame import ToolSchema
from hermes.core.messages import Provenance, ToolCallPart, ToolResultPart, ToolStatus
from hermes.i18n.messages import N_
from hermes.tools import toolsets
from hermes.tools.schema import describe_json_error, join_surrogates
from hermes.tools.session import FoundTool
from hermes.tools.tool import NO_REQUIREMENTS, AvailabilityCheck, Tool, ToolRequirements
from hermes.tools.toolsets import Toolset

_SEPARATORS = re.compile(r"[^a-z0-9]+")


def repair_name(name: str, names: Collection[str]) -> str | None:
    """Return the tool that `name` must mean (other case, separators, what hangs on it, or a typo); None when unsure."""
    if name in names:
        return name
    folded = {_fold_name(known): known for known in names}
    wanted = _fold_name(name)
    if not wanted or len(name) > 100:
        return None
    from hermes.tools.call_repair import list_name_forms, split_name  # rare: most calls name a tool

    if wanted not in folded and len({*map(_fold_name, split_name(name))} & folded.keys()) > 1:
        return None  # `read_file.terminal` could mean either
    for plain in map(_fold_name, (name, *list_name_forms(name))):
        for form in (plain, plain.removeprefix("functions"), *_strip_suffixes(plain), plain.removeprefix("tool")):
            if form in folded:
                return folded[form]
    import difflib

    close = difflib.get_close_matches(wanted, folded, n=2, cutoff=0.85)
    return folded[close[0]] if len(close) == 1 else None


def _strip_suffixes(folded: str) -> Iterator[str]:
    """Yield the name without each `tool` at its end: `TodoTool_tool` is the tool `todo`."""
    while folded.endswith("tool"):
        folded = folded.removesuffix("tool")
        yield folded


def check_arguments(raw: str) -> str | None:
    """Return for the model what is wrong with a call's JSON text, or None when it is an object, or empty."""
    if not raw.strip():
        return None
    try:
        decoded = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
        return None if join_surrogates(raw) is not None else describe_json_error(error)
    return None if isinstance(decoded, dict) else "The arguments must be one JSON object."


class CheckedCalls(Struct, frozen=True):
    """The calls of a batch that are to run, and the results of those that are not."""

    run: tuple[ToolCallPart, ...]
    answered: tuple[ToolResultPart, ...]


def deduplicate_calls(calls: Sequence[ToolCallPart]) -> CheckedCalls:
    """Leave out calls that repeat one of the same batch (same tool, same arguments)."""
    run: list[ToolCallPart] = []
    answered: list[ToolResultPart] = []
    first: dict[tuple[str, bytes], str] = {}
    for call in calls:
        key = (call.name, _canonical_arguments(call.arguments))
        if key in first:
            text = f"The same call as {first[key]} in this batch; it ran once, see its result."
            answered.append(_build_result(call, text, ToolStatus.OK))
            continue
        first[key] = call.call_id
        run.append(call)
    return CheckedCalls(run=tuple(run), answered=tuple(answered))


def _build_result(call: ToolCallPart, text: str, status: ToolStatus) -> ToolResultPart:
    return ToolResultPart(call_id=call.call_id, name=call.name, text=text, status=status)


def _canonical_arguments(raw: str) -> bytes:
    """Return arguments in one form whatever their spacing and order; broken ones stay as they are."""
    try:
        return to_json(msgspec.json.decode(raw), is_sorted=True)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return raw.encode("utf-8", "surrogatepass")


def _fold_name(name: str) -> str:
    return _SEPARATORS.sub("", name.lower())


BRIDGE_TOOLS = ("tool_search", "tool_call")
"""The tools that find and call deferred tools; offered only when there are deferred tools."""
_BUILTIN = "hermes.tools.builtin"
_MAX_SUGGESTIONS = 40


@cache
def _find_builtin_files() -> Mapping[str, str]:
    """Return the import path of each file of built-in tools, by its name; they come with the program and stay."""
    folder = Path(__file__).with_name("builtin")
    return {module.name: f"{_BUILTIN}.{module.name}" for module in pkgutil.iter_modules([str(folder)])}


@cache
def _list_unassigned_files() -> tuple[str, ...]:
    """Return the files that no toolset names: their tools name their toolset themselves."""
    named = {tool for toolset in toolsets.TOOLSETS.values() for tool in toolset.tools}
    return tuple(
        module
        for module in _find_builtin_files()
        if not any(tool == module or tool.startswith(module + "_") for tool in named)
    )


@cache
def _import_tools(path: str) -> Mapping[str, Tool]:
    """Import a file of built-in tools and return its tools by name."""
    return {value.name: value for value in vars(importlib.import_module(path)).values() if isinstance(value, Tool)}


class ToolListing(Struct, frozen=True, kw_only=True):
    """A row of `listing.json`: what has to be known of a tool before it is called."""

    name: str
    toolset: str
    description: str
    parameters: msgspec.Raw
    deferred: bool = False
    brief: str = ""
    housekeeping: bool = False
    requirements: ToolRequirements = NO_REQUIREMENTS
    availability: AvailabilityCheck | None = None


class ListedTool:
    """A tool that is known by its row; `load` gives the tool itself. A process has thousands of them."""

    __slots__ = (
        "availability",
        "brief",
        "deferred",
        "description",
        "housekeeping",
        "load",
        "name",
        "requirements",
        "schema",
        "toolset",
    )
    origin: Provenance | None = None
    note = ""
    runs_at_caller = False

    def __init__(self, row: ToolListing, load: Callable[[], Tool]) -> None:
        self.name = row.name
        self.toolset = row.toolset
        self.description = row.description
        self.deferred = row.deferred
        self.brief = row.brief
        self.housekeeping = row.housekeeping
        self.requirements = row.requirements
        self.availability = row.availability
        self.schema = _read_schema(row.name)
        self.load = load


KnownTool = Tool | ListedTool
ExplainMissing = Callable[[KnownTool], str]
"""Returns why a tool cannot work, for a person; empty where it can."""


class ToolSurroundings(Struct, frozen=True):
    """What there is for tools: the variables with those of `.env`, and the settings."""

    environ: Mapping[str, str]
    settings: Settings

    def explain_missing(self, tool: KnownTool) -> str:
        """Return why a tool cannot work here, for a person; empty where it can.

        It is decided once when the tools of a session are selected, and again when a person switches them.
        """
        needs, check = tool.requirements, tool.availability
        if check is not None and check.settings and not self._has_changed(check.settings):
            check = None
        if needs == NO_REQUIREMENTS and check is None:
            return ""
        missing = needs.explain_missing(self.environ)
        return missing or (check.explain_missing(self.environ, self.settings) if check is not None else "")

    def _has_changed(self, names: Sequence[str]) -> bool:
        """Return whether one of these settings has another value than its default."""
        return any(attrgetter(name)(self.settings) != attrgetter(name)(_DEFAULTS) for name in names)


_DEFAULTS = Settings()


@cache
def read_listing() -> Mapping[str, ToolListing]:
    """Return the rows of `listing.json` by name."""
    rows = msgspec.json.decode(Path(__file__).with_name("listing.json").read_bytes(), type=list[ToolListing])
    return {row.name: row for row in rows}


@cache
def _read_schema(name: str) -> ToolSchema:
    """Return the schema of a listed tool, the same for all sessions."""
    row = read_listing()[name]
    return ToolSchema(name=row.name, description=row.description, parameters=bytes(row.parameters))


@cache
def _list_builtin(path: str, name: str) -> ListedTool:
    """Return a listed tool of a file of built-in tools, the same for all sessions."""

    def load() -> Tool:
        tool = _import_tools(path).get(name)
        if tool is None:
            raise LookupError(f"{name} is listed, and its file has no such tool")
        return tool

    return ListedTool(read_listing()[name], load)


def list_session_tools(names: Sequence[str], build: Callable[[], Sequence[Tool]]) -> tuple[ListedTool, ...]:
    """Return the tools of these names that are bound to a session; `build` makes them all when one is called first."""
    built: dict[str, Tool] = {}

    def load(name: str) -> Tool:
        if not built:
            built.update((tool.name, tool) for tool in build())
        return built[name]

    return tuple(ListedTool(read_listing()[name], partial(load, name)) for name in names)


class ToolRegistry:
    """Every tool that exists: built-ins by folder scan, the rest as their owners register them."""

    def __init__(self) -> None:
        self._modules = _find_builtin_files()
        self._tools: dict[str, KnownTool] = {}
        self._loaded: set[str] = set()

    def register(self, tool: KnownTool) -> None:
        """Add a tool. Raises `ConfigError` when the name is taken."""
        if tool.name in self._tools or self._find_module(tool.name) not in (None, *self._loaded):
            raise ConfigError(N_("Two tools are called {name}.", name=repr(tool.name)), "Rename one of them.")
        self._tools[tool.name] = tool

    def list_builtin_files(self) -> list[str]:
        """Return the files of the built-in tools."""
        return sorted(self._modules)

    def load_file(self, name: str) -> list[Tool]:
        """Import a file of built-in tools and return its tools."""
        return list(_import_tools(self._modules[name]).values())

    def get(self, name: str) -> Tool | None:
        """Return the tool of that name; its file is imported if need be."""
        tool = self._tools.get(name)
        module = self._find_module(name)
        if tool is None and module is not None and module not in self._loaded:
            self._load_module(module)
            tool = self._tools.get(name)
        return tool.load() if isinstance(tool, ListedTool) else tool

    def find_known(self, name: str) -> KnownTool | None:
        """Return the tool of that name as it is listed, without importing its file; one without a row is imported."""
        module = self._find_module(name)
        if name not in self._tools and module is not None and name in read_listing():
            return _list_builtin(self._modules[module], name)
        return self._tools.get(name) or self.get(name)

    def load_toolsets(self) -> dict[str, Toolset]:
        """Return the named toolsets, with what files and owners have added to them."""
        for module in _list_unassigned_files():
            self._load_module(module)
        merged = dict(toolsets.TOOLSETS)
        for tool in self._tools.values():
            known = merged.get(tool.toolset, Toolset())
            if tool.name not in known.tools:
                merged[tool.toolset] = Toolset(tools=(*known.tools, tool.name), includes=known.includes)
        return merged

    def select_tools(
        self,
        enabled: Sequence[str] = toolsets.DEFAULT_TOOLSETS,
        disabled: Sequence[str] = (),
        *,
        expect_deferred: bool = False,
        explain_missing: ExplainMissing | None = None,
    ) -> "Toolbox":
        """Return the tools of a session. Raises `ConfigError` for a toolset that does not exist.

        `expect_deferred` says that deferred ones will be put into the toolbox later. A tool of which `explain_missing`
        says why it cannot work is left out, and named in `Toolbox.hidden`.
        """
        sets = self.load_toolsets()
        unknown = [name for name in (*enabled, *disabled) if name not in sets and name not in toolsets.ALL_TOOLSETS]
        if unknown:
            raise ConfigError(
                N_("There is no toolset {unknown}.", unknown=repr(unknown[0])),
                self._suggest_toolset(unknown[0]),
            )
        names = toolsets.select_tool_names(enabled, disabled, sets)
        return self._build_toolbox(names, explain_missing, expect_deferred=expect_deferred)

    def _build_toolbox(
        self, names: Sequence[str], explain_missing: ExplainMissing | None, *, expect_deferred: bool
    ) -> "Toolbox":
        tools = [tool for name in names if name not in BRIDGE_TOOLS and (tool := self.find_known(name)) is not None]
        hidden = _explain_all(tools, explain_missing)
        tools = [tool for tool in tools if tool.name not in hidden]
        if expect_deferred or any(tool.deferred for tool in tools):
            tools += [tool for name in BRIDGE_TOOLS if (tool := self.find_known(name)) is not None]
        return Toolbox(tools, hidden)

    def describe_toolsets(self) -> str:
        """Return a sentence that lists the toolsets, those of the platforms left out."""
        names = sorted({*self.load_toolsets()})
        shown = ", ".join(name for name in names if not name.startswith(("hermes-", "tools")))
        return N_("Sets are: {names}.", names=shown)

    def _suggest_toolset(self, name: str) -> str:
        from hermes.util.nearest_names import list_nearest

        near = list_nearest(name, self.load_toolsets())
        sets = self.describe_toolsets()
        return N_("Did you mean {name}? {sets}", name=repr(near[0]), sets=sets) if near else sets

    def _find_module(self, name: str) -> str | None:
        """Return the built-in file that holds a tool: of that name, else the longest that the name begins with."""
        while name:
            if name in self._modules:
                return name
            name = name.rpartition("_")[0]
        return None

    def _load_module(self, module: str) -> None:
        if module in self._loaded:
            return
        self._loaded.add(module)
        self._tools.update(_import_tools(self._modules[module]))


def _explain_all(tools: Iterable[KnownTool], explain_missing: ExplainMissing | None) -> dict[str, str]:
    """Return the tools that cannot work, by name, with the reasons."""
    if explain_missing is None:
        return {}
    return {tool.name: why for tool in tools if (why := explain_missing(tool))}


def _keep_tool(_tool: KnownTool) -> bool:
    return False


class Toolbox:
    """The tools of one session: a fixed array that the model sees, and deferred ones that it can find."""

    def __init__(self, tools: Iterable[KnownTool], hidden: Mapping[str, str] | None = None) -> None:
        self._set_tools({tool.name: tool for tool in tools})
        self.hidden: Mapping[str, str] = hidden or {}
        """Tools of the selected sets that are not offered, since they cannot work, and why."""
        self.servers: Sequence[str] = ()
        """Names of the servers whose tools are still to come."""
        self.replaced: Mapping[str, KnownTool] = {}
        """Hermes' own tools whose place those of the program that asks have taken."""
        self.is_withdrawn: Callable[[KnownTool], bool] = _keep_tool
        """Returns whether a tool was taken away since the session was opened: it is neither offered nor called."""
        self.check_limit: Callable[[], Awaitable[None]] | None = None
        """Looks whether the person has lost tools, and withdraws them: it sets `is_withdrawn`."""
        self.wait_for_late: Callable[[], Awaitable[str]] | None = None
        """Waits for deferred tools that are still to come, and returns in words what is missing."""

    def replace_toolset(self, toolset: str, tools: Iterable[Tool]) -> None:
        """Replace the deferred tools of a toolset by these; a name that another toolset has keeps its tool."""
        kept = {name: tool for name, tool in self._tools.items() if tool.toolset != toolset}
        fresh = {tool.name: tool for tool in tools if tool.deferred and tool.toolset == toolset}
        self._set_tools({**dict(sorted(fresh.items())), **kept})

    def __iter__(self) -> Iterator[KnownTool]:
        return iter(self._tools.values())

    def replace_tools(self, tools: Iterable[KnownTool]) -> None:
        """Replace the tools by these; those that were put here since (of MCP servers) stay."""
        put = {tool.name: tool for tool in self if tool.deferred and tool.toolset.startswith("mcp-")}
        self._set_tools({**put, **{tool.name: tool for tool in tools}})

    def _set_tools(self, tools: dict[str, KnownTool]) -> None:
        self._tools = tools
        self.housekeeping = frozenset(name for name, tool in tools.items() if tool.housekeeping)

    def load_toolsets(self) -> dict[str, Toolset]:
        """Return the named toolsets, with those of the tools that only this session has, such as a plug-in's."""
        known = ToolRegistry().load_toolsets()
        own: dict[str, list[str]] = {}
        for tool in self:
            if tool.toolset not in known:
                own.setdefault(tool.toolset, []).append(tool.name)
        return {**known, **{name: Toolset(tools=tuple(tools)) for name, tools in own.items()}}

    async def wait_for_tools(self) -> str:
        """Wait, not long, for tools that are still to come; return in words what is missing in the end."""
        return await self.wait_for_late() if self.wait_for_late is not None else ""

    async def refresh_limit(self) -> None:
        """Withdraw the tools that the person has lost since this was asked last."""
        if self.check_limit is not None:
            await self.check_limit()

    def holds_withdrawn(self, names: Iterable[str]) -> bool:
        """Return whether one of these tools was taken away."""
        return any(name in self._tools and self.is_withdrawn(self._tools[name]) for name in names)

    def may_hold(self, tool: KnownTool) -> bool:
        """Return whether a tool of another session is among these. Those of servers may be still to come here, and
        those that find deferred ones give nothing by themselves.
        """
        is_served = tool.toolset.startswith("mcp-") and tool.toolset.removeprefix("mcp-") in self.servers
        return tool.name in self._tools or tool.name in BRIDGE_TOOLS or is_served

    @property
    def size(self) -> int:
        """The number of tools, deferred ones included."""
        return len(self._tools)

    def find(self, name: str) -> Tool | None:
        """Return the tool of that name, deferred ones included, or None."""
        tool = self._tools.get(name)
        if tool is not None and self.is_withdrawn(tool):
            return None
        if isinstance(tool, ListedTool):
            tool = self._tools[name] = tool.load()
        return tool

    def find_own(self, name: str) -> Tool | None:
        """Return Hermes' own tool of that name, where a tool of the program that asks has taken its place, too."""
        tool = self.replaced.get(name) or self._tools.get(name)
        if tool is None or tool.runs_at_caller or self.is_withdrawn(tool):
            return None
        return tool.load() if isinstance(tool, ListedTool) else tool

    def list_names(self) -> list[str]:
        """Return the names in the fixed array."""
        return [name for name, tool in self._tools.items() if not tool.deferred and not self.is_withdrawn(tool)]

    def list_schemas(self) -> tuple[ToolSchema, ...]:
        """Return the schemas of the fixed array, always in the same order. That of `tool_search` names what is
        deferred, so that the model knows what it could look for.
        """
        return tuple(
            self._name_deferred_tools(tool.schema) if tool.name == BRIDGE_TOOLS[0] else tool.schema
            for tool in self._tools.values()
            if not tool.deferred and not self.is_withdrawn(tool)
        )

    def _name_deferred_tools(self, schema: ToolSchema) -> ToolSchema:
        """Return the schema of `tool_search` with a line for each deferred tool of Hermes' own, and one for servers."""
        tools = (self._tools[name] for name in self.list_deferred_names())
        lines = [f"{one.name}: {one.brief}" for one in tools if one.brief]
        lines += [f"tools of the MCP servers {', '.join(self.servers)}"] if self.servers else []
        listed = "".join(f"\n- {line}" for line in lines)
        return structs.replace(schema, description=f"{schema.description}{listed}") if lines else schema

    def suggest_tool(self, name: str) -> str:
        """Return for the model what to call instead of `name`."""
        if name in self._tools:
            return "It was taken away from this person a moment ago; go on without it."
        meant = repair_name(name, self._tools)
        if meant is not None:
            return f"Did you mean {meant!r}?"
        return "The tools are: " + ", ".join(self.list_names()[:_MAX_SUGGESTIONS]) + "."

    def list_deferred_names(self) -> list[str]:
        """Return the names of the deferred tools, sorted."""
        return sorted(name for name, tool in self._tools.items() if tool.deferred and not self.is_withdrawn(tool))

    def search(self, query: str, limit: int) -> list[FoundTool]:
        """Return the deferred tools that match best: words of the query found in name, toolset and description."""
        given = {*query.lower().replace("_", " ").split()}
        words = {word for word in given if len(word) > 2 or not word.isascii()} or given  # "a" is in every name
        scored: list[tuple[int, str]] = []
        for name in self.list_deferred_names():
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
        return [FoundTool(tool.schema, tool.origin, tool.note) for tool in best]
