"""Resuming a turn whose process died, from its last stored step."""

from collections.abc import Iterable

from hermes.agent import prompts
from hermes.agent.calls import finish_calls, is_free_call
from hermes.agent.turn import Emit, ResumedTurn, TurnDeps, TurnState
from hermes.core.events import Level, Notice
from hermes.core.messages import PROGRAM, FinishReason, Message, Role, TextPart, ToolStatus, program_message
from hermes.core.outcomes import ExitReason
from hermes.i18n.messages import N_
from hermes.tools.registry import Toolbox
from hermes.util.text import to_one_line

_UNFINISHED = (FinishReason.LENGTH, FinishReason.CUT)


def restore_turn(state: TurnState, resumed: ResumedTurn, toolbox: Toolbox) -> None:
    """Restore a turn's state from its stored messages: the steps it used, the pieces of its answer."""
    state.messages.extend(resumed.messages)
    last = resumed.messages[-1]
    state.answer.extend(collect_answer(resumed.messages))
    for message in resumed.messages:
        if message.role is not Role.ASSISTANT or message.synthetic:
            continue
        state.requests += 1
        state.budget.take_step()
        # The last one's are refunded when they have run.
        if any(message.tool_calls()) and message is not last and _is_free(message, toolbox):
            state.budget.refund_step()
    state.final = any(_is_budget_note(message) for message in resumed.messages)
    for message in resumed.messages:
        if message.role is Role.TOOL and (found := _find_halt(message)):
            state.halt_turn(found)


def collect_answer(messages: Iterable[Message]) -> list[str]:
    """Return the pieces of a turn's answer: what the model has said since its last call, which several messages hold
    where the connection broke or a limit of length was reached.
    """
    pieces: list[str] = []
    for message in messages:
        if _is_call_cut_note(message) or any(message.tool_calls()):
            pieces.clear()
        elif message.role is Role.ASSISTANT and not message.synthetic:
            pieces.append(message.text)
    return pieces


def _is_free(message: Message, toolbox: Toolbox) -> bool:
    return all(is_free_call(call, toolbox) for call in message.tool_calls())


async def resume_turn(resumed: ResumedTurn, deps: TurnDeps, state: TurnState, emit: Emit) -> None:
    """Do what stood between the last stored message and the next request; end a turn that only lacked its end."""
    last = resumed.messages[-1]
    await _notify_uncertain(last, resumed, deps, emit)
    if resumed.stopping or _is_note(last, prompts.STOPPED):
        state.answered_results = dict(resumed.results)
        state.end_turn(ExitReason.INTERRUPTED)
    elif last.role is not Role.ASSISTANT:
        return
    elif any(last.tool_calls()):
        await finish_calls(last, resumed.results, deps, state, emit)
    elif last.synthetic:
        state.end_turn(ExitReason.LOCAL_ERROR, "The program ended while this turn was being closed.")
    elif not last.text.strip():
        return  # thoughts alone: the model was to go on from them
    elif last.finish in _UNFINISHED and not state.final:
        ask = prompts.CONTINUE_CUT if last.finish is FinishReason.CUT else prompts.CONTINUE_TEXT
        await state.append_message(program_message(Role.USER, ask), emit)
    elif state.final:
        state.end_final()
    else:
        state.end_turn(ExitReason.TEXT_RESPONSE)


async def _notify_uncertain(last: Message, resumed: ResumedTurn, deps: TurnDeps, emit: Emit) -> None:
    """Tell the person which calls may have happened in part; the model reads it in the results."""
    for call in last.tool_calls():
        result = resumed.results.get(call.call_id)
        if result is not None and result.status is ToolStatus.UNCERTAIN:
            what = f"{call.name} {to_one_line(call.arguments, 100)}"
            said = N_("The program ended while this ran: {what}. All, part or none of it may have happened.", what=what)
            await emit(Notice(level=Level.WARNING, text=said))


def _is_note(message: Message, note: str) -> bool:
    """Return whether a message holds a note of Hermes', alone or behind what the model had said."""
    return message.role is Role.ASSISTANT and TextPart(text=note, provenance=PROGRAM) in message.parts


def _is_call_cut_note(message: Message) -> bool:
    said = prompts.CALL_CUT.partition("{")[0]
    return message.synthetic and message.role is Role.USER and message.text.startswith(said)


def _find_halt(message: Message) -> str:
    """Return why the turn was halted after these results; empty when it was not."""
    start, end = prompts.LOOP_STOPPED.split("{found}")
    texts = [part.text for part in message.parts if isinstance(part, TextPart) and part.provenance == PROGRAM]
    found = next((text for text in texts if text.startswith(start) and text.endswith(end)), "")
    return found.removeprefix(start).removesuffix(end)


def _is_budget_note(message: Message) -> bool:
    return message.synthetic and message.role is Role.USER and message.text == prompts.BUDGET_SPENT
