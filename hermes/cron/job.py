"""A job as a value: its schedule, its task, its delivery targets, and its policies for failures."""

import hashlib
import logging
from enum import StrEnum

import msgspec
from msgspec import Struct

from hermes.config.chat_targets import LOCAL
from hermes.core.encoding import to_json
from hermes.core.errors import HermesError, StoreError
from hermes.cron.schedule import Schedule
from hermes.i18n.messages import N_
from hermes.store.jobs import JobRow

_LOG = logging.getLogger(__name__)


class CatchUp(StrEnum):
    """What is done about instants that were missed."""

    SKIP = "skip"
    """They are missed, once they are later than the grace."""
    LAST = "last"
    """The newest of them runs, however late it is."""
    ALL = "all"
    """The newest few of them run, one after another."""


class Overlap(StrEnum):
    """What is done when an instant comes while an earlier run goes on."""

    SKIP = "skip"
    QUEUE = "queue"
    STOP = "stop"
    """The earlier run is stopped."""


class JobSpec(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The task of a job. The store keeps it as JSON; a new field has a default that means what was before."""

    prompt: str = ""
    deliver: tuple[str, ...] = (LOCAL,)
    """Targets in the form of `TargetBook.check_target`."""
    origin: str = ""
    """The chat in which it was made, as a target."""
    skills: tuple[str, ...] = ()
    model: str = ""
    provider: str = ""
    toolsets: tuple[str, ...] = ()
    """Tool sets that are on; none named: those of the settings."""
    cwd: str = ""
    script: str = ""
    """A file in the home's folder `scripts`, which runs first."""
    no_agent: bool = False
    """Whether what the script says is all there is: no model is asked."""
    context_from: tuple[str, ...] = ()
    """Ids of jobs whose last output goes into the prompt."""
    repeat: int | None = None
    """How many instants are run in all; None: any number."""
    max_cost: float | None = None
    """Dollars that one run may spend."""
    grace: float | None = None
    """Seconds by which a run may be late; None: half the time to the next instant, 2 minutes to 2 hours."""
    catch_up: CatchUp = CatchUp.SKIP
    catch_up_limit: int = 10
    """With `all`: how many at most."""
    overlap: Overlap = Overlap.SKIP
    jitter: int = 0
    """Seconds by which it is spread: each job is late by an amount of its own below this, always the same."""
    repeatable: bool = False
    """Whether an instant whose process died is run again; otherwise it has failed."""
    quiet: bool = False
    """Whether nobody is told of failures and of missed instants."""
    idle_seconds: float = 600.0
    """Seconds without any sign of life after which a run is stopped."""
    script_seconds: float = 3_600.0
    made_by: str = "person"
    sources: tuple[str, ...] = ()
    """The untrusted sources that stood in the conversation in which a model made it."""

    def encode(self) -> bytes:
        """Encode the task as JSON for the store."""
        return to_json(self)


class CronJob(Struct, frozen=True):
    """A stored job with its parsed task and schedule."""

    row: JobRow
    spec: JobSpec
    schedule: Schedule

    @property
    def id(self) -> str:
        """The job's id."""
        return self.row.id

    @property
    def name(self) -> str:
        """The name by which people know the job."""
        return self.row.name

    @property
    def offset(self) -> int:
        """Seconds of jitter by which it is later than its schedule says."""
        return compute_jitter(self.id, self.spec.jitter)


def try_parse_job(row: JobRow) -> CronJob | None:
    """Parse a stored job; return None, with a line in the log, for one that this version or machine cannot read."""
    try:
        return parse_job(row)
    except HermesError as error:
        _LOG.error("%s", error)
        return None


def compute_jitter(job_id: str, jitter: int) -> int:
    """Return a number of seconds below `jitter` that is always the same for a job."""
    digest = hashlib.sha256(job_id.encode()).digest()
    return int.from_bytes(digest[:8], "big") % jitter if jitter > 0 else 0


def parse_job(row: JobRow) -> CronJob:
    """Parse a stored job. Raises StoreError for one that this version cannot read, UsageError for its schedule."""
    try:
        spec = msgspec.json.decode(row.spec, type=JobSpec)
    except msgspec.MsgspecError as error:
        raise StoreError(
            N_("The job {name!r} cannot be read: {why}.", name=row.name, why=str(error)),
            N_("`hermes cron remove` removes it."),
        ) from None
    return CronJob(row, spec, Schedule.parse(row.schedule, row.zone, row.anchor))
