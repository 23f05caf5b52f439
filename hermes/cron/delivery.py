"""Delivery of jobs' output to people: answers, failures, missed instants. It is retried until delivered."""

import asyncio
import logging
from collections.abc import Callable, Sequence

from hermes.core.errors import HermesError
from hermes.cron.execution import LEASE, JobRunDeps
from hermes.cron.job import CronJob, try_parse_job
from hermes.cron.targets import list_delivery_targets
from hermes.i18n.formats import format_time
from hermes.i18n.messages import N_, tr, tr_plural
from hermes.store.jobs import InstantRow, InstantState, JobDeliveryState
from hermes.util.text import strip_control_characters, to_one_line

GIVE_UP_AFTER = 7 * 86_400.0
"""Seconds after which an unreachable delivery is given up."""
_BATCH_SIZE = 200
_LOG = logging.getLogger(__name__)


class JobDeliveryQueue:
    """Delivers pending output. `is_abandoned` returns whether the process that wanted to deliver a row is gone."""

    def __init__(self, deps: JobRunDeps, is_abandoned: Callable[[InstantRow], bool]) -> None:
        self._deps = deps
        self._is_abandoned = is_abandoned

    async def deliver_pending(self, job: CronJob | None = None) -> None:
        """Deliver what this process can; of one job, or of all."""
        missed: dict[str, list[tuple[CronJob, InstantRow]]] = {}
        for one in [job] if job is not None else await self._list_jobs():
            places = list_delivery_targets(one.spec)
            rows = await self._deps.store.list_undelivered_instants(one.id, _BATCH_SIZE)
            if not all(self._deps.delivery.can_reach(place) for place in places):
                await self._give_up_old(rows)
                continue
            for row in rows:
                if not await self._claim_row(row):
                    continue
                if row.state is not InstantState.MISSED or not places:
                    await self._deliver_answer(one, row, places)
                    continue
                for place in places:
                    missed.setdefault(place, []).append((one, row))
        await self._deliver_missed(missed)

    async def _list_jobs(self) -> list[CronJob]:
        return [
            job for row in await self._deps.store.list_undelivered_jobs() if (job := try_parse_job(row)) is not None
        ]

    async def _give_up_old(self, rows: Sequence[InstantRow]) -> None:
        """Give up what could not be delivered for a week: it would be no news."""
        before = self._deps.clock.now() - GIVE_UP_AFTER
        for row in rows:
            if (row.ended_at or row.at) < before:
                await self._settle_row(row, N_("nobody reached the platform for a week"))

    async def _claim_row(self, row: InstantRow) -> bool:
        if row.owner and row.owner != self._deps.owner and not self._is_abandoned(row):
            return False
        owner, until = self._deps.owner, self._deps.clock.now() + LEASE
        return await self._deps.store.claim_delivery(row, owner=owner, until=until)

    async def _deliver_answer(self, job: CronJob, row: InstantRow, places: Sequence[str]) -> None:
        text = await asyncio.to_thread(self._deps.outputs.read_output, row.output) if places else ""
        if text is None:
            await self._settle_row(row, N_("the file with its words is gone"))
            return
        wrong = [
            await self._send_text(place, text, f"cron:{job.id}:{row.at}:{place}", row.session_id) for place in places
        ]
        await self._settle_row(row, "; ".join(filter(None, wrong)))

    async def _deliver_missed(self, missed: dict[str, list[tuple[CronJob, InstantRow]]]) -> None:
        """Send everything that was missed as one message to each place."""
        failed: dict[tuple[str, float], str] = {}
        for place, found in missed.items():
            text = format_missed(found)
            first = found[0][1]
            wrong = await self._send_text(place, text, f"cron:missed:{first.job_id}:{first.at}:{place}")
            failed |= {(row.job_id, row.at): wrong for _, row in found if wrong}
        for row in {(row.job_id, row.at): row for found in missed.values() for _, row in found}.values():
            await self._settle_row(row, failed.get((row.job_id, row.at), ""))

    async def _send_text(self, place: str, text: str, key: str, session_id: str = "") -> str:
        """Send a text; return why that failed, empty when it was sent."""
        try:
            await self._deps.delivery.deliver(place, text, (), key=key, session_id=session_id)
        except HermesError as error:
            _LOG.warning("what a job said could not be delivered to %s: %s", place, error)
            return to_one_line(strip_control_characters(f"{place}: {error}"), 300)
        return ""

    async def _settle_row(self, row: InstantRow, wrong: str) -> None:
        delivery = JobDeliveryState.FAILED if wrong else JobDeliveryState.DELIVERED
        await self._deps.store.settle_job_delivery(row.job_id, (row.at,), delivery, wrong)


def format_missed(found: Sequence[tuple[CronJob, InstantRow]]) -> str:
    """Return a text of what was missed, a line for each job."""
    lines = [tr("These jobs were missed, since nobody was there to run them:")]
    by_job: dict[str, list[InstantRow]] = {}
    names = {job.id: job.name for job, _ in found}
    for _, row in found:
        by_job.setdefault(row.job_id, []).append(row)
    for job_id, rows in by_job.items():
        count = sum(row.instants for row in rows)
        first, last = format_time(rows[0].at), format_time(max(row.through for row in rows))
        when = first if count == 1 else tr("{first} to {last}", first=first, last=last)
        times = tr_plural("{n} time", "{n} times", count)
        lines.append(tr("- {name}: {times} ({when})", name=names[job_id], times=times, when=when))
    return "\n".join(lines)
