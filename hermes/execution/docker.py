"""Runs commands in a container of the session's own, with `docker` or `podman`."""

import asyncio
import os
import re
import secrets
import shutil
from collections.abc import Collection, Mapping, Sequence

from msgspec import Struct

from hermes.core.errors import ToolError
from hermes.execution.base import NetworkMode, OutputSink, ShellCommand, UnconfinedBackend
from hermes.execution.local import LocalBackend
from hermes.execution.remote import ClientProgram, RemoteCommand, RemoteShell
from hermes.execution.sandbox.baseline import BaselineFile
from hermes.execution.sandbox.planted_files import PlantedFiles
from hermes.execution.sandbox.tmpdir import SandboxTmpdir
from hermes.execution.supervisor import Supervisors
from hermes.i18n.messages import N_
from hermes.safety.environment import DroppedVariables, find_named_variables
from hermes.safety.paths import Places, is_or_below, list_secret_paths
from hermes.util.process_identity import identify_this_process, is_alive

_PROGRAMS = ("podman", "docker")
_OWNER_LABEL = "hermes.owner"
"""The label that says which process owns a container."""
_ENGINE_SECONDS = 30.0
"""Seconds that the engine may take to answer a question about its containers."""
_REMOVAL_TRIES, _REMOVAL_PAUSE = 8, 0.5
"""How often it is tried to remove what dead processes have left, and the seconds between two tries: a container ends a
moment after its process.
"""
_OWNED = re.compile(rf"^([0-9a-f]{{12,64}}) .*?\b{re.escape(_OWNER_LABEL)}[=:]([0-9a-f-]*/[0-9]+/[0-9]*)", re.MULTILINE)
"""A container and its owner among its labels: `NAME=VALUE,...` of docker, `map[NAME:VALUE ...]` of podman."""
_MOUNTABLE = re.compile(r"[^,\"\x00-\x1f\x7f]+")
_TMP = "/tmp"  # noqa: S108 - the container's, which is a private folder of the session's here
_UNCONFINING_OPTIONS = (
    "-v", "--volume", "--mount", "--privileged", "--net", "--pid", "--ipc", "--uts", "--userns", "--cgroupns",
    "--device", "--cap-add", "--security-opt", "--add-host", "-p", "-P", "--publish", "--pod", "--rootfs",
    "--group-add", "--gpus", "--sysctl", "--env-host", "--secret",
)  # fmt: skip
"""Arguments that may open more of this machine than the workspace: with one of them a container confines nothing."""


class DockerOptions(Struct, frozen=True, kw_only=True):
    """The image, limits and options that containers are made with."""

    image: str
    program: str = ""
    """`docker` or `podman`, or a path; empty: the first of podman and docker that is installed."""
    network: bool = False
    """Whether a container may have the engine's own network; else it has none."""
    memory: str = "2g"
    pids: int = 512
    options: tuple[str, ...] = ()
    """Options of the program itself, before its verb."""
    args: tuple[str, ...] = ()
    """More options of its `run`."""


class DockerBackend(UnconfinedBackend):
    """Runs commands in one container a session, which sees the workspace under its own path and nothing else of this
    machine.

    The container is made at the first command and ends with this process, however that ends: its first process reads
    from a pipe that nobody else holds. A command that may have no network, when others may, gets a second container
    that has none. The image's own environment is the base; of this process's variables only those named in
    `passed_variables` are handed on. The other parameters are those of `LocalBackend`.
    """

    name = "docker"

    def __init__(
        self,
        environment: Mapping[str, str],
        options: DockerOptions,
        places: Places,
        *,
        passed_variables: Collection[str] = (),
        held_handles: Sequence[int] = (),
        supervisors: Supervisors | None = None,
    ) -> None:
        self._environment = environment
        self._options = options
        self._places = places
        self._workspace = os.path.realpath(places.workspace)
        super().__init__(DroppedVariables(environment, passed_variables))
        self._passed_variables = find_named_variables(environment, passed_variables)
        self._held_handles = held_handles
        self._supervisors = supervisors
        self._containers: dict[bool, CommandContainer] = {}
        self._container_lock = asyncio.Lock()
        self._tmpdir: SandboxTmpdir | None = None
        stored = BaselineFile(f"{places.hermes}/baselines", self._workspace)
        self._planted_files = PlantedFiles(stored, home=places.home)
        self._look_lock = asyncio.Lock()
        self._notices: list[str] = []
        self._has_reclaimed = False
        self.contained = not any(one.startswith(_UNCONFINING_OPTIONS) for one in (*options.options, *options.args))

    async def describe(self, *, detailed: bool = False) -> str:
        """Describe what confines commands, or that nothing can run. The engine is not asked: that could
        take its time.
        """
        del detailed
        program = self._find_program()
        if not program:
            return "Commands are to run in a container, and there is no docker and no podman here."
        network = "on" if self._options.network else "off"
        if not self.contained:
            network += "; your own arguments open more of this machine to it, so the questions are those of local"
        return N_(
            "Commands run in a container ({program}, {image}); network: {network}.",
            program=program,
            image=self._options.image,
            network=network,
        )

    def take_notices(self) -> list[str]:
        """Return the notices about quarantined files since the last call."""
        notices, self._notices = self._notices, []
        return notices

    def is_writable(self, path: str) -> bool:
        """Return whether the path is in the workspace or in the session's own /tmp."""
        return is_or_below(path, self._workspace) or (self._tmpdir is not None and is_or_below(path, self._tmpdir.tmp))

    def to_local_path(self, path: str) -> str:
        """Return where a path in the container lies on this machine, if it does."""
        plain = os.path.normpath(path)
        if is_or_below(plain, _TMP) and not is_or_below(plain, self._workspace):
            return self._get_tmpdir().tmp + plain[len(_TMP) :]
        return path

    def to_command_path(self, path: str) -> str:
        """Return how the container names a path of this machine."""
        tmp = self._tmpdir.tmp if self._tmpdir is not None else ""
        return _TMP + path[len(tmp) :] if tmp and is_or_below(path, tmp) else path

    def is_missing_folder(self, path: str) -> bool:
        """Return whether a command could not enter the folder: the container has folders that are not here."""
        return any(path in one.remote.missing_folders for one in self._containers.values())

    def grant_write(self, path: str) -> None:
        """Raise `ToolError`: a running container cannot be given another folder."""
        raise ToolError(f"{path} is not in the container; only the workspace is.")

    async def start(self, command: ShellCommand, sink: OutputSink) -> RemoteCommand:
        """Start a command in the container. Raises `ToolError` when there is no engine, or it makes no container."""
        container = await self._get_container(self._options.network and command.network is NetworkMode.ON)
        async with self._look_lock:
            if not self._is_busy():
                self._notices += await asyncio.to_thread(self._planted_files.record_baseline, self._writable_roots())
            return await container.remote.start(command, sink, self._quarantine_planted)

    async def close(self) -> None:
        """End the containers with everything in them."""
        await asyncio.gather(*(one.close() for one in self._containers.values()))
        self._containers.clear()
        await asyncio.to_thread(self._planted_files.forget_baseline)
        if self._tmpdir is not None:
            await self._tmpdir.close()
            self._tmpdir = None

    async def look_again(self) -> Sequence[str]:
        """Look again at what commands have left that still run."""
        return await self._quarantine_planted() if self._is_busy() else ()

    def _is_busy(self) -> bool:
        return any(one.remote.is_busy for one in self._containers.values())

    async def _quarantine_planted(self) -> list[str]:
        """Quarantine files that programs of this machine would obey, as after a command in the sandbox."""
        async with self._look_lock:
            notes = await asyncio.to_thread(
                self._planted_files.quarantine_new, self._writable_roots(), lambda path: False
            )
            if not self._is_busy():
                await asyncio.to_thread(self._planted_files.forget_baseline)
        self._notices += notes
        return notes

    def _writable_roots(self) -> tuple[str, ...]:
        return self._workspace, self._get_tmpdir().tmp

    def _find_program(self) -> str:
        path = self._environment.get("PATH", os.defpath)
        names = (self._options.program,) if self._options.program else _PROGRAMS
        return next((found for name in names if (found := shutil.which(name, path=path))), "")

    def _get_tmpdir(self) -> SandboxTmpdir:
        if self._tmpdir is None:
            self._tmpdir = SandboxTmpdir([])
        return self._tmpdir

    async def _get_container(self, network: bool) -> "CommandContainer":
        async with self._container_lock:
            container = self._containers.get(network)
            if container is None or not container.remote.is_connected:
                if container is not None:
                    await container.close()
                container = self._make_container(network)
                self._containers[network] = container
                await container.begin()
            return container

    def _make_container(self, network: bool) -> "CommandContainer":
        program = self._find_program()
        if not program:
            wanted = self._options.program or "docker or podman"
            raise ToolError(
                f"Commands are to run in a container, and there is no {wanted} here.",
                "Install it, or set terminal.backend to another one.",
            )
        if not self._options.image or self._options.image.startswith("-"):
            raise ToolError("No image is named for the container. Set terminal.docker.image.")
        for secret in (*list_secret_paths(self._places), self._places.hermes):
            if is_or_below(os.path.realpath(secret), self._workspace) and os.path.lexists(secret):
                raise ToolError(
                    f"The workspace {self._workspace} holds {secret}, which a container must not see.",
                    "Work in a folder of its own.",
                )
        if not _MOUNTABLE.fullmatch(self._workspace):
            raise ToolError(
                f"The workspace {self._workspace!r} has a comma, a quote or a control character in its name, "
                "which no container can be told."
            )
        local = LocalBackend(
            self._environment,
            passed_variables=self._passed_variables,
            held_handles=self._held_handles,
            supervisors=self._supervisors,
            runs_clients=True,
        )
        made = CommandContainer(local, [program, *self._options.options], self._build_run_arguments(program, network))
        if not self._has_reclaimed:
            self._has_reclaimed = True
            made.start_removal()
        return made

    def _build_run_arguments(self, program: str, network: bool) -> list[str]:
        place = self._options
        arguments = ["--init", "--pull", "missing", "--label", f"{_OWNER_LABEL}={identify_this_process()}"]
        arguments += ["--workdir", self._workspace, "--cap-drop", "ALL", "--security-opt", "no-new-privileges"]
        arguments += ["--pids-limit", str(place.pids), "--memory", place.memory]
        arguments += [] if network else ["--network", "none"]
        for here, there in ((self._get_tmpdir().tmp, _TMP), (self._workspace, self._workspace)):
            arguments += ["--mount", f"type=bind,src={here},dst={there}"]
        arguments += ["--env", f"HOME={_TMP}"]
        for name in self._passed_variables:
            arguments += ["--env", name]  # the value comes from the client's environment: a command line can be seen
        if uid := os.getuid():
            arguments += ["--user", f"{uid}:{os.getgid()}"]
            arguments += ["--userns", "keep-id"] if "podman" in os.path.basename(program) else []
        return [*arguments, *place.args, place.image]


class CommandContainer:
    """One container, under the client program that made it."""

    def __init__(self, local: LocalBackend, program: Sequence[str], arguments: Sequence[str]) -> None:
        self._program = tuple(program)
        self._arguments = tuple(arguments)
        self._name = f"hermes-{secrets.token_hex(8)}"
        self.remote = RemoteShell(local, self._build_exec_arguments, "the container")
        self._has_begun = False
        self._removal: asyncio.Task[None] | None = None

    async def begin(self) -> None:
        """Make the container. Raises `ToolError` with the engine's reason."""
        arguments = [*self._program, "run", "--rm", "--interactive", "--name", self._name, *self._arguments, "sh", "-c"]
        await self.remote.start_standby(lambda script: [*arguments, script])
        self._has_begun = True

    def start_removal(self) -> None:
        """Begin to remove the containers of Hermes processes that are dead; `close` waits for it.

        What ran in them ends with those; their names stay with the engine when its own watcher was killed, too.
        """
        self._removal = self.remote.start_background(self._remove_abandoned(), "containers of dead processes")

    async def _remove_abandoned(self) -> None:
        # The engine fails while another process removes a container that it is about to list: then it is asked again.
        query = ("ps", "--all", "--filter", f"label={_OWNER_LABEL}", "--format", "{{.ID}} {{.Labels}}")
        for _ in range(_REMOVAL_TRIES):
            listed = await self._query_engine(*query)
            abandoned = [name for name, owner in _OWNED.findall(listed or "") if not is_alive(owner)]
            for name in abandoned:
                await self._query_engine("rm", name)  # one that runs all the same is kept
            if listed is not None and not abandoned:
                return
            await asyncio.sleep(_REMOVAL_PAUSE)

    async def _query_engine(self, *arguments: str) -> str | None:
        """Return the engine's output; None when it fails, or does not answer in time."""
        output = bytearray()
        client = ClientProgram([*self._program, *arguments])
        running = await self.remote.local.start(ShellCommand(text="", cwd="/"), output.extend, client)
        try:
            async with asyncio.timeout(_ENGINE_SECONDS):
                ended = await running.wait()
        except TimeoutError:
            return None
        finally:
            await running.stop()
        return output.decode("utf-8", "replace") if ended.code == 0 else None

    async def close(self) -> None:
        """End the container. Where its client was killed nobody else removes it."""
        if self._removal is not None:
            await asyncio.wait([self._removal], timeout=_ENGINE_SECONDS)
        if self._has_begun and not self.remote.is_connected:
            await self._query_engine("rm", "--force", self._name)
        await self.remote.close()

    def _build_exec_arguments(self, script: str, interactive: bool, pty: bool) -> list[str]:
        flags = ["--interactive"] * (interactive or pty) + ["--tty"] * pty
        return [*self._program, "exec", *flags, self._name, "sh", "-c", script]
