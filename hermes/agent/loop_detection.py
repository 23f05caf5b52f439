"""Loop detection: warns the model when a turn repeats itself, then ends the turn.

What counts: the same call failing again and again, one tool failing whatever its arguments, the same
call giving the same result again. Rounds are counted, not calls: a batch counts once. A round in which
another call changed something resets the counts of exact repetitions, so that test, edit, test is no
loop. Waiting is none either: for a process, by a command that sleeps, or by one that takes real time.
"""

from collections.abc import Callable, Collection, Mapping, Sequence

import msgspec
from msgspec import Struct, field

from hermes.core.encoding import to_json
from hermes.core.messages import ToolCallPart, ToolResultPart, ToolStatus
from hermes.i18n.messages import N_
from hermes.tools.registry import Toolbox
from hermes.tools.tool import Tool
from hermes.util.text import compile_late

_FAILED = (ToolStatus.ERROR, ToolStatus.REFUSED, ToolStatus.INVALID)
_Key = tuple[str, str]


class LoopThresholds(Struct, frozen=True):
    """The numbers of rounds after which something is done; 0 means never."""

    exact_failure: int = 0
    same_tool_failure: int = 0
    no_progress: int = 0


class LoopLimits(Struct, frozen=True, kw_only=True):
    """The limits at which the model is warned, and at which the turn ends."""

    warn: LoopThresholds = LoopThresholds(2, 3, 2)
    stop: LoopThresholds = LoopThresholds(5, 8, 5)


class CallRound(Struct, frozen=True, kw_only=True):
    """One batch: its calls, their results by call id, and the calls that failed without an error status."""

    calls: Sequence[ToolCallPart]
    results: Mapping[str, ToolResultPart]
    failed: Collection[str] = ()
    slow: Collection[str] = ()
    """The ids of the calls that took real time."""

    def has_failed(self, call: ToolCallPart) -> bool:
        """Return whether a call of the batch failed, by its status or by what it ran."""
        return self.results[call.call_id].status in _FAILED or call.call_id in self.failed


class LoopFinding(Struct, frozen=True):
    """What a round showed: a warning for the model, and with `stop` the reason why the turn ends."""

    warning: str = ""
    stop: str = ""


_NOTHING = LoopFinding()


class LoopDetector(Struct):
    """The counts of one turn."""

    limits: LoopLimits
    _exact_failures: dict[_Key, int] = field(default_factory=dict)
    _tool_failures: dict[str, int] = field(default_factory=dict)
    _repetitions: dict[_Key, tuple[str, int]] = field(default_factory=dict)

    def observe_round(self, round_of_calls: CallRound, toolbox: Toolbox) -> LoopFinding:
        """Count a batch, and return the worst finding."""
        found = _NOTHING
        changed = False
        failures: dict[str, bool] = {}
        distinct = {(call.name, _normalize_arguments(call.arguments)): call for call in reversed(round_of_calls.calls)}
        for key, call in distinct.items():
            result = round_of_calls.results[call.call_id]
            tool = toolbox.find(call.name)
            waits = result.status not in _FAILED and _waits(tool, call)
            failed = not waits and round_of_calls.has_failed(call)
            failures[call.name] = failures.get(call.name, True) and failed
            if failed:
                found = _pick_worse(found, self._count_failure(key))
            else:
                self._exact_failures.pop(key, None)
                changed = changed or tool is None or not tool.repeatable
            if not waits and call.call_id not in round_of_calls.slow:
                found = _pick_worse(found, self._count_repetition(key, result.text))
        if changed:
            self._forget_others(distinct)
        return self._count_tool_failures(failures, found)

    def _count_failure(self, key: _Key) -> LoopFinding:
        count = self._exact_failures[key] = self._exact_failures.get(key, 0) + 1
        return self._make_finding(
            count,
            self.limits.warn.exact_failure,
            self.limits.stop.exact_failure,
            lambda: N_(
                "The same call of {key} has failed {count} times with the same arguments.", key=key[0], count=count
            ),
        )

    def _count_tool_failures(self, failures: Mapping[str, bool], found: LoopFinding) -> LoopFinding:
        """Count the tools all of whose calls failed in this round; return the worst finding."""
        for name, all_failed in failures.items():
            found = _pick_worse(found, self._count_tool_failure(name, failed=all_failed))
        return found

    def _count_tool_failure(self, name: str, *, failed: bool) -> LoopFinding:
        count = self._tool_failures[name] = self._tool_failures.get(name, 0) + 1 if failed else 0
        return self._make_finding(
            count,
            self.limits.warn.same_tool_failure,
            self.limits.stop.same_tool_failure,
            lambda: N_("{name} has failed {count} times in a row.", name=name, count=count),
        )

    def _count_repetition(self, key: _Key, text: str) -> LoopFinding:
        last, count = self._repetitions.get(key, ("", 0))
        count = count + 1 if last == text else 1
        self._repetitions[key] = (text, count)
        return self._make_finding(
            count,
            self.limits.warn.no_progress,
            self.limits.stop.no_progress,
            lambda: N_("The same call of {key} has given the same result {count} times.", key=key[0], count=count),
        )

    def _forget_others(self, keys: Collection[_Key]) -> None:
        """Reset the counts of other calls: after a change their repetitions are none any more."""
        self._exact_failures = {key: count for key, count in self._exact_failures.items() if key in keys}
        self._repetitions = {key: count for key, count in self._repetitions.items() if key in keys}

    @staticmethod
    def _make_finding(count: int, warn: int, stop: int, describe: Callable[[], str]) -> LoopFinding:
        """Return what a count means; nearly all mean nothing, and need no words."""
        if stop and count >= stop:
            return LoopFinding(stop=describe())
        return LoopFinding(warning=describe()) if warn and count >= warn else _NOTHING


_WAITING = compile_late(
    r"\bsleep\b(?!\s+0(?:\.0*)?(?:\s|[;&|)]|$))|(?:^|[;&|])\s*wait\b|--(?:wait|watch|follow)\b|\binotifywait\b"
    r"|\btail\s+-\w*[fF]|\bread\s+-\w*t"
)
"""What commands wait by."""


def _waits(tool: Tool | None, call: ToolCallPart) -> bool:
    """Return whether a call waits on purpose, so that the same result again is what it is for."""
    if tool is None or tool.polls:
        return tool is not None
    try:
        arguments = msgspec.json.decode(call.arguments)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return False
    return isinstance(arguments, dict) and _WAITING.search(tool.command(arguments)) is not None


def _pick_worse(one: LoopFinding, other: LoopFinding) -> LoopFinding:
    if one.stop or other.stop:
        return one if one.stop else other
    return one if one.warning else other


def _normalize_arguments(arguments: str) -> str:
    try:
        return to_json(msgspec.json.decode(arguments), is_sorted=True).decode()
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return arguments
