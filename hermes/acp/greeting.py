"""What an editor is told first: `initialize` is answered without an event loop, and without what sessions need."""

import os

import msgspec
from msgspec import Raw, Struct

from hermes.acp.protocol import PROTOCOL_VERSION, ClientCapabilities, InitializeParams
from hermes.core.encoding import Plain, to_json
from hermes.i18n.messages import tr

SETUP_METHOD = "hermes-setup"
"""The one way to sign in: setting up a model, in a terminal."""
_TERMINAL_SETUP = "hermes-setup-terminal"
_MAX_FIRST = 1 << 20
"""The most bytes of a first message that is answered here; a longer one is answered later."""


class EditorStreams(Struct, kw_only=True):
    """The descriptors to the editor, and what was received before the event loop began."""

    incoming: int
    outgoing: int
    received: bytes = b""
    """What has come and was not answered yet."""
    capabilities: ClientCapabilities | None = None
    """What the editor can do; None while it was not initialized."""


class _FirstRequest(Struct):
    id: int | str
    method: str
    params: Raw


def describe_agent(capabilities: ClientCapabilities, version: str) -> Plain:
    """Return the answer to `initialize`: what Hermes offers this editor."""
    return {
        "protocolVersion": PROTOCOL_VERSION,
        "agentInfo": {"name": "hermes", "title": "Hermes", "version": version},
        "agentCapabilities": {
            "loadSession": True,
            "promptCapabilities": {"image": True, "audio": False, "embeddedContext": True},
            "mcpCapabilities": {"http": True, "sse": True},
            "sessionCapabilities": {"list": {}, "resume": {}, "close": {}, "delete": {}, "fork": {}},
        },
        "authMethods": _list_auth_methods(capabilities),
    }


def _list_auth_methods(capabilities: ClientCapabilities) -> list[Plain]:
    told = tr("Hermes needs a model. `hermes setup` in a terminal chooses one and keeps its key.")
    methods: list[Plain] = [{"id": SETUP_METHOD, "name": tr("Set up a model"), "description": told}]
    if capabilities.auth is not None and capabilities.auth.terminal:
        name = tr("Set up a model in a terminal here")
        methods.append({"type": "terminal", "id": _TERMINAL_SETUP, "name": name, "args": ["--setup"]})
    return methods


def answer_first(streams: EditorStreams, version: str) -> bool:
    """Answer the first message if it is `initialize`; return False where the editor went away before it said anything.

    Anything else waits for the server, which knows how to refuse it.
    """
    while b"\n" not in streams.received and len(streams.received) < _MAX_FIRST:
        chunk = os.read(streams.incoming, 1 << 16)
        if not chunk:
            return bool(streams.received.strip())
        streams.received += chunk
    line, _, rest = streams.received.partition(b"\n")
    try:
        request = msgspec.json.decode(line, type=_FirstRequest)
        if request.method != "initialize":
            return True
        capabilities = msgspec.json.decode(request.params, type=InitializeParams).read_capabilities()
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return True
    answer = {"jsonrpc": "2.0", "id": request.id, "result": describe_agent(capabilities, version)}
    data = to_json(answer) + b"\n"
    while data:
        data = data[os.write(streams.outgoing, data) :]
    streams.received, streams.capabilities = rest, capabilities
    return True
