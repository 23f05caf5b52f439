"""Notices a turn that goes round in circles: first the model is told, then the turn is ended.

What counts (row X-27 of the feature list has the numbers): the same call failing again and again, one tool failing
whatever it is given, the same call giving the same result again. Rounds are counted, not calls: a batch counts once.
A round in which another call changed something begins the counts of exact repetitions anew, so that test, edit, test
is no circle. Waiting for a process is none either.
"""

from collections.abc import Collection, Mapping, Sequence

import msgspec
from msgspec import Struct, field

from hermes.core.parts import ToolCallPart, ToolResultPart, ToolStatus
from hermes.tools.registry import Toolbox

_FAILED = (ToolStatus.ERROR, ToolStatus.REFUSED, ToolStatus.INVALID)
_Key = tuple[str, str]


class GuardCounts(Struct, frozen=True):
    """After how many rounds something is done; 0: never."""

    exact_failure: int = 0
    same_tool_failure: int = 0
    no_progress: int = 0


class GuardLimits(Struct, frozen=True, kw_only=True):
    """When the model is told, and when the turn ends."""

    warn: GuardCounts = GuardCounts(2, 3, 2)
    stop: GuardCounts = GuardCounts(5, 8, 5)


class Round(Struct, frozen=True, kw_only=True):
    """One batch: its calls, their results by call id, and which of them failed without saying so in their status."""

    calls: Sequence[ToolCallPart]
    results: Mapping[str, ToolResultPart]
    failed: Collection[str] = ()


class Finding(Struct, frozen=True):
    """What a round showed: a line for the model, and with `stop` the reason why the turn ends."""

    warning: str = ""
    stop: str = ""


class Guard(Struct):
    """The counts of one turn."""

    limits: GuardLimits
    _exact: dict[_Key, int] = field(default_factory=dict)
    _tools: dict[str, int] = field(default_factory=dict)
    _same: dict[_Key, tuple[str, int]] = field(default_factory=dict)

    def observe(self, this: Round, toolbox: Toolbox) -> Finding:
        """Take in a batch; the worst that it shows."""
        found = Finding()
        changed = False
        failures: dict[str, bool] = {}
        distinct = {(call.name, _canonical(call.arguments)): call for call in reversed(this.calls)}
        for key, call in distinct.items():
            result = this.results[call.call_id]
            tool = toolbox.find(call.name)
            failed = result.status in _FAILED or call.call_id in this.failed
            failures[call.name] = failures.get(call.name, True) and failed
            if failed:
                found = _worse(found, self._failed_again(key))
            else:
                self._exact.pop(key, None)
                changed = changed or tool is None or not tool.repeatable
            if tool is None or not tool.polls:
                found = _worse(found, self._same_again(key, result.text))
        for name, all_failed in failures.items():
            found = _worse(found, self._tool_failed_again(name, failed=all_failed))
        if changed:
            self._forget(distinct)
        return found

    def _failed_again(self, key: _Key) -> Finding:
        count = self._exact[key] = self._exact.get(key, 0) + 1
        said = f"The same call of {key[0]} has failed {count} times with the same arguments."
        return self._finding(count, self.limits.warn.exact_failure, self.limits.stop.exact_failure, said)

    def _tool_failed_again(self, name: str, *, failed: bool) -> Finding:
        count = self._tools[name] = self._tools.get(name, 0) + 1 if failed else 0
        said = f"{name} has failed {count} times in a row."
        return self._finding(count, self.limits.warn.same_tool_failure, self.limits.stop.same_tool_failure, said)

    def _same_again(self, key: _Key, text: str) -> Finding:
        last, count = self._same.get(key, ("", 0))
        count = count + 1 if last == text else 1
        self._same[key] = (text, count)
        said = f"The same call of {key[0]} has given the same result {count} times."
        return self._finding(count, self.limits.warn.no_progress, self.limits.stop.no_progress, said)

    def _forget(self, kept: Collection[_Key]) -> None:
        """Something was changed: repetitions of other calls are no repetitions any more."""
        self._exact = {key: count for key, count in self._exact.items() if key in kept}
        self._same = {key: count for key, count in self._same.items() if key in kept}

    @staticmethod
    def _finding(count: int, warn: int, stop: int, said: str) -> Finding:
        if stop and count >= stop:
            return Finding(stop=said)
        return Finding(warning=said) if warn and count >= warn else Finding()


def _worse(one: Finding, other: Finding) -> Finding:
    if one.stop or other.stop:
        return one if one.stop else other
    return one if one.warning else other


def _canonical(arguments: str) -> str:
    try:
        return msgspec.json.encode(msgspec.json.decode(arguments), order="sorted").decode()
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return arguments
