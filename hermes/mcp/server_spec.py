"""An MCP server as it was set up."""

from collections.abc import Mapping

from hermes.config.settings import McpOAuthSettings
from hermes.core.secret import KeyHolder


class McpServerSpec(KeyHolder, frozen=True, kw_only=True):
    """A server as the person set it up, its variables filled in. `name` is fit for tool names."""

    name: str
    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = {}
    folder: str = "/"
    url: str = ""
    headers: Mapping[str, str] = {}
    timeout: float = 300.0
    connect_timeout: float = 60.0
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    asks_approval: bool = True
    """Whether new and changed tools need approval."""
    oauth: McpOAuthSettings = McpOAuthSettings()
    """The client that signs in, its variables filled in."""
    protocol: str = ""
    """The version of the protocol to speak; empty: the newest that both speak."""
    settings_problem: str = ""
    """What is wrong with its settings, so that it cannot be started at all."""
