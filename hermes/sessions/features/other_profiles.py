"""Opens the conversations of other profiles of the owner's for a search, where the settings name these profiles."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from hermes.config.home import HermesHome, check_profile_name, find_current_profile, locate_base_folder, profile_folder
from hermes.core.errors import NotFoundError, UsageError
from hermes.i18n.messages import N_
from hermes.store.store import Store
from hermes.util.clock import Clock


def make_profile_opener(
    environ: Mapping[str, str], allowed: Sequence[str], own: Store, clock: Clock
) -> Callable[[str], AbstractAsyncContextManager[Store]]:
    """Return a function that opens the store of a profile: `own` for that in use, another one if it is allowed."""

    @asynccontextmanager
    async def open_profile(name: str) -> AsyncIterator[Store]:
        if name == find_current_profile(environ):
            yield own
            return
        if check_profile_name(name) not in allowed:
            raise UsageError(
                N_("The profile {name} may not be searched.", name=repr(name)),
                N_("The person can allow it: memory.search_profiles in config.yaml."),
            )
        home = HermesHome(profile_folder(locate_base_folder(environ), name))
        if not home.database.exists():
            raise NotFoundError(N_("The profile {name} has no conversations.", name=repr(name)))
        store = await Store.open(home.root, clock)
        try:
            yield store
        finally:
            await store.close()

    return open_profile
