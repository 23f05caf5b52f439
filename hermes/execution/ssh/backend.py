"""Commands on another host, by the person's own OpenSSH client, with the workspace kept the same on both sides."""

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
from hermes.execution.base import Command, Sink
from hermes.execution.local import LocalBackend
from hermes.execution.remote import Far, FarRunning
from hermes.execution.ssh.sync import Sync
from hermes.execution.supervisor import Wardens
from hermes.safety.places import Places

_HOST = re.compile(r"[A-Za-z0-9_\[][A-Za-z0-9_.:%\[\]-]*")
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@\\-]*")
_OPTIONS = (
    "BatchMode=yes",
    "ConnectTimeout=10",
    "ServerAliveInterval=15",
    "ServerAliveCountMax=3",
    "LogLevel=ERROR",
    "ForwardAgent=no",
    "ForwardX11=no",
    "ClearAllForwardings=yes",
    "PermitLocalCommand=no",
    "ControlPersist=no",
    "RequestTTY=auto",
    "RemoteCommand=none",
    "EscapeChar=none",
)
"""What holds whatever the person's own settings say. Whether a host's key is believed is for those to say."""


class SshPlace(Struct, frozen=True, kw_only=True):
    """Which host, and how it is reached; what is empty is for the person's ssh settings to say."""

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
    """Bytes that one transfer may take."""


class SshBackend:
    """Runs commands on a host over one connection, which is made at the first command.

    Files of the workspace are brought there before a command and back after it. The host's own environment is the
    base; of this process's variables none is handed on. Parameters as those of `LocalBackend`.
    """

    name = "ssh"
    contained = False

    def __init__(
        self,
        environment: Mapping[str, str],
        place: SshPlace,
        places: Places,
        *,
        held: Sequence[int] = (),
        wardens: Wardens | None = None,
    ) -> None:
        self._program = shutil.which("ssh", path=environment.get("PATH", os.defpath)) or ""
        self._place = place
        self._workspace = os.path.realpath(places.workspace)
        local = LocalBackend(environment, held=held, wardens=wardens)
        target = f"{place.user}@{place.host}" if place.user else place.host
        self._far = Far(local, self._lead, target, inward=self._inward, outward=self.outside_or_there)
        self._sync = Sync(self._far, self._workspace, places, exclude=place.exclude, limit=place.limit)
        self._room = ""
        self._root = ""
        """The workspace on the host, absolute; empty before the first command."""
        self._connecting = asyncio.Lock()

    async def line(self, *, whole: bool = False) -> str:
        """Where commands go. The host is not asked: that could take its time."""
        del whole
        folder = self._root or self._folder()
        return f"Commands run on {self._far.where} with that account's rights, in {folder}; files are kept the same."

    def take_notices(self) -> list[str]:
        """What was not carried over."""
        return self._sync.take_notices()

    def writable(self, path: str) -> bool:
        """Files of this machine are not held from file tools by where commands run."""
        return True

    def outside(self, path: str) -> str:
        """Where a path of the host's lies in the workspace here; others are not on this machine."""
        return self.outside_or_there(path) if self._root else path

    def outside_or_there(self, path: str) -> str:
        """A path of the host's workspace as it is called here; others as they are called there."""
        return _moved(os.path.normpath(path), self._root, self._workspace)

    def inside(self, path: str) -> str:
        """What lies on this machine is named as it is called here."""
        return path

    def gone(self, path: str) -> bool:
        """Whether a command could not enter it: the host has folders that are not here."""
        return path in self._far.missing

    def denied_path(self, output: str, cwd: str) -> str:
        """Nothing is kept from commands that an answer here would open."""
        return ""

    def never_opened(self, output: str, cwd: str) -> str:
        """No place has to be told of here."""
        return ""

    def grant(self, path: str) -> None:
        """There is nothing to open."""

    async def start(self, command: Command, sink: Sink) -> FarRunning:
        """Start a command on the host, with the files as they are here."""
        await self._connected()
        for line in await self._sync.up():
            sink(f"[{line}]\n".encode("utf-8", "replace"))
        return await self._far.start(command, sink, self._sync.down)

    async def close(self) -> None:
        """End what is under way, and the connection."""
        await self._far.close()
        if self._room:
            shutil.rmtree(self._room, ignore_errors=True)
            self._room = ""

    async def _connected(self) -> None:
        """Connect when there is no connection (any more)."""
        async with self._connecting:
            if self._far.kept:
                return
            self._checked()
            if not self._room:
                self._room = tempfile.mkdtemp(prefix="hermes-", dir=_short_folder())
            with contextlib.suppress(FileNotFoundError):
                os.unlink(f"{self._room}/c")
            await self._far.keep(self._master, lambda: os.path.exists(f"{self._room}/c"))
            self._root = await self._sync.begin(self._folder())

    def _checked(self) -> None:
        place = self._place
        if not self._program:
            raise ToolError("There is no ssh program on this machine. Install the OpenSSH client.")
        if not _HOST.fullmatch(place.host):
            raise ToolError(f"{place.host!r} is no host. Set terminal.ssh.host to a name, an address or an alias.")
        if place.user and not _USER.fullmatch(place.user):
            raise ToolError(f"{place.user!r} is no name of a user. Mend terminal.ssh.user.")

    def _arguments(self, *options: str) -> list[str]:
        place = self._place
        arguments = [self._program, "-x", "-a"]
        if place.config:
            arguments += ["-F", os.path.expanduser(place.config)]
        if place.key:
            arguments += ["-i", os.path.expanduser(place.key)]
        if place.port:
            arguments += ["-p", str(place.port)]
        if place.user:
            arguments += ["-l", place.user]
        for option in (*_OPTIONS, f"ControlPath={self._room.replace('%', '%%')}/c", *options):
            arguments += ["-o", option]
        return arguments

    def _master(self, script: str) -> list[str]:
        return [*self._arguments("ControlMaster=yes"), "-T", "--", self._place.host, f"exec sh -c '{script}'"]

    def _lead(self, script: str, interactive: bool, pty: bool) -> list[str]:
        mode = "-tt" if pty else "-T"
        return [*self._arguments("ControlMaster=no"), mode, "--", self._place.host, f"exec sh -c '{script}'"]

    def _folder(self) -> str:
        if self._place.folder:
            return self._place.folder
        name = re.sub(r"[^A-Za-z0-9_.-]", "_", os.path.basename(self._workspace)) or "root"
        return f"hermes/{name}-{hashlib.sha256(os.fsencode(self._workspace)).hexdigest()[:8]}"

    def _inward(self, path: str) -> str:
        return _moved(os.path.realpath(path) if os.path.isdir(path) else path, self._workspace, self._root)


def _moved(path: str, origin: str, target: str) -> str:
    """A path at or below one folder, as it is called below another."""
    if path == origin or path.startswith(origin.rstrip("/") + "/"):
        return target.rstrip("/") + path[len(origin.rstrip("/")) :] or "/"
    return path


def _short_folder() -> str | None:
    """Where a socket's path stays short enough for the system (108 bytes, unix(7))."""
    return None if len(tempfile.gettempdir()) < 60 else "/tmp"  # noqa: S108 - the folder made there is private
