"""The execution of one claimed instant of a job: script, prompt, answer, output file, row.

The prompt of a job's run. A model reads all of it.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime

from msgspec import Struct

from hermes.core.errors import HermesError
from hermes.core.messages import PROGRAM, Provenance, Source, TextPart
from hermes.cron.job import CronJob
from hermes.cron.jobs import list_delivery_targets
from hermes.cron.output import MAX_FILES, JobOutputs
from hermes.cron.runner import JobDelivery, JobPrompt, JobRunner, JobRunOutcome, can_reach_all
from hermes.cron.schedule import parse_zone
from hermes.cron.scripts import JobScripts
from hermes.i18n.formats import format_time
from hermes.i18n.messages import N_, localize, tr
from hermes.safety.fencing import fence_untrusted_text
from hermes.store.jobs import InstantEnd, InstantState, JobRepository
from hermes.tools.taint import provenance_from_sources
from hermes.util.cancellation import run_ignoring_cancellation, wait_for_task
from hermes.util.clock import Clock
from hermes.util.text import strip_control_characters, to_one_line

SILENT = "[SILENT]"
"""The whole answer of a run that has nothing to say."""


_HEAD = (
    "[This is a scheduled job{name}. It was due at {due} ({zone}). Nobody is there: nobody can answer questions or"
    " approve anything, so do what can be done without. Jobs cannot be made or changed from here. Your final answer is"
    f" delivered as it stands; if there is nothing that is worth delivering, answer exactly {SILENT} and nothing else.]"
)


_TASK = "Do the scheduled job that is described below."


_MADE = "[The job's instruction, written by a model{under}:]\n{prompt}"


def build_prompt(
    job: CronJob, instant: float, *, script: str, contexts: Sequence[tuple[str, str]], skills: Sequence[TextPart] = ()
) -> JobPrompt:
    """Return the prompt of one run. `script` is its script's output, `contexts` are names of other jobs with
    their last output.

    The person's own words are the message. A model's are a part of it that carries the untrusted sources
    that stood there when they were written, and so taints the run; so does the output of scripts and other
    jobs, which is fenced.
    """
    spec = job.spec
    parts = [TextPart(_format_head(job, instant), PROGRAM), *skills]
    text = spec.prompt
    if spec.made_by != "person" or spec.sources:
        origin = provenance_from_sources(spec.sources)
        under = f" while text from {', '.join(spec.sources)} stood in its conversation" if spec.sources else ""
        made = TextPart(_MADE.format(under=under, prompt=spec.prompt), origin or Provenance(Source.MODEL))
        parts.append(made)
        text = _TASK
    if script.strip():
        said = Provenance(Source.OTHER, f"script {spec.script}".replace(":", " "))
        parts.append(TextPart(f"[What the job's script said:]\n{fence_untrusted_text(script, said)}", said))
    for name, words in contexts:
        said = Provenance(Source.OTHER, f"job {name}".replace(":", " "))
        parts.append(TextPart(f"[What another job said last:]\n{fence_untrusted_text(words, said)}", said))
    return JobPrompt(text or _TASK, tuple(parts))


def is_silent(text: str) -> bool:
    """Return whether an answer says that there is nothing to deliver."""
    return text.strip().upper() == SILENT


def _format_head(job: CronJob, instant: float) -> str:
    due = datetime.fromtimestamp(instant, UTC).astimezone(parse_zone(job.row.zone))
    name = "" if job.spec.sources else f" called {job.name!r}"
    return _HEAD.format(name=name, due=f"{due:%Y-%m-%d %H:%M}", zone=job.row.zone)


LEASE = 60.0
"""Seconds that a claim holds without being renewed. It counts only where its process is not seen to run."""
_CHECK_SECONDS = 1.0
"""Seconds between checks whether a run is to stop."""
_STOP_SECONDS = 10.0
"""Seconds that a stopped turn gets to end by itself."""
_LOG = logging.getLogger(__name__)


class JobRunDeps(Struct, frozen=True, kw_only=True):
    """The dependencies of job runs."""

    store: JobRepository
    clock: Clock
    runner: JobRunner
    delivery: JobDelivery
    outputs: JobOutputs
    scripts: JobScripts
    load_skills: Callable[[Sequence[str]], Awaitable[Sequence[TextPart]]]
    """Loads skills by name, as parts of a message. Raises HermesError for one that cannot be used."""
    owner: str
    """The owner of claims: this process."""


class JobExecution:
    """The run of a claimed instant. `run` is awaited once; cancelling it ends the instant by name."""

    def __init__(self, deps: JobRunDeps, job: CronJob, at: float, fence: int) -> None:
        self.job = job
        self.at = at
        self._deps = deps
        self._fence = fence
        self._stop_reason = ""

    async def run(self) -> None:
        """Run the job, and store how it ended. Raises StoreError only when that cannot be written."""
        work = asyncio.create_task(self._run_job(), name=f"job {self.job.name}")
        watch = asyncio.create_task(self._watch_claim(work), name=f"watch {self.job.name}")
        try:
            await wait_for_task(work)
        except asyncio.CancelledError:
            await run_ignoring_cancellation(self._end_on_shutdown())
            raise
        finally:
            watch.cancel()
            await asyncio.wait({watch})
        await run_ignoring_cancellation(self._end_instant(self._read_outcome(work)))

    async def end_lost(self) -> None:
        """End the instant for a process that died while it ran."""
        await self._end_instant(JobRunOutcome(ok=False, reason=N_("the process ended")))

    def _read_outcome(self, work: "asyncio.Task[JobRunOutcome]") -> JobRunOutcome:
        if work.cancelled():
            return JobRunOutcome(ok=False, reason=self._stop_reason or N_("it was stopped"))
        error = work.exception()
        if error is None:
            return work.result()
        if not isinstance(error, HermesError):
            _LOG.error("the job %s failed", self.job.name, exc_info=error)
            why = N_("an internal error of Hermes: {error}", error=f"{type(error).__name__}: {error}")
            return JobRunOutcome(ok=False, reason=why)
        return JobRunOutcome(ok=False, reason=str(error))

    async def _run_job(self) -> JobRunOutcome:
        spec, deps = self.job.spec, self._deps
        said = ""
        if spec.script:
            script = await deps.scripts.run_script(spec.script, seconds=spec.script_seconds, job=self.job.name)
            if script.failed:
                return JobRunOutcome(ok=False, text=script.text, reason=script.failed)
            said = script.text
        if spec.no_agent:
            return JobRunOutcome(ok=True, text=said)
        prompt = build_prompt(
            self.job,
            self.at,
            script=said,
            contexts=await self._load_contexts(),
            skills=await deps.load_skills(spec.skills) if spec.skills else (),
        )
        outcome = await deps.runner.run(self.job, self.at, prompt)
        if self._stop_reason:
            return JobRunOutcome(
                ok=False,
                text=outcome.text,
                reason=self._stop_reason,
                session_id=outcome.session_id,
                nano=outcome.nano,
            )
        return outcome

    async def _load_contexts(self) -> list[tuple[str, str]]:
        """Return the last output of each job that this one builds on."""
        store, found = self._deps.store, []
        for job_id in self.job.spec.context_from:
            row, ran = (
                await store.get(job_id),
                await store.list_history(job_id, MAX_FILES, state=InstantState.RAN),
            )
            name = next((one.output for one in ran if one.output), "")  # one that said nothing leaves what was before
            text = await asyncio.to_thread(self._deps.outputs.read_output, name) if name else None
            if row is not None and text:
                found.append((row.name, text))
        return found

    async def _watch_claim(self, work: "asyncio.Task[JobRunOutcome]") -> None:
        """Renew the claim, and stop the work when a stop is requested or the claim is lost."""
        store, clock = self._deps.store, self._deps.clock
        renewed = clock.monotonic()
        while True:
            await clock.sleep(_CHECK_SECONDS)
            try:
                row = await store.get_instant(self.job.id, self.at)
                held = row is not None and row.state is InstantState.CLAIMED and row.fence == self._fence
                if held and clock.monotonic() - renewed >= LEASE / 4:
                    held = await store.renew_instant(self.job.id, self.at, fence=self._fence, until=clock.now() + LEASE)
                    renewed = clock.monotonic()
            except HermesError as error:
                _LOG.warning("the claim of the job %s could not be looked at: %s", self.job.name, error)
                continue
            if not held:
                self._stop_reason = N_("its claim was lost")
                work.cancel()
                return
            if row is not None and row.stop:
                self._stop_reason = row.stop
                self._deps.runner.stop(self.job.id)
                await clock.sleep(_STOP_SECONDS if not self.job.spec.no_agent else 0.0)
                work.cancel()
                return

    async def _end_on_shutdown(self) -> None:
        """End or release the instant when Hermes is closed while it runs."""
        if self.job.spec.repeatable:
            await self._deps.store.release_instant(self.job.id, self.at, fence=self._fence)
        else:
            await self._end_instant(JobRunOutcome(ok=False, reason=N_("Hermes was closed")))

    async def _end_instant(self, outcome: JobRunOutcome) -> None:
        job, deps = self.job, self._deps
        reason = to_one_line(strip_control_characters(outcome.reason), 1_000)
        name, wrong = await self._write_output(outcome, reason)
        places = list_delivery_targets(job.spec) if name and (outcome.ok or not job.spec.quiet) else ()
        mine = bool(places) and await can_reach_all(deps.delivery, places)
        end = InstantEnd(
            state=InstantState.RAN if outcome.ok else InstantState.FAILED,
            reason=reason or wrong,
            session_id=outcome.session_id,
            nano=outcome.nano,
            output=name,
            owed=bool(places),
            deliverer=deps.owner if mine else "",
            until=deps.clock.now() + LEASE if mine else 0.0,
        )
        if not await deps.store.end_instant(job.id, self.at, fence=self._fence, end=end):
            _LOG.warning("the job %s ended after its claim was lost", job.name)

    async def _write_output(self, outcome: JobRunOutcome, reason: str) -> tuple[str, str]:
        """Write the output file; return its name, and why there is none."""
        job, text = self.job, outcome.text
        if not outcome.ok:
            text = _format_failure(job, self.at, reason, text)
        elif is_silent(text) or not text.strip():
            return "", N_("it had no output")
        try:
            return await asyncio.to_thread(self._deps.outputs.write_output, job.id, self.at, text), ""
        except HermesError as error:
            _LOG.warning("what the job %s said could not be kept: %s", job.name, error)
            return "", str(error)


def _format_failure(job: CronJob, at: float, reason: str, text: str) -> str:
    """Return the text that tells a person of a failed run."""
    head = tr("The job {name} of {when} failed: {why}", name=job.name, when=format_time(at), why=localize(reason))
    return f"{head}\n\n{text.strip()}" if text.strip() else head
