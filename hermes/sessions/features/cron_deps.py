"""What jobs on a clock stand on in a process, and what they are checked against."""

import os
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from zoneinfo import ZoneInfo

from msgspec import Struct

from hermes.config.environment import with_dotenv
from hermes.config.home import Home
from hermes.config.settings import Settings
from hermes.core.errors import ConfigError
from hermes.cron.jobs import Grounds, Jobs
from hermes.cron.output import Outputs
from hermes.cron.scripts import Scripts
from hermes.i18n.messages import phrase
from hermes.safety.secrets.redactor import Redactor
from hermes.sessions.features.skills import catalogue_of
from hermes.sessions.open_sessions import is_held
from hermes.sessions.toolset_names import check_toolsets
from hermes.store.store import Store
from hermes.util.clock import Clock

_LOCALTIME = Path("/etc/localtime")


class CronBase(Struct, frozen=True, kw_only=True):
    """What jobs stand on in a process. `process` are the variables that it was started with."""

    home: Home
    settings: Settings
    process: Mapping[str, str]
    store: Store
    redactor: Redactor
    clock: Clock

    @property
    def environ(self) -> dict[str, str]:
        """The variables with those of the home's `.env`."""
        return with_dotenv(self.process, self.home.env_file)

    @property
    def outputs(self) -> Outputs:
        """What jobs said."""
        return Outputs(self.home.root / "cron" / "output")

    @property
    def scripts(self) -> Scripts:
        """What may run before a job. They get no variable of `.env`."""
        return Scripts(self.home.root / "scripts", self.process, self.redactor.redact)


def jobs_of(base: CronBase, *, changed: Callable[[], None] = lambda: None) -> Jobs:
    """The verbs that make and change jobs; `changed` is told whenever one was."""

    def known_sets(names: Sequence[str]) -> None:
        check_toolsets(base.settings, tuple(names))

    def known_skills(names: Sequence[str]) -> None:
        if names:
            catalogue = catalogue_of(base.home, base.settings, base.environ)
            for name in names:
                catalogue.find(name)

    return Jobs(
        Grounds(
            store=base.store,
            clock=base.clock,
            scripts=base.scripts,
            outputs=base.outputs,
            platforms=tuple(base.settings.platforms),
            zone=partial(machine_zone, base.settings, base.process),
            toolsets=known_sets,
            skills=known_skills,
            changed=changed,
        )
    )


def gateway_running(home: Home) -> bool:
    """Whether a gateway runs, which is who runs jobs."""
    return is_held(home.locks / "gateway.lock")


def machine_zone(settings: Settings, environ: Mapping[str, str]) -> str:
    """The zone of jobs that name none. Raises ConfigError where nobody can tell it."""
    link = os.path.realpath(_LOCALTIME).rpartition("/zoneinfo/")[2]
    for name in (settings.cron.timezone, environ.get("TZ", "").lstrip(":"), link.removeprefix("posix/")):
        if name and not name.startswith("/"):
            try:
                ZoneInfo(name)
            except (ValueError, OSError):
                continue
            return name
    if datetime.now().astimezone().utcoffset() == datetime.now(UTC).utcoffset():
        return "UTC"
    raise ConfigError(
        phrase("Nobody can tell this machine's time zone."),
        phrase("Name one: `--zone`, or `cron.timezone` in config.yaml, such as Europe/Berlin."),
    )
