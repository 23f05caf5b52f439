"""A transport to a server that is a program: one message a line on its standard streams."""

from hermes.execution.line_program import LineProgramTransport
from hermes.mcp.rpc import OutgoingMessage


class McpStdioTransport(LineProgramTransport):
    """The standard streams of a server. It ends with its whole tree when this is closed, and when Hermes dies."""

    answers_in_place = False

    async def set_version(self, version: str) -> None:
        """Do nothing: the version changes nothing here."""

    async def send(self, message: OutgoingMessage) -> None:
        """Send a message, without waiting until it is read. Raises `ToolError` when too much is unread."""
        await self.send_line(message.body)
