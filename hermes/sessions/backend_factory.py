"""Where the commands of a session run, as the person's settings say."""

import os
import time
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from hermes.config.home import Home
from hermes.config.settings import Settings
from hermes.core.errors import ConfigError
from hermes.execution.base import Network, TerminalBackend
from hermes.execution.local import LocalBackend
from hermes.execution.supervisor import Wardens
from hermes.safety.places import Places

if TYPE_CHECKING:
    from hermes.execution.sandbox.probe import Probe

BACKENDS = ("auto", "sandbox", "local", "docker", "ssh")
LATER = ("singularity", "modal", "daytona")
_FRESH = 2.0
"""Seconds for which the folders of the PATH are taken to lead where they led."""
UNBOXED = (
    "There is no sandbox on this machine: commands run with all of your rights. Install bubblewrap (Linux), or set "
    "terminal.backend to local if that is what you want."
)


class Place:
    """What every backend of a process is made with."""

    def __init__(self, environ: Mapping[str, str], settings: Settings, wardens: Wardens) -> None:
        self._environ = environ
        self._settings = settings
        self._wardens = wardens
        self._probe: Probe | None = None
        """What was found out about the sandbox, once for all sessions."""

    def backend(self, places: Places, lock: int) -> tuple[TerminalBackend, str]:
        """The backend of a session, and a line for the person; empty when there is nothing to say.

        `auto` takes the sandbox wherever the kernel has one. Raises ConfigError for a name or a mode that is none.
        """
        terminal = self._settings.terminal
        if terminal.backend in LATER:
            raise ConfigError(
                f"The terminal back end {terminal.backend} comes later.",
                f"Set terminal.backend to one of: {', '.join(BACKENDS)}.",
            )
        if terminal.backend not in BACKENDS:
            raise ConfigError(
                f"There is no terminal back end {terminal.backend!r}.",
                f"Set terminal.backend to one of: {', '.join(BACKENDS)}.",
            )
        if terminal.backend == "ssh":
            return self._ssh(places, lock), ""
        if terminal.backend == "docker":
            return self._docker(places, lock), ""
        boxed = terminal.backend == "sandbox" or places.confined
        if terminal.backend == "auto" and not boxed:
            from hermes.execution.sandbox.probe import possible

            boxed = possible(self._environ)
        if not boxed:
            return self._local(lock), "" if terminal.backend == "local" else UNBOXED
        return self._sandbox(places, lock), ""

    def _local(self, lock: int) -> TerminalBackend:
        passed = self._settings.terminal.env_passthrough
        return LocalBackend(self._environ, passed=passed, held=(lock,), wardens=self._wardens)

    def _ssh(self, places: Places, lock: int) -> TerminalBackend:
        from hermes.execution.ssh.backend import SshBackend, SshPlace

        given = self._settings.terminal.ssh
        if not given.host:
            raise ConfigError("Commands are to run on another host, and none is named.", "Set terminal.ssh.host.")
        place = SshPlace(
            host=given.host,
            user=given.user,
            port=given.port,
            key=given.key,
            config=given.config,
            folder=given.folder,
            exclude=given.exclude,
            limit=given.limit_mb * 1_000_000,
        )
        return SshBackend(self._environ, place, places, held=(lock,), wardens=self._wardens)

    def _docker(self, places: Places, lock: int) -> TerminalBackend:
        from hermes.execution.docker import DockerBackend, DockerPlace

        given = self._settings.terminal.docker
        if not given.image:
            raise ConfigError(
                "Commands are to run in a container, and no image is named.", "Set terminal.docker.image."
            )
        network = {"False": "off", "True": "on"}.get(str(given.network), str(given.network))
        if network not in ("off", "on"):
            raise ConfigError(
                f"There is no network mode {given.network!r}.", "Set terminal.docker.network to off or on."
            )
        place = DockerPlace(
            image=given.image,
            program=given.program,
            network=network == "on",
            memory=given.memory,
            pids=given.pids,
            options=given.options,
            args=given.args,
        )
        passed = self._settings.terminal.env_passthrough
        return DockerBackend(self._environ, place, places, passed=passed, held=(lock,), wardens=self._wardens)

    def _sandbox(self, places: Places, lock: int) -> TerminalBackend:
        from hermes.execution.sandbox.backend import SandboxBackend
        from hermes.execution.sandbox.policy import SandboxPolicy

        settings = self._settings.terminal
        policy = SandboxPolicy(
            places=places,
            writable=() if places.confined else _resolved(settings.sandbox.writable),
            unreadable=(places.home,) if places.confined else (),
            network=network_of(settings.sandbox.network),
            hosts=self._settings.security.allowed_hosts,
        )
        from hermes.execution.sandbox.probe import Probe

        self._probe = self._probe or Probe(self._environ)
        return SandboxBackend(
            self._environ,
            policy,
            passed=settings.env_passthrough,
            held=(lock,),
            wardens=self._wardens,
            probe=self._probe,
        )


def _resolved(paths: Sequence[str]) -> tuple[str, ...]:
    return tuple(str(Path(one).expanduser().resolve()) for one in paths)


def trusted_path(path: str, workspace: str) -> str:
    """The PATH on which programs of our own are looked for: nothing that a command in the workspace may have made."""
    return _trusted_path(path, workspace, int(time.monotonic() / _FRESH))


@lru_cache(maxsize=64)
def _trusted_path(path: str, workspace: str, _age: int) -> str:
    kept = (one for one in path.split(os.pathsep) if os.path.isabs(one))
    inside = workspace.rstrip("/") + "/"
    return os.pathsep.join(one for one in kept if not (os.path.realpath(one) + "/").startswith(inside))


def network_of(named: object) -> Network:
    """The network mode of this name; YAML reads a bare `off` and `on` as false and true. Raises ConfigError."""
    try:
        return Network({"False": "off", "True": "on"}.get(str(named), str(named).lower()))
    except ValueError:
        raise ConfigError(
            f"There is no network mode {named!r}.", "Set terminal.sandbox.network to off, allowlist or on."
        ) from None


def places_of(environ: Mapping[str, str], home: Home, folder: str) -> Places:
    """The person's home, Hermes' own and the folder, resolved."""
    user = os.path.realpath(environ.get("HOME") or os.path.expanduser("~"))
    return Places(home=user, hermes=os.path.realpath(home.root), workspace=os.path.realpath(folder))
