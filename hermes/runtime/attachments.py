"""What comes along with a person's message, frozen into it: what it refers to, what a memory recalls."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from hermes.core.parts import ImagePart, TextPart
from hermes.runtime.mailbox import Inbound
from hermes.util.cancellation import finished

Bringer = Callable[[Inbound], Awaitable[Sequence[ImagePart | TextPart]]]
"""Brings something along with a message. It says itself what it could not bring; what it raises ends the turn."""


class Bringing:
    """Asks every bringer in order; a stop gives up the one that is at work."""

    def __init__(self) -> None:
        self.bringers: list[Bringer] = []
        self._task: asyncio.Task[None] | None = None

    def stop(self) -> None:
        """Give up what is being brought."""
        if self._task is not None:
            self._task.cancel()

    async def bring(self, inbound: Inbound) -> list[ImagePart | TextPart]:
        """What comes along; where a stop came in between, what was there by then."""
        parts: list[ImagePart | TextPart] = []

        async def ask() -> None:
            for bringer in tuple(self.bringers):  # one may be for this message only
                parts.extend(await bringer(inbound))

        if self.bringers:
            self._task = asyncio.create_task(ask(), name="bring along")
            try:
                await finished(self._task)
                if not self._task.cancelled():
                    self._task.result()
            finally:
                self._task = None
        return parts
