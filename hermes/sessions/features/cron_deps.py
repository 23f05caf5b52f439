"""The dependencies of scheduled jobs in a process, and the checks that jobs must pass.

Builds the `cronjob` tool of a session.
"""

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from zoneinfo import ZoneInfo

from msgspec import Struct

from hermes.config.chat_targets import TargetBook
from hermes.config.environment import merge_dotenv
from hermes.config.home import HermesHome
from hermes.config.load import load_settings
from hermes.config.settings import Settings
from hermes.core.errors import ConfigError
from hermes.cron.jobs import CronJobDeps, CronJobs
from hermes.cron.output import JobOutputs
from hermes.cron.scripts import JobScripts
from hermes.cron.tool import CronToolDeps, make_cronjob_tool
from hermes.i18n.messages import N_
from hermes.safety.secrets.redactor import Redactor
from hermes.sessions.features.skills import build_catalogue
from hermes.sessions.options import SessionOptions
from hermes.sessions.session_tools import check_toolsets
from hermes.sessions.target_book import load_target_book
from hermes.store.store import Store
from hermes.tools.tool import Tool
from hermes.util.clock import Clock
from hermes.util.file_lock import is_lock_held

_LOCALTIME = Path("/etc/localtime")


class CronDeps(Struct, frozen=True, kw_only=True):
    """The dependencies of scheduled jobs in a process. `process` holds the variables that it was started with."""

    home: HermesHome
    settings: Settings
    process: Mapping[str, str]
    store: Store
    redactor: Redactor
    clock: Clock

    @property
    def environ(self) -> dict[str, str]:
        """The process's variables with those of the home's `.env`."""
        return merge_dotenv(self.process, self.home.env_file)

    @property
    def outputs(self) -> JobOutputs:
        """The stored outputs of jobs."""
        return JobOutputs(self.home.root / "cron" / "output")

    @property
    def scripts(self) -> JobScripts:
        """The scripts that may run before a job. They get no variable of `.env`."""
        return JobScripts(self.home.root / "scripts", self.process, self.redactor.redact)


def build_jobs(base: CronDeps, *, changed: Callable[[], None] = lambda: None) -> CronJobs:
    """Build the operations that create and change jobs; `changed` is called after each change."""

    def require_known_toolsets(names: Sequence[str]) -> None:
        check_toolsets(base.settings, tuple(names))

    def require_known_skills(names: Sequence[str]) -> None:
        if names:
            catalogue = build_catalogue(base.home, base.settings, base.environ)
            for name in names:
                catalogue.find_skill(name)

    async def load_targets() -> TargetBook:
        return await load_target_book(base.store, await asyncio.to_thread(_read_platforms, base))

    return CronJobs(
        CronJobDeps(
            store=base.store.jobs,
            clock=base.clock,
            scripts=base.scripts,
            outputs=base.outputs,
            load_targets=load_targets,
            get_machine_zone=partial(find_machine_zone, base.settings, base.process),
            check_toolsets=require_known_toolsets,
            check_skills=require_known_skills,
            on_change=changed,
        )
    )


def _read_platforms(base: CronDeps) -> Mapping[str, Mapping[str, object]]:
    """Return the accounts as the settings name them now: /sethome in a chat counts for sessions that run."""
    try:
        return load_settings(base.home).settings.platforms
    except ConfigError:
        return base.settings.platforms


def is_gateway_running(home: HermesHome) -> bool:
    """Return whether a gateway runs; the gateway runs the scheduled jobs."""
    return is_lock_held(home.locks / "gateway.lock")


def find_machine_zone(settings: Settings, environ: Mapping[str, str]) -> str:
    """Return the time zone of jobs that name none. Raises ConfigError when it cannot be determined."""
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
        N_("The time zone of this machine is unknown."),
        N_("Name one: `--zone`, or `cron.timezone` in config.yaml, such as Europe/Berlin."),
    )


def build_session_cronjob(base: CronDeps, options: SessionOptions, can_ask: Callable[[], bool]) -> Tool:
    """Build the tool for a session with these options; `can_ask` tells whether somebody is there to be asked."""
    tool_deps = CronToolDeps(
        jobs=build_jobs(base),
        store=base.store.jobs,
        origin=options.origin,
        limit=options.enabled_toolsets,
        attended=can_ask,
        runs=lambda: is_gateway_running(base.home),
    )
    return make_cronjob_tool(tool_deps)
