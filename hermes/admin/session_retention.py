"""Delete sessions of jobs and of programs by the policy of the settings; people's own are never deleted by it."""

from collections.abc import Sequence

from msgspec import Struct

from hermes.admin.sessions import SessionAdmin
from hermes.config.home import HermesHome
from hermes.config.load import load_settings
from hermes.config.settings import RetentionSettings, Settings
from hermes.store.records import SessionRow
from hermes.store.store import Store

_JOB_SOURCES = ("cron",)
_PROGRAM_PLATFORMS = ("api_server", "webhook")
_DAY_SECONDS = 86_400.0
_MOST = 1 << 62


class PrunedSessions(Struct, frozen=True):
    """The sessions that were deleted, by kind."""

    jobs: int = 0
    api: int = 0

    @property
    def total(self) -> int:
        """The number of all."""
        return self.jobs + self.api


class SessionRetentionPolicy:
    """The policy of the settings on a home's sessions."""

    def __init__(self, store: Store, home: HermesHome, settings: Settings) -> None:
        self._store = store
        self._admin = SessionAdmin(store, home)
        self._kept = settings.session_retention

    async def list_expired(self, now: float) -> list[SessionRow]:
        """Return the sessions that the policy deletes now."""
        return [*await self._list_kind(_JOB_SOURCES, self._kept.jobs, now), *await self._list_programs(now)]

    async def delete_expired(self, now: float) -> PrunedSessions:
        """Delete them, except those that are open; return how many."""
        jobs = await self._admin.delete_rows(await self._list_kind(_JOB_SOURCES, self._kept.jobs, now))
        api = await self._admin.delete_rows(await self._list_programs(now))
        return PrunedSessions(len(jobs[0]), len(api[0]))

    async def _list_programs(self, now: float) -> list[SessionRow]:
        return await self._list_kind(_PROGRAM_PLATFORMS, self._kept.api, now)

    async def _list_kind(self, sources: Sequence[str], kept: RetentionSettings, now: float) -> list[SessionRow]:
        if not kept.days and not kept.count:
            return []
        before = now - kept.days * _DAY_SECONDS if kept.days else 0.0
        return await self._store.sessions.list_expired(sources, before=before, keep=kept.count or _MOST)


def load_policy(admin: SessionAdmin) -> SessionRetentionPolicy:
    """Return the policy of the settings as they are now."""
    return SessionRetentionPolicy(admin.store, admin.home, load_settings(admin.home).settings)
