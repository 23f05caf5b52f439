"""Builds the browser of a session from the person's settings."""

from collections.abc import Mapping
from pathlib import Path

from hermes.browser.launch import BrowserStarter
from hermes.browser.profile import BrowserProfileFolder
from hermes.browser.session_browser import BrowserPlan, SessionBrowser
from hermes.config.home import HermesHome
from hermes.config.settings import Settings
from hermes.config.tool_settings import BrowserProfile
from hermes.execution.sandbox.probe import SandboxProbe
from hermes.execution.supervisor import Supervisors
from hermes.safety.urls import UrlPolicy


def build_session_browser(
    settings: Settings, home: HermesHome, environ: Mapping[str, str], downloads: Path, supervisors: Supervisors
) -> SessionBrowser:
    """Return the browser of a session, which is not started yet."""
    chosen = settings.browser
    plan = BrowserPlan(
        environ=environ,
        downloads=downloads,
        profile=BrowserProfileFolder(home.browser) if chosen.profile is BrowserProfile.KEPT else None,
        program=chosen.program,
        idle_seconds=chosen.inactivity_timeout,
        policy=UrlPolicy(private=settings.security.allow_private_urls),
    )
    return SessionBrowser(plan, BrowserStarter(supervisors=supervisors, probe=SandboxProbe(environ)))
