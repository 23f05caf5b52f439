"""The conversation loop: prologue, [request, answer, tool calls]*, end.

It only orchestrates. What can go wrong with an answer is a row in `recovery.py`; what a batch of calls goes through is
in `calls.py`, and so is how an unanswered turn is closed. Stopping a turn is cancelling its task: the model's
connection and the running tools close on the way out, and the turn is closed and named before the cancellation goes on.
"""

import asyncio
import logging

from hermes.agent import prompts
from hermes.agent.recovery import apply_recovery
from hermes.agent.turn import Emit, TurnDeps, TurnState, build_closing_messages
from hermes.core.errors import HermesError
from hermes.core.events import Event, RequestEnded, RequestStarted, TurnEnded
from hermes.core.messages import PROGRAM, Message, Role, TextPart, program_message
from hermes.core.outcomes import ExitReason
from hermes.core.stream import Answer, TextDelta
from hermes.i18n.messages import N_
from hermes.util.cancellation import run_ignoring_cancellation
from hermes.util.text import to_one_line

_LOG = logging.getLogger(__name__)


async def run_turn(deps: TurnDeps, state: TurnState, emit: Emit) -> TurnEnded:
    """Run one turn to its named end.

    Cancelled, it closes the turn as interrupted, emits `TurnEnded` and raises CancelledError again. What the store
    cannot write is raised as it came (`StoreError`): a turn does not go on past what is on disk. Any other error is a
    fault of our own; the turn is closed and named all the same, so that the session can go on.
    """
    try:
        deps.meter.begin_turn(state.turn_id)
        await emit(state.opening)
        if state.resumed is None:
            if state.late_results is not None:
                await state.append_message(state.late_results, emit)
            if state.user.parts:
                await state.append_message(state.user, emit)
        else:
            from hermes.agent.resume import resume_turn

            await resume_turn(state.resumed, deps, state, emit)
        while state.exit_reason is None:
            await _run_step(deps, state, emit)
    except asyncio.CancelledError:
        state.exit_reason = ExitReason.INTERRUPTED
        await run_ignoring_cancellation(_close_turn(deps, state, emit))
        raise
    except HermesError:
        raise
    except Exception as error:  # noqa: BLE001 - a fault of our own: logged, and named as the turn's end
        _LOG.exception("turn %s failed", state.turn_id)
        said = N_(
            "Hermes hit an internal error ({name}: {error}).",
            name=type(error).__name__,
            error=to_one_line(str(error)),
        )
        state.end_turn(ExitReason.LOCAL_ERROR, N_("{said} The answer so far is kept; try again.", said=said))
    # A stop that comes this late changes nothing: the turn has ended, and only its end is still written down.
    return await run_ignoring_cancellation(_close_turn(deps, state, emit))


async def _run_step(deps: TurnDeps, state: TurnState, emit: Emit) -> None:
    """Make one model call and handle its answer."""
    if not state.final and not state.budget.take_step():
        state.final = True
        await state.append_message(program_message(Role.USER, prompts.BUDGET_SPENT), emit)
    await deps.epochs.prepare_request(state, emit)
    if deps.hooks is not None and (why := await deps.hooks.review_request(state.requests + 1)):
        state.end_turn(ExitReason.HOOK_STOPPED, why)
        return
    state.requests += 1
    await emit(RequestStarted(number=state.requests, bytes=state.lineage.message_bytes))
    started = deps.clock.monotonic()
    brief = deps.epochs.can_fall_back(state)
    try:
        outcome = await state.model.request_answer(
            state.lineage,
            _hold_text(emit) if deps.hooks is not None and deps.hooks.holds_answers else emit,
            final=state.final,
            tools=not state.without_tools,
            brief=brief,
            before="".join(state.answer),
        )
    except asyncio.CancelledError:
        state.unfinished = state.model.unfinished
        raise
    if outcome.usage is not None:
        state.usage += outcome.usage
    if isinstance(outcome, Answer):
        if outcome.usage is not None:
            state.last_prompt_tokens = outcome.usage.input
        seconds = deps.clock.monotonic() - started
        await emit(RequestEnded(number=state.requests, seconds=seconds, usage=outcome.usage))
    await apply_recovery(outcome, deps, state, emit)


def _hold_text(emit: Emit) -> Emit:
    """Return what emits all but the text of an answer, which is shown once hooks have had it."""

    async def emit_others(event: Event) -> None:
        if not isinstance(event, TextDelta):
            await emit(event)

    return emit_others


def _build_stopped_answer(state: TurnState) -> Message | None:
    """Return what the model had said of an answer when the turn was stopped, with a note for it; None where that is
    nothing. Thoughts and calls that were under way are left out: half of one is of no use to any provider.
    """
    said = state.unfinished
    if said is None or not said.text.strip() or not state.messages or state.messages[-1].role is Role.ASSISTANT:
        return None
    note = TextPart(text=prompts.STOPPED, provenance=PROGRAM)
    return Message(role=Role.ASSISTANT, parts=(TextPart(text=said.text), note), origin=said.origin)


async def _close_turn(deps: TurnDeps, state: TurnState, emit: Emit) -> TurnEnded:
    """Close the transcript where it is open, and emit how the turn ended."""
    reason = state.exit_reason or ExitReason.LOCAL_ERROR
    interrupted = reason is ExitReason.INTERRUPTED
    note = prompts.STOPPED if interrupted else prompts.ENDED_EARLY.format(reason=state.error or reason.value)
    if reason in (ExitReason.PRIOR_CONTENT, ExitReason.TEXT_RESPONSE):
        note = prompts.ANSWERED_BEFORE
    if interrupted and (said := _build_stopped_answer(state)) is not None:
        await state.append_message(said, emit)
    last = state.messages[-1] if state.messages and reason is not ExitReason.CALLER_TOOLS else None
    for message in build_closing_messages(last, state.known_results(), note):
        await state.append_message(message, emit)
    ended = TurnEnded(
        turn_id=state.turn_id,
        reason=reason,
        text="".join(state.answer),
        error=state.error,
        calls=state.requests,
        refused=state.refused,
        usage=state.usage,
        last_prompt_tokens=state.last_prompt_tokens,
        cost=deps.meter.cost,
    )
    await emit(ended)
    return ended
