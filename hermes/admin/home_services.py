"""The settings and the store of a home, for verbs that need neither model nor gateway.

`open_home_services` creates what is missing, `open_existing_store` creates nothing.
"""

import contextlib
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from msgspec import Struct

from hermes.config.home import HermesHome, locate_home
from hermes.config.load import load_settings
from hermes.config.settings import Settings
from hermes.core.errors import StoreFullError
from hermes.store.store import Store
from hermes.util.clock import Clock, SystemClock


class HomeServices(Struct, frozen=True, kw_only=True):
    """The services of a home that is open without a model."""

    home: HermesHome
    environ: Mapping[str, str]
    settings: Settings
    store: Store
    clock: Clock


@asynccontextmanager
async def open_home_services(environ: Mapping[str, str], clock: Clock | None = None) -> AsyncIterator[HomeServices]:
    """Open this home, and create it when there is none. Raises ConfigError, StoreError."""
    home = locate_home(environ)
    home.check_usable()
    settings = load_settings(home).settings
    home.ensure_exists()
    clock = clock or SystemClock()
    store = await Store.open(home.root, clock)
    try:
        yield HomeServices(home=home, environ=environ, settings=settings, store=store, clock=clock)
    finally:
        await store.close()


async def _open_store(home: HermesHome) -> Store:
    if home.is_writable:
        with contextlib.suppress(StoreFullError):
            return await Store.open(home.root, SystemClock())
    return await Store.open(home.root, SystemClock(), reads_only=True)


@asynccontextmanager
async def open_existing_store(home: HermesHome) -> AsyncIterator[Store | None]:
    """Open the home's store; yield None, with nothing created, when there is none yet.

    Where nothing can be written (a full disk, a read-only home) it is open for reading.
    """
    home.check_usable(writes=False)
    if not home.database.exists():
        yield None
        return
    store = await _open_store(home)
    try:
        yield store
    finally:
        await store.close()
