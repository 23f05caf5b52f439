"""One run of a job: its script, its prompt, its answer, its file, its row."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from msgspec import Struct

from hermes.core.errors import HermesError
from hermes.core.parts import TextPart
from hermes.cron.job import Job
from hermes.cron.output import KEEP, Outputs
from hermes.cron.prompt import is_silent, prompt_for
from hermes.cron.runner import Courier, Outcome, Runner
from hermes.cron.scripts import Scripts
from hermes.cron.targets import places_of
from hermes.i18n.formats import moment
from hermes.i18n.messages import phrase, say, translated
from hermes.store.jobs import End, InstantState, JobAccess
from hermes.util.cancellation import finished, unbroken
from hermes.util.clock import Clock
from hermes.util.text import inert, one_line

LEASE = 60.0
"""Seconds that a claim holds without being renewed. It is looked at only where its process is not seen to run."""
_LOOK = 1.0
"""Seconds between looks at whether somebody wants a run to stop."""
_STOP_SECONDS = 10.0
"""What a stopped turn is given to end by itself."""
_LOG = logging.getLogger(__name__)


class Means(Struct, frozen=True, kw_only=True):
    """What runs are done with."""

    store: JobAccess
    clock: Clock
    runner: Runner
    courier: Courier
    outputs: Outputs
    scripts: Scripts
    skills: Callable[[Sequence[str]], Awaitable[Sequence[TextPart]]]
    """Skills by name, as parts of a message. Raises HermesError for one that cannot be used."""
    owner: str
    """Who claims: this process."""


class Execution:
    """A claimed instant on its way to its end. `run` is awaited once; cancelling it ends it by name."""

    def __init__(self, means: Means, job: Job, at: float, fence: int) -> None:
        self.job = job
        self.at = at
        self._means = means
        self._fence = fence
        self._stopped = ""

    async def run(self) -> None:
        """Do it, and write down how it ended. Raises StoreError only when that cannot be written."""
        work = asyncio.create_task(self._work(), name=f"job {self.job.name}")
        watch = asyncio.create_task(self._watch(work), name=f"watch {self.job.name}")
        try:
            await finished(work)
        except asyncio.CancelledError:
            await unbroken(self._closed())
            raise
        finally:
            watch.cancel()
            await asyncio.wait({watch})
        await unbroken(self._end(self._outcome(work)))

    async def lost(self) -> None:
        """End it for a process that died while it ran."""
        await self._end(Outcome(ok=False, reason=phrase("the process ended")))

    def _outcome(self, work: "asyncio.Task[Outcome]") -> Outcome:
        if work.cancelled():
            return Outcome(ok=False, reason=self._stopped or phrase("it was stopped"))
        error = work.exception()
        if error is None:
            return work.result()
        if not isinstance(error, HermesError):
            _LOG.error("the job %s failed", self.job.name, exc_info=error)
            why = phrase("an error of Hermes' own: {error}", error=f"{type(error).__name__}: {error}")
            return Outcome(ok=False, reason=why)
        return Outcome(ok=False, reason=str(error))

    async def _work(self) -> Outcome:
        spec, means = self.job.spec, self._means
        said = ""
        if spec.script:
            script = await means.scripts.run(spec.script, seconds=spec.script_seconds, job=self.job.name)
            if script.failed:
                return Outcome(ok=False, text=script.text, reason=script.failed)
            said = script.text
        if spec.no_agent:
            return Outcome(ok=True, text=said)
        prompt = prompt_for(
            self.job,
            self.at,
            script=said,
            contexts=await self._contexts(),
            skills=await means.skills(spec.skills) if spec.skills else (),
        )
        outcome = await means.runner.run(self.job, self.at, prompt)
        if self._stopped:
            return Outcome(
                ok=False,
                text=outcome.text,
                reason=self._stopped,
                session_id=outcome.session_id,
                nano=outcome.nano,
            )
        return outcome

    async def _contexts(self) -> list[tuple[str, str]]:
        """The last output of each job that this one builds on."""
        store, found = self._means.store, []
        for job_id in self.job.spec.context_from:
            row, ran = await store.job(job_id), await store.job_history(job_id, KEEP, state=InstantState.RAN)
            name = next((one.output for one in ran if one.output), "")  # one that said nothing leaves what was before
            text = await asyncio.to_thread(self._means.outputs.read, name) if name else None
            if row is not None and text:
                found.append((row.name, text))
        return found

    async def _watch(self, work: "asyncio.Task[Outcome]") -> None:
        """Renew the claim, and stop the work when somebody wants that, or when the claim is lost."""
        store, clock = self._means.store, self._means.clock
        renewed = clock.monotonic()
        while True:
            await clock.sleep(_LOOK)
            try:
                row = await store.instant(self.job.id, self.at)
                held = row is not None and row.state is InstantState.CLAIMED and row.fence == self._fence
                if held and clock.monotonic() - renewed >= LEASE / 4:
                    held = await store.renew_instant(self.job.id, self.at, fence=self._fence, until=clock.now() + LEASE)
                    renewed = clock.monotonic()
            except HermesError as error:
                _LOG.warning("the claim of the job %s could not be looked at: %s", self.job.name, error)
                continue
            if not held:
                self._stopped = phrase("its claim was lost")
                work.cancel()
                return
            if row is not None and row.stop:
                self._stopped = row.stop
                self._means.runner.stop(self.job.id)
                await clock.sleep(_STOP_SECONDS if not self.job.spec.no_agent else 0.0)
                work.cancel()
                return

    async def _closed(self) -> None:
        """Hermes ends while this runs."""
        if self.job.spec.repeatable:
            await self._means.store.release_instant(self.job.id, self.at, fence=self._fence)
        else:
            await self._end(Outcome(ok=False, reason=phrase("Hermes was closed")))

    async def _end(self, outcome: Outcome) -> None:
        job, means = self.job, self._means
        reason = one_line(inert(outcome.reason), 1_000)
        name, wrong = await self._kept(outcome, reason)
        places = places_of(job.spec) if name and (outcome.ok or not job.spec.quiet) else ()
        mine = bool(places) and all(means.courier.reaches(place) for place in places)
        end = End(
            state=InstantState.RAN if outcome.ok else InstantState.FAILED,
            reason=reason or wrong,
            session_id=outcome.session_id,
            nano=outcome.nano,
            output=name,
            owed=bool(places),
            deliverer=means.owner if mine else "",
            until=means.clock.now() + LEASE if mine else 0.0,
        )
        if not await means.store.end_instant(job.id, self.at, fence=self._fence, end=end):
            _LOG.warning("the job %s ended after its claim was lost", job.name)

    async def _kept(self, outcome: Outcome, reason: str) -> tuple[str, str]:
        """The file with what there is to say, and why there is none."""
        job, text = self.job, outcome.text
        if not outcome.ok:
            text = _failure(job, self.at, reason, text)
        elif is_silent(text) or not text.strip():
            return "", phrase("it had nothing to say")
        try:
            return await asyncio.to_thread(self._means.outputs.write, job.id, self.at, text), ""
        except HermesError as error:
            _LOG.warning("what the job %s said could not be kept: %s", job.name, error)
            return "", str(error)


def _failure(job: Job, at: float, reason: str, text: str) -> str:
    """What a person is told of a run that failed."""
    head = say("The job {name} of {when} failed: {why}", name=job.name, when=moment(at), why=translated(reason))
    return f"{head}\n\n{text.strip()}" if text.strip() else head
