"""Jobs on a clock, and a row for what became of each due instant; several processes may work on them at once."""

from collections.abc import Sequence
from enum import StrEnum

import apsw
import msgspec
from msgspec import Struct

from hermes.core.errors import UsageError
from hermes.i18n.messages import phrase
from hermes.store.access import Access

MOST_JOBS = 1_000
"""Jobs of a home, those that are done included; the oldest of these go first."""
MOST_WAITING = 20
"""Instants of one job that wait for a run before it."""
KEEP = 1_000
"""Rows of a job's history; older ones go."""
_OPEN = "state IN ('due', 'claimed')"


class JobState(StrEnum):
    """Whether a job is looked at."""

    ACTIVE = "active"
    PAUSED = "paused"
    DONE = "done"
    """Its last instant is accounted for."""


class InstantState(StrEnum):
    """What became of a due instant; all but the first two are ends."""

    DUE = "due"
    """It waits for a process."""
    CLAIMED = "claimed"
    """A process runs it."""
    RAN = "ran"
    SKIPPED = "skipped"
    """It was not begun since an earlier run went on."""
    MISSED = "missed"
    """Nobody was there in time, or a later one runs in its place."""
    FAILED = "failed"


class Delivery(StrEnum):
    """What became of an instant's words."""

    NONE = "none"
    """There was nothing to say, or a file is all that was wanted."""
    OWED = "owed"
    DELIVERED = "delivered"
    FAILED = "failed"


class JobRow(Struct, frozen=True, kw_only=True):
    """A stored job. `spec` is JSON that the store does not read; times are in seconds since the epoch."""

    id: str
    name: str
    state: JobState
    schedule: str
    zone: str
    anchor: float
    spec: bytes
    version: int
    next_at: float | None
    wake_at: float | None
    begun: int
    made_at: float


class InstantRow(Struct, frozen=True, kw_only=True):
    """A due instant. `instants` is how many missed ones it stands for, from `at` to `through`.

    `stop` is why its run is to end; `nano` what it cost in nano-dollars; `output` the file with what came of it.
    """

    job_id: str
    at: float
    through: float
    instants: int
    state: InstantState
    reason: str
    by_hand: bool
    owner: str
    until: float
    fence: int
    stop: str
    began_at: float | None
    ended_at: float | None
    session_id: str
    nano: int
    output: str
    delivery: Delivery
    delivery_why: str


class Accounted(Struct, frozen=True, kw_only=True):
    """An instant (or `instants` missed ones from `at` to `through`) that is about to get its row."""

    at: float
    state: InstantState
    reason: str = ""
    through: float | None = None
    instants: int = 1
    owed: bool = False
    """Whether somebody is to be told."""


class Accounting(Struct, frozen=True, kw_only=True):
    """One step of a job's cursor: rows for instants from `expecting` on, and where the cursor stands then.

    `overlap` is `skip`, `queue` or `stop`: what happens to a due one while an earlier run goes on. `repeat` is how
    many instants may be given to a run in all, None: any number.
    """

    job_id: str
    version: int
    expecting: float
    rows: Sequence[Accounted]
    next_at: float | None
    wake_at: float | None
    overlap: str = "skip"
    repeat: int | None = None
    keep: int = KEEP


class End(Struct, frozen=True, kw_only=True):
    """How a claimed instant ended."""

    state: InstantState
    reason: str = ""
    session_id: str = ""
    nano: int = 0
    output: str = ""
    owed: bool = False
    deliverer: str = ""
    """The process that is about to deliver it; empty: whoever can."""
    until: float = 0.0


class Glance(Struct, frozen=True):
    """All that an idle look has to see: when a job is to be looked at next, and whether anything is under way."""

    wake_at: float | None
    open: bool
    owed: bool


_JOB = ", ".join(JobRow.__struct_fields__)
_INSTANT = ", ".join(InstantRow.__struct_fields__)


class JobAccess(Access):
    """The verbs about jobs. Those that move something say whether they did: of several at once only one does."""

    async def add_job(self, job: JobRow) -> None:
        """Store a new job. Raises UsageError when its name is taken or there are too many."""

        def work(connection: apsw.Connection) -> None:
            if connection.execute("SELECT 1 FROM jobs WHERE name = ?", (job.name,)).get is not None:
                raise UsageError(
                    phrase("There is a job {name!r} already.", name=job.name), phrase("Take another name.")
                )
            count = int(connection.execute("SELECT count(*) FROM jobs").get)
            if count >= MOST_JOBS:
                _forget_done(connection, count - MOST_JOBS + 1)
            values = msgspec.structs.astuple(job)
            marks = ", ".join("?" * len(values))
            connection.execute(f"INSERT INTO jobs ({_JOB}) VALUES ({marks})", values).fetchall()

        await self._database.write(work)

    async def job(self, job_id: str) -> JobRow | None:
        """The job of this id."""
        rows = await self._jobs("WHERE id = ?", (job_id,))
        return rows[0] if rows else None

    async def find_jobs(self, name: str) -> list[JobRow]:
        """The job of exactly this name or id; else those whose id begins with it."""
        exact = await self._jobs("WHERE name = ?1 OR id = ?1", (name,))
        return exact or await self._jobs("WHERE substr(id, 1, length(?1)) = ?1 ORDER BY id LIMIT 10", (name,))

    async def jobs(self) -> list[JobRow]:
        """All jobs, in the order in which they were made."""
        return await self._jobs("ORDER BY made_at, id", ())

    async def due_jobs(self, now: float, limit: int) -> list[JobRow]:
        """Jobs that have to be looked at, the one that waits longest first."""
        return await self._jobs("WHERE wake_at <= ? ORDER BY wake_at LIMIT ?", (now, limit))

    async def change_job(self, job: JobRow, *, forget_after: float | None = None) -> bool:
        """Put `job` in the place of the stored one of its id, when that still has its version, which goes up by one.

        `forget_after`: rows of missed instants later than this go, since they were written while the clock was wrong.
        """

        def work(connection: apsw.Connection) -> bool:
            other = connection.execute("SELECT 1 FROM jobs WHERE name = ? AND id <> ?", (job.name, job.id)).get
            if other is not None:
                raise UsageError(
                    phrase("There is a job {name!r} already.", name=job.name), phrase("Take another name.")
                )
            connection.execute(
                "UPDATE jobs SET name = ?, state = ?, schedule = ?, zone = ?, anchor = ?, spec = ?, next_at = ?,"
                " wake_at = ?, begun = ?, version = version + 1 WHERE id = ? AND version = ?",
                (
                    job.name,
                    job.state,
                    job.schedule,
                    job.zone,
                    job.anchor,
                    job.spec,
                    job.next_at,
                    job.wake_at,
                    job.begun,
                    job.id,
                    job.version,
                ),
            ).fetchall()
            changed = connection.changes() > 0
            if changed and forget_after is not None:
                connection.execute(
                    "DELETE FROM job_instants WHERE job_id = ? AND at > ? AND state = 'missed'", (job.id, forget_after)
                ).fetchall()
            return changed

        return await self._database.write(work)

    async def remove_job(self, job_id: str) -> bool:
        """Forget a job with its history."""

        def work(connection: apsw.Connection) -> bool:
            connection.execute("DELETE FROM jobs WHERE id = ?", (job_id,)).fetchall()
            return connection.changes() > 0

        return await self._database.write(work)

    async def glance(self) -> Glance:
        """Whether there is anything to do, in one look at three indexes."""
        found = await self._database.read(
            lambda connection: connection.execute(
                "SELECT (SELECT min(wake_at) FROM jobs WHERE wake_at IS NOT NULL),"
                f" EXISTS (SELECT 1 FROM job_instants WHERE {_OPEN}),"
                " EXISTS (SELECT 1 FROM job_instants WHERE delivery = 'owed')"
            ).fetchall()
        )
        return msgspec.convert(dict(zip(Glance.__struct_fields__, found[0], strict=True)), Glance, strict=False)

    async def account(self, step: Accounting) -> bool:
        """Write the rows and move the cursor, in one transaction; False when somebody else has moved it meanwhile."""
        return await self._database.write(lambda connection: _account(connection, step))

    async def add_by_hand(self, job_id: str, at: float) -> float:
        """Let a job be due now, whatever its schedule says; the instant of its row."""

        def work(connection: apsw.Connection) -> float:
            moment = at
            while _is_taken(connection, job_id, moment):
                moment = round(moment + 0.001, 3)
            _insert(connection, job_id, Accounted(at=moment, state=InstantState.DUE), by_hand=True)
            return moment

        return await self._database.write(work)

    async def claim_instant(self, job_id: str, at: float, *, owner: str, until: float) -> int | None:
        """Take a due instant whose job has no run; the fence that its end must name. None: it is not to be had."""
        now = self._clock.now()
        fence = await self._database.write(
            lambda connection: (
                connection.execute(
                    "UPDATE job_instants SET state = 'claimed', owner = ?1, until = ?2, fence = fence + 1, stop = '',"
                    " began_at = ?3 WHERE job_id = ?4 AND at = ?5 AND state = 'due' AND NOT EXISTS"
                    " (SELECT 1 FROM job_instants WHERE job_id = ?4 AND state = 'claimed') RETURNING fence",
                    (owner, until, now, job_id, at),
                ).get
            )
        )
        return None if fence is None else int(fence)

    async def renew_instant(self, job_id: str, at: float, *, fence: int, until: float) -> bool:
        """Hold a claim longer; False when it is somebody else's by now, or gone."""

        def work(connection: apsw.Connection) -> bool:
            connection.execute(
                "UPDATE job_instants SET until = ? WHERE job_id = ? AND at = ? AND fence = ? AND state = 'claimed'",
                (until, job_id, at, fence),
            ).fetchall()
            return connection.changes() > 0

        return await self._database.write(work)

    async def end_instant(self, job_id: str, at: float, *, fence: int, end: End) -> bool:
        """End a claimed instant; False, with nothing changed, when the claim was lost."""
        now = self._clock.now()

        def work(connection: apsw.Connection) -> bool:
            connection.execute(
                "UPDATE job_instants SET state = ?, reason = ?, session_id = ?, nano = ?, output = ?, delivery = ?,"
                " ended_at = ?, owner = ?, until = ? WHERE job_id = ? AND at = ? AND fence = ? AND state = 'claimed'",
                (
                    end.state,
                    end.reason,
                    end.session_id,
                    end.nano,
                    end.output,
                    Delivery.OWED if end.owed else Delivery.NONE,
                    now,
                    end.deliverer,
                    end.until,
                    job_id,
                    at,
                    fence,
                ),
            ).fetchall()
            return connection.changes() > 0

        return await self._database.write(work)

    async def release_instant(self, job_id: str, at: float, *, fence: int) -> bool:
        """Let a claimed instant be due again."""

        def work(connection: apsw.Connection) -> bool:
            connection.execute(
                "UPDATE job_instants SET state = 'due', owner = '', until = 0"
                " WHERE job_id = ? AND at = ? AND fence = ? AND state = 'claimed'",
                (job_id, at, fence),
            ).fetchall()
            return connection.changes() > 0

        return await self._database.write(work)

    async def skip_instant(self, job_id: str, at: float, why: str) -> None:
        """Let an instant that waits for a run have none."""
        now = self._clock.now()
        await self._database.write(
            lambda connection: connection.execute(
                "UPDATE job_instants SET state = 'skipped', reason = ?, ended_at = ?"
                " WHERE job_id = ? AND at = ? AND state = 'due'",
                (why, now, job_id, at),
            ).fetchall()
        )

    async def ask_to_stop(self, job_id: str, why: str) -> int:
        """Have the job's run end, and what waits behind it fail; how many instants that are."""
        now = self._clock.now()

        def work(connection: apsw.Connection) -> int:
            connection.execute(
                "UPDATE job_instants SET stop = ? WHERE job_id = ? AND state = 'claimed'", (why, job_id)
            ).fetchall()
            stopped = connection.changes()
            connection.execute(
                "UPDATE job_instants SET state = 'skipped', reason = ?, ended_at = ?"
                " WHERE job_id = ? AND state = 'due'",
                (why, now, job_id),
            ).fetchall()
            return stopped + connection.changes()

        return await self._database.write(work)

    async def instant(self, job_id: str, at: float) -> InstantRow | None:
        """The row of exactly this instant."""
        rows = await self._instants("WHERE job_id = ? AND at = ?", (job_id, at))
        return rows[0] if rows else None

    async def open_instants(self) -> list[InstantRow]:
        """Those that wait for a run or have one, the earliest first."""
        return await self._instants(f"WHERE {_OPEN} ORDER BY at, job_id", ())

    async def owing_jobs(self) -> list[JobRow]:
        """Jobs of which words are still owed to somebody."""
        return await self._jobs("WHERE id IN (SELECT job_id FROM job_instants WHERE delivery = 'owed')", ())

    async def owed_instants(self, job_id: str, limit: int) -> list[InstantRow]:
        """Those of a job whose words are still owed, the earliest first."""
        return await self._instants("WHERE job_id = ? AND delivery = 'owed' ORDER BY at LIMIT ?", (job_id, limit))

    async def take_words(self, row: InstantRow, *, owner: str, until: float) -> bool:
        """Be the one who delivers what is owed, in the place of `row.owner`."""

        def work(connection: apsw.Connection) -> bool:
            connection.execute(
                "UPDATE job_instants SET owner = ?, until = ? WHERE job_id = ? AND at = ? AND owner = ?"
                " AND delivery = 'owed'",
                (owner, until, row.job_id, row.at, row.owner),
            ).fetchall()
            return connection.changes() > 0

        return await self._database.write(work)

    async def settle_words(self, job_id: str, ats: Sequence[float], delivery: Delivery, why: str = "") -> None:
        """Say what became of words that were owed."""

        def work(connection: apsw.Connection) -> None:
            for at in ats:
                connection.execute(
                    "UPDATE job_instants SET delivery = ?, delivery_why = ?, owner = '', until = 0"
                    " WHERE job_id = ? AND at = ? AND delivery = 'owed'",
                    (delivery, why, job_id, at),
                ).fetchall()

        await self._database.write(work)

    async def job_history(
        self, job_id: str | None, limit: int, *, state: InstantState | None = None
    ) -> list[InstantRow]:
        """What became of a job's instants, or all jobs', the newest first; only those that ended so with `state`."""
        return await self._instants(
            "WHERE (?1 IS NULL OR job_id = ?1) AND (?2 IS NULL OR state = ?2) ORDER BY at DESC, job_id LIMIT ?3",
            (job_id, state, limit),
        )

    async def _jobs(self, where: str, values: tuple[object, ...]) -> list[JobRow]:
        rows = await self._database.read(
            lambda connection: connection.execute(f"SELECT {_JOB} FROM jobs {where}", values).fetchall()
        )
        return [msgspec.convert(dict(zip(JobRow.__struct_fields__, row, strict=True)), JobRow) for row in rows]

    async def _instants(self, where: str, values: tuple[object, ...]) -> list[InstantRow]:
        rows = await self._database.read(
            lambda connection: connection.execute(f"SELECT {_INSTANT} FROM job_instants {where}", values).fetchall()
        )
        return [
            msgspec.convert(dict(zip(InstantRow.__struct_fields__, row, strict=True)), InstantRow, strict=False)
            for row in rows
        ]


def _forget_done(connection: apsw.Connection, count: int) -> None:
    """Make room by forgetting jobs that are done. Raises UsageError when there are not enough of them."""
    connection.execute(
        "DELETE FROM jobs WHERE id IN (SELECT id FROM jobs WHERE state = 'done' AND NOT EXISTS"
        f" (SELECT 1 FROM job_instants WHERE job_id = jobs.id AND ({_OPEN} OR delivery = 'owed'))"
        " ORDER BY made_at LIMIT ?)",
        (count,),
    ).fetchall()
    if connection.changes() < count:
        raise UsageError(phrase("There are {n} jobs already.", n=MOST_JOBS), phrase("Remove some first."))


def _account(connection: apsw.Connection, step: Accounting) -> bool:
    connection.execute(
        "UPDATE jobs SET next_at = ?, wake_at = ?, state = iif(? IS NULL, 'done', state)"
        " WHERE id = ? AND version = ? AND next_at = ? AND state = 'active'",
        (step.next_at, step.wake_at, step.next_at, step.job_id, step.version, step.expecting),
    ).fetchall()
    if connection.changes() == 0:
        return False
    waiting, running = _under_way(connection, step.job_id)
    begun = 0
    for one in step.rows:
        row = one
        if row.state is InstantState.DUE:
            if _is_taken(connection, step.job_id, row.at):
                continue
            why = _in_the_way(step.overlap, waiting, running)
            begun += not why
            skipped = Accounted(at=row.at, state=InstantState.SKIPPED, reason=why)
            row = skipped if why else row
        _insert(connection, step.job_id, row)
    if begun and step.overlap == "stop" and running:
        why = phrase("the next instant came")
        connection.execute(
            "UPDATE job_instants SET stop = ? WHERE job_id = ? AND state = 'claimed'", (why, step.job_id)
        ).fetchall()
    if begun:
        connection.execute(
            "UPDATE jobs SET begun = begun + ?1, state = iif(begun + ?1 >= ?2, 'done', state),"
            " next_at = iif(begun + ?1 >= ?2, NULL, next_at), wake_at = iif(begun + ?1 >= ?2, NULL, wake_at)"
            " WHERE id = ?3",
            (begun, step.repeat if step.repeat is not None else 1 << 60, step.job_id),
        ).fetchall()
    _forget_old(connection, step.job_id, step.keep)
    return True


def _under_way(connection: apsw.Connection, job_id: str) -> tuple[int, int]:
    """How many instants of a job wait for a run, and how many have one."""
    states = [
        str(row[0])
        for row in connection.execute(f"SELECT state FROM job_instants WHERE job_id = ? AND {_OPEN}", (job_id,))
    ]
    return states.count(InstantState.DUE), states.count(InstantState.CLAIMED)


def _in_the_way(overlap: str, waiting: int, running: int) -> str:
    """Why a due instant does not get a run; empty when it does."""
    if overlap == "skip" and waiting + running:
        return phrase("an earlier run was still going on")
    if waiting >= MOST_WAITING:
        return phrase("{n} instants were waiting already", n=MOST_WAITING)
    return ""


def _is_taken(connection: apsw.Connection, job_id: str, at: float) -> bool:
    found = connection.execute(
        "SELECT 1 FROM job_instants WHERE job_id = ?1 AND at <= ?2 AND through >= ?2", (job_id, at)
    )
    return found.get is not None


def _insert(connection: apsw.Connection, job_id: str, row: Accounted, *, by_hand: bool = False) -> None:
    through = row.at if row.through is None else row.through
    delivery = Delivery.OWED if row.owed else Delivery.NONE
    connection.execute(
        "INSERT OR IGNORE INTO job_instants (job_id, at, through, instants, state, reason, by_hand, delivery)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (job_id, row.at, through, row.instants, row.state, row.reason, by_hand, delivery),
    ).fetchall()


def _forget_old(connection: apsw.Connection, job_id: str, keep: int) -> None:
    connection.execute(
        "DELETE FROM job_instants WHERE job_id = ?1 AND at <="
        " (SELECT at FROM job_instants WHERE job_id = ?1 ORDER BY at DESC LIMIT 1 OFFSET ?2)"
        f" AND NOT {_OPEN} AND delivery <> 'owed'",
        (job_id, keep),
    ).fetchall()
