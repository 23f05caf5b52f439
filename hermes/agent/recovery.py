"""Recovery: an ordered table of what is done with an answer, or with a failure.

The first rule that applies and is not used up in this turn acts. A rule says how often it may act in
one turn; the last ones end the turn by a name, so that every outcome has one.
"""

import time
from collections.abc import Awaitable, Callable

from msgspec import Struct, structs

from hermes.agent import prompts
from hermes.agent.calls import list_incomplete_calls, run_calls
from hermes.agent.turn import Emit, TurnDeps, TurnState
from hermes.core.events import Level, Notice
from hermes.core.frame import Rewrite
from hermes.core.messages import FinishReason, Message, Role, TextPart, ToolCallPart, program_message
from hermes.core.outcomes import ExitReason, FailureKind
from hermes.core.stream import Answer, Failure, TextDelta
from hermes.i18n.messages import N_
from hermes.util.localizable import join_localizable
from hermes.util.text import end_sentence

ModelOutcome = Answer | Failure
UNLIMITED = 1 << 30
MAX_VERIFICATIONS = 8
"""How often in a turn hooks may want the model to go on after an answer."""
_TELL_AFTER_SECONDS = 10.0
"""Seconds that a provider wants us to wait, from which on the person is told until when."""


class RecoveryRule(Struct, frozen=True):
    """A recovery: its name, how often it may act in a turn, when it applies, and its action.

    `act` returns False when it cannot help; the next rule is asked then.
    """

    name: str
    limit: int
    applies: Callable[[ModelOutcome, TurnState], bool]
    act: Callable[[ModelOutcome, TurnDeps, TurnState, Emit], Awaitable[bool | None]]


async def apply_recovery(outcome: ModelOutcome, deps: TurnDeps, state: TurnState, emit: Emit) -> None:
    """Let the first rule that applies act."""
    for row in RECOVERY_RULES:
        if state.recovery_counts[row.name] < row.limit and row.applies(outcome, state):
            state.recovery_counts[row.name] += 1
            if await row.act(outcome, deps, state, emit) is not False:
                return


def _get_message(outcome: ModelOutcome) -> Message | None:
    return outcome.message if isinstance(outcome, Answer) else outcome.partial


def _get_text(outcome: ModelOutcome) -> str:
    message = _get_message(outcome)
    return message.text.strip() if message is not None else ""


def _is_length_cut(outcome: ModelOutcome) -> bool:
    return isinstance(outcome, Answer) and outcome.message.finish is FinishReason.LENGTH


def _has_calls(outcome: ModelOutcome) -> bool:
    return isinstance(outcome, Answer) and any(outcome.message.tool_calls())


def _only_repeats(outcome: ModelOutcome, _: TurnState) -> bool:
    return isinstance(outcome, Answer) and outcome.repeated


def _is_only_thinking(outcome: ModelOutcome, _: TurnState) -> bool:
    message = _get_message(outcome)
    return (
        _is_length_cut(outcome) and message is not None and not message.text.strip() and not any(message.tool_calls())
    )


def _is_call_cut(outcome: ModelOutcome, _: TurnState) -> bool:
    return _is_length_cut(outcome) and isinstance(outcome, Answer) and bool(list_incomplete_calls(outcome.message))


def _can_run_calls(outcome: ModelOutcome, state: TurnState) -> bool:
    return _has_calls(outcome) and not state.final


def _is_text_cut(outcome: ModelOutcome, state: TurnState) -> bool:
    return _is_length_cut(outcome) and bool(_get_text(outcome)) and not state.final


def _has_text(outcome: ModelOutcome, _: TurnState) -> bool:
    return isinstance(outcome, Answer) and bool(_get_text(outcome))


def _may_verify(outcome: ModelOutcome, state: TurnState) -> bool:
    """Return whether hooks may want more before an answer ends the turn."""
    return _has_text(outcome, state) and not state.final and state.verifications < MAX_VERIFICATIONS


def _is_final(outcome: ModelOutcome, state: TurnState) -> bool:
    return isinstance(outcome, Answer) and state.final


def _is_empty_after_tools(outcome: ModelOutcome, state: TurnState) -> bool:
    return isinstance(outcome, Answer) and bool(state.messages) and state.messages[-1].role is Role.TOOL


def _is_after_housekeeping(outcome: ModelOutcome, state: TurnState) -> bool:
    """Return whether the answer stands beside calls that only did housekeeping."""
    if not _is_empty_after_tools(outcome, state) or len(state.messages) < 2:
        return False
    before = state.messages[-2]
    return bool(before.text.strip()) and all(call.name in state.housekeeping for call in before.tool_calls())


def _has_reasoning(outcome: ModelOutcome, _: TurnState) -> bool:
    message = _get_message(outcome)
    return isinstance(outcome, Answer) and message is not None and bool(message.reasoning.strip())


def _is_answer(outcome: ModelOutcome, _: TurnState) -> bool:
    return isinstance(outcome, Answer)


def _is_stream_cut(outcome: ModelOutcome, _: TurnState) -> bool:
    """Return whether the text ends early: the stream broke, or the provider says that it could not go on."""
    if isinstance(outcome, Answer):
        return outcome.message.finish is FinishReason.CUT and bool(_get_text(outcome))
    return outcome.retryable and bool(_get_text(outcome))


def _is_filtered(outcome: ModelOutcome, _: TurnState) -> bool:
    return isinstance(outcome, Answer) and outcome.message.finish is FinishReason.CONTENT_FILTER


def _is_failure(outcome: ModelOutcome, _: TurnState) -> bool:
    return isinstance(outcome, Failure)


def _is_over_cap(outcome: ModelOutcome, _: TurnState) -> bool:
    return isinstance(outcome, Failure) and outcome.kind is FailureKind.SPEND_LIMIT


def _strip_calls(message: Message) -> Message:
    """Return the message without its calls, for calls that are not to be run."""
    parts = tuple(part for part in message.parts if not isinstance(part, ToolCallPart))
    return Message(role=message.role, parts=parts, finish=message.finish, origin=message.origin)


async def _end_said_before(outcome: ModelOutcome, deps: TurnDeps, state: TurnState, emit: Emit) -> None:
    """End with what was said: asked to go on, the model has nothing to add."""
    state.end_turn(ExitReason.TEXT_RESPONSE)


async def _end_thinking_exhausted(outcome: ModelOutcome, deps: TurnDeps, state: TurnState, emit: Emit) -> None:
    state.end_turn(
        ExitReason.THINKING_EXHAUSTED,
        "The model spent its whole answer on thinking. Raise model.max_tokens or lower agent.reasoning_effort.",
    )


async def _split_calls(outcome: ModelOutcome, deps: TurnDeps, state: TurnState, emit: Emit) -> None:
    """Ask the model to split the work. Text before a call is not the answer, whether or not the call was whole."""
    message = _get_message(outcome)
    assert message is not None
    state.answer.clear()
    names = ", ".join(list_incomplete_calls(message))
    text_message = _strip_calls(message)
    if not text_message.text.strip():
        text_message = Message(
            role=text_message.role,
            parts=(*text_message.parts, TextPart(text=prompts.CALL_NOTE.format(names=names))),
            finish=text_message.finish,
            origin=text_message.origin,
        )
    await _append_answer(outcome, text_message, state, emit)
    await state.append_message(program_message(Role.USER, prompts.CALL_CUT.format(names=names)), emit)


async def _end_too_long(outcome: ModelOutcome, deps: TurnDeps, state: TurnState, emit: Emit) -> None:
    state.end_turn(
        ExitReason.TRUNCATED,
        "The model's answers keep reaching their length limit. Raise model.max_tokens or ask for less at once.",
    )


async def _run_answer_calls(outcome: ModelOutcome, deps: TurnDeps, state: TurnState, emit: Emit) -> None:
    assert isinstance(outcome, Answer)
    state.answer.clear()
    await run_calls(outcome, deps, state, emit)


async def _ask_to_continue(outcome: ModelOutcome, deps: TurnDeps, state: TurnState, emit: Emit) -> None:
    message = _get_message(outcome)
    assert message is not None
    text_message = await _transform_answer(_strip_calls(message), deps, emit)
    state.answer.append(text_message.text)
    await _append_answer(outcome, text_message, state, emit)
    is_cut = _is_stream_cut(outcome, state)
    if is_cut and state.recovery_counts["go_on_after_cut"] == 1:
        said = "The connection broke in the middle of the answer: the model is asked to go on from there."
        await emit(Notice(level=Level.WARNING, text=said))
    ask = prompts.CONTINUE_CUT if is_cut else prompts.CONTINUE_TEXT
    await state.append_message(program_message(Role.USER, ask), emit)


async def _verify_answer(outcome: ModelOutcome, deps: TurnDeps, state: TurnState, emit: Emit) -> bool:
    """Ask the model to go on where hooks say that something is left to do."""
    message = _get_message(outcome)
    assert message is not None
    if deps.hooks is None:
        return False
    text_message = _strip_calls(message)
    left = await deps.hooks.review_answer(text_message.text, asked_before=state.verifications > 0)
    if not left:
        return False
    state.verifications += 1
    state.answer.clear()
    await _append_answer(outcome, await _transform_answer(text_message, deps, emit), state, emit)
    await state.append_message(program_message(Role.USER, prompts.HOOK_WANTS_MORE.format(left=left)), emit)
    return True


async def _transform_answer(message: Message, deps: TurnDeps, emit: Emit) -> Message:
    """Return an answer as hooks leave it; where it was held back for them, it is shown now."""
    if deps.hooks is None or not deps.hooks.holds_answers:
        return message
    part = await deps.hooks.transform_answer(message.text)
    await emit(TextDelta(part.text))
    others = [one for one in message.parts if not isinstance(one, TextPart)]
    return structs.replace(message, parts=(*others, part))


async def _end_with_text(outcome: ModelOutcome, deps: TurnDeps, state: TurnState, emit: Emit) -> None:
    message = _get_message(outcome)
    assert message is not None
    text_message = await _transform_answer(_strip_calls(message), deps, emit)
    state.answer.append(text_message.text)
    await _append_answer(outcome, text_message, state, emit)
    if _is_stream_cut(outcome, state):
        why = outcome.message if isinstance(outcome, Failure) else "the provider could not finish it."
        state.end_turn(ExitReason.PARTIAL_STREAM, N_("The answer was cut off: {why} `/retry` asks again.", why=why))
    elif state.final:
        state.end_final()
    elif _is_length_cut(outcome):
        await _end_too_long(outcome, deps, state, emit)
    else:
        state.end_turn(ExitReason.TEXT_RESPONSE)


async def _end_filtered(outcome: ModelOutcome, deps: TurnDeps, state: TurnState, emit: Emit) -> None:
    message = _get_message(outcome)
    assert message is not None
    text_message = _strip_calls(message)
    if text_message.text.strip():
        state.answer.append(text_message.text)
        await _append_answer(outcome, text_message, state, emit)
    state.end_turn(ExitReason.PROVIDER_ERROR, "The provider's content filter stopped the answer. Ask in another way.")


async def _ask_in_words(outcome: ModelOutcome, deps: TurnDeps, state: TurnState, emit: Emit) -> None:
    """Ask once more for the last answer.

    Some servers ignore that no call is wanted (Ollama has no `tool_choice`): theirs is asked for without tools. Not so
    in the other API formats: those that have calls in their history demand their tools.
    """
    state.without_tools = _has_calls(outcome) and state.model.endpoint.wire == "chat_completions"
    if state.without_tools:
        said = "The model still calls tools where its last answer is due: it is asked once more, without any."
        await emit(Notice(level=Level.INFO, text=said))
    await state.append_message(program_message(Role.USER, prompts.BUDGET_IN_WORDS), emit)


def _is_refused_without_tools(outcome: ModelOutcome, state: TurnState) -> bool:
    """Return whether the server demands tools of a request that has calls in its history."""
    return isinstance(outcome, Failure) and state.without_tools and outcome.kind is FailureKind.FORMAT_ERROR


async def _end_without_text(outcome: ModelOutcome, deps: TurnDeps, state: TurnState, emit: Emit) -> None:
    state.end_final()


async def _nudge_model(outcome: ModelOutcome, deps: TurnDeps, state: TurnState, emit: Emit) -> None:
    await state.append_message(program_message(Role.USER, prompts.EMPTY_AFTER_TOOLS), emit)


async def _end_answered_before(outcome: ModelOutcome, deps: TurnDeps, state: TurnState, emit: Emit) -> None:
    state.answer.append(state.messages[-2].text)
    state.end_turn(ExitReason.PRIOR_CONTENT)


async def _ask_for_answer(outcome: ModelOutcome, deps: TurnDeps, state: TurnState, emit: Emit) -> None:
    """Ask in words for the answer to what was only thought about.

    The thoughts are no message: servers refuse an answer without text, and a request that ends in one.
    """
    await state.append_message(program_message(Role.USER, prompts.THOUGHT_ONLY), emit)


async def _fall_back_after_empty(outcome: ModelOutcome, deps: TurnDeps, state: TurnState, emit: Emit) -> bool | None:
    title = state.model.endpoint.record.title
    failure = Failure(kind=FailureKind.BAD_RESPONSE, message=N_("{title} gave only empty answers.", title=title))
    return await deps.epochs.fall_back(state, failure, emit)


async def _retry_request(outcome: ModelOutcome, deps: TurnDeps, state: TurnState, emit: Emit) -> None:
    """Send the same request once more: nothing is appended."""


async def _end_empty(outcome: ModelOutcome, deps: TurnDeps, state: TurnState, emit: Emit) -> None:
    if "".join(state.answer).strip():
        state.end_turn(
            ExitReason.PARTIAL_STREAM, "The answer was cut off, and the model gave only empty ones after it."
        )
        return
    state.answer.append("(empty)")
    state.end_turn(ExitReason.EMPTY_RESPONSE, "The model gave only empty answers. Try again, or another model.")


def _has_kind(*kinds: FailureKind) -> Callable[[ModelOutcome, TurnState], bool]:
    return lambda outcome, _: isinstance(outcome, Failure) and outcome.kind in kinds


def _make_rewrite(how: Rewrite) -> Callable[[ModelOutcome, TurnDeps, TurnState, Emit], Awaitable[bool | None]]:
    async def apply_rewrite(outcome: ModelOutcome, deps: TurnDeps, state: TurnState, emit: Emit) -> bool | None:
        return await deps.epochs.rewrite_request(state, how, emit)

    return apply_rewrite


def _is_too_big(outcome: ModelOutcome, _: TurnState) -> bool:
    return isinstance(outcome, Failure) and outcome.compress


def _may_fall_back(outcome: ModelOutcome, _: TurnState) -> bool:
    return isinstance(outcome, Failure) and outcome.fall_back


async def _shrink_request(outcome: ModelOutcome, deps: TurnDeps, state: TurnState, emit: Emit) -> bool | None:
    assert isinstance(outcome, Failure)
    return await deps.epochs.shrink_request(state, outcome, emit)


async def _shrink_pictures(outcome: ModelOutcome, deps: TurnDeps, state: TurnState, emit: Emit) -> bool | None:
    assert isinstance(outcome, Failure)
    return await deps.epochs.shrink_pictures(state, outcome, emit)


async def _fall_back(outcome: ModelOutcome, deps: TurnDeps, state: TurnState, emit: Emit) -> bool | None:
    assert isinstance(outcome, Failure)
    return await deps.epochs.fall_back(state, outcome, emit)


async def _end_failed(outcome: ModelOutcome, deps: TurnDeps, state: TurnState, emit: Emit) -> None:
    assert isinstance(outcome, Failure)
    reason = ExitReason.RETRIES_EXHAUSTED if outcome.retryable else ExitReason.PROVIDER_ERROR
    if outcome.compress:
        reason = ExitReason.COMPRESSION_EXHAUSTED
    hint = outcome.hint or (
        "Try again later (`/retry`), or configure a fallback model (`fallback_providers`)." if outcome.retryable else ""
    )
    if outcome.retry_after is not None and outcome.retry_after >= _TELL_AFTER_SECONDS:
        hint = N_(
            "It asks to wait until {moment}. {hint}", moment=_moment(deps.clock.now() + outcome.retry_after), hint=hint
        )
    state.end_turn(reason, join_localizable(" ", (end_sentence(outcome.message), hint)))


async def _end_over_cap(outcome: ModelOutcome, deps: TurnDeps, state: TurnState, emit: Emit) -> None:
    assert isinstance(outcome, Failure)
    state.end_turn(ExitReason.SPEND_LIMIT, join_localizable(" ", (outcome.message, outcome.hint)))


def _moment(at: float) -> str:
    """Return a local time of day, with the date when it is not today's."""
    form = "%H:%M" if time.localtime(at)[:3] == time.localtime()[:3] else "%Y-%m-%d %H:%M"
    return time.strftime(form, time.localtime(at))


async def _append_answer(outcome: ModelOutcome, message: Message, state: TurnState, emit: Emit) -> None:
    usage = outcome.usage if isinstance(outcome, Answer) else None
    await state.append_message(message, emit, usage)


RECOVERY_RULES: tuple[RecoveryRule, ...] = (
    RecoveryRule("said_before", UNLIMITED, _only_repeats, _end_said_before),
    RecoveryRule("thinking_exhausted", UNLIMITED, _is_only_thinking, _end_thinking_exhausted),
    RecoveryRule("split_calls", 3, _is_call_cut, _split_calls),
    RecoveryRule("calls_too_long", UNLIMITED, _is_call_cut, _end_too_long),
    RecoveryRule("run_calls", UNLIMITED, _can_run_calls, _run_answer_calls),
    RecoveryRule("go_on", 3, _is_text_cut, _ask_to_continue),
    RecoveryRule("filtered", UNLIMITED, _is_filtered, _end_filtered),
    RecoveryRule("go_on_after_cut", 5, _is_stream_cut, _ask_to_continue),
    RecoveryRule("cut", UNLIMITED, _is_stream_cut, _end_with_text),
    RecoveryRule("verify_answer", UNLIMITED, _may_verify, _verify_answer),
    RecoveryRule("answered", UNLIMITED, _has_text, _end_with_text),
    RecoveryRule("answer_in_words", 1, _is_final, _ask_in_words),
    RecoveryRule("final_without_text", UNLIMITED, _is_final, _end_without_text),
    RecoveryRule("answered_before", UNLIMITED, _is_after_housekeeping, _end_answered_before),
    RecoveryRule("nudge_after_tools", 1, _is_empty_after_tools, _nudge_model),
    RecoveryRule("ask_for_answer", 2, _has_reasoning, _ask_for_answer),
    RecoveryRule("ask_again", 3, _is_answer, _retry_request),
    RecoveryRule("empty_fall_back", UNLIMITED, _is_answer, _fall_back_after_empty),
    RecoveryRule("empty", UNLIMITED, _is_answer, _end_empty),
    RecoveryRule("over_a_cap", UNLIMITED, _is_over_cap, _end_over_cap),
    RecoveryRule("shrink_pictures", UNLIMITED, _has_kind(FailureKind.IMAGE_TOO_LARGE), _shrink_pictures),
    RecoveryRule("results_as_text", 1, _has_kind(FailureKind.TOOL_CONTENT), _make_rewrite(Rewrite.TEXT_RESULTS)),
    RecoveryRule(
        "name_pictures",
        1,
        _has_kind(FailureKind.IMAGES_UNSUPPORTED, FailureKind.TOOL_CONTENT),
        _make_rewrite(Rewrite.NO_IMAGES),
    ),
    RecoveryRule(
        "strip_reasoning",
        1,
        _has_kind(FailureKind.THINKING_SIGNATURE, FailureKind.ENCRYPTED_CONTENT),
        _make_rewrite(Rewrite.NO_REASONING),
    ),
    RecoveryRule("plain_schemas", 1, _has_kind(FailureKind.GRAMMAR), _make_rewrite(Rewrite.PLAIN_SCHEMAS)),
    RecoveryRule(
        "replay_reasoning", 1, _has_kind(FailureKind.REASONING_MISSING), _make_rewrite(Rewrite.REPLAYED_REASONING)
    ),
    RecoveryRule("merge_roles", 1, _has_kind(FailureKind.ROLE_ORDER), _make_rewrite(Rewrite.MERGED_ROLES)),
    RecoveryRule("single_calls", 1, _has_kind(FailureKind.PARALLEL_CALLS), _make_rewrite(Rewrite.SINGLE_CALLS)),
    RecoveryRule("bare_calls", 1, _has_kind(FailureKind.CALLS_WITH_TEXT), _make_rewrite(Rewrite.BARE_CALLS)),
    RecoveryRule(
        "tell_calls",
        1,
        _has_kind(FailureKind.TOOL_ROLE, FailureKind.ROLE_ORDER),
        _make_rewrite(Rewrite.TOLD_CALLS),
    ),
    RecoveryRule(
        "no_system_role",
        1,
        _has_kind(FailureKind.SYSTEM_ROLE, FailureKind.TOOL_ROLE, FailureKind.ROLE_ORDER),
        _make_rewrite(Rewrite.NO_SYSTEM_ROLE),
    ),
    RecoveryRule("whole_answers", 1, _has_kind(FailureKind.STREAMING), _make_rewrite(Rewrite.WHOLE_ANSWERS)),
    RecoveryRule("shrink_request", 5, _is_too_big, _shrink_request),
    RecoveryRule("refused_without_tools", 1, _is_refused_without_tools, _end_without_text),
    RecoveryRule("fall_back", UNLIMITED, _may_fall_back, _fall_back),
    RecoveryRule("failed", UNLIMITED, _is_failure, _end_failed),
)
