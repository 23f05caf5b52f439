"""Runs commands on another host, with the person's own OpenSSH client; the workspace is kept the same on both sides."""

import asyncio
import contextlib
import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Mapping, Sequence

from msgspec import Struct

from hermes.core.errors import ToolError
from hermes.execution.base import OutputSink, ShellCommand, UnconfinedBackend
from hermes.execution.local import LocalBackend
from hermes.execution.remote import RemoteCommand, RemoteShell
from hermes.execution.ssh.sync import WorkspaceSync
from hermes.execution.supervisor import Supervisors
from hermes.i18n.messages import N_
from hermes.safety.environment import DroppedVariables
from hermes.safety.paths import Places

_HOST_PATTERN = re.compile(r"[A-Za-z0-9_\[][A-Za-z0-9_.:%\[\]-]*")
_USER_PATTERN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@\\-]*")
_FIXED_OPTIONS = str.split(
    """
    BatchMode=yes ConnectTimeout=10 ServerAliveInterval=15 ServerAliveCountMax=3 LogLevel=ERROR ForwardAgent=no
    ForwardX11=no ClearAllForwardings=yes PermitLocalCommand=no ControlPersist=no RequestTTY=auto RemoteCommand=none
    EscapeChar=none
    """
)
"""Options that apply whatever the person's own settings say. Whether a host's key is trusted is for those to say."""


class SshOptions(Struct, frozen=True, kw_only=True):
    """Which host, and how it is reached; an empty field is left to the person's ssh settings."""

    host: str
    user: str = ""
    port: int = 0
    key: str = ""
    config: str = ""
    """A file of ssh settings to use instead of the person's."""
    folder: str = ""
    """Where the workspace is on the host, absolute or below the home there; empty: a folder of its own."""
    exclude: tuple[str, ...] = ()
    limit: int = 100_000_000
    """The most bytes that one transfer may take."""


class SshBackend(UnconfinedBackend):
    """Runs commands on a host over one connection, which is made at the first command.

    Files of the workspace are sent there before a command and brought back after it. The host's own environment is the
    base; of this process's variables none is handed on. Parameters as those of `LocalBackend`.
    """

    name = "ssh"
    contained = False

    def __init__(
        self,
        environment: Mapping[str, str],
        options: SshOptions,
        places: Places,
        *,
        held_handles: Sequence[int] = (),
        supervisors: Supervisors | None = None,
    ) -> None:
        self._program = shutil.which("ssh", path=environment.get("PATH", os.defpath)) or ""
        self._options = options
        self._workspace = os.path.realpath(places.workspace)
        local = LocalBackend(environment, held_handles=held_handles, supervisors=supervisors, runs_clients=True)
        super().__init__(DroppedVariables(environment))
        target = f"{options.user}@{options.host}" if options.user else options.host
        self._remote = RemoteShell(
            local,
            self._build_client_arguments,
            target,
            to_remote=self._to_remote_path,
            to_local=self.to_local_or_remote_path,
        )
        self._sync = WorkspaceSync(self._remote, self._workspace, places, exclude=options.exclude, limit=options.limit)
        self._socket_folder = ""
        self._root = ""
        """The workspace on the host, absolute; empty before the first command."""
        self._connect_lock = asyncio.Lock()

    async def describe(self, *, detailed: bool = False) -> str:
        """Describe where commands run. The host is not asked: that could take its time."""
        del detailed
        folder = self._root or self._remote_folder()
        return N_(
            "Commands run on {where} with that account's rights, in {folder}; files are kept the same.",
            where=self._remote.where,
            folder=folder,
        )

    def take_notices(self) -> list[str]:
        """Return the notices about files that were not transferred."""
        return self._sync.take_notices()

    def to_local_path(self, path: str) -> str:
        """Return where a path of the host's lies in the workspace here; others are not on this machine."""
        return self.to_local_or_remote_path(path) if self._root else path

    def to_local_or_remote_path(self, path: str) -> str:
        """Return a path of the host's workspace as it is called here; others as they are called there."""
        return _rebase_path(os.path.normpath(path), self._root, self._workspace)

    def is_missing_folder(self, path: str) -> bool:
        """Return whether a command could not enter the folder: the host has folders that are not here."""
        return path in self._remote.missing_folders

    async def start(self, command: ShellCommand, sink: OutputSink) -> RemoteCommand:
        """Start a command on the host, with the files as they are here."""
        await self._ensure_connected()
        for line in await self._sync.send_changes():
            sink(f"[{line}]\n".encode("utf-8", "replace"))
        return await self._remote.start(command, sink, self._sync.bring_changes)

    async def close(self) -> None:
        """End running commands, and the connection."""
        await self._remote.close()
        if self._socket_folder:
            shutil.rmtree(self._socket_folder, ignore_errors=True)
            self._socket_folder = ""

    async def _ensure_connected(self) -> None:
        """Connect when there is no connection, or none any more."""
        async with self._connect_lock:
            if self._remote.is_connected:
                return
            self._check_options()
            if not self._socket_folder:
                self._socket_folder = tempfile.mkdtemp(prefix="hermes-", dir=_find_short_folder())
            with contextlib.suppress(FileNotFoundError):
                os.unlink(f"{self._socket_folder}/c")
            await self._remote.start_standby(
                self._build_master_arguments, lambda: os.path.exists(f"{self._socket_folder}/c")
            )
            self._root = await self._sync.begin(self._remote_folder())

    def _check_options(self) -> None:
        options = self._options
        if not self._program:
            raise ToolError("There is no ssh program on this machine. Install the OpenSSH client.")
        if not _HOST_PATTERN.fullmatch(options.host):
            raise ToolError(f"{options.host!r} is no host. Set terminal.ssh.host to a name, an address or an alias.")
        if options.user and not _USER_PATTERN.fullmatch(options.user):
            raise ToolError(f"{options.user!r} is no name of a user. Fix terminal.ssh.user.")

    def _build_arguments(self, *options: str) -> list[str]:
        ssh = self._options
        arguments = [self._program, "-x", "-a"]
        if ssh.config:
            arguments += ["-F", os.path.expanduser(ssh.config)]
        if ssh.key:
            arguments += ["-i", os.path.expanduser(ssh.key)]
        if ssh.port:
            arguments += ["-p", str(ssh.port)]
        if ssh.user:
            arguments += ["-l", ssh.user]
        for option in (*_FIXED_OPTIONS, f"ControlPath={self._socket_folder.replace('%', '%%')}/c", *options):
            arguments += ["-o", option]
        return arguments

    def _build_master_arguments(self, script: str) -> list[str]:
        return [*self._build_arguments("ControlMaster=yes"), "-T", "--", self._options.host, f"exec sh -c '{script}'"]

    def _build_client_arguments(self, script: str, interactive: bool, pty: bool) -> list[str]:
        mode = "-tt" if pty else "-T"
        return [*self._build_arguments("ControlMaster=no"), mode, "--", self._options.host, f"exec sh -c '{script}'"]

    def _remote_folder(self) -> str:
        if self._options.folder:
            return self._options.folder
        name = re.sub(r"[^A-Za-z0-9_.-]", "_", os.path.basename(self._workspace)) or "root"
        return f"hermes/{name}-{hashlib.sha256(os.fsencode(self._workspace)).hexdigest()[:8]}"

    def _to_remote_path(self, path: str) -> str:
        return _rebase_path(os.path.realpath(path) if os.path.isdir(path) else path, self._workspace, self._root)


def _rebase_path(path: str, origin: str, target: str) -> str:
    """Return a path at or below one folder, as it is called below another."""
    if path == origin or path.startswith(origin.rstrip("/") + "/"):
        return target.rstrip("/") + path[len(origin.rstrip("/")) :] or "/"
    return path


def _find_short_folder() -> str | None:
    """Return a folder where a socket's path stays short enough for the system (108 bytes, unix(7))."""
    return None if len(tempfile.gettempdir()) < 60 else "/tmp"  # noqa: S108 - the folder made there is private
