"""What a session wrote before its process began: read off the calls in its transcript."""

import os
from collections.abc import Iterable

from hermes.core.messages import Message
from hermes.core.parts import ToolCallPart, ToolResultPart, ToolStatus
from hermes.safety.shell.findings import EffectKind
from hermes.tools.registry import Toolbox
from hermes.tools.schema import ArgumentsError
from hermes.tools.session import ToolContext

_NOT_DONE = (ToolStatus.REFUSED, ToolStatus.INVALID)


def recall_written(messages: Iterable[Message], toolbox: Toolbox, context: ToolContext) -> None:
    """Note the files that these calls wrote, where a later one could run them unseen.

    Which folder a command ran in is not known any more: the workspace is taken for it. In a sandbox nothing is noted.
    """
    if context.backend.contained:
        return
    sources = "\n".join(context.state.taint.sources())
    messages = list(messages)
    results = [part for one in messages for part in one.parts if isinstance(part, ToolResultPart)]
    undone = {part.call_id for part in results if part.status in _NOT_DONE or _all_or_nothing(part)}
    for message in messages:
        for call in message.calls():
            if call.call_id in undone:
                continue
            for path in _written(call, toolbox, context):
                context.state.wrote.setdefault(os.path.realpath(path), sources)


def _all_or_nothing(result: ToolResultPart) -> bool:
    """Whether it is of a tool that writes all or nothing, and failed."""
    return result.status is ToolStatus.ERROR and result.name in ("write_file", "patch")


def _written(call: ToolCallPart, toolbox: Toolbox, context: ToolContext) -> list[str]:
    tool = toolbox.find(call.name)
    if tool is None:
        return []
    try:
        arguments = tool.parameters.decode(call.arguments)
    except ArgumentsError:
        return []
    found = [str(context.resolve(use.path)) for use in tool.paths(arguments) if use.write]
    command = tool.command(arguments)
    if command:
        from hermes.safety.shell.commands import analyse

        judged = analyse(command, context.places.workspace, context.places, {})
        kinds = (EffectKind.WRITES, EffectKind.OVERWRITES)
        found += [target for one in judged.effects if one.kind in kinds for target in one.targets if target[:1] == "/"]
    return found
