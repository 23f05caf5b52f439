"""Messages that close a turn without an answer, so that the transcript stays legal in every API format.

An open call gets a stored result, and a transcript that ends with a person's or a tool's message gets a
stored note. This is done once, when the turn ends (or when a session is opened whose last turn died),
never when a request is built.
"""

from collections.abc import Mapping, Sequence

from hermes.agent import prompts
from hermes.core.messages import Message, Role, program_message
from hermes.core.parts import Part, ToolCallPart, ToolResultPart, ToolStatus


def build_closing_messages(last: Message | None, results: Mapping[str, ToolResultPart], note: str) -> list[Message]:
    """Return the messages that close a turn whose transcript ends with `last`; empty when it is closed already."""
    if last is None or (last.role is Role.ASSISTANT and not any(last.tool_calls())):
        return []
    closing = []
    if last.role is Role.ASSISTANT:
        closing.append(Message(role=Role.TOOL, parts=tuple(_find_result(call, results) for call in last.tool_calls())))
    closing.append(program_message(Role.ASSISTANT, note))
    return closing


def build_batch_message(
    calls: Sequence[ToolCallPart], results: Mapping[str, ToolResultPart], joined: Sequence[Part]
) -> Message:
    """Return one message for a whole batch: results in call order, then the parts that join the conversation here."""
    return Message(role=Role.TOOL, parts=(*(_find_result(call, results) for call in calls), *joined))


def _find_result(call: ToolCallPart, results: Mapping[str, ToolResultPart]) -> ToolResultPart:
    known = results.get(call.call_id)
    if known is not None:
        return known
    return ToolResultPart(
        call_id=call.call_id, name=call.name, text=prompts.NOT_STARTED_CALL, status=ToolStatus.INTERRUPTED
    )
