"""Resolve references in a user's message by tool calls that pass the gate without prompts."""

import os
from collections.abc import Callable, Sequence

from msgspec import structs

from hermes.context.references import ALL_LIMIT, MOST, ONE_LIMIT, WINDOW_SHARE, Reference, references
from hermes.core.events import Level
from hermes.core.messages import PROGRAM
from hermes.core.parts import ImagePart, TextPart, ToolResultPart, ToolStatus
from hermes.core.protocols import Intent
from hermes.runtime.mailbox import Inbound
from hermes.tools.executor import CallBatch, Executor
from hermes.tools.permissions.gate import PermissionGate
from hermes.tools.permissions.git_hooks import list_repository_programs
from hermes.tools.registry import Toolbox, ToolRegistry
from hermes.tools.session import ToolContext
from hermes.util.text import escaped, head_and_tail, one_line

_CHARACTERS_PER_TOKEN = 4
_TOOLSETS = ("file", "terminal", "web")


class _NullJournal:
    """A journal that records nothing: a lookup has no effect that a crash could repeat."""

    async def intend(self, intents: Sequence[Intent]) -> None:
        """Record nothing."""

    async def done(self, result: ToolResultPart) -> None:
        """Record nothing."""


class ReferenceResolver:
    """Resolves the references of one session's messages.

    What the gate would ask about is not attached, and the user is told so.
    """

    def __init__(
        self,
        gate: PermissionGate,
        context: ToolContext,
        notify: Callable[[Level, str], None],
        *,
        window: int | None,
        tools: Toolbox | None = None,
    ) -> None:
        """`tools` limits the resolver to the tools of the session, where it may use no others."""
        self._context = context
        self._notify = notify
        fits = ALL_LIMIT if window is None else int(window * WINDOW_SHARE * _CHARACTERS_PER_TOKEN)
        self._room = min(ALL_LIMIT, fits)
        found = ToolRegistry().select_tools(_TOOLSETS)
        if tools is not None:
            found.replace_tools([one for one in found if tools.find(one.name) is not None])
        self._tools = found
        self._executor = Executor(found, gate)

    async def resolve_references(self, inbound: Inbound) -> list[ImagePart | TextPart]:
        """Return a part for each thing that the message refers to, in order; none for most messages."""
        found = [one for one in references(inbound.text) if one.wrong or self._tools.find(one.name) is not None]
        if not found:
            return []
        if len(found) > MOST:
            self._notify(Level.WARNING, f"Only the first {MOST} references were brought along.")
        found = [self._check_git_safety(one) for one in found[:MOST]]
        calls = {number: one.call(number) for number, one in enumerate(found) if not one.wrong}
        batch = CallBatch(tuple(calls.values()))
        await self._executor.run(batch, self._context, _NullJournal(), lambda event: None)
        by_id = {result.call_id: result for result in batch.collect_results()}
        results = [by_id[calls[number].call_id] if number in calls else None for number in range(len(found))]
        return self._build_parts(found, results, batch)

    def _build_parts(
        self, found: Sequence[Reference], results: Sequence[ToolResultPart | None], batch: CallBatch
    ) -> list[ImagePart | TextPart]:
        """Build what the model is shown of each reference, as far as there is room."""
        parts: list[ImagePart | TextPart] = []
        room = self._room
        for one, result in zip(found, results, strict=True):
            if result is None or _has_failed(result, batch):
                parts.append(self._failure_part(one, result))
                continue
            text = head_and_tail(result.text, min(ONE_LIMIT, max(room, 200)))  # a fence keeps its first and last line
            room -= len(text)
            parts += [TextPart(f"[{one.written}]\n{text}", result.provenance or PROGRAM), *result.images]
        return parts

    def _check_git_safety(self, one: Reference) -> Reference:
        """Return the reference, marked as wrong when git could run programs of the repository for it."""
        if one.name != "terminal" or self._context.backend.contained:
            return one
        folder = os.path.realpath(self._context.state.cwd)
        trusted = not self._context.trust.find_untrusted_folder(folder, self._context.places.workspace)
        if trusted or list_repository_programs(folder) == []:
            return one
        said = "this repository could run programs of its own; `hermes trust` vouches for it."
        return structs.replace(one, wrong=said)

    def _failure_part(self, reference: Reference, result: ToolResultPart | None) -> TextPart:
        """Tell the user why a reference failed, and return what the model is told."""
        why = reference.wrong if result is None else _failure_reason(result.text)
        self._notify(Level.WARNING, f"{reference.written} was not brought along: {why}")
        if result is None:
            return TextPart(f"[{reference.written} could not be brought along: {why}]", PROGRAM)
        text = head_and_tail(result.text, 2_000)
        return TextPart(f"[{reference.written} could not be brought along]\n{text}", result.provenance or PROGRAM)


def _has_failed(result: ToolResultPart, batch: CallBatch) -> bool:
    """Return whether a call has failed, by its own status or by that of the program that it ran."""
    return result.status is not ToolStatus.OK or result.call_id in batch.failed_ids


def _failure_reason(text: str) -> str:
    """Describe a failure for the user, without the fence and the text that is meant for the model."""
    lines = [line for line in text.splitlines() if not line.startswith(("<untrusted", "</untrusted"))]
    told = " ".join(lines).partition("Nothing was done.")[0]
    return one_line(escaped(told), 200) or "it failed."
