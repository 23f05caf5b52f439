"""The browser of a session: nothing of it is imported or started before a tool wants it."""

import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from hermes.config.home import HermesHome
from hermes.config.settings import Settings
from hermes.config.tool_settings import BrowserProfile
from hermes.execution.base import SitePermissions

if TYPE_CHECKING:
    from hermes.browser.page_report import PageReporter
    from hermes.browser.session_browser import SessionBrowser
    from hermes.execution.supervisor import Supervisors

DOWNLOADS = "downloads"


class LazyBrowser:
    """The way of a session to its browser, which is built at the first use. `spill` is the session's own folder."""

    def __init__(
        self,
        settings: Settings,
        home: HermesHome,
        environ: Mapping[str, str],
        spill: Path,
        get_supervisors: "Callable[[], Supervisors]",
    ) -> None:
        self._settings = settings
        self._home = home
        self._environ = environ
        self._spill = spill
        self._get_supervisors = get_supervisors
        self._built: SessionBrowser | None = None

    @contextlib.asynccontextmanager
    async def use_pages(self, permissions: SitePermissions | None, opens: str = "") -> "AsyncIterator[PageReporter]":
        """Lend the browser's tabs; see `SessionBrowser.use_pages`."""
        browser = self._built = self._built or self._build()
        async with browser.use_pages(permissions, opens) as pages:
            yield pages

    async def close(self) -> None:
        """End the browser if there is one."""
        if self._built is not None:
            await self._built.close()

    def _build(self) -> "SessionBrowser":
        from hermes.browser.launch import BrowserStarter
        from hermes.browser.profile import BrowserProfileFolder
        from hermes.browser.session_browser import BrowserPlan, SessionBrowser
        from hermes.execution.sandbox.probe import SandboxProbe
        from hermes.safety.urls import UrlPolicy

        chosen = self._settings.browser
        is_kept = chosen.profile is BrowserProfile.KEPT
        plan = BrowserPlan(
            environ=self._environ,
            downloads=self._spill / DOWNLOADS,
            profile=BrowserProfileFolder(self._home.browser) if is_kept else None,
            program=chosen.program,
            idle_seconds=chosen.inactivity_timeout,
            policy=UrlPolicy(private=self._settings.security.allow_private_urls),
        )
        starter = BrowserStarter(supervisors=self._get_supervisors(), probe=SandboxProbe(self._environ))
        return SessionBrowser(plan, starter)
