"""MCP servers that an editor hands in with a session: asked about before they are started, each for exactly what it is.

A server runs with all rights of the person, outside of the sandbox, and what an editor hands in may come from a
project. So the person's rules decide, or the person; without an answer nothing is started.
"""

import os
import shlex
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from msgspec import structs

from hermes.config.settings import McpServerSettings, Settings
from hermes.core.encoding import hash_value
from hermes.core.events import Event, Level, Notice, Refused
from hermes.core.messages import ImagePart, TextPart
from hermes.i18n.messages import N_
from hermes.runtime.mailbox import InboundMessage
from hermes.safety.environment import is_secret_variable
from hermes.tools.permissions.policy_gate import PolicyGate
from hermes.tools.permissions.prompts import ApprovalPrompter, describe_refusal
from hermes.tools.registry import Toolbox
from hermes.tools.session import ToolContext
from hermes.util.text import escape_line_breaks, redact_url, to_one_line

if TYPE_CHECKING:
    from hermes.mcp.servers import McpServers

_TOOL = "mcp"
_MAX_SHOWN = 4_000
"""The most characters of a server that a question shows."""
OpenServers = Callable[[Settings], "McpServers"]


class HandedServers:
    """The servers that an editor has handed in with one session. `close` ends those that were started."""

    def __init__(
        self,
        servers: Mapping[str, McpServerSettings],
        prompter: ApprovalPrompter,
        gate: PolicyGate,
        context: ToolContext,
        toolbox: Toolbox,
        open_servers: OpenServers,
        publish: Callable[[Event], None],
    ) -> None:
        self._waiting = dict(servers)
        self._prompter = prompter
        self._gate = gate
        self._context = context
        self._toolbox = toolbox
        self._open_servers = open_servers
        self._publish = publish
        self._closing: list[Callable[[], Awaitable[None]]] = []

    async def start_servers(self, _inbound: InboundMessage) -> Sequence[ImagePart | TextPart]:
        """Ask about the servers that were not decided on yet, and start those that are allowed, before the session's
        first message is answered. It attaches nothing; a stop cancels it, and the next message asks again.
        """
        allowed: dict[str, McpServerSettings] = {}
        for name, server in list(self._waiting.items()):
            if await self._ask_about(name, server):
                allowed[name] = server
            del self._waiting[name]
        if allowed:
            servers = self._open_servers(structs.replace(Settings(), mcp_servers=allowed))
            self._closing.append(servers.close)
            servers.start()
            tell = partial(_tell, self._publish)
            servers.join_session(self._toolbox, [one.spec.name for one in servers.servers], tell)
        return ()

    async def close(self) -> None:
        """End the servers."""
        while self._closing:
            await self._closing.pop()()

    async def _ask_about(self, name: str, server: McpServerSettings) -> bool:
        """Return whether a server may be started, by the person's rules or their answer."""
        decide = partial(self._gate.decide_server, _name_server(name, server), self._describe(server), self._context)
        decision = decide()
        outcome = await self._prompter.resolve_decision(f"mcp_server_{name}", _TOOL, decision, decide, self._publish)
        if not outcome.allowed:
            why = describe_refusal(outcome.answer) if outcome.answer is not None else outcome.decision.reason
            pattern = decision.pattern if outcome.answer is not None else ""
            self._publish(Refused(f"mcp_server_{name}", _TOOL, decision.subject, why, pattern))
        return outcome.allowed

    def _describe(self, server: McpServerSettings) -> str:
        """Return all that would be started or reached, without secrets: a variable can make another program of it."""
        words = [f"{name}={'…' if is_secret_variable(name) else value}" for name, value in server.env.items()]
        words += [redact_url(server.url)] if server.url else [server.command, *server.args]
        text = escape_line_breaks(self._context.redact(shlex.join(words)))
        if len(text) <= _MAX_SHOWN:
            return text
        left = len(text) - _MAX_SHOWN
        return N_("{text} [... {n} characters more, which are not shown]", text=text[:_MAX_SHOWN], n=left)


def _name_server(name: str, server: McpServerSettings) -> str:
    """Return the words that stand for exactly this server: its name, its program or host, and a hash of all of it."""
    what = redact_url(server.url) if server.url else os.path.basename(server.command)
    return f"mcp-server {name} {hash_value(server)[:16]} {to_one_line(what, 60)}"


def _tell(publish: Callable[[Event], None], text: str) -> None:
    publish(Notice(level=Level.WARNING, text=text))
