"""A job's run as a session of its own: a fresh one, with nobody there to ask."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from hermes.app.options import Options
from hermes.core.events import Event, TurnEnded
from hermes.core.parts import ImagePart, TextPart
from hermes.cron.job import Job
from hermes.cron.running import Outcome, Prompt
from hermes.runtime.actor import SessionActor
from hermes.runtime.mailbox import Inbound
from hermes.util.clock import Clock
from hermes.util.say import phrase, say_many

PLATFORM = "cron"
"""The source of such sessions. They have no `cronjob` tool."""
_LOOK = 5.0
"""Seconds between looks at whether a run still gives signs of life."""


class Opens(Protocol):
    """What a run needs of an `App`."""

    async def open_session(self) -> SessionActor:
        """A fresh session."""
        ...


OpenApp = Callable[[Options], AbstractAsyncContextManager[Opens]]
"""Opens a Hermes with these choices. Leaving it ends all that it started."""


class SessionRunner:
    """Runs each job in a Hermes of its own, so that its model, tool sets, folder and cap are its own, too."""

    def __init__(self, open_app: OpenApp, clock: Clock, *, cwd: str) -> None:
        self._open_app = open_app
        self._clock = clock
        self._cwd = cwd
        self._live: dict[str, SessionActor] = {}

    async def run(self, job: Job, instant: float, prompt: Prompt) -> Outcome:
        """Answer the prompt. Raises HermesError when the session cannot be opened."""
        spec = job.spec
        options = Options(
            model=spec.model,
            provider=spec.provider,
            enabled_toolsets=spec.toolsets or None,
            max_cost=spec.max_cost,
            platform=PLATFORM,
            cwd=spec.cwd or self._cwd,
        )
        async with self._open_app(options) as app:
            actor = await app.open_session()
            self._live[job.id] = actor
            try:
                return await self._answered(actor, job, prompt, options.cwd)
            finally:
                del self._live[job.id]

    def stop(self, job_id: str) -> None:
        """Stop the job's running turn."""
        actor = self._live.get(job_id)
        if actor is not None:
            actor.stop()

    async def _answered(self, actor: SessionActor, job: Job, prompt: Prompt, cwd: str) -> Outcome:
        async def brought(_: Inbound) -> Sequence[ImagePart | TextPart]:
            return prompt.parts

        actor.bringing.bringers.insert(0, brought)
        life = _Life(self._clock)
        unsubscribe = actor.subscribe(life.sign)
        posted = actor.post(Inbound(text=prompt.text, cwd=cwd))
        watch = asyncio.create_task(life.ebbs(job.spec.idle_seconds, actor), name=f"life of {job.name}")
        try:
            ended = await posted
        finally:
            watch.cancel()
            await asyncio.wait({watch})
            unsubscribe()
        return _outcome(actor, ended, idle=life.gone, seconds=job.spec.idle_seconds)


class _Life:
    """When a session gave its last sign of life."""

    def __init__(self, clock: Clock) -> None:
        self.gone = False
        self._clock = clock
        self._last = clock.monotonic()

    def sign(self, _: Event) -> None:
        """Something happened."""
        self._last = self._clock.monotonic()

    async def ebbs(self, seconds: float, actor: SessionActor) -> None:
        """Stop the session's turn once nothing has happened for so long."""
        while self._clock.monotonic() - self._last < seconds:
            await self._clock.sleep(min(_LOOK, seconds))
        self.gone = True
        actor.stop()


def _outcome(actor: SessionActor, ended: TurnEnded, *, idle: bool, seconds: float) -> Outcome:
    ok = ended.reason.completed
    reason = ""
    if idle:
        ok, reason = False, phrase("there was no sign of life for {n} seconds", n=round(seconds))
    elif not ok:
        reason = ended.error or str(ended.reason)
    elif actor.approvals.unasked:
        count = actor.approvals.unasked
        reason = say_many(
            "{n} call was refused, since nobody could be asked",
            "{n} calls were refused, since nobody could be asked",
            count,
        )
    return Outcome(ok=ok, text=ended.text, reason=reason, session_id=actor.session_id, nano=ended.cost.nano)
