"""The messages of version 1 of the Agent Client Protocol, as far as Hermes reads them. What it writes is made where it
is written. Members that are not named here are ignored, as the protocol wants.
"""

from typing import Any, TypeVar

import msgspec
from msgspec import Raw, Struct

PROTOCOL_VERSION = 1
SCHEMA_VERSION = "1.25.0"
"""The version of the public schema by which every message is checked (`make acp`)."""
T = TypeVar("T")


class Wire(Struct, frozen=True, kw_only=True, rename="camel"):
    """A message, or a part of one; its members are written in camel case."""


class FileAccess(Wire, frozen=True, kw_only=True):
    """What an editor offers for files: texts as they stand in it, saved or not."""

    read_text_file: bool = False
    write_text_file: bool = False


class SessionAbilities(Wire, frozen=True, kw_only=True):
    """What an editor can show of a session beyond the usual."""

    notices: dict[str, Any] | None = None


class AuthAbilities(Wire, frozen=True, kw_only=True):
    """How an editor can have a person sign in."""

    terminal: bool = False


class ElicitationAbilities(Wire, frozen=True, kw_only=True):
    """The questions that an editor can ask."""

    form: dict[str, Any] | None = None


class ClientCapabilities(Wire, frozen=True, kw_only=True):
    """What an editor can do."""

    fs: FileAccess = FileAccess()
    session: SessionAbilities | None = None
    auth: AuthAbilities | None = None
    elicitation: ElicitationAbilities | None = None
    meta: dict[str, Any] | None = msgspec.field(default=None, name="_meta")

    @property
    def shows_notices(self) -> bool:
        """Whether it shows lines beside the conversation."""
        return self.session is not None and self.session.notices is not None

    @property
    def asks_forms(self) -> bool:
        """Whether it can ask a person for a text or a choice."""
        return self.elicitation is not None and self.elicitation.form is not None

    @property
    def shows_terminals(self) -> bool:
        """Whether it draws output that it has not run, as Zed does."""
        return bool((self.meta or {}).get("terminal_output"))


class InitializeParams(Wire, frozen=True, kw_only=True):
    """What an editor says of itself first."""

    protocol_version: int
    client_capabilities: Raw = Raw()

    def read_capabilities(self) -> ClientCapabilities:
        """Return what the editor can do; nothing where it says that in a form that is not known."""
        if not bytes(self.client_capabilities):
            return ClientCapabilities()
        try:
            return msgspec.json.decode(self.client_capabilities, type=ClientCapabilities)
        except msgspec.MsgspecError:
            return ClientCapabilities()


class AuthenticateParams(Wire, frozen=True, kw_only=True):
    """A way to sign in."""

    method_id: str


class NamedValue(Wire, frozen=True, kw_only=True):
    """A variable of the environment, or a header field."""

    name: str
    value: str


class McpServerParams(Wire, frozen=True, kw_only=True):
    """An MCP server that an editor hands in: a program, or an address."""

    name: str
    type: str = "stdio"
    command: str = ""
    args: tuple[str, ...] = ()
    env: tuple[NamedValue, ...] = ()
    url: str = ""
    headers: tuple[NamedValue, ...] = ()


class SessionParams(Wire, frozen=True, kw_only=True):
    """A request about one session."""

    session_id: str


class NewSessionParams(Wire, frozen=True, kw_only=True):
    """The folder and the servers of a new session."""

    cwd: str
    mcp_servers: tuple[McpServerParams, ...] = ()


class OpenSessionParams(Wire, frozen=True, kw_only=True):
    """An earlier session with its folder and servers."""

    session_id: str
    cwd: str
    mcp_servers: tuple[McpServerParams, ...] = ()


class ListSessionsParams(Wire, frozen=True, kw_only=True):
    """Which sessions are listed: those of a folder, and what follows a page."""

    cwd: str | None = None
    cursor: str | None = None


class SetModeParams(Wire, frozen=True, kw_only=True):
    """A mode for a session."""

    session_id: str
    mode_id: str


class SetOptionParams(Wire, frozen=True, kw_only=True):
    """A value for an option of a session."""

    session_id: str
    config_id: str
    value: str | bool


class TextBlock(Wire, frozen=True, kw_only=True, tag_field="type", tag="text"):
    """A text."""

    text: str


class ImageBlock(Wire, frozen=True, kw_only=True, tag_field="type", tag="image"):
    """A picture in base64."""

    data: str
    mime_type: str


class AudioBlock(Wire, frozen=True, kw_only=True, tag_field="type", tag="audio"):
    """A sound in base64; Hermes offers to take none."""

    data: str
    mime_type: str


class LinkBlock(Wire, frozen=True, kw_only=True, tag_field="type", tag="resource_link"):
    """A file or an address that is named, without its content."""

    name: str
    uri: str


class ResourceContents(Wire, frozen=True, kw_only=True):
    """The content of a file or an address: a text, or bytes in base64."""

    uri: str
    text: str | None = None
    blob: str | None = None
    mime_type: str | None = None


class ResourceBlock(Wire, frozen=True, kw_only=True, tag_field="type", tag="resource"):
    """A file or an address with its content."""

    resource: ResourceContents


ContentBlock = TextBlock | ImageBlock | AudioBlock | LinkBlock | ResourceBlock


class PromptParams(Wire, frozen=True, kw_only=True):
    """A person's message."""

    session_id: str
    prompt: tuple[ContentBlock, ...]


class PermissionOutcome(Wire, frozen=True, kw_only=True):
    """A person's answer: which option, or none."""

    outcome: str
    option_id: str = ""


class PermissionResult(Wire, frozen=True, kw_only=True):
    """The result of a question about a call."""

    outcome: PermissionOutcome


class ElicitationResult(Wire, frozen=True, kw_only=True):
    """The result of a form."""

    action: str
    content: dict[str, Any] | None = None


class FileText(Wire, frozen=True, kw_only=True):
    """The text of a file as it stands in the editor."""

    content: str


def decode_params(params: Raw, form: type[T]) -> T:
    """Decode the parameters of a request. Raises msgspec.MsgspecError."""
    return msgspec.json.decode(bytes(params) or b"{}", type=form)
