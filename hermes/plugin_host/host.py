"""The folder plug-ins of a process: which of them run, their processes, and what sessions get of them."""

import asyncio
import os
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec
from msgspec import Raw, Struct, structs

from hermes.config.plugin_consents import PluginConsents
from hermes.config.trusted_folders import TrustFile
from hermes.core.errors import ConfigError, NotFoundError, ToolError
from hermes.hooks.missing_hooks import MissingHookSource, explain_change
from hermes.i18n.messages import N_
from hermes.llm.client import SideTask
from hermes.plugin_host.channel import PluginError, PluginRefusedError
from hermes.plugin_host.folders import (
    PluginFolder,
    PluginFolderRow,
    PluginFolderState,
    find_state,
    list_plugin_folders,
)
from hermes.plugin_host.given_sources import GivenSources
from hermes.plugin_host.hook_source import FolderHookSource
from hermes.plugin_host.manifest import CommandDeclaration, WorkspaceAccess
from hermes.plugin_host.process import HostParts, PluginProcess, ProcessFacts
from hermes.plugin_host.tools import build_plugin_tools
from hermes.plugin_host.writable_workspace import open_writable_workspace
from hermes.safety.fencing import reveal_hidden_text
from hermes.safety.paths import Places
from hermes.tools.tool import Tool
from hermes.util.cancellation import run_to_completion

if TYPE_CHECKING:
    from hermes.plugin_host.memory_provider import FolderMemoryProvider
    from hermes.plugin_host.summary_writer import PluginSummaryTask

COMMAND_SECONDS = 60.0
"""Seconds that a command of a plug-in has for its answer."""
_MAX_PROCESSES = 64
_CACHE_SECONDS = 2.0
_MAX_CACHED = 64


class PluginFacts(Struct, frozen=True, kw_only=True):
    """What there is to tell of a process of a plug-in; `workspace` is what it may see, empty for none."""

    plugin: str
    workspace: str
    process: ProcessFacts


class PluginCommand(Struct, frozen=True):
    """A command of a plug-in, with the plug-in that has it."""

    plugin: str
    declaration: CommandDeclaration


class SessionPlugins(Struct, frozen=True):
    """What a session gets of the plug-ins that are enabled for it."""

    tools: tuple[Tool, ...] = ()
    hooks: tuple[FolderHookSource | MissingHookSource, ...] = ()
    commands: tuple[PluginCommand, ...] = ()
    remarks: tuple[str, ...] = ()
    """Lines for the person: what was changed since it was enabled, and what cannot be read."""


class _CommandResult(Struct, frozen=True, forbid_unknown_fields=True):
    text: str
    is_error: bool = False


class PluginHost:
    """The plug-ins of a process, one child each, which `close` ends."""

    def __init__(self, parts: HostParts, consents: PluginConsents, trust: TrustFile) -> None:
        self._parts = parts
        self._consents = consents
        self._trust = trust
        self._processes: dict[tuple[str, str, str], PluginProcess] = {}
        self._given: dict[str, GivenSources] = {}
        self._rows: dict[str, tuple[float, tuple[PluginFolderRow, ...]]] = {}
        self._closing: set[asyncio.Task[None]] = set()

    def list_rows(self, workspace: str) -> tuple[PluginFolderRow, ...]:
        """Return the plug-ins of the home and of a workspace as they are now. Raises ConfigError."""
        now = time.monotonic()
        found = self._rows.get(workspace)
        if found is None or now - found[0] > _CACHE_SECONDS:
            rows = list_plugin_folders(self._parts.root, workspace, self._trust, self._consents)
            if len(self._rows) >= _MAX_CACHED:
                self._rows.clear()
            found = self._rows[workspace] = (now, rows)
        return found[1]

    def open_session(self, workspace: str) -> SessionPlugins:
        """Return what a session in a workspace gets. Nothing is started. Raises ConfigError."""
        tools: list[Tool] = []
        hooks: list[FolderHookSource | MissingHookSource] = []
        commands: list[PluginCommand] = []
        rows = self.list_rows(workspace)
        for row in rows:
            folder = row.folder
            if row.missed_events:
                hooks.append(MissingHookSource(row.name, row.missed_events, _explain_missing(row)))
            if row.state is not PluginFolderState.ENABLED or folder is None:
                continue
            process = _SessionProcess(self, folder, workspace)
            tools += build_plugin_tools(folder, process, self._get_given(folder))
            if folder.manifest.hooks:
                hooks.append(FolderHookSource(folder, process.get, self._get_given(folder)))
            commands += [PluginCommand(folder.name, one) for one in folder.manifest.commands]
        return SessionPlugins(tuple(tools), tuple(hooks), tuple(commands), tuple(_list_remarks(rows)))

    def find_memory(self, name: str, session_id: str, workspace: str) -> "FolderMemoryProvider | None":
        """Return the memory that an enabled plug-in of the home offers under this name, or None. Raises ConfigError.

        A project's plug-in is never a memory: it would take the place of what the person means by the name.
        """
        folder = self._find_own(name, workspace)
        if folder is None or not folder.manifest.memory:
            return None
        from hermes.plugin_host.memory_provider import FolderMemoryProvider

        return FolderMemoryProvider(folder, _SessionProcess(self, folder, workspace).get, session_id)

    def find_summary_writer(self, name: str, workspace: str, model: SideTask) -> "PluginSummaryTask | None":
        """Return the writer of summaries that an enabled plug-in of the home offers under this name, or None; `model`
        writes what it does not. Raises ConfigError.
        """
        folder = self._find_own(name, workspace)
        if folder is None or not folder.manifest.engine:
            return None
        from hermes.plugin_host.summary_writer import PluginSummaryTask

        return PluginSummaryTask(folder, _SessionProcess(self, folder, workspace).get, model)

    def _find_own(self, name: str, workspace: str) -> PluginFolder | None:
        """Return the enabled plug-in of the home that has this name."""
        for row in self.list_rows(workspace):
            if row.name == name and not row.is_project and row.state is PluginFolderState.ENABLED:
                return row.folder
        return None

    async def check_plugins(self, workspace: str) -> list[PluginFacts]:
        """Start every plug-in that is enabled, and return what there is to tell of each, its problem included. Raises
        ConfigError.
        """
        folders = [row.folder for row in self.list_rows(workspace) if row.state is PluginFolderState.ENABLED]
        processes = [self.get_process(one, workspace) for one in folders if one is not None]
        await asyncio.gather(*(one.start() for one in processes), return_exceptions=True)
        return self.list_facts()

    async def run_command(self, plugin: str, name: str, text: str, *, session_id: str, workspace: str) -> str:
        """Run a command of an enabled plug-in and return what it says. Raises NotFoundError, ToolError, ConfigError."""
        for row in self.list_rows(workspace):
            folder = row.folder
            if row.name != plugin or folder is None or row.state is not PluginFolderState.ENABLED:
                continue
            names = [one.name for one in folder.manifest.commands]
            if name in names:
                return await self._ask_command(folder, name, text, session_id, workspace)
            raise NotFoundError(
                N_("The plug-in {plugin} has no command {name!r}.", plugin=row.name, name=name[:60]),
                N_("Its commands: {names}.", names=", ".join(names)) if names else N_("It has none."),
            )
        raise NotFoundError(
            N_("No enabled plug-in is called {plugin!r}.", plugin=plugin[:60]),
            N_("`hermes plugins list` shows the plug-ins."),
        )

    async def _ask_command(self, folder: PluginFolder, name: str, text: str, session_id: str, workspace: str) -> str:
        params = {"name": name, "text": text, "session": session_id, "folder": workspace}
        try:
            raw = await self.get_process(folder, workspace).request("command", params, COMMAND_SECONDS)
            result = msgspec.json.decode(raw, type=_CommandResult)
        except PluginError as error:
            raise ToolError(N_("The plug-in {name}: {error}.", name=folder.name, error=error.reason)) from None
        except PluginRefusedError as error:
            raise ToolError(N_("The plug-in {name} says: {error}", name=folder.name, error=error)) from None
        except (msgspec.MsgspecError, RecursionError):
            raise ToolError(N_("The plug-in {name}: its answer cannot be read.", name=folder.name)) from None
        return reveal_hidden_text(result.text).text

    def get_process(self, folder: PluginFolder, workspace: str) -> PluginProcess:
        """Return the process of a plug-in, which need not run. Raises PluginError once the plug-in is not enabled any
        more.
        """
        try:
            state = find_state(folder, self._consents.get(folder.key))
        except ConfigError as error:
            raise PluginError(error.message.rstrip(".")) from None
        is_shown = folder.manifest.capabilities.workspace is not WorkspaceAccess.NONE
        place = os.path.realpath(workspace) if is_shown else ""
        key = (folder.key, folder.digest, place)
        if state is not PluginFolderState.ENABLED or (
            folder.is_project and not self._trust.is_trusted_folder(folder.path)
        ):
            self._end_process(key)
            raise PluginError(N_("it is not enabled any more"))
        found = self._processes.get(key)
        if found is None:
            if len(self._processes) >= _MAX_PROCESSES:
                idle = (key for key, one in self._processes.items() if not one.is_busy)
                self._end_process(next(idle, next(iter(self._processes))))
            parts = structs.replace(self._parts, places=structs.replace(self._parts.places, workspace=place or "/"))
            found = self._processes[key] = PluginProcess(folder, parts, place)
        return found

    async def write_workspace(
        self, folder: PluginFolder, params: object, seconds: float, places: Places
    ) -> tuple[Raw, Sequence[str]]:
        """Call a tool that may write the workspace, in a process of its own; return its result, and lines about what
        it left for programs to obey. Raises PluginError and PluginRefusedError, after the process is gone.
        """
        self.get_process(folder, places.workspace)  # it says whether the plug-in is still enabled
        parts = structs.replace(self._parts, places=places)
        async with open_writable_workspace(places) as workspace:
            process = PluginProcess(folder, parts, places.workspace, workspace.layout)
            try:
                result = await process.request("tool", params, seconds)
            finally:
                await run_to_completion(process.close())
        return result, workspace.notes

    def list_facts(self) -> list[PluginFacts]:
        """Return what there is to tell of the processes, in the order in which they were first needed."""
        return [
            PluginFacts(plugin=one.folder.name, workspace=key[2], process=one.list_facts())
            for key, one in self._processes.items()
        ]

    async def close(self) -> None:
        """End all processes."""
        for key in list(self._processes):
            self._end_process(key)
        await asyncio.gather(*self._closing)

    def _end_process(self, key: tuple[str, str, str]) -> None:
        process = self._processes.pop(key, None)
        if process is not None:
            task = asyncio.create_task(process.close())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    def _get_given(self, folder: PluginFolder) -> GivenSources:
        found = self._given.get(folder.identity)
        if found is None:
            file = self._parts.root / "plugin-data" / f"{folder.identity}.sources.json"
            found = self._given[folder.identity] = GivenSources(file)
        return found


class _SessionProcess:
    """The way from what a session holds to the process, looked for at each call: its plug-in may be off now."""

    def __init__(self, host: PluginHost, folder: PluginFolder, workspace: str) -> None:
        self._host = host
        self._folder = folder
        self._workspace = workspace

    def get(self) -> PluginProcess:
        """Return the process. Raises PluginError."""
        return self._host.get_process(self._folder, self._workspace)

    async def call_tool(
        self, params: object, seconds: float, *, writes: bool, places: Places
    ) -> tuple[Raw, Sequence[str]]:
        """Call a tool; return its result, and lines about what it left. Raises PluginError and PluginRefusedError."""
        if writes:
            return await self._host.write_workspace(self._folder, params, seconds, places)
        return await self.get().request("tool", params, seconds), ()


def _list_remarks(rows: Sequence[PluginFolderRow]) -> list[str]:
    remarks: list[str] = []
    for row in rows:
        if row.state is PluginFolderState.CHANGED:
            remarks.append(
                N_(
                    "The plug-in {name} has changed since it was enabled and is off: `hermes plugins enable {name}`.",
                    name=row.name,
                )
            )
        elif row.state is PluginFolderState.INVALID:
            remarks.append(N_("The plug-in {name} cannot be used: {problem}", name=row.name, problem=row.problem))
    return remarks


def _explain_missing(row: PluginFolderRow) -> str:
    """Return why a plug-in that was enabled cannot be asked, and what to do."""
    return explain_change(row.name) if os.path.isdir(row.path) else row.problem
