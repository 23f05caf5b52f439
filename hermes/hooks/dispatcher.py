"""Calls the hooks of a moment side by side and makes one result of their answers: the strictest counts."""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Sequence

from msgspec import Struct, field, structs

from hermes.core.messages import Provenance
from hermes.hooks.events import EVENT_TRAITS, HookEvent, HookRole
from hermes.hooks.hook import HookCall, HookDecision, HookError, HookOutcome, HookSource
from hermes.i18n.messages import N_
from hermes.tools.taint import join_provenances
from hermes.util.text import strip_control_characters, to_one_line

_LOG = logging.getLogger(__name__)
_MAX_TIMES = 256
_MAX_REASON = 2_000
_MAX_TEXT = 1_000_000
"""The most characters that a hook may put in the place of a text."""


class HookContext(Struct, frozen=True):
    """A text that a hook adds for the model."""

    name: str
    text: str
    provenance: Provenance | None = None


class HookResult(Struct, frozen=True, kw_only=True):
    """The answers of all hooks of a moment as one."""

    decision: HookDecision = HookDecision.NONE
    reason: str = ""
    """Why, with the name of the hook, for the model and the person."""
    outcomes: tuple[tuple[str, HookOutcome], ...] = ()
    """The answers by the names of their sources, in the order of these."""
    contexts: tuple[HookContext, ...] = ()
    ends_turn: bool = False


NO_RESULT = HookResult()


class HookStatistics(Struct):
    """How often a source was called, how long it took, and how often it could not answer."""

    calls: int = 0
    failures: int = 0
    last_failure: str = ""
    seconds: deque[float] = field(default_factory=lambda: deque(maxlen=_MAX_TIMES))

    @property
    def slow_seconds(self) -> float:
        """The seconds within which 95 of 100 of the last calls answered; 0 before the first."""
        ordered = sorted(self.seconds)
        return ordered[min(len(ordered) - 1, len(ordered) * 95 // 100)] if ordered else 0.0


class HookDispatcher:
    """The hooks of one session. `notify` shows a line to the person."""

    def __init__(self, sources: Sequence[HookSource], notify: Callable[[str], None]) -> None:
        self._sources = tuple(sources)
        self._notify = notify
        self._shown: set[str] = set()
        self.statistics: dict[str, HookStatistics] = {}
        """By the names of the sources."""

    def add_sources(self, sources: Sequence[HookSource]) -> None:
        """Ask these, too, from now on."""
        self._sources = (*self._sources, *sources)

    def has(self, call: HookCall) -> bool:
        """Return whether any hook wants to be told of this moment."""
        return any(_wants_call(source, call) for source in self._sources)

    async def run(self, call: HookCall, *, passed_over: frozenset[str] = frozenset()) -> HookResult:
        """Run all hooks of a moment, but those of the names in `passed_over`, and return their result.

        It raises nothing but CancelledError, which ends them.

        A guard that cannot answer says no; so does more than one hook that changes the arguments, unless they agree.
        """
        chosen = [one for one in self._sources if one.name not in passed_over and _wants_call(one, call)]
        if not chosen:
            return NO_RESULT
        answers = await self._ask_all(chosen, call)
        failures = [(name, one) for name, one in answers if isinstance(one, HookError)]
        outcomes = [(name, one) for name, one in answers if isinstance(one, HookOutcome)]
        for name, error in failures:
            self._tell_failure(call.event, name, error)
        for name, outcome in outcomes:
            self._tell_notices(name, outcome)
        return _combine_answers(EVENT_TRAITS[call.event].role, failures, outcomes)

    async def _ask_all(
        self, sources: Sequence[HookSource], call: HookCall
    ) -> Sequence[tuple[str, HookOutcome | HookError]]:
        """Return the answers of hooks that run side by side, in the order of their sources."""
        if len(sources) == 1:
            return [await self._run_source(sources[0], call)]
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._run_source(one, call), name=f"hook {one.name}") for one in sources]
        return [task.result() for task in tasks]

    async def _run_source(self, source: HookSource, call: HookCall) -> tuple[str, HookOutcome | HookError]:
        numbers = self.statistics.setdefault(source.name, HookStatistics())
        numbers.calls += 1
        began = time.monotonic()
        try:
            return source.name, await _ask_source(source, call)
        except HookError as error:
            numbers.failures += 1
            numbers.last_failure = str(error)
            _LOG.warning("hook %s at %s: %s", source.name, call.event, error)
            return source.name, error
        finally:
            numbers.seconds.append(time.monotonic() - began)

    def _tell_notices(self, name: str, outcome: HookOutcome) -> None:
        """Show the lines of a hook for the person; of one that reaches other machines also its reasons, which the model
        is not shown.
        """
        lines = (outcome.notice, outcome.reason if _is_foreign(outcome) else "")
        for line in filter(None, lines):
            self._notify(N_("{hook}: {text}", hook=name, text=_clean_reason(line)))

    def _tell_failure(self, event: HookEvent, name: str, error: HookError) -> None:
        """Show a line for a hook that could not answer, each reason once; a refusal of a guard is shown as such."""
        line = N_(
            "The hook {name} could not answer at {event}: {error}",
            name=name,
            event=event.value,
            error=to_one_line(strip_control_characters(str(error)), 300),
        )
        is_guard = EVENT_TRAITS[event].role is HookRole.GUARD
        if not is_guard and line not in self._shown and len(self._shown) < _MAX_TIMES:
            self._shown.add(line)
            self._notify(line)

    async def transform_text(self, call: HookCall) -> tuple[str, Provenance | None]:
        """Return the text of a moment as the hooks leave it, each given what the one before has left, and where that
        comes from, if from others than the person's own code.

        Where one cannot answer, a note stands in the place of the text: what was to be taken out of it is not known.
        """
        text, origin = call.text, None
        for source in self._sources:
            now = _with_text(call, text)
            if not _wants_call(source, now):
                continue
            name, answer = await self._run_source(source, now)
            if isinstance(answer, HookError):
                self._tell_failure(call.event, name, answer)
                return f"[Left out: the hook {name}, which changes such texts, could not answer.]", None
            if answer.text is not None:
                text, origin = answer.text[:_MAX_TEXT], join_provenances(origin, answer.provenance)
        return text, origin

    async def close(self) -> None:
        """Close all sources."""
        for source in self._sources:
            await source.close()


def _wants_call(source: HookSource, call: HookCall) -> bool:
    """Return whether a hook wants to be told of a moment; one that cannot say is asked."""
    try:
        return source.handles(call)
    except Exception:  # noqa: BLE001 - somebody else's code: it is asked, and what that raises is said
        _LOG.warning("hook %s cannot say whether it is for %s", source.name, call.event, exc_info=True)
        return True


async def _ask_source(source: HookSource, call: HookCall) -> HookOutcome:
    """Return the answer of a hook. Raises HookError, whatever it raises."""
    try:
        return await source.run_hook(call)
    except HookError:
        raise
    except Exception as error:  # noqa: BLE001 - somebody else's code, or arguments that nobody has foreseen
        _LOG.warning("hook %s failed at %s", source.name, call.event, exc_info=True)
        raise HookError(f"it failed: {type(error).__name__}: {to_one_line(str(error), 200)}") from None


def _is_foreign(outcome: HookOutcome) -> bool:
    """Return whether an answer may be made of what other machines say, so that no word of it instructs the model."""
    return outcome.provenance is not None and outcome.provenance.is_untrusted


def _combine_answers(
    role: HookRole, failures: Sequence[tuple[str, HookError]], outcomes: Sequence[tuple[str, HookOutcome]]
) -> HookResult:
    """Return the answers of all hooks of a moment as one."""
    is_failed_guard = bool(failures) and role is HookRole.GUARD
    refused = _explain_failed_guard(failures[0]) if is_failed_guard else _find_conflict(outcomes)
    if refused:
        return HookResult(decision=HookDecision.DENY, reason=refused)
    decision, reason = _find_strictest(outcomes)
    return HookResult(
        decision=decision,
        reason=reason,
        outcomes=tuple(outcomes),
        contexts=tuple(HookContext(name, one.context, one.provenance) for name, one in outcomes if one.context),
        ends_turn=any(one.ends_turn for _, one in outcomes),
    )


def _explain_failed_guard(failure: tuple[str, HookError]) -> str:
    name, error = failure
    return N_("the hook {name} could not answer ({error})", name=name, error=to_one_line(str(error), 300))


def _find_conflict(outcomes: Sequence[tuple[str, HookOutcome]]) -> str:
    """Return why changed arguments are not used; empty where they are, or there are none."""
    changed = [one for _, one in outcomes if one.arguments is not None]
    if any(map(_is_foreign, changed)):
        return N_("a hook that reaches other machines changes the arguments of the call")
    if any(one.arguments != changed[0].arguments for one in changed):
        return N_("several hooks change the arguments of the call in different ways")
    return ""


def _find_strictest(outcomes: Sequence[tuple[str, HookOutcome]]) -> tuple[HookDecision, str]:
    """Return the strictest decision with its reason."""
    for wanted in (HookDecision.DENY, HookDecision.ASK):
        for name, one in outcomes:
            if one.decision is wanted and _is_foreign(one):
                return wanted, N_("the hook {name} wants that, for a reason that only the person is shown", name=name)
            if one.decision is wanted:
                return wanted, N_("the hook {name} says: {reason}", name=name, reason=_clean_reason(one.reason))
    return HookDecision.NONE, ""


def _with_text(call: HookCall, text: str) -> HookCall:
    return call if text is call.text else structs.replace(call, text=text)


def _clean_reason(reason: str) -> str:
    return strip_control_characters(reason).strip()[:_MAX_REASON] or N_("no reason given")
