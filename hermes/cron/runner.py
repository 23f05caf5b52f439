"""Protocols that the scheduler needs from above: a runner of prompts, and a delivery of output to people."""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from hermes.core.messages import TextPart
from hermes.cron.job import CronJob


class JobPrompt(Struct, frozen=True):
    """The prompt of a run: the person's words, and attached parts (a script's output, skills, sources)."""

    text: str
    parts: tuple[TextPart, ...] = ()


class JobRunOutcome(Struct, frozen=True, kw_only=True):
    """The outcome of a run. `reason` says why it failed, or what the person should know besides the answer."""

    ok: bool
    text: str = ""
    reason: str = ""
    session_id: str = ""
    nano: int = 0
    """Its cost, in nano-dollars."""


class JobRunner(Protocol):
    """Answers a prompt in a session of its own, with nobody there to ask."""

    async def run(self, job: CronJob, instant: float, prompt: JobPrompt) -> JobRunOutcome:
        """Run the prompt to its end. Cancelling ends it with all that it started. Raises HermesError when it cannot
        begin.
        """
        ...

    def stop(self, job_id: str) -> None:
        """Stop the job's running turn; `run` returns soon."""
        ...


class JobDelivery(Protocol):
    """Delivers output to where people read it."""

    async def can_reach(self, target: str) -> bool:
        """Return whether it can deliver to this target now.

        What nobody can reach stays pending until a process runs that can.
        """
        ...

    async def deliver(self, target: str, text: str, files: Sequence[Path], *, key: str, session_id: str = "") -> None:
        """Take over a text: when this returns it is on disk, or delivered.

        The same `key` again is the same text, which is sent once. `session_id` names the session it is from:
        untrusted content may stand there. Raises HermesError when it cannot be sent there at all.
        """
        ...


async def can_reach_all(delivery: JobDelivery, targets: Sequence[str]) -> bool:
    """Return whether it can deliver to all these targets now."""
    for one in targets:
        if not await delivery.can_reach(one):
            return False
    return True


class NoJobDelivery:
    """The delivery of a process without platforms: it reaches nobody."""

    async def can_reach(self, target: str) -> bool:
        """Return False."""
        return False

    async def deliver(self, target: str, text: str, files: Sequence[Path], *, key: str, session_id: str = "") -> None:
        """Never called."""
        raise NotImplementedError
