"""What comes along with a person's message, frozen into it: what it refers to, what a memory recalls, and a note of
time and folder where they are new."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence

from hermes.core.messages import PROGRAM
from hermes.core.parts import ImagePart, TextPart
from hermes.runtime.mailbox import InboundMessage
from hermes.safety.fencing import reveal_hidden_text, show_control_characters
from hermes.util.cancellation import wait_for_task
from hermes.util.text import to_one_line

AttachmentProvider = Callable[[InboundMessage], Awaitable[Sequence[ImagePart | TextPart]]]
"""Returns parts to attach to a message. It reports by itself what it could not attach; what it raises ends the turn."""


class AttachmentCollector:
    """Asks every attachment provider in order; a stop cancels the one that is at work."""

    def __init__(self) -> None:
        self.providers: list[AttachmentProvider] = []
        self._task: asyncio.Task[None] | None = None

    def stop_collecting(self) -> None:
        """Cancel the provider that is at work."""
        if self._task is not None:
            self._task.cancel()

    async def collect_parts(self, inbound: InboundMessage) -> list[ImagePart | TextPart]:
        """Return the attached parts; after a stop, those that were collected by then."""
        parts: list[ImagePart | TextPart] = []

        async def ask_providers() -> None:
            for provider in tuple(self.providers):  # one may be for this message only
                parts.extend(await provider(inbound))

        if self.providers:
            self._task = asyncio.create_task(ask_providers(), name="bring along")
            try:
                await wait_for_task(self._task)
                if not self._task.cancelled():
                    self._task.result()
            finally:
                self._task = None
        return parts


MOVED_SECONDS = 600.0
"""The time is given again when so many seconds have passed since it was last given."""

_PATH = 1_000


def build_turn_note(now: float, *, cwd: str, last_told: float | None, last_cwd: str | None) -> TextPart | None:
    """Build a note with the date, time and zone, and with the working folder when it is new; None when nothing is new.

    `last_told` is when a note was last given in this session (None: never), in seconds since the epoch.
    """
    told = []
    if last_told is None or abs(now - last_told) >= MOVED_SECONDS:
        local = time.localtime(now)
        told.append(time.strftime("%A %Y-%m-%d %H:%M %Z (UTC%z)", local))
    if cwd != last_cwd:
        name = reveal_hidden_text(show_control_characters(cwd)).text  # whoever packed an archive may have named it
        told.append(f"working folder {to_one_line(name, _PATH)}")
    if not told:
        return None
    return TextPart(text=f"[Now: {'; '.join(told)}]", provenance=PROGRAM)
