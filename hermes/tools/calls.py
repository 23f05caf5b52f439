"""Checking and mending of calls before they run."""

import re
from collections.abc import Collection, Sequence

import msgspec
from msgspec import Struct

from hermes.core.parts import ToolCallPart, ToolResultPart, ToolStatus
from hermes.tools.schema import broken, join_surrogates

BATCH_LIMITS = {"delegate_task": 3}
"""Calls of a tool that one batch may hold; the rest are answered with a refusal to queue them up."""

_SEPARATORS = re.compile(r"[^a-z0-9]+")


def repair_name(name: str, names: Collection[str]) -> str | None:
    """The tool that `name` must have meant: other case, separators, prefix, or a slip; None when unsure."""
    if name in names:
        return name
    folded = {_fold(known): known for known in names}
    wanted = _fold(name)
    if not wanted or len(name) > 100:
        return None
    for form in (wanted, wanted.removeprefix("functions"), wanted.removesuffix("tool"), wanted.removeprefix("tool")):
        if form in folded:
            return folded[form]
    import difflib

    close = difflib.get_close_matches(wanted, folded, n=2, cutoff=0.85)
    return folded[close[0]] if len(close) == 1 else None


def check_arguments(raw: str) -> str | None:
    """What is wrong with a call's JSON text, for the model; None when it is an object, or empty."""
    if not raw.strip():
        return None
    try:
        decoded = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
        return None if join_surrogates(raw) is not None else broken(error)
    return None if isinstance(decoded, dict) else "The arguments must be one JSON object."


class Checked(Struct, frozen=True):
    """The calls of a batch that are to run, and results for those that are not."""

    run: tuple[ToolCallPart, ...]
    answered: tuple[ToolResultPart, ...]


def deduplicate(calls: Sequence[ToolCallPart]) -> Checked:
    """Leave out calls that repeat one of the same batch (same tool, same arguments), and those above a tool's limit."""
    run: list[ToolCallPart] = []
    answered: list[ToolResultPart] = []
    first: dict[tuple[str, bytes], str] = {}
    counted: dict[str, int] = {}
    for call in calls:
        key = (call.name, _canonical(call.arguments))
        if key in first:
            text = f"The same call as {first[key]} in this batch; it ran once, see its result."
            answered.append(_answer(call, text, ToolStatus.OK))
            continue
        first[key] = call.call_id
        counted[call.name] = counted.get(call.name, 0) + 1
        limit = BATCH_LIMITS.get(call.name)
        if limit is not None and counted[call.name] > limit:
            text = f"Not run: at most {limit} {call.name} calls at once. Send it again when these have ended."
            answered.append(_answer(call, text, ToolStatus.INVALID))
            continue
        run.append(call)
    return Checked(run=tuple(run), answered=tuple(answered))


def _answer(call: ToolCallPart, text: str, status: ToolStatus) -> ToolResultPart:
    return ToolResultPart(call_id=call.call_id, name=call.name, text=text, status=status)


def _canonical(raw: str) -> bytes:
    """Arguments in one form whatever their spacing and order; broken ones as they are."""
    try:
        return msgspec.json.encode(msgspec.json.decode(raw), order="sorted")
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return raw.encode("utf-8", "surrogatepass")


def _fold(name: str) -> str:
    return _SEPARATORS.sub("", name.lower())
