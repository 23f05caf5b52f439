"""A server's tools as deferred tools of a session."""

import asyncio
import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import msgspec

from hermes.core.parts import Provenance, Source, ToolStatus
from hermes.mcp.annotations import Known, difference
from hermes.mcp.definitions import Definition
from hermes.mcp.results import output
from hermes.mcp.rpc import RpcError
from hermes.mcp.server import Server
from hermes.safety.shell.findings import Finding, Verdict
from hermes.tools.schema import Arguments, ArgumentsError, describe_json_error, join_surrogates
from hermes.tools.session import ToolContext
from hermes.tools.tool import Parallel, Tool, ToolOutput
from hermes.util.text import one_line, visible

T = TypeVar("T")
_SHOWN = 1_000
"""Characters of arguments that a question shows."""
_SAID = 200
"""Characters of a description that a question shows."""


def toolset(server: str) -> str:
    """The name of the set that holds a server's tools."""
    return f"mcp-{server}"


def make_tool(server: Server, definition: Definition, known: Known) -> Tool:
    """The tool that stands for a server's."""
    name = server.spec.name

    async def call(_context: ToolContext, arguments: Arguments) -> ToolOutput:
        await asyncio.to_thread(known.note, name, definition)
        try:
            return output(await server.call(definition, arguments), name)
        except RpcError as error:
            said = f"The server refused the call: {error!s:.4000}"
            return ToolOutput(text=said, status=ToolStatus.ERROR, provenance=Provenance(Source.MCP, name))

    def doubts(_arguments: Arguments, sources: Sequence[str]) -> Sequence[Finding]:
        new = [_new(server, definition, known)] if server.spec.asks else []
        return [*new, *_tainted(name, definition, sources)]

    return Tool(
        name=definition.name,
        toolset=toolset(name),
        description=f"[MCP server {name}] {definition.description}".rstrip(),
        parameters=Given(definition),
        function=call,
        parallel=Parallel.SAFE if definition.reads_only else Parallel.SERIAL,
        repeatable=definition.reads_only,
        deferred=True,
        summary=_compact,
        shown=_bound,
        doubts=doubts,
        origin=Provenance(Source.MCP, _descriptions(name)),
    )


class Given:
    """Parameters that somebody else's schema describes. Whoever wrote it checks them; here only what is missing is."""

    def __init__(self, definition: Definition) -> None:
        self._schema = definition.schema
        self._required = definition.required

    def schema(self) -> bytes:
        """The schema as it was sent."""
        return self._schema

    def decode(self, raw: str) -> dict[str, object]:
        """The arguments in a call's JSON text. Raises `ArgumentsError`."""
        text = raw if raw.strip() else "{}"
        try:
            found = msgspec.json.decode(text)
        except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError) as error:
            joined = join_surrogates(text)
            if joined is None:
                raise ArgumentsError(describe_json_error(error)) from None
            return self.decode(joined)
        if not isinstance(found, dict):
            raise ArgumentsError("The arguments must be one JSON object.")
        missing = [name for name in self._required if name not in found]
        if missing:
            raise ArgumentsError(f"Missing: {', '.join(missing[:8])}. tool_search shows the parameters.")
        return found

    def call(self, function: Callable[..., T], context: object, arguments: Arguments) -> T:
        """Call the function with all arguments as one mapping."""
        return function(context, arguments)


def _new(server: Server, definition: Definition, known: Known) -> Finding:
    """A tool needs a yes, which is for it as it is now: the pattern that allows it holds its digest."""
    name = server.spec.name
    subject = f"mcp {name} {definition.name} {definition.digest}"
    before = known.before(name, definition)
    if before is not None:
        change = difference(before, definition)
        reason = f"the MCP server {name} has changed this tool since it was last called: {change}"
        return Finding(Verdict.ASK, "mcp-changed-tool", reason, subject)
    said = one_line(visible(definition.description), _SAID)
    return Finding(Verdict.ASK, "mcp-new-tool", f'it is a tool of the MCP server {name}, which says: "{said}"', subject)


def _tainted(name: str, definition: Definition, sources: Sequence[str]) -> Sequence[Finding]:
    """Arguments leave for the server, so a stranger's text must not choose them unseen.

    What the server says of its tools is no reason, nor are its results where a tool says that it only reads: they came
    from where the arguments go.
    """
    own = {f"{Source.MCP}:{_descriptions(name)}"} | ({f"{Source.MCP}:{name}"} if definition.reads_only else set())
    others = [source for source in sources if source not in own]
    if not others:
        return ()
    because = f"text from {others[-1].partition(':')[2]} stands in this conversation"
    reason = f"its arguments go to the MCP server {name} while {because}"
    return (Finding(Verdict.ASK, "tainted-egress", reason, f"connect mcp:{name}"),)


def _descriptions(server: str) -> str:
    """What the text of a server's descriptions is called as a source, apart from that of its results."""
    return f"{server} (descriptions)"


def _compact(arguments: Arguments) -> str:
    """The arguments as JSON. Never raises."""
    try:
        return msgspec.json.encode(dict(arguments)).decode()
    except (msgspec.MsgspecError, RecursionError, ValueError, TypeError):
        return "(arguments that cannot be shown)"


def _bound(arguments: Mapping[str, object]) -> str:
    """The arguments for a question; of long ones the beginning, and a digest of all so that a yes is for these."""
    text = visible(_compact(arguments))
    if len(text) <= _SHOWN:
        return text
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    return f"{text[:_SHOWN]} [... {len(text) - _SHOWN} characters more, sha256 {digest}]"
