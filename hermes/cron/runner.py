"""What the scheduler needs from above: somebody who runs a prompt, somebody who carries words to people."""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from hermes.core.parts import TextPart
from hermes.cron.job import Job


class Prompt(Struct, frozen=True):
    """What a run is told: the person's words, and what goes along with them (a script's output, skills, sources)."""

    text: str
    parts: tuple[TextPart, ...] = ()


class Outcome(Struct, frozen=True, kw_only=True):
    """How a run ended. `reason` says why it failed, or what the person should know besides the answer."""

    ok: bool
    text: str = ""
    reason: str = ""
    session_id: str = ""
    nano: int = 0
    """What it cost, in nano-dollars."""


class Runner(Protocol):
    """Answers a prompt in a session of its own, with nobody there to ask."""

    async def run(self, job: Job, instant: float, prompt: Prompt) -> Outcome:
        """Run it to its end. Cancelling ends it with all that it started. Raises HermesError when it cannot begin."""
        ...

    def stop(self, job_id: str) -> None:
        """Stop the job's running turn; `run` returns soon."""
        ...


class Courier(Protocol):
    """Carries words to where people read them."""

    def reaches(self, target: str) -> bool:
        """Whether it can take something for this target (`all`, or `PLATFORM:CHAT[:THREAD]`). What nobody reaches
        stays owed until somebody runs who does."""
        ...

    async def deliver(self, target: str, text: str, files: Sequence[Path], *, key: str, session_id: str = "") -> None:
        """Take it over: when this returns it is on disk, or there. The same `key` again is the same words, which go
        once. `session_id` says which session they are from: strangers' words may stand there. Raises HermesError when
        it cannot go there at all."""
        ...


class NoCourier:
    """A process without platforms: reaches nobody."""

    def reaches(self, target: str) -> bool:
        """Nobody."""
        return False

    async def deliver(self, target: str, text: str, files: Sequence[Path], *, key: str, session_id: str = "") -> None:
        """Is never asked to."""
        raise NotImplementedError
