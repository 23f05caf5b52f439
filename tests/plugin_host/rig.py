"""A home with plug-ins, and a host for them, in one of the boxes that this machine can make."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from hermes.config.plugin_consents import PluginConsent, PluginConsents
from hermes.config.trusted_folders import TrustFile
from hermes.execution.sandbox.probe import SandboxMechanism, SandboxProbe
from hermes.execution.supervisor import Supervisors
from hermes.plugin_host.folders import PluginFolder, read_plugin_folder
from hermes.plugin_host.host import PluginHost
from hermes.plugin_host.process import HostParts, PluginProcess
from hermes.safety.paths import Places
from hermes.safety.secrets.redactor import Redactor

BOXES = (SandboxMechanism.BUBBLEWRAP, SandboxMechanism.LANDLOCK)
HEADER = "import json, os, socket, sys, time\nfrom hermes_plugin import command, get_data_folder, hook, run, tool\n"


class PluginRig:
    """The home, a workspace, and what is made in them."""

    def __init__(self, root: Path, mechanisms: tuple[SandboxMechanism, ...], environ: dict[str, str]) -> None:
        self.person = root / "person"
        self.home = self.person / ".hermes"
        self.workspace = self.person / "project"
        for folder in (self.home, self.workspace):
            folder.mkdir(parents=True, exist_ok=True)
        self.consents = PluginConsents(self.home / "plugins.json")
        self.supervisors = Supervisors(os.environ)
        self.parts = HostParts(
            root=self.home,
            supervisors=self.supervisors,
            probe=SandboxProbe(os.environ, mechanisms),
            redactor=Redactor(),
            environ=environ,
            places=Places(home=str(self.person), hermes=str(self.home), workspace=str(self.workspace)),
        )
        self.host = self.make_host()

    def make_host(self) -> PluginHost:
        return PluginHost(self.parts, self.consents, TrustFile(self.home / "trust.json"))

    def write_plugin(self, name: str, program: str, more: str = "", *, place: Path | None = None) -> Path:
        """Write a plug-in with a tool `act`; `more` are further lines of its manifest."""
        folder = (place or self.home / "plugins") / name
        folder.mkdir(parents=True)
        tools = (
            "" if "tools:" in more else "tools:\n  - {name: act, description: Acts., read_only: true, timeout: 20}\n"
        )
        manifest = f'name: {name}\nversion: "1.0"\ndescription: For a test.\n{tools}{more}\n'
        (folder / "plugin.yaml").write_text(manifest)
        (folder / "main.py").write_text(program)
        return folder

    def enable(self, path: Path, *, is_project: bool = False) -> PluginFolder:
        """Enable a plug-in as it is now."""
        folder = read_plugin_folder(path, is_project=is_project)
        self.consents.enable(folder.key, PluginConsent(folder.manifest.version, folder.digest))
        return folder

    def add_plugin(self, name: str, program: str, more: str = "") -> PluginFolder:
        """Write a plug-in and enable it."""
        return self.enable(self.write_plugin(name, program, more))

    def get_process(self, folder: PluginFolder) -> PluginProcess:
        return self.host.get_process(folder, str(self.workspace))

    async def act(self, folder: PluginFolder, seconds: float = 20.0, **arguments: object) -> str:
        """Call the tool `act` and return what it says."""
        params = {"name": "act", "arguments": arguments, "session": "s", "folder": str(self.workspace)}
        raw = await self.get_process(folder).request("tool", params, seconds)
        return str(msgspec.json.decode(raw)["text"])


@asynccontextmanager
async def open_rig(
    root: Path, mechanisms: tuple[SandboxMechanism, ...] = BOXES, environ: dict[str, str] | None = None
) -> AsyncIterator[PluginRig]:
    """Yield a rig, and end what it started."""
    rig = PluginRig(root, mechanisms, environ or {})
    try:
        yield rig
    finally:
        await rig.host.close()
        await rig.supervisors.close()
