"""The browser of one session: started when it is first needed, watched, and closed when nobody has used it for long."""

import asyncio
import contextlib
import logging
import os
import shutil
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

from msgspec import Struct

from hermes.browser.network.request_guard import RequestGuard
from hermes.browser.network.site_rules import SiteRules
from hermes.browser.open_browser import BrowserOptions, OpenBrowser
from hermes.browser.page_report import PageReporter
from hermes.browser.process.launch import BrowserFolders, BrowserStarter, LaunchedBrowser, launch_browser
from hermes.browser.process.profile import BrowserProfileFolder
from hermes.browser.process.programs import INSTALL_HINT, PROGRAM_HINT, choose_program
from hermes.browser.process.remote import OUTSIDE_NOTICE, RemoteBrowser, connect_remote
from hermes.browser.uploads import UPLOAD_FOLDER
from hermes.config.home import HermesHome
from hermes.config.settings import Settings
from hermes.config.tool_settings import BrowserProfile
from hermes.core.errors import BrowserError
from hermes.execution.base import SitePermissions
from hermes.execution.sandbox.egress_proxy import Connect, EgressProxy
from hermes.execution.sandbox.probe import SandboxProbe
from hermes.execution.supervisor import Supervisors
from hermes.i18n.messages import N_
from hermes.safety.urls import Resolver, UrlPolicy
from hermes.util.cancellation import cancel_tasks

_LOG = logging.getLogger(__name__)


class BrowserPlan(Struct, frozen=True, kw_only=True):
    """What a session's browser is started with, from the person's settings."""

    environ: Mapping[str, str]
    downloads: Path
    """Where downloads of the session lie."""
    profile: BrowserProfileFolder | None = None
    """The profile that the person signs in to; None: one in memory, which is gone afterwards."""
    program: str = ""
    """The browser to start; empty: one of this machine."""
    cdp_url: str = ""
    """The address of a remote browser to use; empty: one of this machine."""
    allowed_methods: tuple[str, ...] = ()
    idle_seconds: float = 600.0
    policy: UrlPolicy = UrlPolicy()
    resolver: Resolver | None = None
    connect: Connect | None = None
    """How its proxy connects; None: as the system does."""


def build_session_browser(
    settings: Settings, home: HermesHome, environ: Mapping[str, str], downloads: Path, supervisors: Supervisors
) -> "SessionBrowser":
    """Return the browser of a session by the person's settings; it is not started yet."""
    chosen = settings.browser
    plan = BrowserPlan(
        environ=environ,
        downloads=downloads,
        profile=BrowserProfileFolder(home.browser) if chosen.profile is BrowserProfile.KEPT else None,
        program=chosen.program,
        cdp_url=chosen.cdp_url,
        allowed_methods=chosen.cdp_methods,
        idle_seconds=chosen.inactivity_timeout,
        policy=UrlPolicy(private=settings.security.allow_private_urls),
    )
    return SessionBrowser(plan, BrowserStarter(supervisors=supervisors, probe=SandboxProbe(environ)))


class _Running(Struct, frozen=True, eq=False):
    """A browser that runs, with what belongs to it."""

    launched: LaunchedBrowser | RemoteBrowser
    proxy: EgressProxy | None
    """None for a remote browser, whose network is its own."""
    guard: RequestGuard
    pages: PageReporter


class SessionBrowser:
    """Starts, lends and closes the browser of a session. `close` ends it for good."""

    def __init__(self, plan: BrowserPlan, starter: BrowserStarter) -> None:
        self._plan = plan
        self._starter = starter
        self._rules = SiteRules(plan.policy, resolver=plan.resolver)
        self._lock = asyncio.Lock()
        self._running: _Running | None = None
        self._held = contextlib.ExitStack()
        """The lock on the profile."""
        self._idle: asyncio.Task[None] | None = None
        self._users = 0
        self._is_closed = False

    @property
    def allowed_methods(self) -> tuple[str, ...]:
        """The methods of the browser's protocol that the person lets the agent call."""
        return self._plan.allowed_methods

    @property
    def is_running(self) -> bool:
        """Whether a browser runs."""
        return self._running is not None and self._running.launched.is_running

    @contextlib.asynccontextmanager
    async def use_pages(self, permissions: SitePermissions | None, opens: str = "") -> AsyncIterator[PageReporter]:
        """Lend the tabs of the browser for one call, which `permissions` are asked for; it is started if need be.
        `opens` is the address that the call opens.

        Raises BrowserError where there is none, or it does not start.
        """
        async with self._lock:
            running = await self._ensure_running()
        self._users += 1
        try:
            with self._rules.asking(permissions, opens):
                yield running.pages
        finally:
            self._users -= 1
            self._watch_idleness()

    async def close(self) -> None:
        """End the browser for good."""
        self._is_closed = True
        if self._idle is not None:
            await cancel_tasks([self._idle])
        async with self._lock:
            await self._end()

    async def _ensure_running(self) -> _Running:
        if self._is_closed:
            raise BrowserError("The session ends.")
        if self._running is not None and not self._running.launched.is_running:
            _LOG.warning("the browser has ended by itself")
            await self._end()
        if self._running is None:
            self._running = await self._start()
        return self._running

    async def _start(self) -> _Running:
        try:
            return await (self._connect() if self._plan.cdp_url else self._launch())
        except BaseException:
            self._held.close()
            raise

    async def _launch(self) -> _Running:
        plan = self._plan
        program = choose_program(plan.program, plan.environ)
        if program is None and plan.program:
            problem = N_("There is no browser at {path}, which `browser.program` names.", path=plan.program)
            raise BrowserError(problem, PROGRAM_HINT)
        if program is None:
            raise BrowserError(N_("There is no browser on this machine."), INSTALL_HINT)
        folders = await asyncio.to_thread(self._prepare_folders)
        async with contextlib.AsyncExitStack() as undo:
            proxy = EgressProxy(self._rules, None, self._note_refusal, plan.connect)
            undo.push_async_callback(proxy.close)
            with proxy.open() as proxy_end:
                launched = await launch_browser(self._starter, program, folders, proxy_end)
            undo.push_async_callback(launched.close)
            guard = RequestGuard(launched.connection, self._rules, proxy.end_tunnels)
            undo.push_async_callback(guard.close)
            await guard.start()
            shown = Path(folders.downloads)
            options = BrowserOptions(download_folder=shown, upload_folder=shown / UPLOAD_FOLDER, guard=guard)
            tabs = OpenBrowser(launched.connection, options)
            await tabs.start()
            undo.pop_all()
        return _Running(launched, proxy, guard, PageReporter(tabs))

    async def _connect(self) -> _Running:
        """Connect to the remote browser that the person has named."""
        async with contextlib.AsyncExitStack() as undo:
            remote = await connect_remote(self._plan.cdp_url)
            undo.push_async_callback(remote.close)
            guard = RequestGuard(remote.connection, self._rules, only_own=True)
            undo.push_async_callback(guard.close)
            await guard.start()
            tabs = OpenBrowser(remote.connection, BrowserOptions(guard=guard, context_id=remote.context_id))
            undo.push_async_callback(tabs.close)
            await tabs.start()
            first = await tabs.get_current_tab()
            first.add_note(OUTSIDE_NOTICE)
            undo.pop_all()
        return _Running(remote, None, guard, PageReporter(tabs))

    def _prepare_folders(self) -> BrowserFolders:
        """Make the folders, private to their owner, and lock the profile. Raises BrowserError and OSError."""
        plan = self._plan
        plan.downloads.mkdir(mode=0o700, parents=True, exist_ok=True)
        profile = self._held.enter_context(plan.profile.hold()) if plan.profile is not None else ""
        return BrowserFolders(profile=profile, downloads=os.path.realpath(plan.downloads))

    def _note_refusal(self, said: str) -> None:
        if self._running is not None:
            self._running.guard.add_note(said)

    async def _end(self) -> None:
        running, self._running = self._running, None
        try:
            if running is not None:
                if running.proxy is not None:
                    await running.proxy.close()  # first, so that nothing leaves while pages close
                await running.pages.browser.close()
                await running.guard.close()
                await running.launched.close()
        finally:
            self._held.close()
            await asyncio.to_thread(shutil.rmtree, self._plan.downloads / UPLOAD_FOLDER, ignore_errors=True)
            with contextlib.suppress(OSError):  # what was downloaded stays
                self._plan.downloads.rmdir()

    def _watch_idleness(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
        self._idle = asyncio.create_task(self._close_when_idle(), name="an idle browser")

    async def _close_when_idle(self) -> None:
        await asyncio.sleep(self._plan.idle_seconds)
        async with self._lock:
            if not self._users:
                await self._end()
