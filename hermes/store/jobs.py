"""Scheduled jobs, and a row for each due instant; several processes may work on them at once."""

from collections.abc import Sequence
from enum import StrEnum

import msgspec
from msgspec import Struct

from hermes.core.errors import UsageError
from hermes.i18n.messages import N_
from hermes.store.repository import Repository, Transaction, reads, writes
from hermes.util.localizable import pack_message, unpack_message

MAX_JOBS = 1_000
"""The number of jobs in a home, done ones included; the oldest of these are deleted first."""
MAX_WAITING = 20
"""The number of instants of one job that may wait for a run."""
MAX_HISTORY = 1_000
"""Rows of a job's history; older ones are deleted."""
_OPEN = "state IN ('due', 'claimed')"


class JobState(StrEnum):
    """Whether a job is scheduled."""

    ACTIVE = "active"
    PAUSED = "paused"
    DONE = "done"
    """Its last instant is accounted for."""


class InstantState(StrEnum):
    """The state of a due instant; all but the first two are final."""

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


class JobDeliveryState(StrEnum):
    """The delivery state of an instant's output."""

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
    delivery: JobDeliveryState
    delivery_why: str


class NewInstant(Struct, frozen=True, kw_only=True):
    """An instant (or `instants` missed ones from `at` to `through`) that is about to get its row."""

    at: float
    state: InstantState
    reason: str = ""
    through: float | None = None
    instants: int = 1
    owed: bool = False
    """Whether somebody is to be told."""


class CursorAdvance(Struct, frozen=True, kw_only=True):
    """One step of a job's cursor: rows for instants from `expecting` on, and the cursor after them.

    `overlap` is `skip`, `queue` or `stop`: what happens to a due one while an earlier run goes on. `repeat`
    is how many instants may be given to a run in all, None: any number.
    """

    job_id: str
    version: int
    expecting: float
    rows: Sequence[NewInstant]
    next_at: float | None
    wake_at: float | None
    overlap: str = "skip"
    repeat: int | None = None
    keep: int = MAX_HISTORY


class InstantEnd(Struct, frozen=True, kw_only=True):
    """How a claimed instant ended."""

    state: InstantState
    reason: str = ""
    session_id: str = ""
    nano: int = 0
    output: str = ""
    owed: bool = False
    deliverer: str = ""
    """The process that is about to deliver it; empty: any that can."""
    until: float = 0.0


class PendingJobs(Struct, frozen=True):
    """Whether there is work: when a job is due next, and whether instants are open or deliveries pending."""

    wake_at: float | None
    open: bool
    owed: bool


_JOB = ", ".join(JobRow.__struct_fields__)
_INSTANT = ", ".join(InstantRow.__struct_fields__)


class JobRepository(Repository):
    """Store operations for jobs. Those that change a state return whether they did: of
    several at once only one does.
    """

    @writes
    def add(self, tx: Transaction, job: JobRow) -> None:
        """Store a new job. Raises UsageError when its name is taken or there are too many."""
        if tx.execute("SELECT 1 FROM jobs WHERE name = ?", (job.name,)).get is not None:
            raise UsageError(N_("There is a job {name!r} already.", name=job.name), N_("Take another name."))
        count = int(tx.execute("SELECT count(*) FROM jobs").get)
        if count >= MAX_JOBS:
            _prune_done_jobs(tx, count - MAX_JOBS + 1)
        values = msgspec.structs.astuple(job)
        marks = ", ".join("?" * len(values))
        tx.execute(f"INSERT INTO jobs ({_JOB}) VALUES ({marks})", values)

    @reads
    def get(self, tx: Transaction, job_id: str) -> JobRow | None:
        """Return the job of this id, or None."""
        rows = _select_jobs(tx, "WHERE id = ?", (job_id,))
        return rows[0] if rows else None

    @reads
    def find(self, tx: Transaction, name: str) -> list[JobRow]:
        """Return the job of exactly this name or id; else those whose id begins with it."""
        exact = _select_jobs(tx, "WHERE name = ?1 OR id = ?1", (name,))
        return exact or _select_jobs(tx, "WHERE substr(id, 1, length(?1)) = ?1 ORDER BY id LIMIT 10", (name,))

    @reads
    def list_all(self, tx: Transaction) -> list[JobRow]:
        """Return all jobs, in the order in which they were made."""
        return _select_jobs(tx, "ORDER BY made_at, id", ())

    @reads
    def list_due(self, tx: Transaction, now: float, limit: int) -> list[JobRow]:
        """Return the jobs that are due to be handled, the one that waits longest first."""
        return _select_jobs(tx, "WHERE wake_at <= ? ORDER BY wake_at LIMIT ?", (now, limit))

    @writes
    def update(self, tx: Transaction, job: JobRow, *, forget_after: float | None = None) -> bool:
        """Replace the stored job of this id when it still has this version, which goes up by one; return whether it
        had.

        `forget_after`: rows of missed instants later than this are deleted, since they were written while the clock was
        wrong.
        """
        other = tx.execute("SELECT 1 FROM jobs WHERE name = ? AND id <> ?", (job.name, job.id)).get
        if other is not None:
            raise UsageError(N_("There is a job {name!r} already.", name=job.name), N_("Take another name."))
        tx.execute(
            "UPDATE jobs SET name = :name, state = :state, schedule = :schedule, zone = :zone, anchor = :anchor,"
            " spec = :spec, next_at = :next_at, wake_at = :wake_at, begun = :begun, version = version + 1"
            " WHERE id = :id AND version = :version",
            msgspec.structs.asdict(job),
        )
        changed = tx.changes() > 0
        if changed and forget_after is not None:
            tx.execute(
                "DELETE FROM job_instants WHERE job_id = ? AND at > ? AND state = 'missed'", (job.id, forget_after)
            )
        return changed

    @writes
    def remove(self, tx: Transaction, job_id: str) -> bool:
        """Delete a job with its history; return whether there was one."""
        return tx.change_any("DELETE FROM jobs WHERE id = ?", (job_id,))

    @reads
    def check_pending(self, tx: Transaction) -> PendingJobs:
        """Return whether there is anything to do, by one query of three indexes."""
        found = tx.select_all(
            PendingJobs,
            "SELECT (SELECT min(wake_at) FROM jobs WHERE wake_at IS NOT NULL),"
            f" EXISTS (SELECT 1 FROM job_instants WHERE {_OPEN}),"
            " EXISTS (SELECT 1 FROM job_instants WHERE delivery = 'owed')",
        )
        return found[0]

    @writes
    def advance_cursor(self, tx: Transaction, step: CursorAdvance) -> bool:
        """Write the rows and move the cursor, in one transaction; return False when another process has moved it
        meanwhile.
        """
        tx.execute(
            "UPDATE jobs SET next_at = ?, wake_at = ?, state = iif(? IS NULL, 'done', state)"
            " WHERE id = ? AND version = ? AND next_at = ? AND state = 'active'",
            (step.next_at, step.wake_at, step.next_at, step.job_id, step.version, step.expecting),
        )
        if tx.changes() == 0:
            return False
        waiting, running = _count_open_instants(tx, step.job_id)
        begun = 0
        for one in step.rows:
            row = one
            if row.state is InstantState.DUE:
                if _has_instant(tx, step.job_id, row.at):
                    continue
                why = _find_blocking_reason(step.overlap, waiting, running)
                begun += not why
                skipped = NewInstant(at=row.at, state=InstantState.SKIPPED, reason=why)
                row = skipped if why else row
            _insert_instant(tx, step.job_id, row)
        if begun and step.overlap == "stop" and running:
            why = N_("the next instant came")
            tx.execute("UPDATE job_instants SET stop = ? WHERE job_id = ? AND state = 'claimed'", (why, step.job_id))
        if begun:
            tx.execute(
                "UPDATE jobs SET begun = begun + ?1, state = iif(begun + ?1 >= ?2, 'done', state),"
                " next_at = iif(begun + ?1 >= ?2, NULL, next_at), wake_at = iif(begun + ?1 >= ?2, NULL, wake_at)"
                " WHERE id = ?3",
                (begun, step.repeat if step.repeat is not None else 1 << 60, step.job_id),
            )
        _prune_history(tx, step.job_id, step.keep)
        return True

    @writes
    def add_manual_instant(self, tx: Transaction, job_id: str, at: float) -> float:
        """Make a job due now, whatever its schedule says; return the instant of its row."""
        moment = at
        while _has_instant(tx, job_id, moment):
            moment = round(moment + 0.001, 3)
        _insert_instant(tx, job_id, NewInstant(at=moment, state=InstantState.DUE), by_hand=True)
        return moment

    @writes
    def claim_instant(self, tx: Transaction, job_id: str, at: float, *, owner: str, until: float) -> int | None:
        """Claim a due instant whose job has no run; return the fence that its end must name, or None when it
        cannot be claimed.
        """
        fence = tx.execute(
            "UPDATE job_instants SET state = 'claimed', owner = ?1, until = ?2, fence = fence + 1, stop = '',"
            " began_at = ?3 WHERE job_id = ?4 AND at = ?5 AND state = 'due' AND NOT EXISTS"
            " (SELECT 1 FROM job_instants WHERE job_id = ?4 AND state = 'claimed') RETURNING fence",
            (owner, until, tx.now, job_id, at),
        ).get
        return None if fence is None else int(fence)

    @writes
    def renew_instant(self, tx: Transaction, job_id: str, at: float, *, fence: int, until: float) -> bool:
        """Extend a claim; return False when it was lost."""
        return tx.change_any(
            "UPDATE job_instants SET until = ? WHERE job_id = ? AND at = ? AND fence = ? AND state = 'claimed'",
            (until, job_id, at, fence),
        )

    @writes
    def end_instant(self, tx: Transaction, job_id: str, at: float, *, fence: int, end: InstantEnd) -> bool:
        """End a claimed instant; return False, with nothing changed, when the claim was lost."""
        delivery = JobDeliveryState.OWED if end.owed else JobDeliveryState.NONE
        return tx.change_any(
            "UPDATE job_instants SET state = :state, reason = :reason, session_id = :session_id, nano = :nano,"
            " output = :output, delivery = :delivery, ended_at = :now, owner = :deliverer, until = :until"
            " WHERE job_id = :job_id AND at = :at AND fence = :fence AND state = 'claimed'",
            msgspec.structs.asdict(end)
            | {
                "reason": pack_message(end.reason),
                "delivery": delivery,
                "now": tx.now,
                "job_id": job_id,
                "at": at,
                "fence": fence,
            },
        )

    @writes
    def release_instant(self, tx: Transaction, job_id: str, at: float, *, fence: int) -> bool:
        """Make a claimed instant due again; return False when the claim was lost."""
        return tx.change_any(
            "UPDATE job_instants SET state = 'due', owner = '', until = 0"
            " WHERE job_id = ? AND at = ? AND fence = ? AND state = 'claimed'",
            (job_id, at, fence),
        )

    @writes
    def skip_instant(self, tx: Transaction, job_id: str, at: float, why: str) -> None:
        """Skip an instant that waits for a run."""
        tx.execute(
            "UPDATE job_instants SET state = 'skipped', reason = ?, ended_at = ?"
            " WHERE job_id = ? AND at = ? AND state = 'due'",
            (pack_message(why), tx.now, job_id, at),
        )

    @writes
    def request_stop(self, tx: Transaction, job_id: str, why: str) -> int:
        """Ask the job's run to end, and skip what waits behind it; return the number of instants."""
        tx.execute(
            "UPDATE job_instants SET stop = ? WHERE job_id = ? AND state = 'claimed'", (pack_message(why), job_id)
        )
        stopped = tx.changes()
        tx.execute(
            "UPDATE job_instants SET state = 'skipped', reason = ?, ended_at = ? WHERE job_id = ? AND state = 'due'",
            (pack_message(why), tx.now, job_id),
        )
        return stopped + tx.changes()

    @reads
    def get_instant(self, tx: Transaction, job_id: str, at: float) -> InstantRow | None:
        """Return the row of exactly this instant, or None."""
        rows = _select_instants(tx, "WHERE job_id = ? AND at = ?", (job_id, at))
        return rows[0] if rows else None

    @reads
    def list_open_instants(self, tx: Transaction) -> list[InstantRow]:
        """Return the instants that wait for a run or have one, the earliest first."""
        return _select_instants(tx, f"WHERE {_OPEN} ORDER BY at, job_id", ())

    @reads
    def list_undelivered(self, tx: Transaction) -> list[JobRow]:
        """Return the jobs that have undelivered output."""
        return _select_jobs(tx, "WHERE id IN (SELECT job_id FROM job_instants WHERE delivery = 'owed')", ())

    @reads
    def list_undelivered_instants(self, tx: Transaction, job_id: str, limit: int) -> list[InstantRow]:
        """Return a job's instants whose output is undelivered, the earliest first."""
        return _select_instants(tx, "WHERE job_id = ? AND delivery = 'owed' ORDER BY at LIMIT ?", (job_id, limit))

    @writes
    def claim_delivery(self, tx: Transaction, row: InstantRow, *, owner: str, until: float) -> bool:
        """Claim the delivery of an instant's output, in place of `row.owner`; return whether that succeeded."""
        return tx.change_any(
            "UPDATE job_instants SET owner = ?, until = ? WHERE job_id = ? AND at = ? AND owner = ?"
            " AND delivery = 'owed'",
            (owner, until, row.job_id, row.at, row.owner),
        )

    @writes
    def settle_delivery(
        self, tx: Transaction, job_id: str, ats: Sequence[float], delivery: JobDeliveryState, why: str = ""
    ) -> None:
        """Record the delivery state of instants whose output was undelivered."""
        for at in ats:
            tx.execute(
                "UPDATE job_instants SET delivery = ?, delivery_why = ?, owner = '', until = 0"
                " WHERE job_id = ? AND at = ? AND delivery = 'owed'",
                (delivery, why, job_id, at),
            )

    @reads
    def list_history(
        self, tx: Transaction, job_id: str | None, limit: int, *, state: InstantState | None = None
    ) -> list[InstantRow]:
        """Return the instants of a job, or of all jobs, the newest first; with `state` only those that ended so."""
        return _select_instants(
            tx,
            "WHERE (?1 IS NULL OR job_id = ?1) AND (?2 IS NULL OR state = ?2) ORDER BY at DESC, job_id LIMIT ?3",
            (job_id, state, limit),
        )


def _prune_done_jobs(tx: Transaction, count: int) -> None:
    """Make room by deleting jobs that are done. Raises UsageError when there are not enough of them."""
    tx.execute(
        "DELETE FROM jobs WHERE id IN (SELECT id FROM jobs WHERE state = 'done' AND NOT EXISTS"
        f" (SELECT 1 FROM job_instants WHERE job_id = jobs.id AND ({_OPEN} OR delivery = 'owed'))"
        " ORDER BY made_at LIMIT ?)",
        (count,),
    )
    if tx.changes() < count:
        raise UsageError(N_("There are {n} jobs already.", n=MAX_JOBS), N_("Remove some first."))


def _count_open_instants(tx: Transaction, job_id: str) -> tuple[int, int]:
    """Return how many instants of a job wait for a run, and how many have one."""
    states = [
        str(row[0]) for row in tx.execute(f"SELECT state FROM job_instants WHERE job_id = ? AND {_OPEN}", (job_id,))
    ]
    return states.count(InstantState.DUE), states.count(InstantState.CLAIMED)


def _find_blocking_reason(overlap: str, waiting: int, running: int) -> str:
    """Return why a due instant does not get a run; empty when it does."""
    if overlap == "skip" and waiting + running:
        return N_("an earlier run was still going on")
    if waiting >= MAX_WAITING:
        return N_("{n} instants were waiting already", n=MAX_WAITING)
    return ""


def _has_instant(tx: Transaction, job_id: str, at: float) -> bool:
    found = tx.execute("SELECT 1 FROM job_instants WHERE job_id = ?1 AND at <= ?2 AND through >= ?2", (job_id, at))
    return found.get is not None


def _insert_instant(tx: Transaction, job_id: str, row: NewInstant, *, by_hand: bool = False) -> None:
    through = row.at if row.through is None else row.through
    delivery = JobDeliveryState.OWED if row.owed else JobDeliveryState.NONE
    tx.execute(
        "INSERT OR IGNORE INTO job_instants (job_id, at, through, instants, state, reason, by_hand, delivery)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (job_id, row.at, through, row.instants, row.state, pack_message(row.reason), by_hand, delivery),
    )


def _prune_history(tx: Transaction, job_id: str, keep: int) -> None:
    tx.execute(
        "DELETE FROM job_instants WHERE job_id = ?1 AND at <="
        " (SELECT at FROM job_instants WHERE job_id = ?1 ORDER BY at DESC LIMIT 1 OFFSET ?2)"
        f" AND NOT {_OPEN} AND delivery <> 'owed'",
        (job_id, keep),
    )


def _select_jobs(tx: Transaction, where: str, values: tuple[object, ...]) -> list[JobRow]:
    return tx.select_all(JobRow, f"SELECT {_JOB} FROM jobs {where}", values)


def _select_instants(tx: Transaction, where: str, values: tuple[object, ...]) -> list[InstantRow]:
    rows = tx.select_all(InstantRow, f"SELECT {_INSTANT} FROM job_instants {where}", values)
    return [
        msgspec.structs.replace(row, reason=unpack_message(row.reason), stop=unpack_message(row.stop)) for row in rows
    ]
