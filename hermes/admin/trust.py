"""Trust files that were written while untrusted content was in a conversation."""

from hermes.admin.home_services import open_existing_store
from hermes.config.home import HermesHome


async def trust_files(home: HermesHome, folder: str) -> int:
    """Remove the untrusted marks of files below a resolved folder; return how many there were."""
    async with open_existing_store(home) as store:
        return 0 if store is None else await store.tainted_files.trust(folder)
