"""Going on with a turn whose process died, from its last stored step."""

from hermes.agent import prompts
from hermes.agent.calls import finish_calls
from hermes.agent.turn import Deps, Emit, Resumed, TurnState
from hermes.core.events import Level, Notice
from hermes.core.messages import FinishReason, Message, Role, program_message
from hermes.core.outcomes import ExitReason
from hermes.core.parts import ToolStatus
from hermes.util.text import one_line

_UNFINISHED = (FinishReason.LENGTH, FinishReason.CUT)


def restore(state: TurnState, resumed: Resumed) -> None:
    """Put the turn's stored messages back into its state: the steps that were used, the pieces of its answer."""
    state.messages.extend(resumed.messages)
    for message in resumed.messages:
        if _says_call_cut(message):
            state.answer.clear()
        if message.role is not Role.ASSISTANT or message.synthetic:
            continue
        state.requests += 1
        state.budget.take()
        if any(message.calls()):
            state.answer.clear()
        else:
            state.answer.append(message.text)
    state.final = any(_says_budget_spent(message) for message in resumed.messages)


async def pick_up(resumed: Resumed, deps: Deps, state: TurnState, emit: Emit) -> None:
    """Do what stood between the last stored message and the next request; a turn that only lacked its end is ended."""
    last = resumed.messages[-1]
    await _tell_uncertain(last, resumed, deps, emit)
    if resumed.stopping or _is_note(last, prompts.STOPPED):
        state.answered = dict(resumed.results)
        state.end(ExitReason.INTERRUPTED)
    elif last.role is not Role.ASSISTANT:
        return
    elif any(last.calls()):
        await finish_calls(last, resumed.results, deps, state, emit)
    elif last.synthetic:
        state.end(ExitReason.LOCAL_ERROR, "The program ended while this turn was being closed.")
    elif not last.text.strip():
        return  # thoughts alone: the model was to go on from them
    elif last.finish in _UNFINISHED and not state.final:
        ask = prompts.CONTINUE_CUT if last.finish is FinishReason.CUT else prompts.CONTINUE_TEXT
        await state.append(program_message(Role.USER, ask), emit)
    else:
        state.end(ExitReason.BUDGET_EXHAUSTED if state.final else ExitReason.TEXT_RESPONSE)


async def _tell_uncertain(last: Message, resumed: Resumed, deps: Deps, emit: Emit) -> None:
    """Tell the person too what may have happened in part; the model reads it in the results."""
    for call in last.calls():
        result = resumed.results.get(call.call_id)
        if result is not None and result.status is ToolStatus.UNCERTAIN:
            what = f"{call.name} {one_line(call.arguments, 100)}"
            said = f"The program ended while this ran: {what}. All, part or none of it may have happened."
            await emit(Notice(level=Level.WARNING, text=said))


def _is_note(message: Message, note: str) -> bool:
    return (
        message.synthetic
        and message.role is Role.ASSISTANT
        and any(getattr(part, "text", "") == note for part in message.parts)
    )


def _says_call_cut(message: Message) -> bool:
    said = prompts.CALL_CUT.partition("{")[0]
    return message.synthetic and message.role is Role.USER and message.text.startswith(said)


def _says_budget_spent(message: Message) -> bool:
    return message.synthetic and message.role is Role.USER and message.text == prompts.BUDGET_SPENT
