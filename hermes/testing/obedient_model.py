"""A model that follows every order, so that only the policy stands between an order and its effect."""

import json
import re
from collections.abc import Iterator

from hermes.testing.conversation import Step, StepRole
from hermes.testing.recorded import RecordedRequest
from hermes.testing.script import Call, Reply, Say

CallBatch = tuple[Call, ...]

_PREFIX = r"^[^A-Za-z\n]*"
"""Line numbers, quote marks and list bullets, as tools put before a file's lines."""
_DO = re.compile(_PREFIX + r"DO:[ \t]*(\S+)[ \t]*(.*)$")
_SAY = re.compile(_PREFIX + r"SAY:[ \t]?(.*)$")
_BLANK = re.compile(r"^\s*\d*[|:]?\s*$")


class ObedientModel:
    """Follows the orders that it finds, whoever wrote them, and keeps no state.

    `DO: tool {json arguments}` orders a call. The DO lines of a text are run in order; lines without a blank line
    between them are one parallel batch. Orders are taken from the newest user message, and in its first turn from the
    system prompt too (a prompt may carry files, memories and skills). Orders inside a tool's result or in text that
    joins after it are run next, before those that still wait. Arguments are passed on unchanged, broken JSON included;
    none mean `{}`.

    When no order is left, or no tool is offered (`tools` empty or `tool_choice` none), it answers with the newest
    text's `SAY: ...` lines, else with a short text that quotes the last tool result or the person.
    """

    def reply(self, request: RecordedRequest) -> Reply:
        """Return the next batch, or the answer."""
        turn, system = _last_turn(request.conversation)
        waiting = _parse_batches(system)
        for step in turn:
            match step.role:
                case StepRole.ASSISTANT:
                    waiting = waiting[1:] if step.calls else waiting
                case _:
                    ordered = _parse_batches(step.text)
                    waiting = waiting + ordered if step is turn[0] else ordered + waiting
        choice = request.json.get("tool_choice")
        may_call = bool(request.tools) and choice not in ("none", {"type": "none"})
        if waiting and may_call:
            return Say(calls=waiting[0])
        return Say(_compose_answer(turn, system))


def _last_turn(conversation: list[Step]) -> tuple[list[Step], str]:
    """Return the steps since the newest user message that joins no tool result, and the system text that counts."""
    start = 0
    users = 0
    previous = StepRole.SYSTEM
    for index, step in enumerate(conversation):
        if step.role is StepRole.USER and (previous is StepRole.SYSTEM or _is_final_answer(conversation[index - 1])):
            start = index
            users += 1
        previous = step.role
    system = "\n\n".join(step.text for step in conversation if step.role is StepRole.SYSTEM)
    return conversation[start:], system if users <= 1 else ""


def _is_final_answer(step: Step) -> bool:
    return step.role is StepRole.ASSISTANT and not step.calls


def _text_lines(text: str) -> Iterator[str]:
    """Yield the lines of a text; of a JSON text the lines of every string in it."""
    try:
        value: object = json.loads(text)
    except ValueError:
        yield from text.splitlines()
    else:
        yield from _string_lines(value)


def _string_lines(value: object) -> Iterator[str]:
    match value:
        case str():
            yield from value.splitlines()
        case dict():
            for inner in value.values():
                yield from _string_lines(inner)
        case list():
            for inner in value:
                yield from _string_lines(inner)


def _parse_batches(text: str) -> list[CallBatch]:
    batches: list[CallBatch] = []
    group: list[Call] = []
    for line in [*_text_lines(text), ""]:
        if found := _DO.match(line):
            group.append(Call(found[1], found[2].strip() or "{}"))
        elif group and _BLANK.match(line):
            batches.append(tuple(group))
            group = []
    return batches


def _compose_answer(turn: list[Step], system: str) -> str:
    sources = [step.text for step in turn if step.role is not StepRole.ASSISTANT]
    for text in [*reversed(sources), system]:
        if said := [found[1] for line in _text_lines(text) if (found := _SAY.match(line))]:
            return "\n".join(said)
    results = [step.text for step in turn if step.role is StepRole.TOOL]
    if results:
        return f"The last tool said: {results[-1][:200]}"
    return f"You said: {sources[-1][:200]}" if sources else "Nobody said anything."
