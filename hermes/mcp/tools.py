"""The tools of MCP servers as deferred tools of a session.

Turns a server's answer to a call into a tool's output: bounded, and marked as coming from the server.

Remembers what MCP tools said of themselves when they were last called, so that a change can be shown.

It decides nothing: what needs no question is set by the person's patterns, which hold a digest of a
tool's definition.
"""

import asyncio
import base64
import binascii
import contextlib
import logging
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec
from msgspec import Raw, Struct, field

from hermes.core.encoding import to_json
from hermes.core.messages import ImagePart, Provenance, Source, ToolStatus
from hermes.i18n.messages import N_
from hermes.mcp.definitions import McpToolDefinition
from hermes.mcp.rpc import McpRpcError
from hermes.mcp.server import McpServer
from hermes.safety.shell.findings import CommandFinding, Verdict
from hermes.tools.schema import Arguments, ExternalParameters, format_arguments, format_for_question
from hermes.tools.session import ToolContext
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


_IMAGE_TYPES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})


_MAX_IMAGES = 8


_MAX_IMAGE_BYTES = 5 * 1024 * 1024
"""The most bytes of all pictures of a result, in base64."""


_MAX_URI = 500


_NOTHING = Raw()


class _Resource(Struct):
    uri: str = ""
    media: str = field(default="", name="mimeType")
    text: str | None = None
    blob: str = ""


class _ContentBlock(Struct):
    type: str = ""
    text: str = ""
    data: str = ""
    media: str = field(default="", name="mimeType")
    uri: str = ""
    name: str = ""
    resource: _Resource | None = None


class _CallResult(Struct):
    content: list[Raw] = []
    structured: Raw = field(default=_NOTHING, name="structuredContent")
    failed: bool = field(default=False, name="isError")


def to_tool_output(result: Raw, server: str) -> ToolOutput:
    """Return the output of a call that the server has answered with this result."""
    provenance = Provenance(source=Source.MCP, label=server)
    try:
        call_result = msgspec.json.decode(result, type=_CallResult)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return ToolOutput(
            text="The server's answer is not a result that can be read.", status=ToolStatus.ERROR, provenance=provenance
        )
    texts, images = _split_content(call_result.content, provenance)
    structured = bytes(call_result.structured)
    if structured not in (b"", b"null") and not any(_is_same_value(text, structured) for text in texts):
        texts.append(structured.decode("utf-8", "replace"))
    if images:
        texts.append(f"[{len(images)} picture{'s' if len(images) > 1 else ''}]")
    return ToolOutput(
        text="\n".join(texts) or "(nothing)",
        status=ToolStatus.ERROR if call_result.failed else ToolStatus.OK,
        images=tuple(images),
        provenance=provenance,
    )


def _split_content(content: Iterable[Raw], provenance: Provenance) -> tuple[list[str], list[ImagePart]]:
    """Return the contents of a result: texts, and as many pictures as the limit allows."""
    texts: list[str] = []
    images: list[ImagePart] = []
    room = _MAX_IMAGE_BYTES
    for raw in content:
        block = _parse_block(raw)
        if block is not None and len(images) < _MAX_IMAGES and len(block.data) <= room and _is_image(block):
            room -= len(block.data)
            images.append(ImagePart(media_type=block.media, data=block.data, provenance=provenance))
        else:
            texts.append(_block_to_text(block))
    return texts, images


def _parse_block(raw: Raw) -> _ContentBlock | None:
    try:
        return msgspec.json.decode(raw, type=_ContentBlock)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None


def _is_image(block: _ContentBlock) -> bool:
    if block.type != "image" or block.media not in _IMAGE_TYPES:
        return False
    try:
        return bool(base64.b64decode(block.data, validate=True))
    except (binascii.Error, ValueError):
        return False


def _block_to_text(block: _ContentBlock | None) -> str:
    """Return a part of a result as text; what cannot be shown is named."""
    if block is None:
        return "[a part that cannot be read]"
    if block.type == "text":
        return block.text
    found = block.resource
    if found is not None:
        head = f"[resource {found.uri[:_MAX_URI]}]"
        return (
            f"{head}\n{found.text}"
            if found.text is not None
            else N_("{head} [{media}, {blob} bytes]", head=head, media=found.media, blob=len(found.blob))
        )
    if block.uri:
        return f"[link to {block.name[:_MAX_URI]}: {block.uri[:_MAX_URI]}]"
    return f"[{block.type[:40] or 'a part'}, {block.media[:80]}, {len(block.data)} characters that are not shown]"


def _is_same_value(text: str, structured: bytes) -> bool:
    """Return whether a text repeats the structured result, as servers are asked to send it.

    The official SDK puts a plain value into an object of one member, `result`.
    """
    try:
        value = msgspec.json.decode(structured)
        if isinstance(value, dict) and list(value) == ["result"]:
            value = value["result"]
        return bool(text == value or msgspec.json.decode(text) == value)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return False


_MAX_DESCRIPTION = 200
"""The most characters of a description that a question shows."""


def mcp_toolset_name(server: str) -> str:
    """Return the name of the set that holds a server's tools."""
    return f"mcp-{server}"


def make_mcp_tool(server: McpServer, definition: McpToolDefinition, known_tools: KnownMcpTools) -> Tool:
    """Return the tool that stands for a server's tool."""
    name = server.spec.name

    async def call_tool(_context: ToolContext, arguments: Arguments) -> ToolOutput:
        await asyncio.to_thread(known_tools.remember_call, name, definition)
        try:
            return to_tool_output(await server.call_tool(definition, arguments), name)
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
        function=call_tool,
        parallel=Parallel.SAFE if definition.reads_only else Parallel.SERIAL,
        repeatable=definition.reads_only,
        deferred=True,
        summary=format_arguments,
        shown=format_for_question,
        doubts=find_doubts,
        origin=Provenance(Source.MCP, _description_source(name)),
    )


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
    because = N_("untrusted content from {source} is in this conversation", source=others[-1].partition(":")[2])
    reason = N_("its arguments go to the MCP server {name} while {because}", name=name, because=because)
    return (CommandFinding(Verdict.ASK, "tainted-egress", reason, N_("connect mcp:{name}", name=name)),)


def _description_source(server: str) -> str:
    """Return the name of a server's descriptions as a source, apart from that of its results."""
    return f"{server} (descriptions)"
