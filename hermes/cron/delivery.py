"""What jobs owe to people: answers, failures, what was missed. A row says that it is owed until it was taken over."""

import asyncio
import logging
from collections.abc import Callable, Sequence

from hermes.core.errors import HermesError
from hermes.cron.execution import LEASE, Means
from hermes.cron.job import Job, readable
from hermes.cron.targets import places_of
from hermes.i18n.formats import moment
from hermes.i18n.messages import phrase, say, say_many
from hermes.store.jobs import Delivery, InstantRow, InstantState
from hermes.util.text import inert, one_line

PATIENCE = 7 * 86_400.0
"""Seconds after which what nobody reaches is given up."""
_AT_ONCE = 200
_LOG = logging.getLogger(__name__)


class Deliveries:
    """Delivers what is owed. `dead` says whether the process that wanted to deliver a row is gone."""

    def __init__(self, means: Means, dead: Callable[[InstantRow], bool]) -> None:
        self._means = means
        self._dead = dead

    async def deliver(self, job: Job | None = None) -> None:
        """Deliver what this process can; of one job, or of all."""
        missed: dict[str, list[tuple[Job, InstantRow]]] = {}
        for one in [job] if job is not None else await self._owing():
            places = places_of(one.spec)
            rows = await self._means.store.owed_instants(one.id, _AT_ONCE)
            if not all(self._means.courier.reaches(place) for place in places):
                await self._give_up_old(rows)
                continue
            for row in rows:
                if not await self._taken(row):
                    continue
                if row.state is not InstantState.MISSED or not places:
                    await self._answer(one, row, places)
                    continue
                for place in places:
                    missed.setdefault(place, []).append((one, row))
        await self._tell_missed(missed)

    async def _owing(self) -> list[Job]:
        return [job for row in await self._means.store.owing_jobs() if (job := readable(row)) is not None]

    async def _give_up_old(self, rows: Sequence[InstantRow]) -> None:
        """What nobody reaches for a week is not sent any more: it would be no news."""
        before = self._means.clock.now() - PATIENCE
        for row in rows:
            if (row.ended_at or row.at) < before:
                await self._settle(row, phrase("nobody reached the platform for a week"))

    async def _taken(self, row: InstantRow) -> bool:
        if row.owner and row.owner != self._means.owner and not self._dead(row):
            return False
        owner, until = self._means.owner, self._means.clock.now() + LEASE
        return await self._means.store.take_words(row, owner=owner, until=until)

    async def _answer(self, job: Job, row: InstantRow, places: Sequence[str]) -> None:
        text = await asyncio.to_thread(self._means.outputs.read, row.output) if places else ""
        if text is None:
            await self._settle(row, phrase("the file with its words is gone"))
            return
        wrong = [await self._sent(place, text, f"cron:{job.id}:{row.at}:{place}", row.session_id) for place in places]
        await self._settle(row, "; ".join(filter(None, wrong)))

    async def _tell_missed(self, missed: dict[str, list[tuple[Job, InstantRow]]]) -> None:
        """Everything that was missed goes as one message to each place."""
        failed: dict[tuple[str, float], str] = {}
        for place, found in missed.items():
            text = missed_text(found)
            first = found[0][1]
            wrong = await self._sent(place, text, f"cron:missed:{first.job_id}:{first.at}:{place}")
            failed |= {(row.job_id, row.at): wrong for _, row in found if wrong}
        for row in {(row.job_id, row.at): row for found in missed.values() for _, row in found}.values():
            await self._settle(row, failed.get((row.job_id, row.at), ""))

    async def _sent(self, place: str, text: str, key: str, session_id: str = "") -> str:
        """Why it could not be sent; empty when it was."""
        try:
            await self._means.courier.deliver(place, text, (), key=key, session_id=session_id)
        except HermesError as error:
            _LOG.warning("what a job said could not be delivered to %s: %s", place, error)
            return one_line(inert(f"{place}: {error}"), 300)
        return ""

    async def _settle(self, row: InstantRow, wrong: str) -> None:
        delivery = Delivery.FAILED if wrong else Delivery.DELIVERED
        await self._means.store.settle_words(row.job_id, (row.at,), delivery, wrong)


def missed_text(found: Sequence[tuple[Job, InstantRow]]) -> str:
    """What was missed, a line for each job."""
    lines = [say("These jobs were missed, since nobody was there to run them:")]
    by_job: dict[str, list[InstantRow]] = {}
    names = {job.id: job.name for job, _ in found}
    for _, row in found:
        by_job.setdefault(row.job_id, []).append(row)
    for job_id, rows in by_job.items():
        count = sum(row.instants for row in rows)
        first, last = moment(rows[0].at), moment(max(row.through for row in rows))
        when = first if count == 1 else say("{first} to {last}", first=first, last=last)
        times = say_many("{n} time", "{n} times", count)
        lines.append(say("- {name}: {times} ({when})", name=names[job_id], times=times, when=when))
    return "\n".join(lines)
