"""Brings along what a person's message refers to: tool calls in their name, through the gate, without questions."""

import os
from collections.abc import Callable, Sequence

from msgspec import structs

from hermes.context.references import ALL_LIMIT, MOST, ONE_LIMIT, WINDOW_SHARE, Reference, references
from hermes.core.events import Level
from hermes.core.messages import PROGRAM
from hermes.core.parts import ImagePart, TextPart, ToolResultPart, ToolStatus
from hermes.core.protocols import Intent
from hermes.runtime.mailbox import Inbound
from hermes.tools.executor import Batch, Executor
from hermes.tools.permissions.gate import Gate
from hermes.tools.permissions.git_hooks import programs_around
from hermes.tools.registry import Registry, Toolbox
from hermes.tools.session import ToolContext
from hermes.util.text import escaped, head_and_tail, one_line

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
        self,
        gate: Gate,
        context: ToolContext,
        notify: Callable[[Level, str], None],
        *,
        window: int | None,
        tools: Toolbox | None = None,
    ) -> None:
        """`tools` are those that the session has, where it may have no others."""
        self._context = context
        self._notify = notify
        fits = ALL_LIMIT if window is None else int(window * WINDOW_SHARE * _CHARACTERS_PER_TOKEN)
        self._room = min(ALL_LIMIT, fits)
        found = Registry().select(_TOOLSETS)
        if tools is not None:
            found.become([one for one in found if tools.find(one.name) is not None])
        self._tools = found
        self._executor = Executor(found, gate)

    async def brought(self, inbound: Inbound) -> list[ImagePart | TextPart]:
        """A part for each thing that the message refers to, in order; none for most messages."""
        found = [one for one in references(inbound.text) if one.wrong or self._tools.find(one.name) is not None]
        if not found:
            return []
        if len(found) > MOST:
            self._notify(Level.WARNING, f"Only the first {MOST} references were brought along.")
        found = [self._judged(one) for one in found[:MOST]]
        calls = {number: one.call(number) for number, one in enumerate(found) if not one.wrong}
        batch = Batch(tuple(calls.values()))
        await self._executor.run(batch, self._context, _NoJournal(), lambda event: None)
        by_id = {result.call_id: result for result in batch.results()}
        results = [by_id[calls[number].call_id] if number in calls else None for number in range(len(found))]
        return self._parts(found, results, batch)

    def _parts(
        self, found: Sequence[Reference], results: Sequence[ToolResultPart | None], batch: Batch
    ) -> list[ImagePart | TextPart]:
        """What the model is shown of each reference, as far as there is room."""
        parts: list[ImagePart | TextPart] = []
        room = self._room
        for one, result in zip(found, results, strict=True):
            if result is None or _missed(result, batch):
                parts.append(self._failed(one, result))
                continue
            text = head_and_tail(result.text, min(ONE_LIMIT, max(room, 200)))  # a fence keeps its first and last line
            room -= len(text)
            parts += [TextPart(f"[{one.written}]\n{text}", result.provenance or PROGRAM), *result.images]
        return parts

    def _judged(self, one: Reference) -> Reference:
        """The reference, or what is wrong with running git for it: no option switches all off that it could run."""
        if one.name != "terminal" or self._context.backend.contained:
            return one
        folder = os.path.realpath(self._context.state.cwd)
        trusted = not self._context.trust.source(folder, self._context.places.workspace)
        if trusted or programs_around(folder) == []:
            return one
        said = "this repository could run programs of its own; `hermes trust` vouches for it."
        return structs.replace(one, wrong=said)

    def _failed(self, reference: Reference, result: ToolResultPart | None) -> TextPart:
        """What the model is told; the person is told why, too."""
        why = reference.wrong if result is None else _why(result.text)
        self._notify(Level.WARNING, f"{reference.written} was not brought along: {why}")
        if result is None:
            return TextPart(f"[{reference.written} could not be brought along: {why}]", PROGRAM)
        text = head_and_tail(result.text, 2_000)
        return TextPart(f"[{reference.written} could not be brought along]\n{text}", result.provenance or PROGRAM)


def _missed(result: ToolResultPart, batch: Batch) -> bool:
    """Whether a call has not brought what it was made for, by its own word or by that of what it ran."""
    return result.status is not ToolStatus.OK or result.call_id in batch.failed


def _why(text: str) -> str:
    """A failure in the person's words: without the fence, and without what is said to the model alone."""
    lines = [line for line in text.splitlines() if not line.startswith(("<untrusted", "</untrusted"))]
    told = " ".join(lines).partition("Nothing was done.")[0]
    return one_line(escaped(told), 200) or "it failed."
