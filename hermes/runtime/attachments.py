"""Attachments of a person's message, frozen into it: what it refers to, and what a memory recalls."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from hermes.core.parts import ImagePart, TextPart
from hermes.runtime.mailbox import InboundMessage
from hermes.util.cancellation import wait_for_task

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
