"""The model client: one model call, made reliable. Every way it can end is a value, and what may be retried is retried.

A side task is one question to a model, without history or tools; each has its own order of models to ask.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from msgspec import Struct, field, structs

from hermes.core.errors import ConfigError
from hermes.core.events import Event, Level, Notice, Retrying
from hermes.core.frame import EpochFrame, Rewrite, Sampling
from hermes.core.messages import ImagePart, Message, user_message
from hermes.core.outcomes import FailureKind
from hermes.core.protocols import HttpTimeouts, HttpTransport
from hermes.core.stream import Answer, Failure
from hermes.core.usage import Usage
from hermes.i18n.messages import N_
from hermes.llm.classify import RequestSize
from hermes.llm.context_length import find_context_length
from hermes.llm.exchange import Emit, Meter, ProviderExchange, Unmetered, read_call_usage
from hermes.llm.key_pool import KEY_REFUSALS, KeyLease, ProviderKeys, SingleKey
from hermes.llm.lineage import CacheWatch, Lineage
from hermes.providers.wire import Endpoint, load_wire, takes_images
from hermes.util.clock import Clock
from hermes.util.text import end_sentence

_BASE_DELAY = 5.0
MAX_DELAY = 60.0
"""Seconds: the longest pause before a new try that nobody has asked for."""
_JITTER = 0.5
RETRY_SECONDS = 300.0
"""How long a call that fails for a passing reason is tried again."""
SIDE_TASK_SECONDS = 20.0
"""The same for a side task: no turn waits long for a title or a summary."""
BRIEF_RETRIES = 1
BRIEF_SECONDS = 15.0
"""The new tries of a call, and the seconds from its beginning in which they begin, where another model can answer."""
_ABSENT_RETRIES = 2
"""New tries where nothing listens on this machine: a server that restarts is back in a moment, or it was never there.
"""
_EPSILON = 1e-3
_OBEYED_TRIES = 2
"""New tries that begin as soon as the provider allows; after them our own pauses are the least."""


class RetryLimits(Struct, frozen=True, kw_only=True):
    """How long a call that fails for a passing reason is tried again, and how often (None: as the time allows)."""

    seconds: float = RETRY_SECONDS
    retries: int | None = None

    def shorten(self) -> "RetryLimits":
        """Return the limits where another model can answer."""
        retries = BRIEF_RETRIES if self.retries is None else min(self.retries, BRIEF_RETRIES)
        return RetryLimits(seconds=min(self.seconds, BRIEF_SECONDS), retries=retries)


class ModelClient:
    """Calls one provider's model. Safe for several calls at once; it closes the transport it was given."""

    def __init__(
        self,
        endpoint: Endpoint,
        transport: HttpTransport,
        clock: Clock,
        *,
        keys: ProviderKeys | None = None,
        meter: Meter | None = None,
        limits: RetryLimits | None = None,
        timeouts: HttpTimeouts | None = None,
    ) -> None:
        self.endpoint = endpoint
        self._transport = transport
        self._clock = clock
        self._keys = keys or SingleKey(endpoint.api_key)
        self._meter: Meter = meter or Unmetered()
        self._limits = limits or RetryLimits()
        self.streams = True
        """Whether side tasks ask for their answers as streams."""
        self._answered = False
        self.unfinished: Message | None = None
        """What had come of the last answer when its request was cancelled."""
        """Whether the server has given an answer, so that it is the right one."""
        self._timeouts = timeouts or HttpTimeouts()
        self._exchanges: dict[str, ProviderExchange] = {}
        self._watch = CacheWatch(endpoint.record.title, endpoint.cache_ttl)

    async def request_answer(
        self,
        lineage: Lineage,
        emit: Emit,
        *,
        final: bool = False,
        tools: bool = True,
        brief: bool = False,
        before: str = "",
    ) -> Answer | Failure:
        """Request the next answer; deltas go to `emit` as they arrive, and a `Retrying` before each new try. `final`
        and `tools` are as in `Lineage.build_body`.

        Never raises for what a server or the network does: that is a `Failure`. A call is retried only while no
        text of its answer has been emitted, and not when the provider wants a pause that ends after the time for new
        tries. `brief`: another model can answer, so this one gets a second try and little time. `before`: what the
        model has said of this answer already; what it repeats of that is left out. Cancelling the task closes the
        connection at once.
        """
        state = self._create_state(lineage, emit, brief=brief)
        state.before, state.tools = before, tools
        self.unfinished = None
        while True:
            outcome = await self._try_call(lineage, emit, state, final=final)
            if isinstance(outcome, Answer) or not await run_recovery(outcome, state):
                return outcome

    async def has_usable_key(self) -> bool:
        """Return whether a key can be used now; False while all of them wait for their limits to end."""
        return await self._keys.has_usable_key(self.endpoint.model)

    async def find_context_length(self) -> int | None:
        """Return the tokens of the model's window; asks the provider where neither settings nor record say it. None:
        unknown.
        """
        last = next(reversed(self._exchanges.values()), None)
        if last is not None:
            endpoint = last.endpoint
        else:
            lease = await self._keys.lease_key(self.endpoint.model)
            endpoint = self.endpoint if isinstance(lease, Failure) else lease.use_in(self.endpoint)
        return await find_context_length(endpoint, self._transport)

    @property
    def was_called(self) -> bool:
        """Return whether a call was made already."""
        return bool(self._exchanges)

    async def close(self) -> None:
        """Close the connections."""
        await self._transport.close()

    def _create_state(self, lineage: Lineage, emit: Emit, *, brief: bool) -> "RetryState":
        """Create the state of a call. The time of a brief one runs from its beginning, else from its first failure."""
        limits = self._limits.shorten() if brief else self._limits
        return RetryState(
            limits=limits,
            clock=self._clock,
            emit=emit,
            known_server=self._answered or lineage.holds_answers,
            deadline=self._clock.monotonic() + limits.seconds if brief else None,
        )

    async def _try_call(self, lineage: Lineage, emit: Emit, state: "RetryState", *, final: bool) -> Answer | Failure:
        """Try the call once: lease a key, reserve under the caps, exchange, and report the outcome to both."""
        state.has_other_key = False
        lease = await self._keys.lease_key(self.endpoint.model)
        if isinstance(lease, Failure):
            return lease
        grant = await self._meter.reserve(lineage, final=final)
        if isinstance(grant, Failure):
            return grant
        outcome: Answer | Failure | None = None
        exchange, began = self._exchange_for(lease, state), self._clock.now()
        call = exchange.create_call(emit, known_server=state.known_server, before=state.before)
        if not lineage.frame.streams:
            call.headers["accept"] = "application/json"
        try:
            body = lineage.build_body(final=final, max_tokens=grant.max_tokens, tools=state.tools)
            size = RequestSize(lineage.count_tokens(len(body)), self.endpoint.context_length)
            outcome = await exchange.run_call(body, call, size)
        except asyncio.CancelledError:
            self.unfinished = call.build_partial()
            raise
        finally:
            state.emitted_text = state.emitted_text or call.emitted_text
            self._meter.settle(grant, read_call_usage(call, outcome))
        if isinstance(outcome, Failure):
            outcome = await self._report_failure(lease, outcome, state)
        else:
            self._answered = True
            usage = outcome.usage or Usage()
            lineage.record_count(len(body), usage.input)
            await self._keys.report_success(lease)
            # What is asked without the epoch's tools has another beginning.
            if usage.input and state.tools:
                await self._warn_of_missing_hits(lineage, usage, emit, at=began, key=lease.key)
        return outcome

    async def _report_failure(self, lease: KeyLease, failure: Failure, state: "RetryState") -> Failure:
        """Report a failure to the keys, and note what that leaves for the next try; return it with their advice."""
        another = await self._keys.report_failure(lease, failure)
        state.has_other_key = another and lease.key not in state.failed_keys
        state.is_key_renewed = self._keys.was_renewed(lease)
        if failure.rotate:
            state.failed_keys.add(lease.key)
        if lease.advice and failure.kind in KEY_REFUSALS:
            return structs.replace(failure, hint=lease.advice)
        return failure

    def _drop_beta(self) -> None:
        """Leave the field of such features out of all further requests: the account, or the server, refuses them."""
        quirks = self.endpoint.record.quirks
        kept = {name: value for name, value in quirks.extra_headers.items() if name.lower() != quirks.beta_header}
        record = structs.replace(self.endpoint.record, quirks=structs.replace(quirks, extra_headers=kept))
        self.endpoint = structs.replace(self.endpoint, record=record)
        self._exchanges.clear()

    async def _warn_of_missing_hits(self, lineage: Lineage, usage: Usage, emit: Emit, *, at: float, key: str) -> None:
        """Tell the person when the provider's prompt cache has stopped to help."""
        line = lineage.check_cache_hits(self._watch, usage, at=at, key=key)
        if line:
            await emit(Notice(level=Level.WARNING, text=line))

    def _exchange_for(self, lease: KeyLease, state: "RetryState") -> ProviderExchange:
        """Return the exchange for a key; it is created once for each."""
        if state.drops_beta:
            self._drop_beta()
        found = self._exchanges.get(lease.key)
        if found is None:
            found = self._exchanges[lease.key] = ProviderExchange(
                lease.use_in(self.endpoint), self._transport, self._clock, self._timeouts
            )
        state.beta_field = found.beta_field
        return found


class RetryState(Struct):
    """The state that the recoveries of one call share."""

    limits: RetryLimits
    clock: Clock
    emit: Emit
    tools: bool = True
    """Whether the request offers the epoch's tools."""
    known_server: bool = False
    """Whether the server has answered in this session before."""
    before: str = ""
    """The beginning of the answer, where this call goes on with one."""
    deadline: float | None = None
    """The last moment (monotonic) at which a try may begin; None before the first failure."""
    tries: int = 0
    """How often the call was retried after a pause."""
    emitted_text: bool = False
    """Whether text of an answer was shown already; a new try would show it twice."""
    has_other_key: bool = False
    """Whether another key can replace the last try's."""
    is_key_renewed: bool = False
    """Whether that key is a newer one of the same account, which is nothing that a person has to know."""
    beta_field: str = ""
    """The header field in which the last try named features that not every account has; empty: none."""
    drops_beta: bool = False
    """Whether the next try, and all after it, leave that field out."""
    failed_keys: set[str] = field(default_factory=set)
    """Keys that were refused in this call: each gives way to another once, so rotation ends."""

    def __repr__(self) -> str:
        """Return how often the call was retried; what else is here holds keys."""
        return f"{type(self).__name__}(tries={self.tries})"

    def measure_left(self) -> float:
        """Return the seconds in which a new try may begin; they run from the first failure on."""
        now = self.clock.monotonic()
        if self.deadline is None:
            self.deadline = now + self.limits.seconds
        return self.deadline - now


class CallRecovery(Struct, frozen=True):
    """A recovery of a call: its name, when it applies, and what it does before the next try."""

    name: str
    applies: Callable[[Failure, RetryState], bool]
    act: Callable[[Failure, RetryState], Awaitable[None]]


async def run_recovery(failure: Failure, state: RetryState) -> bool:
    """Run the first recovery that applies; return False when none does and the failure stands."""
    for row in CALL_RECOVERIES:
        if row.applies(failure, state):
            await row.act(failure, state)
            return True
    return False


def _can_rotate(failure: Failure, state: RetryState) -> bool:
    return failure.rotate and state.has_other_key and not state.emitted_text


def _can_wait(failure: Failure, state: RetryState) -> bool:
    if not failure.retryable or state.emitted_text:
        return False
    if (most := _count_tries(failure, state)) is not None and state.tries >= most:
        return False
    if _is_absent(failure):
        return state.measure_left() > 0
    return max(failure.retry_after or 0.0, _EPSILON) <= state.measure_left()


def _count_tries(failure: Failure, state: RetryState) -> int | None:
    """Return how many new tries there are at most; None where only the time ends them."""
    most = state.limits.retries
    if _is_absent(failure) and not state.known_server:
        return _ABSENT_RETRIES if most is None else min(most, _ABSENT_RETRIES)
    return most


def _is_absent(failure: Failure) -> bool:
    """Return whether nothing listens on this machine; the wait is ours then, no provider's."""
    return failure.kind is FailureKind.UNREACHABLE and failure.retry_after is not None


async def _rotate_key(failure: Failure, state: RetryState) -> None:
    await state.emit(
        Retrying(state.tries + 1, 0.0, failure.kind.value, f"{end_sentence(failure.message)} Trying another key.")
    )


async def _wait_before_retry(failure: Failure, state: RetryState) -> None:
    state.tries += 1
    left = state.measure_left()
    delay = min(_compute_delay(failure, state.tries), left)
    most = _count_tries(failure, state)
    until = state.clock.now() + left if most is None else 0.0
    await state.emit(Retrying(state.tries, delay, failure.kind.value, failure.message, until, most or 0))
    await state.clock.sleep(delay)


def _can_use_renewed(failure: Failure, state: RetryState) -> bool:
    return state.is_key_renewed and _can_rotate(failure, state)


async def _use_renewed(failure: Failure, state: RetryState) -> None:
    """Do nothing: the next try takes the newer key by itself, and nobody is told."""


def _can_drop_beta(failure: Failure, state: RetryState) -> bool:
    return failure.kind is FailureKind.LONG_CONTEXT_TIER and bool(state.beta_field) and not state.emitted_text


async def _drop_beta(_failure: Failure, state: RetryState) -> None:
    state.drops_beta = True
    text = N_("The provider refuses `{field}`: it is left out from now on.", field=state.beta_field)
    await state.emit(Notice(level=Level.WARNING, text=text))


CALL_RECOVERIES: tuple[CallRecovery, ...] = (
    CallRecovery("renewed", _can_use_renewed, _use_renewed),
    CallRecovery("drop_beta", _can_drop_beta, _drop_beta),
    CallRecovery("rotate", _can_rotate, _rotate_key),
    CallRecovery("back_off", _can_wait, _wait_before_retry),
)
"""The recoveries, in order. They exhaust themselves: a key that failed is not handed out again, and time runs out."""


def _compute_delay(failure: Failure, attempt: int) -> float:
    """Return the seconds before the next try: the provider's wish, else doubling with jitter.

    A short wish is obeyed to the letter at first only: a server that always says "at once" is not to be flooded.
    """
    wish = failure.retry_after
    if wish is not None and (attempt <= _OBEYED_TRIES or wish >= _BASE_DELAY):
        return wish
    import random

    base = wish if wish and _is_absent(failure) else _BASE_DELAY
    step = min(base * 2.0 ** min(attempt - 1, 16), MAX_DELAY)
    return max(min(step * (1.0 + _JITTER * random.random()), MAX_DELAY), wish or 0.0)


_SYSTEM_REFUSED = frozenset({FailureKind.SYSTEM_ROLE, FailureKind.TOOL_ROLE, FailureKind.ROLE_ORDER})
"""What a server without a role for the system prompt says of a question; it is asked again without that role."""

OpenModel = Callable[[], Awaitable[ModelClient]]


class SideQuestion(Struct, frozen=True):
    """A question of a side task."""

    system: str
    text: str
    max_tokens: int | None = None
    images: tuple[ImagePart, ...] = ()


class SideTask:
    """One kind of side task. `models` are asked in order until one answers; each is opened when its turn comes."""

    def __init__(self, models: Sequence[OpenModel]) -> None:
        self._models = models

    async def ask(self, system: str, text: str, emit: Emit, *, max_tokens: int | None = None) -> str | Failure:
        """Return the answer's text, or why nobody gave one. Never raises for what a
        provider or a setting does wrong.
        """
        outcome = await self.request_answer(system, text, emit, max_tokens=max_tokens)
        return outcome if isinstance(outcome, Failure) else outcome.message.text.strip()

    async def request_answer(
        self, system: str, text: str, emit: Emit, *, max_tokens: int | None = None
    ) -> Answer | Failure:
        """Return the whole answer, which has text in it, or why nobody gave one; otherwise like `ask`."""
        return await self.answer_question(SideQuestion(system, text, max_tokens), emit)

    async def answer_question(self, question: SideQuestion, emit: Emit) -> Answer | Failure:
        """Do the same for a question that may have pictures: models that are known to take none are passed over."""
        failure = Failure(kind=FailureKind.UNKNOWN, message="No model is configured for this task.")
        for opened in self._models:
            try:
                client = await opened()
            except ConfigError as error:
                failure = Failure(kind=FailureKind.AUTH, message=error.message, hint=error.hint)
                continue
            if question.images and takes_images(client.endpoint) is False:
                failure = _blind_model_failure(client)
                continue
            outcome = await client.request_answer(_build_lineage(client, question), _only_pauses(emit))
            whole = _change_lineage(client, outcome, question)
            if whole is not None:
                outcome = await client.request_answer(whole, _only_pauses(emit))
            if isinstance(outcome, Failure):
                failure = outcome
            elif outcome.message.text.strip():
                return outcome
            else:
                failure = _empty_answer_failure(client, outcome)
        return failure

    async def context_window(self) -> int | None:
        """Return the window, in tokens, of the model that is asked first, where its settings or its record say it."""
        for opened in self._models:
            try:
                return (await opened()).endpoint.context_length
            except ConfigError:
                continue
        return None


def _change_lineage(client: ModelClient, outcome: Answer | Failure, question: SideQuestion) -> Lineage | None:
    """Return the question in the form that the server has asked for by its refusal, or None."""
    if not isinstance(outcome, Failure):
        return None
    if outcome.kind in _SYSTEM_REFUSED:
        whole = f"{question.system}\n\n{question.text}"
        return _build_lineage(client, structs.replace(question, system="", text=whole))
    if outcome.kind is FailureKind.STREAMING and client.streams:
        client.streams = False
        return _build_lineage(client, question)
    return None


def _build_lineage(client: ModelClient, question: SideQuestion) -> Lineage:
    # Nobody asks again with the same beginning, and what a mark lets a provider keep costs more.
    endpoint = structs.replace(client.endpoint, cache_ttl="")
    frame = EpochFrame(
        provider=endpoint.record.name,
        model=endpoint.model,
        wire=endpoint.wire,
        encoder_version=load_wire(endpoint.wire).version,
        system=question.system,
        sampling=Sampling(max_tokens=question.max_tokens),
        rewrites=() if client.streams else (Rewrite.WHOLE_ANSWERS,),
    )
    lineage = Lineage(frame, endpoint)
    lineage.append_messages((user_message(question.text, *question.images),))
    return lineage


def _only_pauses(emit: Emit) -> Emit:
    """Return an `emit` that shows only pauses: a side task's text is not the conversation's."""

    async def emit_pause(event: Event) -> None:
        if isinstance(event, Retrying):
            await emit(event)

    return emit_pause


def _blind_model_failure(client: ModelClient) -> Failure:
    return Failure(
        kind=FailureKind.IMAGES_UNSUPPORTED, message=N_("{model} takes no pictures.", model=client.endpoint.model)
    )


def _empty_answer_failure(client: ModelClient, answer: Answer) -> Failure:
    title = client.endpoint.record.title
    return Failure(
        kind=FailureKind.BAD_RESPONSE, message=N_("{title} gave an empty answer.", title=title), usage=answer.usage
    )
