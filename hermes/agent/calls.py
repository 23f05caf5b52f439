"""Handling of a batch of tool calls: repair names, remove duplicates, run the rest, and append one message for all."""

from collections.abc import Collection, Mapping, Sequence

import msgspec

from hermes.agent import prompts
from hermes.agent.loop_detection import CallRound, LoopFinding
from hermes.agent.turn import Emit, TurnDeps, TurnState, find_result
from hermes.core.ids import is_nested_call
from hermes.core.messages import PROGRAM, Message, Part, Role, TextPart, ToolCallPart, ToolResultPart, ToolStatus
from hermes.core.outcomes import ExitReason
from hermes.core.stream import Answer
from hermes.tools.executor import CallBatch
from hermes.tools.registry import Toolbox, check_arguments, deduplicate_calls, repair_name
from hermes.tools.schema import ArgumentsError


def build_batch_message(
    calls: Sequence[ToolCallPart], results: Mapping[str, ToolResultPart], joined: Sequence[Part]
) -> Message:
    """Return one message for a whole batch: results in call order, then the parts that join the conversation here."""
    return Message(role=Role.TOOL, parts=(*(find_result(call, results) for call in calls), *joined))


MAX_INVALID_ROUNDS = 3
"""Batches in a row without one valid call that are answered with the fault; the next one ends the turn."""


def list_incomplete_calls(message: Message) -> list[str]:
    """Return the names of the calls whose arguments are not complete JSON."""
    return [call.name for call in message.tool_calls() if check_arguments(call.arguments) is not None]


async def run_calls(answer: Answer, deps: TurnDeps, state: TurnState, emit: Emit) -> None:
    """Append the assistant's message, run what can be run, and append one message with all results in call order."""
    message = _repair_calls(answer.message, deps.toolbox.list_names())
    message = await state.append_message(message, emit, answer.usage)
    await finish_calls(message, {}, deps, state, emit)


async def finish_calls(
    message: Message, known: Mapping[str, ToolResultPart], deps: TurnDeps, state: TurnState, emit: Emit
) -> None:
    """Run the calls of an appended message that have no `known` result, and append one message with all results."""
    calls = tuple(message.tool_calls())
    checked = deduplicate_calls(calls)
    state.answered_results = {result.call_id: result for result in checked.answered} | dict(known)
    state.batch = CallBatch(tuple(call for call in checked.run if call.call_id not in known))
    await deps.executor.run(state.batch, deps.context, deps.journal, deps.publish)
    results = state.known_results()
    if state.batch.has_handed_over:
        state.answer = [message.text]
        await _wait_for_caller(results, deps, state)
        return
    state.refused += sum(result.status is ToolStatus.REFUSED for result in results.values())
    invalid = all(result.status is ToolStatus.INVALID for result in results.values())
    state.invalid_rounds = state.invalid_rounds + 1 if invalid else 0
    if all(is_free_call(call, deps.toolbox) for call in calls):
        state.budget.refund_step()
    found = state.loop_detector.observe_round(
        CallRound(calls=calls, results=results, failed=state.batch.failed_ids, slow=state.batch.slow_ids), deps.toolbox
    )
    joining = [*deps.steering(), *_build_loop_note(found)]
    if found.stop:
        state.halt_turn(found.stop)
    await state.append_message(build_batch_message(calls, results, joining), emit)
    if state.invalid_rounds > MAX_INVALID_ROUNDS:
        state.end_turn(ExitReason.INVALID_CALLS, "The model kept sending calls that cannot be run. Try another model.")


def _build_loop_note(found: LoopFinding) -> list[TextPart]:
    """Return what the model is told of a loop: to go another way, or to say what it has found out; usually nothing."""
    if found.stop:
        return [TextPart(text=prompts.LOOP_STOPPED.format(found=found.stop), provenance=PROGRAM)]
    if found.warning:
        return [TextPart(text=prompts.LOOP_DETECTED.format(found=found.warning), provenance=PROGRAM)]
    return []


async def _wait_for_caller(results: Mapping[str, ToolResultPart], deps: TurnDeps, state: TurnState) -> None:
    """End the turn with the calls that the program that asked runs; what ran here is kept until it sends the rest."""
    await deps.journal.keep_results(tuple(results.values()))
    state.refused += sum(result.status is ToolStatus.REFUSED for result in results.values())
    state.end_turn(ExitReason.CALLER_TOOLS)


def build_late_results(
    calls: Sequence[ToolCallPart], known: Mapping[str, ToolResultPart], sent: Mapping[str, ToolResultPart]
) -> Message:
    """Return the message that completes a batch whose turn has ended with open calls.

    `known` are the results of what ran here, `sent` those of the program. A call that neither has gets a result that
    says so, since a transcript is never sent with an open call.
    """
    missing = [
        ToolResultPart(call_id=call.call_id, name=call.name, text=prompts.NO_CALLER_RESULT, status=ToolStatus.UNCERTAIN)
        for call in calls
        if call.call_id not in known and call.call_id not in sent
    ]
    return build_batch_message(calls, {**sent, **known, **{one.call_id: one for one in missing}}, ())


def is_free_call(call: ToolCallPart, toolbox: Toolbox) -> bool:
    """Return whether a batch of nothing but such calls costs no step, seen through a call that stands for another."""
    tool = toolbox.find(call.name)
    if tool is not None and tool.redirect is not None:
        try:
            target = tool.redirect(tool.parameters.decode(call.arguments))
        except (ArgumentsError, msgspec.DecodeError):
            return False
        tool = toolbox.find(target.name)
    return tool is not None and tool.refunds


def _repair_calls(message: Message, known: Collection[str]) -> Message:
    """Return the message with its calls repaired where what is meant is clear, and every call id unique."""
    parts: list[Part] = []
    seen: set[str] = set()
    ids = [call.call_id for call in message.tool_calls()]
    for part in message.parts:
        if not isinstance(part, ToolCallPart):
            parts.append(part)
            continue
        name, arguments = _repair_call(part, known)
        call_id = part.call_id
        while call_id in seen or is_nested_call(call_id, ids):
            call_id += "_"
        seen.add(call_id)
        changed = (name, arguments, call_id) != (part.name, part.arguments, part.call_id)
        if changed:
            part = msgspec.structs.replace(part, name=name, arguments=arguments, call_id=call_id)  # noqa: PLW2901
        parts.append(part)
    return msgspec.structs.replace(message, parts=tuple(parts))


def _repair_call(call: ToolCallPart, known: Collection[str]) -> tuple[str, str]:
    """Return the name and arguments that the call must mean; what is unclear stays as it was written."""
    name, arguments = call.name, call.arguments
    broken = check_arguments(arguments) is not None
    if name in known and not broken:
        return name, arguments
    from hermes.tools.call_repair import repair_arguments, unwrap_call  # rare: most calls are right

    if broken:
        arguments = repair_arguments(arguments) or arguments
    if name not in known:
        inner = unwrap_call(name, arguments)
        name = inner[0] if inner is not None else name
        name = name if name in known else (repair_name(name, known) or name)
        if inner is not None:
            name, arguments = (name, inner[1]) if name in known else (call.name, arguments)
    return name, arguments
