"""The JSON of jobs and of the catalogue: what the API server sends beside runs and sessions, and its OpenAPI file
describes. Times are in seconds since the epoch.
"""

from msgspec import Struct

from hermes.admin.cron import JobView


class JobObject(JobView, frozen=True, kw_only=True):
    """A job. `wrong` says why its state is `unreadable`."""

    wrong: str = ""


class JobPage(Struct, frozen=True, kw_only=True):
    """All jobs."""

    object: str = "list"
    data: list[JobObject]


class JobOutcome(Struct, frozen=True, kw_only=True):
    """How a job's instant ended. It stands for `instants` of them, from `at` `through` the last."""

    job: str
    job_id: str
    at: float
    through: float
    instants: int
    state: str
    reason: str
    by_hand: bool
    began_at: float | None
    ended_at: float | None
    session_id: str
    cost_usd: float
    output: str
    delivery: str
    delivery_why: str


class JobHistory(Struct, frozen=True, kw_only=True):
    """The outcomes of a job, the newest first."""

    object: str = "list"
    data: list[JobOutcome]


class DeletedJob(Struct, frozen=True):
    """A job that is removed."""

    id: str
    deleted: bool = True


class StoppedJob(Struct, frozen=True):
    """A job whose run was stopped: so many instants ended by that."""

    id: str
    stopped: int


class ModelObject(Struct, frozen=True, kw_only=True):
    """A model that programs may name."""

    id: str
    object: str = "model"
    created: int
    owned_by: str = "hermes"


class ModelPage(Struct, frozen=True, kw_only=True):
    """All models."""

    object: str = "list"
    data: list[ModelObject]


class CapabilityLimits(Struct, frozen=True):
    """The largest request in bytes, and the turns of one key at once."""

    body_bytes: int
    turns: int


class KeyCapabilities(Struct, frozen=True, kw_only=True):
    """What a key may do. `features` are names of abilities, each with whether this key has it."""

    object: str = "capabilities"
    scopes: list[str]
    role: str
    models: list[str]
    features: dict[str, bool]
    limits: CapabilityLimits


class SkillEntry(Struct, frozen=True, kw_only=True):
    """A skill. `state` is ok, lacking, hidden or broken, and `why` says it in words; `pending` is whether a change of
    it waits for approval.
    """

    name: str
    tier: str
    category: str
    description: str
    state: str
    why: str
    odd: list[str]
    vouched: bool
    folder: str
    used: int
    helped: int
    failed: int
    pending: bool


class SkillPage(Struct, frozen=True, kw_only=True):
    """All skills."""

    object: str = "list"
    data: list[SkillEntry]


class ToolsetEntry(Struct, frozen=True, kw_only=True):
    """A tool set. `hidden` are those of its tools that cannot be used here, each with the reason."""

    name: str
    on: bool
    why: str
    tools: list[str]
    hidden: dict[str, str]


class ToolsetPage(Struct, frozen=True, kw_only=True):
    """All tool sets."""

    object: str = "list"
    data: list[ToolsetEntry]


class Health(Struct, frozen=True):
    """That something is here."""

    status: str = "ok"
