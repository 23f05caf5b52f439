"""The `send_message` tool of sessions in chats: a message or a file to a chat, a home chat or a person.

Where untrusted content stands in the conversation a message to another chat is asked about.
"""

from collections.abc import Sequence
from typing import Annotated, Protocol

from msgspec import structs

from hermes.config.chat_targets import ORIGIN
from hermes.core.errors import HermesError, ToolError
from hermes.i18n.messages import N_
from hermes.safety.shell.findings import CommandFinding, Verdict
from hermes.sessions.options import SessionOptions
from hermes.tools.schema import Arguments
from hermes.tools.session import ToolContext
from hermes.tools.tool import PathUse, Tool, tool
from hermes.util.text import to_one_line

_TOOLSET = "messages"


class MessageSender(Protocol):
    """Sends messages of sessions to chats."""

    async def send_message(self, session_id: str, target: str, text: str, file: str) -> str:
        """Put a message of a session into the outbox; return where it goes. Raises HermesError."""
        ...


class SendTool:
    """The tool over one sender, for many sessions."""

    def __init__(self, sender: MessageSender) -> None:
        self._tool = _make_tool(sender)

    def add_to_options(self, options: SessionOptions) -> SessionOptions:
        """Return the options of a session with this tool."""
        return structs.replace(options, extra_tools=(*options.extra_tools, self._tool))


def _make_tool(sender: MessageSender) -> Tool:
    @tool(
        _TOOLSET,
        deferred=True,
        brief="write to another chat or person",
        summary=_summarize_call,
        paths=lambda args: [PathUse(str(args["file"]))] if args.get("file") else [],
        shown=lambda args: "; ".join(f"{name}: {value}" for name, value in args.items() if value),
        doubts=_find_doubts,
    )
    async def send_message(
        ctx: ToolContext,
        target: Annotated[str, "origin (this chat), home, PLATFORM[:CHAT[:THREAD]], or a person's name."] = "",
        message: Annotated[str, "Markdown."] = "",
        file: Annotated[str, "Path of a file to send."] = "",
    ) -> str:
        """Send a message or a file now, to this or another chat. Answers in this chat need no tool."""
        path = str(ctx.resolve_path(file)) if file else ""
        try:
            return f"It goes to {await sender.send_message(ctx.session_id, target, ctx.redact(message), path)}."
        except HermesError as error:
            raise ToolError(str(error)) from None

    return send_message


def _summarize_call(arguments: Arguments) -> str:
    what = arguments.get("message") or arguments.get("file") or ""
    return f"send {to_one_line(str(what), 60)} to {arguments.get('target') or ORIGIN}"


def _find_doubts(arguments: Arguments, sources: Sequence[str]) -> list[CommandFinding]:
    """Doubt a message that leaves the conversation while untrusted content stands in it."""
    target = to_one_line(str(arguments.get("target") or ORIGIN), 80)
    if not sources or target.lower() == ORIGIN:
        return []
    reason = N_("it sends words to {target} while untrusted content stands in this conversation", target=target)
    return [CommandFinding(Verdict.ASK, "tainted-message", reason, N_("send to {target}", target=target))]
