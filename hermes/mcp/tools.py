"""The tools and resources of MCP servers as deferred tools of a session.

Remembers what MCP tools said of themselves when they were last called, so that a change can be shown.

It decides nothing: what needs no question is set by the person's patterns, which hold a digest of a
tool's definition.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct, structs

from hermes.core.encoding import to_json
from hermes.core.errors import ToolError
from hermes.core.messages import Provenance, Source, ToolStatus
from hermes.i18n.messages import N_
from hermes.mcp.definitions import MCP_TOOL_PREFIX, McpToolDefinition
from hermes.mcp.results import fit_pictures, list_resource_lines, read_resource_output, to_tool_output
from hermes.mcp.rpc import McpRpcError
from hermes.mcp.server import McpServer
from hermes.safety.shell.findings import CommandFinding, Verdict
from hermes.tools.schema import Arguments, ExternalParameters, format_arguments, format_for_question
from hermes.tools.session import ToolContext
from hermes.tools.taint import describe_source
from hermes.tools.tool import Parallel, Tool, ToolOutput
from hermes.util.atomic_write import write_atomic
from hermes.util.text import escape_confusable_characters, to_one_line

_LOG = logging.getLogger(__name__)


_MAX_FILE_BYTES = 16 * 1024 * 1024


_CONTEXT_CHARS, _MAX_SHOWN = 20, 160


class RememberedTool(Struct, frozen=True):
    """A tool as it was when it was called."""

    digest: str
    description: str


class KnownMcpTools:
    """The file of the tools that were called, by server and tool; private to its owner."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._tools: dict[str, dict[str, RememberedTool]] = {}
        self._is_loaded = False

    def load(self) -> None:
        """Read the file, once. An unreadable file counts as empty."""
        if self._is_loaded:
            return
        self._is_loaded = True
        with contextlib.suppress(OSError, msgspec.MsgspecError):
            raw = self._file.read_bytes()[:_MAX_FILE_BYTES]
            self._tools = msgspec.json.decode(raw, type=dict[str, dict[str, RememberedTool]])

    def find_changed(self, server: str, tool: McpToolDefinition) -> RememberedTool | None:
        """Return the tool as it was when it was last called, if it was different then."""
        found = self._tools.get(server, {}).get(tool.name)
        return found if found is not None and found.digest != tool.digest else None

    def remember_call(self, server: str, tool: McpToolDefinition) -> None:
        """Remember the tool as it is at this call. Writes the file if that is new."""
        seen = self._tools
        now = RememberedTool(tool.digest, tool.description)
        if seen.get(server, {}).get(tool.name) == now:
            return
        seen.setdefault(server, {})[tool.name] = now
        try:
            self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_atomic(self._file, to_json(seen), mode=0o600, sync=False)
        except OSError as error:
            _LOG.warning("%s could not be written: %s", self._file, error)


def describe_change(before: RememberedTool, after: McpToolDefinition) -> str:
    """Describe what has changed, in a line for the person."""
    old, new = (
        to_one_line(escape_confusable_characters(before.description), 4_000),
        to_one_line(escape_confusable_characters(after.description), 4_000),
    )
    if old == new:
        return "its parameters or hints changed, its description did not"
    same = next((at for at, (one, other) in enumerate(zip(old, new, strict=False)) if one != other), None)
    start = max((min(len(old), len(new)) if same is None else same) - _CONTEXT_CHARS, 0)
    return N_(
        "it said {quote_excerpt}, now {quote_excerpt_2}",
        quote_excerpt=_quote_excerpt(old, start),
        quote_excerpt_2=_quote_excerpt(new, start),
    )


def _quote_excerpt(text: str, start: int) -> str:
    """Return a piece of a text, in quotation marks."""
    cut = text[start : start + _MAX_SHOWN]
    return f'"{"…" if start else ""}{cut}{"…" if start + _MAX_SHOWN < len(text) else ""}"'


_MAX_DESCRIPTION = 200
"""The most characters of a description that a question shows."""


def mcp_toolset_name(server: str) -> str:
    """Return the name of the set that holds a server's tools."""
    return f"mcp-{server}"


def make_server_tools(server: McpServer, known_tools: KnownMcpTools) -> list[Tool]:
    """Return the tools that stand for what a server offers: its tools, and those that list and read its resources."""
    made = [make_mcp_tool(server, definition, known_tools) for definition in server.tools]
    if server.offer.has_resources:
        made += _make_resource_tools(server, known_tools, {one.name for one in made})
    return made


def make_mcp_tool(server: McpServer, definition: McpToolDefinition, known_tools: KnownMcpTools) -> Tool:
    """Return the tool that stands for a server's tool."""

    async def call_tool(context: ToolContext, arguments: Arguments) -> ToolOutput:
        result = await server.call_tool(definition, arguments, context.asker)
        return await fit_pictures(to_tool_output(result, server.spec.name))

    return _make_tool(server, definition, known_tools, call_tool)


def _make_tool(
    server: McpServer,
    definition: McpToolDefinition,
    known_tools: KnownMcpTools,
    run: Callable[[ToolContext, Arguments], Awaitable[ToolOutput]],
) -> Tool:
    """Return the deferred tool of a definition; it needs approval as the definition is now."""
    name = server.spec.name

    async def run_tool(context: ToolContext, arguments: Arguments) -> ToolOutput:
        await asyncio.to_thread(known_tools.remember_call, name, definition)
        try:
            return await run(context, arguments)
        except McpRpcError as error:
            said = f"The server refused the call: {error!s:.4000}"
            return ToolOutput(text=said, status=ToolStatus.ERROR, provenance=Provenance(Source.MCP, name))

    def find_doubts(_arguments: Arguments, sources: Sequence[str]) -> Sequence[CommandFinding]:
        new = [_find_new_tool(server, definition, known_tools)] if server.spec.asks_approval else []
        return [*new, *_find_tainted_arguments(name, definition, sources)]

    return Tool(
        name=definition.name,
        toolset=mcp_toolset_name(name),
        description=f"[MCP server {name}] {definition.description}".rstrip(),
        parameters=ExternalParameters(definition.schema, definition.required, "tool_search shows the parameters."),
        function=run_tool,
        parallel=Parallel.SAFE if definition.reads_only else Parallel.SERIAL,
        repeatable=definition.reads_only,
        deferred=True,
        summary=format_arguments,
        shown=format_for_question,
        doubts=find_doubts,
        origin=Provenance(Source.MCP, _description_source(name)),
        note=_format_instructions(server),
    )


_RESOURCE_LIST = McpToolDefinition(
    sent_name="resources/list",
    name="resources_list",
    description="List the resources of the server by their URIs, or the templates of such URIs.",
    schema=(
        b'{"type":"object","properties":{"templates":{"type":"boolean","description":"List templates."},'
        b'"cursor":{"type":"string","description":"Where the next page begins, as the last one said."}}}'
    ),
    required=(),
    reads_only=True,
    digest="resources-list-1",
)
_RESOURCE_READ = McpToolDefinition(
    sent_name="resources/read",
    name="resources_read",
    description="Read a resource of the server.",
    schema=(
        b'{"type":"object","properties":{"uri":{"type":"string","description":"Its URI, as the list has it."}},'
        b'"required":["uri"]}'
    ),
    required=("uri",),
    reads_only=True,
    digest="resources-read-1",
)
"""Tools of Hermes' own for what a server offers besides tools. Their digests change with what they do."""


def _make_resource_tools(server: McpServer, known_tools: KnownMcpTools, taken: set[str]) -> list[Tool]:
    name = server.spec.name

    async def list_resources(_context: ToolContext, arguments: Arguments) -> ToolOutput:
        cursor, templates = str(arguments.get("cursor") or ""), arguments.get("templates") is True
        found = list_resource_lines(await server.list_resources(cursor, templates=templates))
        if found is None:
            raise ToolError("The server's list cannot be read.")
        lines, following = found
        lines += [f"[More: cursor {to_json(following).decode()}]"] if following else []
        return ToolOutput(text="\n".join(lines) or "(nothing)", provenance=Provenance(Source.MCP, name))

    async def read_resource(context: ToolContext, arguments: Arguments) -> ToolOutput:
        result = await server.read_resource(str(arguments["uri"]), context.asker)
        return await fit_pictures(read_resource_output(result, name))

    made = []
    for definition, run in ((_RESOURCE_LIST, list_resources), (_RESOURCE_READ, read_resource)):
        full = f"{MCP_TOOL_PREFIX}{name}__{definition.name}"
        while full in taken:  # the server has a tool of that name
            full += "_"
        made.append(_make_tool(server, structs.replace(definition, name=full), known_tools, run))
    return made


def _format_instructions(server: McpServer) -> str:
    """Return what a server says of all its tools, for `tool_search`; empty if it says nothing."""
    said = server.offer.instructions
    return f"The MCP server {server.spec.name} says of its tools: {said}" if said else ""


def _find_new_tool(server: McpServer, definition: McpToolDefinition, known_tools: KnownMcpTools) -> CommandFinding:
    """Return the finding that a tool needs approval as it is now: the pattern that allows it holds its digest."""
    name = server.spec.name
    subject = N_("mcp {name} {name_2} {digest}", name=name, name_2=definition.name, digest=definition.digest)
    before = known_tools.find_changed(name, definition)
    if before is not None:
        change = describe_change(before, definition)
        reason = N_(
            "the MCP server {name} has changed this tool since it was last called: {change}", name=name, change=change
        )
        return CommandFinding(Verdict.ASK, "mcp-changed-tool", reason, subject)
    description = to_one_line(escape_confusable_characters(definition.description), _MAX_DESCRIPTION)
    return CommandFinding(
        Verdict.ASK,
        "mcp-new-tool",
        N_('it is a tool of the MCP server {name}, which says: "{description}"', name=name, description=description),
        subject,
    )


def _find_tainted_arguments(
    name: str, definition: McpToolDefinition, sources: Sequence[str]
) -> Sequence[CommandFinding]:
    """Return a finding if untrusted content may have chosen the arguments, which leave for the server.

    The server's own descriptions are no reason, nor are its results where a tool says that it only reads:
    they came from where the arguments go.
    """
    own = {f"{Source.MCP}:{_description_source(name)}"} | ({f"{Source.MCP}:{name}"} if definition.reads_only else set())
    others = [source for source in sources if source not in own]
    if not others:
        return ()
    because = N_("untrusted content from {source} is in this conversation", source=describe_source(others[-1]))
    reason = N_("its arguments go to the MCP server {name} while {because}", name=name, because=because)
    return (CommandFinding(Verdict.ASK, "tainted-egress", reason, N_("connect mcp:{name}", name=name)),)


def _description_source(server: str) -> str:
    """Return the name of a server's descriptions as a source, apart from that of its results."""
    return f"{server} (descriptions)"
