"""Finds the files that a session wrote before its process began, from the calls in its transcript."""

import os
from collections.abc import Iterable

from hermes.core.messages import Message, ToolCallPart, ToolResultPart, ToolStatus
from hermes.safety.shell.findings import EffectKind
from hermes.tools.registry import Toolbox
from hermes.tools.schema import ArgumentsError
from hermes.tools.session import ToolContext

_NOT_RUN_STATUSES = (ToolStatus.REFUSED, ToolStatus.INVALID)


def restore_written_files(messages: Iterable[Message], toolbox: Toolbox, context: ToolContext) -> None:
    """Record the files that these calls wrote, since a later call could run them unseen.

    The folder that a command ran in is not known any more: the workspace is assumed. In a sandbox nothing is recorded.
    """
    if context.backend.contained:
        return
    sources = "\n".join(context.state.taint.list_sources())
    messages = list(messages)
    results = (part for one in messages for part in one.parts if isinstance(part, ToolResultPart))
    status = {part.call_id: part.status for part in results}
    for call in (call for message in messages for call in message.tool_calls()):
        ended = status.get(call.call_id)
        if ended not in _NOT_RUN_STATUSES:
            for path in _list_written_files(call, toolbox, context, has_failed=ended is ToolStatus.ERROR):
                context.state.written_files.setdefault(os.path.realpath(path), sources)


def _list_written_files(call: ToolCallPart, toolbox: Toolbox, context: ToolContext, *, has_failed: bool) -> list[str]:
    """Return the files that a call wrote: a tool writes all or nothing, a command may stop halfway."""
    tool = toolbox.find_own(call.name)
    if tool is None:
        return []
    try:
        arguments = tool.parameters.decode(call.arguments)
    except ArgumentsError:
        return []
    found = [context.resolve_path(use.path) for use in tool.paths(arguments) if use.write and not has_failed]
    command = tool.command(arguments)
    if command:
        from hermes.safety.shell.commands import analyze_command

        judged = analyze_command(command, context.places.workspace, context.places, {})
        kinds = (EffectKind.WRITES, EffectKind.OVERWRITES)
        found += [target for one in judged.effects if one.kind in kinds for target in one.targets if target[:1] == "/"]
    return found
