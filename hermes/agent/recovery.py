"""What is done with an answer, or with the lack of one: an ordered table.

The first row that applies and has not been used up in this turn acts. A row says how often it may act in one turn; the
last ones end the turn by a name, so that every outcome has one.
"""

import time
from collections.abc import Awaitable, Callable

from msgspec import Struct

from hermes.agent import prompts
from hermes.agent.calls import incomplete_calls, run_calls
from hermes.agent.turn import Deps, Emit, TurnState
from hermes.core.frame import Rewrite
from hermes.core.messages import FinishReason, Message, Role, program_message
from hermes.core.outcomes import ExitReason, FailureKind
from hermes.core.parts import TextPart, ToolCallPart
from hermes.core.stream import Answer, Failure
from hermes.util.text import sentence

Outcome = Answer | Failure
UNLIMITED = 1 << 30
_WORTH_TELLING = 10.0
"""Seconds that a provider wants us to wait, from which on the person is told until when."""


class Row(Struct, frozen=True):
    """A recovery: its name, how often it may act in a turn, when it applies, what it does.

    `act` returns False when it found that it cannot help; the next row is asked then.
    """

    name: str
    limit: int
    applies: Callable[[Outcome, TurnState], bool]
    act: Callable[[Outcome, Deps, TurnState, Emit], Awaitable[bool | None]]


async def act_on(outcome: Outcome, deps: Deps, state: TurnState, emit: Emit) -> None:
    """Let the first row that applies act."""
    for row in ROWS:
        if state.used[row.name] < row.limit and row.applies(outcome, state):
            state.used[row.name] += 1
            if await row.act(outcome, deps, state, emit) is not False:
                return


def _message(outcome: Outcome) -> Message | None:
    return outcome.message if isinstance(outcome, Answer) else outcome.partial


def _text(outcome: Outcome) -> str:
    message = _message(outcome)
    return message.text.strip() if message is not None else ""


def _length(outcome: Outcome) -> bool:
    return isinstance(outcome, Answer) and outcome.message.finish is FinishReason.LENGTH


def _has_calls(outcome: Outcome) -> bool:
    return isinstance(outcome, Answer) and any(outcome.message.calls())


def _only_thought(outcome: Outcome, _: TurnState) -> bool:
    message = _message(outcome)
    return _length(outcome) and message is not None and not message.text.strip() and not any(message.calls())


def _call_cut(outcome: Outcome, _: TurnState) -> bool:
    return _length(outcome) and isinstance(outcome, Answer) and bool(incomplete_calls(outcome.message))


def _calls(outcome: Outcome, state: TurnState) -> bool:
    return _has_calls(outcome) and not state.final


def _text_cut(outcome: Outcome, state: TurnState) -> bool:
    return _length(outcome) and bool(_text(outcome)) and not state.final


def _answered(outcome: Outcome, _: TurnState) -> bool:
    return isinstance(outcome, Answer) and bool(_text(outcome))


def _final(outcome: Outcome, state: TurnState) -> bool:
    return isinstance(outcome, Answer) and state.final


def _empty_after_tools(outcome: Outcome, state: TurnState) -> bool:
    return isinstance(outcome, Answer) and bool(state.messages) and state.messages[-1].role is Role.TOOL


def _housekept(outcome: Outcome, state: TurnState) -> bool:
    """Whether the answer stands beside calls that only kept the agent's house in order."""
    if not _empty_after_tools(outcome, state) or len(state.messages) < 2:
        return False
    before = state.messages[-2]
    return bool(before.text.strip()) and all(call.name in state.housekeeping for call in before.calls())


def _thought(outcome: Outcome, _: TurnState) -> bool:
    message = _message(outcome)
    return isinstance(outcome, Answer) and message is not None and bool(message.reasoning.strip())


def _empty(outcome: Outcome, _: TurnState) -> bool:
    return isinstance(outcome, Answer)


def _stream_cut(outcome: Outcome, _: TurnState) -> bool:
    """Whether the text ends early: the stream broke, or the provider itself says that it could not go on."""
    if isinstance(outcome, Answer):
        return outcome.message.finish is FinishReason.CUT and bool(_text(outcome))
    return outcome.retryable and bool(_text(outcome))


def _filtered(outcome: Outcome, _: TurnState) -> bool:
    return isinstance(outcome, Answer) and outcome.message.finish is FinishReason.CONTENT_FILTER


def _failed(outcome: Outcome, _: TurnState) -> bool:
    return isinstance(outcome, Failure)


def _over_a_cap(outcome: Outcome, _: TurnState) -> bool:
    return isinstance(outcome, Failure) and outcome.kind is FailureKind.SPEND_LIMIT


def _without_calls(message: Message) -> Message:
    """The message with its calls left out, for calls that are not to be run."""
    parts = tuple(part for part in message.parts if not isinstance(part, ToolCallPart))
    return Message(role=message.role, parts=parts, finish=message.finish, origin=message.origin)


async def _thinking_exhausted(outcome: Outcome, deps: Deps, state: TurnState, emit: Emit) -> None:
    state.end(
        ExitReason.THINKING_EXHAUSTED,
        "The model spent its whole answer on thinking. Raise model.max_tokens or lower agent.reasoning_effort.",
    )


async def _split_calls(outcome: Outcome, deps: Deps, state: TurnState, emit: Emit) -> None:
    """Have the work split. What stood before a call is not the answer, whether the call was whole or not."""
    message = _message(outcome)
    assert message is not None
    state.answer.clear()
    names = ", ".join(incomplete_calls(message))
    kept = _without_calls(message)
    if not kept.text.strip():
        kept = Message(
            role=kept.role,
            parts=(*kept.parts, TextPart(text=prompts.CALL_NOTE.format(names=names))),
            finish=kept.finish,
            origin=kept.origin,
        )
    await _append_answer(outcome, kept, state, emit)
    await state.append(program_message(Role.USER, prompts.CALL_CUT.format(names=names)), emit)


async def _too_long(outcome: Outcome, deps: Deps, state: TurnState, emit: Emit) -> None:
    state.end(
        ExitReason.TRUNCATED,
        "The model's answers keep reaching their length limit. Raise model.max_tokens or ask for less at once.",
    )


async def _run(outcome: Outcome, deps: Deps, state: TurnState, emit: Emit) -> None:
    assert isinstance(outcome, Answer)
    state.answer.clear()
    await run_calls(outcome, deps, state, emit)


async def _go_on(outcome: Outcome, deps: Deps, state: TurnState, emit: Emit) -> None:
    message = _message(outcome)
    assert message is not None
    kept = _without_calls(message)
    state.answer.append(kept.text)
    await _append_answer(outcome, kept, state, emit)
    ask = prompts.CONTINUE_CUT if _stream_cut(outcome, state) else prompts.CONTINUE_TEXT
    await state.append(program_message(Role.USER, ask), emit)


async def _end_with_text(outcome: Outcome, deps: Deps, state: TurnState, emit: Emit) -> None:
    message = _message(outcome)
    assert message is not None
    kept = _without_calls(message)
    state.answer.append(kept.text)
    await _append_answer(outcome, kept, state, emit)
    if _stream_cut(outcome, state):
        why = outcome.message if isinstance(outcome, Failure) else "the provider could not finish it."
        state.end(ExitReason.PARTIAL_STREAM, f"The answer was cut off: {why}")
    elif state.final:
        state.end(ExitReason.BUDGET_EXHAUSTED, "The limit of steps for one turn (agent.max_turns) was reached.")
    elif _length(outcome):
        await _too_long(outcome, deps, state, emit)
    else:
        state.end(ExitReason.TEXT_RESPONSE)


async def _end_filtered(outcome: Outcome, deps: Deps, state: TurnState, emit: Emit) -> None:
    message = _message(outcome)
    assert message is not None
    kept = _without_calls(message)
    if kept.text.strip():
        state.answer.append(kept.text)
        await _append_answer(outcome, kept, state, emit)
    state.end(ExitReason.PROVIDER_ERROR, "The provider's content filter stopped the answer. Ask in another way.")


async def _end_without_text(outcome: Outcome, deps: Deps, state: TurnState, emit: Emit) -> None:
    state.end(ExitReason.BUDGET_EXHAUSTED, "The limit of steps for one turn (agent.max_turns) was reached.")


async def _nudge(outcome: Outcome, deps: Deps, state: TurnState, emit: Emit) -> None:
    await state.append(program_message(Role.USER, prompts.EMPTY_AFTER_TOOLS), emit)


async def _answered_before(outcome: Outcome, deps: Deps, state: TurnState, emit: Emit) -> None:
    state.answer.append(state.messages[-2].text)
    state.end(ExitReason.PRIOR_CONTENT)


async def _after_thought(outcome: Outcome, deps: Deps, state: TurnState, emit: Emit) -> None:
    """Let the model go on from its thoughts: as they stand where its wire can be continued, else asked for in words."""
    message = _message(outcome)
    assert message is not None
    endpoint = state.model.endpoint
    if endpoint.record.quirks.prefill and endpoint.wire == "chat_completions":
        await _append_answer(outcome, message, state, emit)
    else:
        await state.append(program_message(Role.USER, prompts.THOUGHT_ONLY), emit)


async def _empty_fall_back(outcome: Outcome, deps: Deps, state: TurnState, emit: Emit) -> bool | None:
    title = state.model.endpoint.record.title
    failure = Failure(kind=FailureKind.BAD_RESPONSE, message=f"{title} gave only empty answers.")
    return await deps.epochs.fall_back(state, failure, emit)


async def _again(outcome: Outcome, deps: Deps, state: TurnState, emit: Emit) -> None:
    """The same request once more: nothing is appended."""


async def _end_empty(outcome: Outcome, deps: Deps, state: TurnState, emit: Emit) -> None:
    if "".join(state.answer).strip():
        state.end(ExitReason.PARTIAL_STREAM, "The answer was cut off, and the model gave only empty ones after it.")
        return
    state.answer.append("(empty)")
    state.end(ExitReason.EMPTY_RESPONSE, "The model gave only empty answers. Try again, or another model.")


def _is(*kinds: FailureKind) -> Callable[[Outcome, TurnState], bool]:
    return lambda outcome, _: isinstance(outcome, Failure) and outcome.kind in kinds


def _rewriting(how: Rewrite) -> Callable[[Outcome, Deps, TurnState, Emit], Awaitable[bool | None]]:
    async def rewrite(outcome: Outcome, deps: Deps, state: TurnState, emit: Emit) -> bool | None:
        return await deps.epochs.rewrite(state, how, emit)

    return rewrite


def _too_big(outcome: Outcome, _: TurnState) -> bool:
    return isinstance(outcome, Failure) and outcome.compress


def _falls_back(outcome: Outcome, _: TurnState) -> bool:
    return isinstance(outcome, Failure) and outcome.fall_back


async def _compress(outcome: Outcome, deps: Deps, state: TurnState, emit: Emit) -> bool | None:
    return await deps.epochs.compress(state, emit)


async def _fall_back(outcome: Outcome, deps: Deps, state: TurnState, emit: Emit) -> bool | None:
    assert isinstance(outcome, Failure)
    return await deps.epochs.fall_back(state, outcome, emit)


async def _end_failed(outcome: Outcome, deps: Deps, state: TurnState, emit: Emit) -> None:
    assert isinstance(outcome, Failure)
    reason = ExitReason.RETRIES_EXHAUSTED if outcome.retryable else ExitReason.PROVIDER_ERROR
    if outcome.compress:
        reason = ExitReason.COMPRESSION_EXHAUSTED
    hint = outcome.hint or ("Try again later, or name a stand-in (`fallback_providers`)." if outcome.retryable else "")
    if outcome.retry_after is not None and outcome.retry_after >= _WORTH_TELLING:
        hint = f"It asks to wait until {_moment(deps.clock.now() + outcome.retry_after)}. {hint}"
    state.end(reason, f"{sentence(outcome.message)} {hint}".strip())


async def _end_over_a_cap(outcome: Outcome, deps: Deps, state: TurnState, emit: Emit) -> None:
    assert isinstance(outcome, Failure)
    state.end(ExitReason.SPEND_LIMIT, f"{outcome.message} {outcome.hint}".strip())


def _moment(at: float) -> str:
    """A time of day here, with the date when it is not today's."""
    form = "%H:%M" if time.localtime(at)[:3] == time.localtime()[:3] else "%Y-%m-%d %H:%M"
    return time.strftime(form, time.localtime(at))


async def _append_answer(outcome: Outcome, message: Message, state: TurnState, emit: Emit) -> None:
    usage = outcome.usage if isinstance(outcome, Answer) else None
    await state.append(message, emit, usage)


ROWS: tuple[Row, ...] = (
    Row("thinking_exhausted", UNLIMITED, _only_thought, _thinking_exhausted),
    Row("split_calls", 3, _call_cut, _split_calls),
    Row("calls_too_long", UNLIMITED, _call_cut, _too_long),
    Row("run_calls", UNLIMITED, _calls, _run),
    Row("go_on", 3, _text_cut, _go_on),
    Row("filtered", UNLIMITED, _filtered, _end_filtered),
    Row("go_on_after_cut", 3, _stream_cut, _go_on),
    Row("cut", UNLIMITED, _stream_cut, _end_with_text),
    Row("answered", UNLIMITED, _answered, _end_with_text),
    Row("final_without_text", UNLIMITED, _final, _end_without_text),
    Row("answered_before", UNLIMITED, _housekept, _answered_before),
    Row("nudge_after_tools", 1, _empty_after_tools, _nudge),
    Row("go_on_from_thoughts", 2, _thought, _after_thought),
    Row("ask_again", 3, _empty, _again),
    Row("empty_fall_back", UNLIMITED, _empty, _empty_fall_back),
    Row("empty", UNLIMITED, _empty, _end_empty),
    Row("over_a_cap", UNLIMITED, _over_a_cap, _end_over_a_cap),
    Row("shrink_images", 1, _is(FailureKind.IMAGE_TOO_LARGE), _rewriting(Rewrite.SMALL_IMAGES)),
    Row("results_as_text", 1, _is(FailureKind.TOOL_CONTENT), _rewriting(Rewrite.TEXT_RESULTS)),
    Row(
        "strip_reasoning",
        1,
        _is(FailureKind.THINKING_SIGNATURE, FailureKind.ENCRYPTED_CONTENT),
        _rewriting(Rewrite.NO_REASONING),
    ),
    Row("plain_schemas", 1, _is(FailureKind.GRAMMAR), _rewriting(Rewrite.PLAIN_SCHEMAS)),
    Row("compress", 3, _too_big, _compress),
    Row("fall_back", UNLIMITED, _falls_back, _fall_back),
    Row("failed", UNLIMITED, _failed, _end_failed),
)
