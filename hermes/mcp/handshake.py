"""How a client and a server agree on a revision of the protocol: the stateless one first, then those with sessions."""

import asyncio
from enum import StrEnum

import msgspec
from msgspec import Raw, Struct, field

from hermes.core.errors import ToolError
from hermes.mcp.definitions import clean_text
from hermes.mcp.revisions import (
    HEADER_MISMATCH,
    MISSING_CAPABILITY,
    PROTOCOL_VERSIONS,
    SESSION_VERSIONS,
    STATELESS_VERSION,
    UNSUPPORTED_VERSION,
)
from hermes.mcp.rpc import McpConnection, McpRpcError, NoAnswerError

MAX_INSTRUCTIONS = 2_000
"""The most characters of a server's instructions that are kept."""
CLIENT: dict[str, object] = {
    "clientInfo": {"name": "hermes", "version": "1"},
    "capabilities": {"elicitation": {"form": {}, "url": {}}},
}
"""What servers are told of this client: it can ask the person, and nothing else for them."""
_PROBE_SECONDS = 4.0
"""Seconds for an answer to the first question of the stateless revision, before the other one is asked beside it."""


class Era(StrEnum):
    """What is known of the revisions that a server speaks, or what was configured."""

    UNKNOWN = ""
    STATELESS = "stateless"
    SESSIONS = "sessions"
    EVENTS = "events"
    """Sessions over the transport of the first revision."""


class _Changes(Struct):
    announces: bool = field(default=False, name="listChanged")


class _Capabilities(Struct):
    tools: _Changes | None = None
    resources: _Changes | None = None
    prompts: _Changes | None = None


class _Hello(Struct):
    version: str = field(default="", name="protocolVersion")
    supported: list[str] | None = field(default=None, name="supportedVersions")
    capabilities: _Capabilities = field(default_factory=_Capabilities)
    instructions: str | None = None


class _Versions(Struct):
    supported: list[str] = []


class ServerOffer(Struct, frozen=True, kw_only=True):
    """What a server has said of itself: the agreed version, and what it offers. Its instructions are untrusted."""

    version: str
    has_tools: bool = False
    has_resources: bool = False
    has_prompts: bool = False
    announced: tuple[str, ...] = ()
    """Which of the lists (`tools`, `prompts`, `resources`) it announces the changes of."""
    instructions: str = ""

    @property
    def is_stateless(self) -> bool:
        """Whether it speaks the revision without sessions."""
        return self.version == STATELESS_VERSION


async def agree_on_version(connection: McpConnection, seconds: float, era: Era, wanted: str) -> ServerOffer:
    """Agree with a server on a version and return what it offers. Raises `ToolError`, `McpRpcError` when it refuses.

    `wanted` is the configured version, empty for the newest that both speak.
    """
    if wanted in SESSION_VERSIONS or era in (Era.SESSIONS, Era.EVENTS):
        return await _initialize(connection, seconds, wanted)
    if wanted:
        return await _discover_only(connection, seconds)
    probe = asyncio.create_task(_discover(connection, seconds))
    try:
        await asyncio.wait({probe}, timeout=_PROBE_SECONDS)
        if probe.done():
            return await probe or await _initialize(connection, seconds, "")
        return await _ask_both(connection, seconds, probe)
    finally:
        _drop_task(probe)


async def _ask_both(
    connection: McpConnection, seconds: float, probe: "asyncio.Task[ServerOffer | None]"
) -> ServerOffer:
    """Say `initialize`, too, since the server is slow or old, and go by the first answer that says something."""
    old = asyncio.create_task(_initialize(connection, seconds, ""))
    try:
        await asyncio.wait({probe, old}, return_when=asyncio.FIRST_COMPLETED)
        if probe.done() and not probe.cancelled() and probe.exception() is None and (offer := probe.result()):
            return offer
        has_failed = old.done() and old.exception() is not None
        if has_failed and not probe.done() and (found := await probe) is not None:
            return found
        return await old
    finally:
        _drop_task(old)


def _drop_task(task: "asyncio.Task[ServerOffer] | asyncio.Task[ServerOffer | None]") -> None:
    """Cancel a question that nobody waits for any more; what has become of it does not matter."""
    task.cancel()
    task.add_done_callback(lambda done: None if done.cancelled() else done.exception() and None)


async def _discover_only(connection: McpConnection, seconds: float) -> ServerOffer:
    offer = await _discover(connection, seconds)
    if offer is None:
        raise ToolError(f"it does not speak version {STATELESS_VERSION} of the protocol")
    return offer


async def _discover(connection: McpConnection, seconds: float) -> ServerOffer | None:
    """Return the offer of a server without sessions; None for one that has them. Raises `ToolError`."""
    for _ in range(2):
        try:
            hello = _decode_hello(await connection.request("server/discover", {}, seconds, version=STATELESS_VERSION))
        except McpRpcError as error:
            if error.code in (HEADER_MISMATCH, MISSING_CAPABILITY):
                raise
            if error.code != UNSUPPORTED_VERSION or not _is_supported(error):
                return None
            continue  # it names the version all the same
        except NoAnswerError:
            return None
        if hello is None or STATELESS_VERSION not in (hello.supported or ()):
            return None
        connection.version = STATELESS_VERSION
        return _make_offer(hello, STATELESS_VERSION)
    raise ToolError(f"it refuses version {STATELESS_VERSION} of the protocol and names it at the same time")


def _is_supported(error: McpRpcError) -> bool:
    """Return whether a refusal names the stateless version as supported. Raises `ToolError` when it names none that is
    spoken here.
    """
    try:
        supported = msgspec.json.decode(error.data, type=_Versions).supported
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return False
    if not set(supported) & set(PROTOCOL_VERSIONS) and supported:
        raise ToolError(f"it speaks only versions of the protocol that are not spoken here: {supported!r:.80}")
    return STATELESS_VERSION in supported


async def _initialize(connection: McpConnection, seconds: float, wanted: str) -> ServerOffer:
    offered = {"protocolVersion": wanted or SESSION_VERSIONS[0], **CLIENT}
    hello = _decode_hello(await connection.request("initialize", offered, seconds))
    if hello is None:
        raise ToolError("its greeting cannot be read")
    if hello.version not in SESSION_VERSIONS:
        raise ToolError(f"it speaks version {hello.version[:40]!r} of the protocol, which is not spoken here")
    await connection.confirm_version(hello.version)
    return _make_offer(hello, hello.version)


def _decode_hello(result: Raw) -> _Hello | None:
    try:
        return msgspec.json.decode(result, type=_Hello)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None


def _make_offer(hello: _Hello, version: str) -> ServerOffer:
    found = hello.capabilities
    lists = {"tools": found.tools, "prompts": found.prompts, "resources": found.resources}
    return ServerOffer(
        version=version,
        has_tools=found.tools is not None,
        has_resources=found.resources is not None,
        has_prompts=found.prompts is not None,
        announced=tuple(name for name, one in lists.items() if one is not None and one.announces),
        instructions=clean_text(hello.instructions or "", MAX_INSTRUCTIONS),
    )
