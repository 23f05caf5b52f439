"""Vouching for what was written while strangers' words stood in a conversation."""

from hermes.admin.sessions import open_store
from hermes.config.home import Home


async def vouch_for(home: Home, folder: str) -> int:
    """Forget which files below a resolved folder hold strangers' words: they are the person's now. How many it were."""
    async with open_store(home) as store:
        return 0 if store is None else await store.vouch_files(folder)
