"""Brings along what a person's message refers to: tool calls in their name, through the gate, without questions."""

from collections.abc import Callable, Sequence

from hermes.context.references import ALL_LIMIT, MOST, ONE_LIMIT, WINDOW_SHARE, Reference, references
from hermes.core.events import Level
from hermes.core.messages import PROGRAM
from hermes.core.parts import ImagePart, TextPart, ToolResultPart, ToolStatus
from hermes.core.protocols import Intent
from hermes.runtime.mailbox import Inbound
from hermes.tools.executor import Batch, Executor
from hermes.tools.gate import Gate
from hermes.tools.registry import Registry
from hermes.tools.session import ToolContext
from hermes.util.text import head_and_tail, one_line

_CHARACTERS_PER_TOKEN = 4
_TOOLSETS = ("file", "terminal", "web")


class _NoJournal:
    """Looking something up has no effect that a crash could repeat."""

    async def intend(self, intents: Sequence[Intent]) -> None:
        """Nothing is written down."""

    async def done(self, result: ToolResultPart) -> None:
        """Nothing is written down."""


class References:
    """Resolves the references of one session's messages. What the gate would ask about is not brought, and said so."""

    def __init__(
        self, gate: Gate, context: ToolContext, notify: Callable[[Level, str], None], *, window: int | None
    ) -> None:
        self._context = context
        self._notify = notify
        fits = ALL_LIMIT if window is None else int(window * WINDOW_SHARE * _CHARACTERS_PER_TOKEN)
        self._room = min(ALL_LIMIT, fits)
        self._executor = Executor(Registry().select(_TOOLSETS), gate)

    async def brought(self, inbound: Inbound) -> list[ImagePart | TextPart]:
        """A part for each thing that the message refers to, in order; none for most messages."""
        found = references(inbound.text)
        if not found:
            return []
        if len(found) > MOST:
            self._notify(Level.WARNING, f"Only the first {MOST} of {len(found)} references were brought along.")
        found = found[:MOST]
        calls = {number: one.call(number) for number, one in enumerate(found) if not one.wrong}
        batch = Batch(tuple(calls.values()))
        results = await self._executor.run(batch, self._context, _NoJournal(), lambda event: None)
        by_id = {result.call_id: result for result in results}
        parts: list[ImagePart | TextPart] = []
        room = self._room
        for number, one in enumerate(found):
            call = calls.get(number)
            result = by_id[call.call_id] if call is not None else None
            part = self._part(one, result, max(room, 200))
            room -= len(part.text)
            parts += [part, *(result.images if result is not None else ())]
        return parts

    def _part(self, reference: Reference, result: ToolResultPart | None, room: int) -> TextPart:
        if result is None or result.status is not ToolStatus.OK:
            why = reference.wrong if result is None else one_line(result.text, 300)
            self._notify(Level.WARNING, f"{reference.written} was not brought along: {why}")
            return TextPart(f"[{reference.written} could not be brought along: {why}]", PROGRAM)
        # Cut inside of the fence, if there is one: its first and last line stay.
        text = head_and_tail(result.text, min(ONE_LIMIT, room))
        return TextPart(f"[{reference.written}]\n{text}", result.provenance or PROGRAM)
