"""What a batch of tool calls goes through: names and JSON checked, duplicates taken out, the rest run, one message."""

from collections.abc import Sequence

import msgspec

from hermes.agent import words
from hermes.agent.closing import batch_message
from hermes.agent.turn import Deps, Emit, TurnState
from hermes.core.messages import Message
from hermes.core.outcomes import ExitReason
from hermes.core.parts import Part, ToolCallPart, ToolResultPart, ToolStatus
from hermes.core.stream import Answer
from hermes.tools.calls import check_arguments, deduplicate, over_the_cap, repair_name

MAX_INVALID_ROUNDS = 3
"""Batches in a row without one valid call that are answered with what is wrong; the next one ends the turn."""


def incomplete_calls(message: Message) -> list[str]:
    """Names of the calls whose arguments are not whole JSON."""
    return [call.name for call in message.calls() if check_arguments(call.arguments) is not None]


async def run_calls(answer: Answer, deps: Deps, state: TurnState, emit: Emit) -> None:
    """Append the assistant's message, run what can be run, and append one message with all results in call order."""
    message = _with_known_names(answer.message, deps.executor.names)
    await state.append(message, emit, answer.usage)
    calls = state.open_calls
    rejected = _rejections(calls, deps.executor.names)
    state.results.update(rejected)
    valid = [call for call in calls if call.call_id not in rejected]
    if valid:
        state.invalid_rounds = 0
        await deps.executor.run(valid, state.results, deps.journal, emit)
        if deps.executor.refunds(valid):
            state.budget.refund()
    elif all(result.status is ToolStatus.INVALID for result in rejected.values()):
        state.invalid_rounds += 1
    state.refused += sum(state.results[call.call_id].status is ToolStatus.REFUSED for call in valid)
    await state.append(batch_message(calls, state.results, deps.steering()), emit)
    if state.invalid_rounds > MAX_INVALID_ROUNDS:
        state.end(ExitReason.INVALID_CALLS, "The model kept sending calls that cannot be run. Try another model.")


def _with_known_names(message: Message, known: Sequence[str]) -> Message:
    """The message with mistyped tool names mended where it is clear which tool is meant, and every call id unique."""
    parts: list[Part] = []
    seen: set[str] = set()
    for part in message.parts:
        if not isinstance(part, ToolCallPart):
            parts.append(part)
            continue
        name = part.name if part.name in known else (repair_name(part.name, known) or part.name)
        call_id = part.call_id
        while call_id in seen:
            call_id += "_"
        seen.add(call_id)
        changed = name != part.name or call_id != part.call_id
        parts.append(msgspec.structs.replace(part, name=name, call_id=call_id) if changed else part)
    return msgspec.structs.replace(message, parts=tuple(parts))


def _rejections(calls: Sequence[ToolCallPart], known: Sequence[str]) -> dict[str, ToolResultPart]:
    """Results of the calls that are not run at all, by call id."""
    reasons: dict[str, tuple[str, ToolStatus]] = {}
    for call in calls:
        problem = check_arguments(call.arguments)
        if call.name not in known:
            text = words.UNKNOWN_TOOL.format(name=call.name, known=", ".join(known))
            reasons[call.call_id] = (text, ToolStatus.INVALID)
        elif problem is not None:
            reasons[call.call_id] = (words.INVALID_ARGUMENTS.format(problem=problem), ToolStatus.INVALID)
    runnable = [call for call in calls if call.call_id not in reasons]
    for call_id, first in deduplicate(runnable).items():
        reasons[call_id] = (words.DUPLICATE_CALL.format(call_id=first), ToolStatus.OK)
    for call, limit in over_the_cap([call for call in runnable if call.call_id not in reasons]):
        text = words.TOO_MANY_CALLS.format(limit=limit, name=call.name)
        reasons[call.call_id] = (text, ToolStatus.INVALID)
    return {
        call.call_id: ToolResultPart(
            call_id=call.call_id, name=call.name, text=reasons[call.call_id][0], status=reasons[call.call_id][1]
        )
        for call in calls
        if call.call_id in reasons
    }
