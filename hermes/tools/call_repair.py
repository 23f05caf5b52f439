"""Checks and repairs calls before they run."""

import re
from collections.abc import Collection, Sequence

import msgspec
from msgspec import Struct

from hermes.core.parts import ToolCallPart, ToolResultPart, ToolStatus
from hermes.tools.schema import describe_json_error, join_surrogates

BATCH_LIMITS = {"delegate_task": 3}
"""The most calls of a tool that one batch may hold; the others are refused, to be sent again later."""

_SEPARATORS = re.compile(r"[^a-z0-9]+")


def repair_name(name: str, names: Collection[str]) -> str | None:
    """Return the tool that `name` must mean (other case, separators, prefix, or a typo), or None when unsure."""
    if name in names:
        return name
    folded = {_fold_name(known): known for known in names}
    wanted = _fold_name(name)
    if not wanted or len(name) > 100:
        return None
    for form in (wanted, wanted.removeprefix("functions"), wanted.removesuffix("tool"), wanted.removeprefix("tool")):
        if form in folded:
            return folded[form]
    import difflib

    close = difflib.get_close_matches(wanted, folded, n=2, cutoff=0.85)
    return folded[close[0]] if len(close) == 1 else None


def check_arguments(raw: str) -> str | None:
    """Return for the model what is wrong with a call's JSON text, or None when it is an object, or empty."""
    if not raw.strip():
        return None
    try:
        decoded = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
        return None if join_surrogates(raw) is not None else describe_json_error(error)
    return None if isinstance(decoded, dict) else "The arguments must be one JSON object."


class CheckedCalls(Struct, frozen=True):
    """The calls of a batch that are to run, and the results of those that are not."""

    run: tuple[ToolCallPart, ...]
    answered: tuple[ToolResultPart, ...]


def deduplicate_calls(calls: Sequence[ToolCallPart]) -> CheckedCalls:
    """Leave out calls that repeat one of the same batch (same tool, same arguments), and those above a tool's limit."""
    run: list[ToolCallPart] = []
    answered: list[ToolResultPart] = []
    first: dict[tuple[str, bytes], str] = {}
    counted: dict[str, int] = {}
    for call in calls:
        key = (call.name, _canonical_arguments(call.arguments))
        if key in first:
            text = f"The same call as {first[key]} in this batch; it ran once, see its result."
            answered.append(_build_result(call, text, ToolStatus.OK))
            continue
        first[key] = call.call_id
        counted[call.name] = counted.get(call.name, 0) + 1
        limit = BATCH_LIMITS.get(call.name)
        if limit is not None and counted[call.name] > limit:
            text = f"Not run: at most {limit} {call.name} calls at once. Send it again when these have ended."
            answered.append(_build_result(call, text, ToolStatus.INVALID))
            continue
        run.append(call)
    return CheckedCalls(run=tuple(run), answered=tuple(answered))


def _build_result(call: ToolCallPart, text: str, status: ToolStatus) -> ToolResultPart:
    return ToolResultPart(call_id=call.call_id, name=call.name, text=text, status=status)


def _canonical_arguments(raw: str) -> bytes:
    """Return arguments in one form whatever their spacing and order; broken ones stay as they are."""
    try:
        return msgspec.json.encode(msgspec.json.decode(raw), order="sorted")
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return raw.encode("utf-8", "surrogatepass")


def _fold_name(name: str) -> str:
    return _SEPARATORS.sub("", name.lower())
