"""The folder plug-ins of a session: their tools, and where its hooks come from."""

from typing import TYPE_CHECKING

from hermes.core.errors import ConfigError
from hermes.hooks.hook import HookSource
from hermes.plugin_host.host import PluginHost, SessionPlugins
from hermes.sessions.session_tools import SessionPlan
from hermes.tools.tool import Tool

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hermes.config.home import HermesHome
    from hermes.execution.supervisor import Supervisors
    from hermes.safety.secrets.redactor import Redactor


class SessionFolderPlugins:
    """What a session has of the folder plug-ins. Their tools are the owner's; their hooks hold for everybody."""

    def __init__(self, host: PluginHost, plan: SessionPlan) -> None:
        self.remarks: tuple[str, ...] = ()
        """Lines for the person: what is off although it was enabled, and what cannot be used."""
        found = SessionPlugins()
        try:
            found = host.open_session(plan.cwd)
            self.remarks = found.remarks
        except ConfigError as error:
            self.remarks = (f"{error.message} {error.hint}",)
        self.tools: tuple[Tool, ...] = found.tools if not plan.options.person else ()
        self.hooks: tuple[HookSource, ...] = found.hooks


def open_plugin_host(
    home: "HermesHome",
    environ: "Mapping[str, str]",
    supervisors: "Supervisors",
    redactor: "Redactor",
    *,
    folder: str,
    trusted_folders: tuple[str, ...] = (),
) -> PluginHost:
    """Return the host of a process's folder plug-ins; nothing is read or started."""
    from hermes.config.plugin_consents import PluginConsents
    from hermes.config.trusted_folders import TrustFile
    from hermes.execution.sandbox.probe import SandboxProbe
    from hermes.plugin_host.process import HostParts
    from hermes.sessions.backend_factory import resolve_places

    parts = HostParts(
        root=home.root,
        supervisors=supervisors,
        probe=SandboxProbe(environ),
        redactor=redactor,
        environ=environ,
        places=resolve_places(environ, home, folder),
    )
    return PluginHost(parts, PluginConsents(home.consent_file), TrustFile(home.trust_file, trusted_folders))
