"""MCP servers that an editor hands in, as settings of a session."""

import re
from collections.abc import Sequence

from hermes.acp.protocol import McpServerParams
from hermes.config.settings import McpServerSettings
from hermes.core.encoding import hash_value
from hermes.core.errors import UsageError
from hermes.i18n.messages import N_

_MAX_SERVERS = 50
_UNUSABLE = re.compile(r"[^a-z0-9]+")
_MAX_NAME = 14


def convert_servers(given: Sequence[McpServerParams]) -> dict[str, McpServerSettings]:
    """Return the servers by names that stand for exactly what they are: what a person allows of one holds for no other
    that is called the same. Raises UsageError for what cannot be used.
    """
    if len(given) > _MAX_SERVERS:
        raise UsageError(N_("There are more than {n} MCP servers.", n=_MAX_SERVERS))
    found: dict[str, McpServerSettings] = {}
    for one in given:
        server = _convert_server(one)
        name = _UNUSABLE.sub("-", one.name.lower()).strip("-")[:_MAX_NAME].strip("-") or "server"
        found[f"{name}-{hash_value(server)[:6]}"] = server
    return found


def _convert_server(given: McpServerParams) -> McpServerSettings:
    if given.type not in ("stdio", "http", "sse"):
        raise UsageError(
            N_("MCP servers of the kind {kind} are not supported.", kind=given.type[:20]), "stdio, http, sse."
        )
    values = {one.name: one.value for one in (*given.env, *given.headers)}
    if any("${" in value for value in (*values.values(), given.url)):
        # In the person's own settings that stands for a variable of theirs; an editor gets none of these.
        raise UsageError(
            N_("A value of the MCP server {name} names a variable, which is not filled in.", name=given.name[:60])
        )
    if given.type != "stdio":
        return McpServerSettings(url=given.url, headers={one.name: one.value for one in given.headers})
    return McpServerSettings(command=given.command, args=given.args, env={one.name: one.value for one in given.env})
