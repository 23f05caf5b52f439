"""The MCP servers of the person's settings."""

import contextlib
import os
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from hermes.config.environment import with_dotenv
from hermes.config.home import locate_home
from hermes.config.load import load_settings
from hermes.core.errors import NotFoundError, ToolError
from hermes.sessions.formats.openai_format import Plain
from hermes.sessions.mcp_servers import _server_names, open_servers
from hermes.sessions.secrets import build_redactor

if TYPE_CHECKING:
    pass


def listed(environ: Mapping[str, str]) -> list[Plain]:
    """The servers of the settings: name, whether it is on, how it is reached, whether its tools ask."""
    settings = load_settings(locate_home(environ)).settings
    return [
        {
            "name": name,
            "enabled": server.enabled,
            "transport": "stdio" if server.command else "http",
            "target": " ".join((server.command, *server.args)) if server.command else server.url,
            "trust": str(server.trust),
        }
        for name, server in ((name, settings.mcp_servers[given]) for name, given in _server_names(settings).items())
    ]


async def tried(environ: Mapping[str, str], name: str) -> Plain:
    """What came of starting a server and asking it for its tools: seconds, the tools, or what is wrong.

    Raises NotFoundError.
    """
    from hermes.execution.supervisor import Wardens

    home = locate_home(environ)
    settings = load_settings(home).settings
    environ = with_dotenv(environ, home.env_file)
    wardens = Wardens(environ)
    found = open_servers(
        settings, environ, home, wardens, build_redactor(environ, home, settings), workspace=os.getcwd(), only=name
    )
    if not found.servers:
        raise NotFoundError(f"There is no MCP server {name!r}.", "`hermes mcp list` shows those of config.yaml.")
    (server,) = found.servers
    began = time.monotonic()
    try:
        with contextlib.suppress(ToolError):
            await server.connect()
        return {
            "name": server.spec.name,
            "problem": server.problem,
            "seconds": round(time.monotonic() - began, 3),
            "tools": [
                {"name": one.name, "digest": one.digest, "reads_only": one.reads_only, "description": one.description}
                for one in server.tools
            ],
        }
    finally:
        await found.close()
        await wardens.close()
