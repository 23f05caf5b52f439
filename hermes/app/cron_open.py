"""Opens the jobs of a home for a front-end, with sessions of its own or without."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from hermes.app.cron import CronDesk
from hermes.app.cron_base import CronBase
from hermes.app.secrets import redactor_for
from hermes.app.wiring import App
from hermes.config.environment import with_dotenv
from hermes.config.home import locate_home
from hermes.config.load import load_settings
from hermes.store.store import Store
from hermes.util.clock import Clock, SystemClock


def desk_of(app: App) -> CronDesk:
    """What the person can do with jobs, where Hermes is open already."""
    on = app.premises
    base = CronBase(
        home=on.home,
        settings=on.settings,
        process=on.environ,
        store=on.store,
        redactor=on.redactor,
        clock=on.clock,
    )
    return CronDesk(base, lambda options: App(on.environ, options, clock=on.clock))


@asynccontextmanager
async def open_cron(environ: Mapping[str, str], clock: Clock | None = None) -> AsyncIterator[CronDesk]:
    """The desk of this home, for a front-end that has no session. Makes the home when there is none."""
    home = locate_home(environ)
    home.check()
    settings = load_settings(home).settings
    home.ensure()
    redactor = await asyncio.to_thread(redactor_for, with_dotenv(environ, home.env_file), home, settings)
    store = await Store.open(home.root, clock or SystemClock())
    try:
        base = CronBase(
            home=home,
            settings=settings,
            process=environ,
            store=store,
            redactor=redactor,
            clock=clock or SystemClock(),
        )
        yield CronDesk(base, lambda options: App(environ, options, clock=clock))
    finally:
        await store.close()
