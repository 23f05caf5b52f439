"""Chooses the terminal backend in which the commands of a session run, from the settings."""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from hermes.config.home import HermesHome
from hermes.config.known_homes import list_known_homes, locate_known_homes
from hermes.config.settings import Settings
from hermes.core.errors import ConfigError
from hermes.execution.base import BackendHandle, NetworkMode, TerminalBackend
from hermes.i18n.messages import N_
from hermes.safety.paths import Places

if TYPE_CHECKING:
    from hermes.execution.sandbox.policy import SandboxPolicy, ToolPlaces
    from hermes.execution.sandbox.probe import SandboxProbe
    from hermes.execution.supervisor import Supervisors

BACKENDS = ("auto", "sandbox", "local", "docker", "ssh")
PLANNED_BACKENDS = ("singularity", "modal", "daytona")
_TOOLS_CACHE_SECONDS = 30.0
"""Seconds for which it is known what the programs of PATH lead to: sessions begin in numbers in a gateway."""
_PATH_CACHE_SECONDS = 2.0
"""Seconds for which the resolved folders of the PATH are cached."""
NO_SANDBOX_WARNING = (
    "There is no sandbox on this machine: commands run with all of your rights. Install bubblewrap (Linux), or set "
    "terminal.backend to local if that is what you want."
)


class BackendFactory:
    """Creates the terminal backends of a process."""

    def __init__(
        self, environ: Mapping[str, str], settings: Settings, get_supervisors: "Callable[[], Supervisors]"
    ) -> None:
        self._environ = environ
        self._settings = settings
        self._get_supervisors = get_supervisors
        self._probe: SandboxProbe | None = None
        """The result of probing the sandbox, shared by all sessions."""
        self._tools: tuple[float, tuple[object, ...], ToolPlaces] | None = None

    def create_backend(self, places: Places, lock: int) -> tuple[BackendHandle, str]:
        """Choose the backend of a session; return it with a line for the person, empty when there is none.

        `auto` uses the sandbox wherever the kernel supports one. Raises ConfigError for an unknown name or mode.
        """
        terminal = self._settings.terminal
        if terminal.backend in PLANNED_BACKENDS:
            raise ConfigError(
                N_("The terminal back end {backend} comes later.", backend=terminal.backend),
                self._advise(N_("Set terminal.backend to one of: {BACKENDS}.", BACKENDS=", ".join(BACKENDS))),
            )
        if terminal.backend not in BACKENDS:
            raise ConfigError(
                N_("There is no terminal back end {backend}.", backend=repr(terminal.backend)),
                self._advise(N_("Set terminal.backend to one of: {BACKENDS}.", BACKENDS=", ".join(BACKENDS))),
            )
        if terminal.backend == "ssh":
            return BackendHandle.from_backend(self._create_ssh(places, lock)), ""
        if terminal.backend == "docker":
            return BackendHandle.from_backend(self._create_docker(places, lock)), ""
        boxed = terminal.backend == "sandbox" or places.confined
        if terminal.backend == "auto" and not boxed:
            from hermes.execution.sandbox.support import is_sandbox_possible

            boxed = is_sandbox_possible(self._environ)
        if not boxed:
            warning = "" if terminal.backend == "local" else NO_SANDBOX_WARNING
            return BackendHandle("local", lambda: self._create_local(lock)), warning
        network = parse_network_mode(terminal.sandbox.network)
        return BackendHandle("sandbox", lambda: self._create_sandbox(places, lock, network)), ""

    def _create_local(self, lock: int) -> TerminalBackend:
        from hermes.execution.local import LocalBackend

        passed = self._settings.terminal.env_passthrough
        return LocalBackend(
            self._environ, passed_variables=passed, held_handles=(lock,), supervisors=self._get_supervisors()
        )

    def _create_ssh(self, places: Places, lock: int) -> TerminalBackend:
        from hermes.execution.ssh.backend import SshBackend, SshOptions

        given = self._settings.terminal.ssh
        if not given.host:
            raise ConfigError("Commands are to run on another host, and none is named.", "Set terminal.ssh.host.")
        place = SshOptions(
            host=given.host,
            user=given.user,
            port=given.port,
            key=given.key,
            config=given.config,
            folder=given.folder,
            exclude=given.exclude,
            limit=given.limit_mb * 1_000_000,
        )
        return SshBackend(self._environ, place, places, held_handles=(lock,), supervisors=self._get_supervisors())

    def _advise(self, advice: str) -> str:
        """Return the advice, and where the kind of back end comes from when no file says so."""
        named = self._environ.get("TERMINAL_ENV", "").strip()
        if named != self._settings.terminal.backend:
            return advice
        return N_("{advice} The variable TERMINAL_ENV={named} goes before the file.", advice=advice, named=named)

    def _create_docker(self, places: Places, lock: int) -> TerminalBackend:
        from hermes.execution.docker import DockerBackend, DockerOptions

        given = self._settings.terminal.docker
        if not given.image:
            raise ConfigError(
                "Commands are to run in a container, and no image is named.", self._advise("Set terminal.docker.image.")
            )
        network = {"False": "off", "True": "on"}.get(str(given.network), str(given.network))
        if network not in ("off", "on"):
            raise ConfigError(
                N_("There is no network mode {network}.", network=repr(given.network)),
                "Set terminal.docker.network to off or on.",
            )
        place = DockerOptions(
            image=given.image,
            program=given.program,
            network=network == "on",
            memory=given.memory,
            pids=given.pids,
            options=given.options,
            args=given.args,
        )
        passed = self._settings.terminal.env_passthrough
        return DockerBackend(
            self._environ,
            place,
            places,
            passed_variables=passed,
            held_handles=(lock,),
            supervisors=self._get_supervisors(),
        )

    def make_sandbox_policy(self, places: Places, network: NetworkMode) -> "SandboxPolicy":
        """Return what commands of a session in these places may reach."""
        from hermes.execution.sandbox.policy import find_tools, make_policy

        now, key = time.monotonic(), (places.home, places.other_homes)
        if self._tools is None or self._tools[0] < now - _TOOLS_CACHE_SECONDS or self._tools[1] != key:
            self._tools = now, key, find_tools(msgspec.structs.replace(places, confined=False), self._environ)
        return make_policy(
            places,
            self._tools[2],
            writable=() if places.confined else _resolve_paths(self._settings.terminal.sandbox.writable),
            network=network,
            hosts=self._settings.security.allowed_hosts,
        )

    def _create_sandbox(self, places: Places, lock: int, network: NetworkMode) -> TerminalBackend:
        from hermes.execution.sandbox.backend import SandboxBackend
        from hermes.execution.sandbox.probe import SandboxProbe

        settings = self._settings.terminal
        self._probe = self._probe or SandboxProbe(self._environ)
        return SandboxBackend(
            self._environ,
            self.make_sandbox_policy(places, network),
            passed_variables=settings.env_passthrough,
            held_handles=(lock,),
            supervisors=self._get_supervisors(),
            probe=self._probe,
        )


def _resolve_paths(paths: Sequence[str]) -> tuple[str, ...]:
    return tuple(str(Path(one).expanduser().resolve()) for one in paths)


def filter_trusted_path(path: str, workspace: str) -> str:
    """Return the PATH for programs of our own, without folders that a command in the workspace could write."""
    return _cached_trusted_path(path, workspace, int(time.monotonic() / _PATH_CACHE_SECONDS))


@lru_cache(maxsize=64)
def _cached_trusted_path(path: str, workspace: str, _age: int) -> str:
    kept = (one for one in path.split(os.pathsep) if os.path.isabs(one))
    inside = workspace.rstrip("/") + "/"
    return os.pathsep.join(one for one in kept if not (os.path.realpath(one) + "/").startswith(inside))


def parse_network_mode(name: object) -> NetworkMode:
    """Parse the name of a network mode. Raises ConfigError.

    YAML reads a bare `off` and `on` as false and true.
    """
    try:
        return NetworkMode({"False": "off", "True": "on"}.get(str(name), str(name).lower()))
    except ValueError:
        raise ConfigError(
            N_("There is no network mode {name}.", name=repr(name)),
            "Set terminal.sandbox.network to off, allowlist or on.",
        ) from None


def resolve_places(environ: Mapping[str, str], home: HermesHome, folder: str) -> Places:
    """Resolve the person's home, the home of Hermes and the folder; look up the other homes of both kinds."""
    from hermes.execution.sandbox.home_rows import find_other_homes

    workspace = os.path.realpath(folder)
    user = os.path.realpath(environ.get("HOME") or os.path.expanduser("~"))
    path = map(os.path.normpath, environ.get("PATH", "").split(os.pathsep))
    return Places(
        home=user,
        hermes=os.path.realpath(home.root),
        workspace=workspace,
        other_homes=find_other_homes(user, workspace),
        hermes_homes=list_known_homes(locate_known_homes(environ)),
        programs=tuple(dict.fromkeys(one for one in path if one.startswith(f"{user}/"))),
    )
